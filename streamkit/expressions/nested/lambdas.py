"""
Functions that take a lambda. Its body is evaluated once for the elements of all rows together.

A body sees its elements as columns, and the columns of the row that an element stands in. Where Spark stops at an element, later ones
are not evaluated if they could fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from streamkit.data_type import array_of, map_of
from streamkit.errors import EvaluationError
from streamkit.expressions.core.coercion import cast_to, common_type, wider_common_without_strings
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.elements import Elements, booleans, structs_of, taken, truth, validity
from streamkit.expressions.core.operation import Datum, Invocation, RuleError, always, check_count, operation
from streamkit.expressions.core.ordering import groups
from streamkit.expressions.core.recording import recorded, recorded_lambda
from streamkit.expressions.core.rows import Rows, broadcast
from streamkit.expressions.logic.conditions import as_condition
from streamkit.expressions.nested.arrays import array_argument, beside, element_type, first_of_each, padded
from streamkit.expressions.nested.maps import checked_maps, entry_types, map_argument
from streamkit.plan.expression import Lambda, TypedExpression
from streamkit.plan.expression_text import shown_text
from streamkit.recast import recast

__all__ = [
    "aggregate",
    "exists",
    "filter",
    "forall",
    "map_filter",
    "map_zip_with",
    "reduce",
    "transform",
    "transform_keys",
    "transform_values",
    "zip_with",
]


def bound(call: Invocation, place: int, *types: str, at_least: int = 0) -> TypedExpression:
    """The lambda at a place over elements of these types; RuleError if it is none, or its parameters are too few or too many."""
    argument = call.arguments[place]
    if not isinstance(argument, Lambda):
        raise RuleError(f"{call.name}() takes a lambda as argument {place + 1}, such as x -> x; found {argument.type}")
    if len(argument.parameters) < (at_least or len(types)):
        raise RuleError(f"the lambda of {call.name}() has {len(argument.parameters)} parameters; expected {len(types)}")
    return call.bind(argument, types)


def as_predicate(call: Invocation, function: TypedExpression) -> TypedExpression:
    """A lambda whose body is a condition."""
    return with_body(function, as_condition(call, function.arguments[0]))


def with_body(function: TypedExpression, body: TypedExpression) -> TypedExpression:
    """The lambda with another body."""
    return TypedExpression("lambda", body.type, (body,), function.value)


def applied(rows: Rows, function: TypedExpression, parents: np.ndarray, *elements: pa.Array) -> pa.Array:
    """The body of a lambda for elements of these rows."""
    inner = rows.within(parents, dict(zip(str(function.value).split(","), elements)))
    body = function.arguments[0]
    inner.share(body)
    return broadcast(inner.value(body), len(parents))


def _elements(rows: Rows, expression: TypedExpression) -> Elements:
    return Elements.of(broadcast(rows.value(expression), rows.count))


def _two(rows: Rows, first: TypedExpression, second: TypedExpression) -> list[Elements]:
    """Two arrays or maps; the second is looked at where the first is not null."""
    left = broadcast(rows.value(first), rows.count)
    right = broadcast(rows.value_where(second, left.is_valid()), rows.count)
    return [Elements.of(left), Elements.of(right)]


def _transform_rule(call: Invocation) -> TypedExpression:
    check_count(call, 2)
    array = array_argument(call, 0)
    function = bound(call, 1, element_type(array), "int", at_least=1)
    return TypedExpression("transform", array_of(function.type), (array, function))


def first_alone(_: TypedExpression, nullable: Sequence[bool]) -> bool:
    """Null only where the array or map is."""
    return nullable[0]


def transform(column: Column | str, function: Callable[..., Column]) -> Column:
    """The function's result for each element; a function of two arguments also gets the index, from 0."""
    return recorded("transform", column, recorded_lambda(function, 1, 2))


@operation("transform", rule=_transform_rule, lazy=True, nullable=first_alone)
def _transform(expression: TypedExpression, rows: Rows) -> Datum:
    source, function = expression.arguments
    elements = _elements(rows, source)
    places = pa.array(elements.places).cast(pa.int32())
    return elements.with_values(applied(rows, function, elements.parents, elements.values, places)).as_arrays()


