"""Functions that take lambdas."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamkit.data_type import array_of
from streamkit.errors import EvaluationError
from streamkit.expressions.core.elements import Elements, structs_of, truth, validity
from streamkit.expressions.core.failing_rows import FailedPart, FailingRowsError
from streamkit.expressions.core.operation import Datum, Invocation, always
from streamkit.expressions.core.ordering import groups
from streamkit.expressions.core.rows import Rows, broadcast
from streamkit.expressions.ksql.comparisons import without_maps
from streamkit.expressions.ksql.function import failing_as, formula, kernel
from streamkit.expressions.ksql.java_maps import FEWEST_BUCKETS, buckets_of, in_buckets
from streamkit.expressions.nested.arrays import first_of_each
from streamkit.expressions.nested.lambdas import applied
from streamkit.plan.expression import TypedExpression
from streamkit.plan.expression_text import shown_text
from streamkit.recast import recast


@formula("transform", "array<T>, (T -> U) -> array<U>")
def _transform(call: Invocation) -> TypedExpression:
    """The array of what a lambda gives for each element, or the map of what two give for the key and the value of each entry."""
    array, function = call.values
    return TypedExpression("transform", array_of(function.type), (array, function))


@kernel("transform", "map<K,V>, (K, V -> C), (K, V -> D) -> map<C,D>", computed_by="transform_map", lazy=True, fails=always)
def _transform_map(expression: TypedExpression, rows: Rows) -> Datum:
    """A key that is null, or there twice, fails, as does a value that is null."""
    source, to_key, to_item = expression.arguments
    elements = _elements(rows, source)
    keys = applied(rows, to_key, elements.parents, elements.keys, elements.items)
    items = applied(rows, to_item, elements.parents, elements.keys, elements.items)
    first = first_of_each(elements.parents, groups(without_maps(keys)))
    failed = elements.any(~first | ~validity(keys))
    if failed.any():
        raise _failure(expression, rows, failed, "a key of the new map is null, or there twice")
    return _collected(expression, rows, elements.with_values(structs_of([("key", keys), ("value", items)])))


@kernel("filter", "array<T>, (T -> boolean) -> array<T>", computed_by="filter_array", lazy=True, fails=always)
def _filter(expression: TypedExpression, rows: Rows) -> Datum:
    """The elements, or the entries, for which the lambda is true; one for which it is null fails."""
    elements = _elements(rows, expression.arguments[0])
    return elements.kept(_holds(expression, rows, elements, elements.values)).as_arrays()


@kernel("filter", "map<K,V>, (K, V -> boolean) -> map<K,V>", computed_by="filter_map", lazy=True, fails=always)
def _filter_map(expression: TypedExpression, rows: Rows) -> Datum:
    """A value that is null fails, if the lambda is true for its entry."""
    elements = _elements(rows, expression.arguments[0])
    return _collected(expression, rows, elements.kept(_holds(expression, rows, elements, elements.keys, elements.items)))


def _holds(expression: TypedExpression, rows: Rows, elements: Elements, *parts: pa.Array) -> np.ndarray:
    """For which elements the lambda is true; Java has no condition that is null."""
    found = applied(rows, expression.arguments[1], elements.parents, *parts)
    if (failed := elements.any(~validity(found))).any():
        raise _failure(expression, rows, failed, "the condition is null for an element")
    return truth(found)


def _collected(expression: TypedExpression, rows: Rows, entries: Elements) -> pa.Array:
    """The maps that Java's collectors make of entries, which take no null for a value."""
    if (failed := entries.any(~validity(entries.items))).any():
        raise _failure(expression, rows, failed, "a value of the new map is null")
    return in_buckets(entries, buckets_of(entries.lengths, FEWEST_BUCKETS)).as_maps()


@kernel("reduce", "array<T>, S, (S, T -> S) -> S", "map<K,V>, S, (S, K, V -> S) -> S", lazy=True)
def _reduce(expression: TypedExpression, rows: Rows) -> Datum:
    """What the lambda makes of a state and of one element, or entry, after the other; the state itself if the collection is null."""
    source, initial, merge = expression.arguments
    elements = _elements(rows, source)
    is_map = source.type.startswith("map<")
    state = broadcast(rows.value(initial), rows.count)
    starts = validity(state)
    for place in range(int(elements.lengths.max(initial=0))):
        reached = np.flatnonzero((elements.lengths > place) & starts)
        at = pa.array(elements.starts[reached] + place)
        parts = [elements.keys.take(at), elements.items.take(at)] if is_map else [elements.values.take(at)]
        merged = applied(rows, merge, reached, state.take(pa.array(reached)), *parts)
        state = _replaced(state, reached, merged)
    return state


def _elements(rows: Rows, expression: TypedExpression) -> Elements:
    return Elements.of(broadcast(rows.value(expression), rows.count))


def _replaced(values: pa.Array, places: np.ndarray, others: pa.Array) -> pa.Array:
    """The values with others at these places."""
    order = np.arange(len(values))
    order[places] = len(values) + np.arange(len(places))
    return pa.concat_arrays([values, recast(others, values.type)]).take(pa.array(order))


def _failure(expression: TypedExpression, rows: Rows, failed: np.ndarray, reason: str) -> EvaluationError:
    """The error of an operation that looks at the rows itself, with the rows that fail."""
    cause = FailingRowsError(reason, pa.array(failed))
    cause.part = FailedPart(rows, failed)
    error = EvaluationError(f"{shown_text(expression)} failed: {reason}")
    error.__cause__ = cause
    return error


failing_as("ksql_transform_map", "transform")
failing_as("ksql_filter_array", "filter")
failing_as("ksql_filter_map", "filter")