def _filter_rule(call: Invocation) -> TypedExpression:
    check_count(call, 2)
    array = array_argument(call, 0)
    function = as_predicate(call, bound(call, 1, element_type(array), "int", at_least=1))
    return TypedExpression("filter", array.type, (array, function))


def filter(column: Column | str, function: Callable[..., Column]) -> Column:  # PySpark's name
    """The elements for which the function is true; the function may have the index, from 0, as a second argument."""
    return recorded("filter", column, recorded_lambda(function, 1, 2))


@operation("filter", rule=_filter_rule, functions=("array_filter",), lazy=True, nullable=first_alone)
def _filter(expression: TypedExpression, rows: Rows) -> Datum:
    source, function = expression.arguments
    elements = _elements(rows, source)
    places = pa.array(elements.places).cast(pa.int32())
    return elements.kept(truth(applied(rows, function, elements.parents, elements.values, places))).as_arrays()


def _decision_rule(call: Invocation) -> TypedExpression:
    check_count(call, 2)
    array = array_argument(call, 0)
    return TypedExpression(call.name.lower(), "boolean", (array, as_predicate(call, bound(call, 1, element_type(array)))))


def exists(column: Column | str, function: Callable[[Column], Column]) -> Column:
    """True where the function is true for at least one element."""
    return recorded("exists", column, recorded_lambda(function, 1))


@operation("exists", rule=_decision_rule, lazy=True)
def _exists(expression: TypedExpression, rows: Rows) -> Datum:
    """True if the condition is for one element; else null if it is null for one."""
    return _decided(expression, rows, decisive=True)


def forall(column: Column | str, function: Callable[[Column], Column]) -> Column:
    """True where the function is true for all elements."""
    return recorded("forall", column, recorded_lambda(function, 1))


@operation("forall", rule=_decision_rule, lazy=True)
def _forall(expression: TypedExpression, rows: Rows) -> Datum:
    """False if the condition is for one element; else null if it is null for one."""
    return _decided(expression, rows, decisive=False)


def _decided(expression: TypedExpression, rows: Rows, decisive: bool) -> Datum:
    source, function = expression.arguments
    elements = _elements(rows, source)
    holds, known = _conditions(rows, function, elements, decisive)
    found = elements.any(known & (holds == decisive))
    unknown = ~found & elements.any(~known)
    return booleans(found if decisive else ~found, elements.valid & ~unknown)


def _conditions(rows: Rows, function: TypedExpression, elements: Elements, decisive: bool) -> tuple[np.ndarray, np.ndarray]:
    """Where a condition is true, and where it is not null; behind an element that decides, anything."""
    if not rows.can_fail(function):
        found = applied(rows, function, elements.parents, elements.values)
        return truth(found), validity(found)
    holds, known = np.full(len(elements.values), not decisive), np.ones(len(elements.values), bool)
    open_rows = np.ones(len(elements.lengths), bool)
    for place in range(int(elements.lengths.max(initial=0))):
        reached = np.flatnonzero(open_rows & (elements.lengths > place))
        at = elements.starts[reached] + place
        found = applied(rows, function, reached, elements.values.take(pa.array(at)))
        holds[at], known[at] = truth(found), validity(found)
        open_rows[reached[known[at] & (holds[at] == decisive)]] = False
    return holds, known


def _aggregate_rule(call: Invocation) -> TypedExpression:
    check_count(call, 3, 4)
    array, zero = array_argument(call, 0), call.typed(1)
    merge = bound(call, 2, zero.type, element_type(array))
    if zero.type == "void":
        zero, merge = cast_to(zero, merge.type), bound(call, 2, merge.type, element_type(array))
    if merge.type != zero.type:
        if merge.type != "void":
            raise RuleError(
                f"{call.name}() starts with {zero.type} and its lambda gives {merge.type}; expected the same, cast one of them"
            )
        merge = with_body(merge, cast_to(merge.arguments[0], zero.type))
    finish = (bound(call, 3, zero.type),) if len(call.arguments) == 4 else ()
    return TypedExpression("aggregate", finish[0].type if finish else zero.type, (array, zero, merge, *finish))


def _aggregate_nullable(expression: TypedExpression, nullable: Sequence[bool]) -> bool:
    return nullable[0] or len(nullable) < 4 or nullable[3]


def aggregate(
    column: Column | str,
    initial: Column | str,
    merge: Callable[[Column, Column], Column],
    finish: Callable[[Column], Column] | None = None,
) -> Column:
    """The value that results if `merge` is called with the value so far, at first `initial`, and each element in turn; then `finish` of it, if given."""
    end = () if finish is None else (recorded_lambda(finish, 1),)
    return recorded("aggregate", column, initial, recorded_lambda(merge, 2), *end)


reduce = aggregate


@operation("aggregate", rule=_aggregate_rule, functions=("reduce",), lazy=True, nullable=_aggregate_nullable)
def _aggregate(expression: TypedExpression, rows: Rows) -> Datum:
    """One element of every row at a time."""
    source, zero, merge, *finish = expression.arguments
    elements = _elements(rows, source)
    state = broadcast(rows.value_where(zero, pa.array(elements.valid)), rows.count)
    for place in range(int(elements.lengths.max(initial=0))):
        reached = np.flatnonzero(elements.lengths > place)
        values = elements.values.take(pa.array(elements.starts[reached] + place))
        merged = applied(rows, merge, reached, state.take(pa.array(reached)), values)
        state = _replaced(state, reached, merged)
    there = np.flatnonzero(elements.valid)
    if finish:
        finished = applied(rows, finish[0], there, state.take(pa.array(there)))
        return _replaced(pa.nulls(rows.count, finished.type), there, finished)
    return state if elements.valid.all() else _replaced(pa.nulls(rows.count, state.type), there, state.take(pa.array(there)))


def _replaced(values: pa.Array, places: np.ndarray, others: pa.Array) -> pa.Array:
    """The values with others at these places."""
    order = np.arange(len(values))
    order[places] = len(values) + np.arange(len(places))
    return pa.concat_arrays([values, recast(others, values.type)]).take(pa.array(order))


def _zip_rule(call: Invocation) -> TypedExpression:
    check_count(call, 3)
    left, right = array_argument(call, 0), array_argument(call, 1)
    function = bound(call, 2, element_type(left), element_type(right))
    return TypedExpression("zip_with", array_of(function.type), (left, right, function))


def first_two(_: TypedExpression, nullable: Sequence[bool]) -> bool:
    """Null only where one of the arrays or maps is."""
    return any(nullable[:2])


def zip_with(left: Column | str, right: Column | str, function: Callable[[Column, Column], Column]) -> Column:
    """The function's results for the elements at the same position of two arrays; the shorter array is filled with null."""
    return recorded("zip_with", left, right, recorded_lambda(function, 2))


@operation("zip_with", rule=_zip_rule, lazy=True, nullable=first_two)
def _zip_with(expression: TypedExpression, rows: Rows) -> Datum:
    first, second, function = expression.arguments
    parts = _two(rows, first, second)
    shape = padded(parts, parts[0].valid & parts[1].valid)
    columns = [beside(part, shape) for part in parts]
    return shape.with_values(applied(rows, function, shape.parents, *columns)).as_arrays()


def _map_rule(call: Invocation) -> TypedExpression:
    check_count(call, 2)
    value = map_argument(call, 0)
    key, item = entry_types(value)
    name = call.name.lower()
    function = bound(call, 1, key, item)
    if name == "map_filter":
        return TypedExpression(name, value.type, (value, as_predicate(call, function)))
    return TypedExpression(
        name, map_of(key, function.type) if name == "transform_values" else map_of(function.type, item), (value, function)
    )


def map_filter(column: Column | str, function: Callable[[Column, Column], Column]) -> Column:
    """The entries for whose key and value the function is true."""
    return recorded("map_filter", column, recorded_lambda(function, 2))


@operation("map_filter", rule=_map_rule, lazy=True, nullable=first_alone)
def _map_filter(expression: TypedExpression, rows: Rows) -> Datum:
    source, function = expression.arguments
    elements = _elements(rows, source)
    return elements.kept(truth(applied(rows, function, elements.parents, elements.keys, elements.items))).as_maps()


def transform_values(column: Column | str, function: Callable[[Column, Column], Column]) -> Column:
    """The map with new values, which the function makes from key and value."""
    return recorded("transform_values", column, recorded_lambda(function, 2))


@operation("transform_values", rule=_map_rule, lazy=True, nullable=first_alone)
def _transform_values(expression: TypedExpression, rows: Rows) -> Datum:
    source, function = expression.arguments
    elements = _elements(rows, source)
    items = applied(rows, function, elements.parents, elements.keys, elements.items)
    return elements.with_values(structs_of([("key", elements.keys), ("value", items)])).as_maps()


def transform_keys(column: Column | str, function: Callable[[Column, Column], Column]) -> Column:
    """The map with new keys, which the function makes from key and value."""
    return recorded("transform_keys", column, recorded_lambda(function, 2))


@operation("transform_keys", rule=_map_rule, lazy=True, fails=always, nullable=first_alone)
def _transform_keys(expression: TypedExpression, rows: Rows) -> Datum:
    source, function = expression.arguments
    elements = _elements(rows, source)
    keys = applied(rows, function, elements.parents, elements.keys, elements.items)
    try:
        return checked_maps(elements.with_values(structs_of([("key", keys), ("value", elements.items)])))
    except pa.ArrowInvalid as error:
        raise EvaluationError(f"{shown_text(expression)} failed: {error}") from error


def _map_zip_rule(call: Invocation) -> TypedExpression:
    check_count(call, 3)
    left, right = map_argument(call, 0), map_argument(call, 1)
    (one, first), (other, second) = entry_types(left), entry_types(right)
    key = common_type((one, other), wider_common_without_strings)
    if key is None:
        raise RuleError(f"map_zip_with() has keys of {one} and of {other}, which do not go together; cast one of them")
    function = bound(call, 2, key, first, second)
    maps = call.cast(left, map_of(key, first)), call.cast(right, map_of(key, second))
    return TypedExpression("map_zip_with", map_of(key, function.type), (*maps, function))


def map_zip_with(left: Column | str, right: Column | str, function: Callable[[Column, Column, Column], Column]) -> Column:
    """A map of the keys of both maps, with the function's result for a key and its two values; a missing value is null."""
    return recorded("map_zip_with", left, right, recorded_lambda(function, 3))


@operation("map_zip_with", rule=_map_zip_rule, lazy=True, nullable=first_two)
def _map_zip_with(expression: TypedExpression, rows: Rows) -> Datum:
    """The keys of both maps, those of the first first; a value is null where a map lacks the key."""
    first, second, function = expression.arguments
    left, right = _two(rows, first, second)
    valid = left.valid & right.valid
    one, other = left.kept(valid[left.parents]), right.kept(valid[right.parents])
    all_keys = pa.concat_arrays([one.keys, other.keys])
    parents = np.concatenate([one.parents, other.parents])
    numbers = groups(all_keys)
    order = np.argsort(parents, kind="stable")
    order = order[first_of_each(parents[order], numbers[order])]
    rows_of, keys = parents[order], all_keys.take(pa.array(order))
    width = int(numbers.max(initial=0)) + 1
    pairs = parents * width + numbers
    columns = [
        taken(part.items, _places_of(pairs[order], pairs[start : start + len(part.values)]))
        for part, start in ((one, 0), (other, len(one.values)))
    ]
    items = applied(rows, function, rows_of, keys, *columns)
    lengths = np.bincount(rows_of, minlength=rows.count).astype(np.int64)
    return Elements(structs_of([("key", keys), ("value", items)]), lengths, valid).as_maps()


def _places_of(wanted: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Where each wanted number stands among the known ones; -1 if it does not."""
    if not len(known):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(known, kind="stable")
    at = np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)
    return np.where(known[order][at] == wanted, order[at], -1)
