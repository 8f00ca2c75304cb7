"""
HISTOGRAM and ATTR: how often each value is there.

A state is a list of structs of a value and its number, in the order in which the values came first, and how many values are counted at most.
Of a value that is taken back as often as it came nothing stays.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.data_type import array_of, fields_of, struct_of, to_arrow
from streamkit.expressions.aggregates.function import AggregateResult, States, argument_type
from streamkit.expressions.aggregates.ksql.signature import TypedArguments, entered, typed_by
from streamkit.expressions.core.accumulation import Accumulator, stable_order
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import Invocation
from streamkit.expressions.core.ordering import groups
from streamkit.expressions.ksql.comparisons import without_maps
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.schema import SchemaColumn

HISTOGRAM_MAX, ATTRIBUTES_MAX = 1000, 10_000


def _element(aggregate: TypedAggregate) -> str:
    ((_, value),) = fields_of(argument_type(aggregate)) or (("", ""),)
    return struct_of([("value", value), ("number", "bigint")])


def _state_columns(aggregate: TypedAggregate) -> tuple[SchemaColumn, ...]:
    return (SchemaColumn(f"{aggregate.name}.occurrences", array_of(_element(aggregate))),)


def _typing(skips_nulls: bool) -> TypedArguments:
    """The value in a struct, which tells a null value from a row that does not count."""

    def typed(call: Invocation, gives: str) -> tuple[TypedExpression, str]:
        value = call.typed(0)
        wrapped = call.of("named_struct", literal("value", "string"), value)
        there = call.of("if", call.of("isnotnull", value), wrapped, literal(None, "void"))
        return (there if skips_nulls else wrapped), gives

    return typed


def _lift(aggregate: TypedAggregate, argument: pa.Array | None, _rows: int) -> list[pa.Array]:
    """Each row is one occurrence."""
    assert argument is not None, "what is counted is something"
    there = np.asarray(argument.is_valid())
    values = pc.struct_field(argument.drop_null(), [0])
    return [
        _lists(np.cumsum(np.concatenate([[0], there])), values, np.ones(len(values), np.int64), to_arrow(_element(aggregate)))
    ]


def _lists(offsets: Integers, values: pa.Array, numbers: Integers, type: pa.DataType) -> pa.Array:
    structs = pa.StructArray.from_arrays([values, pa.array(numbers)], fields=list(type))
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), structs)


def _merging(most: int) -> Callable[[States, Accumulator], list[pa.Array]]:
    def merge(states: States, accumulate: Accumulator) -> list[pa.Array]:
        runs = accumulate.runs
        sizes = runs.ends - runs.starts
        lists = states[0].take(pa.array(runs.order[runs.places(sizes)]))
        counts = pc.list_value_length(lists).fill_null(0).to_numpy().astype(np.int64)
        owners = np.repeat(np.repeat(np.arange(len(sizes)), sizes), counts)
        found = lists.flatten()
        return [_counted(owners, found, len(sizes), most)]

    return merge


def _counted(owners: Integers, found: pa.StructArray, count: int, most: int) -> pa.Array:
    """Adds up the counts of equal values of an owner; drops values with the count 0, and values beyond the limit."""
    type = found.type
    values, numbers = pc.struct_field(found, [0]), pc.struct_field(found, [1]).to_numpy(zero_copy_only=False)
    codes = groups(without_maps(values)) if len(values) else np.zeros(0, np.int64)
    pairs = owners * (int(codes.max(initial=0)) + 1) + codes
    _, first, places = np.unique(pairs, return_index=True, return_inverse=True)
    totals = np.bincount(places, weights=numbers, minlength=len(first)).astype(np.int64)
    order = np.argsort(first, kind="stable")
    order = order[totals[order] != 0]
    order = order[stable_order(owners[first[order]])]
    kept_owners = owners[first[order]]
    within = np.arange(len(order)) - np.searchsorted(kept_owners, kept_owners)
    order, kept_owners = order[within < most], kept_owners[within < most]
    offsets = np.searchsorted(kept_owners, np.arange(count + 1))
    return _lists(offsets, values.take(pa.array(first[order])), totals[order], type)


def _subtracting(most: int) -> Callable[[States, States], list[pa.Array]]:
    """The first occurrences without the second, row by row."""

    def subtract(left: States, right: States) -> list[pa.Array]:
        parts, owners = [], []
        for lists, sign in ((left[0], 1), (right[0], -1)):
            sizes = pc.list_value_length(lists).fill_null(0).to_numpy().astype(np.int64)
            elements = lists.flatten()
            numbers = pc.multiply(pc.struct_field(elements, [1]), sign)
            parts.append(
                pa.StructArray.from_arrays([pc.struct_field(elements, [0]), numbers], fields=list(left[0].type.value_type))
            )
            owners.append(np.repeat(np.arange(len(lists)), sizes))
        return [_counted(np.concatenate(owners), pa.concat_arrays(parts), len(left[0]), most)]

    return subtract


def _histogram(aggregate: TypedAggregate, states: States) -> AggregateResult:
    lists = states[0]
    sizes = pc.list_value_length(lists).fill_null(0).to_numpy().astype(np.int64)
    elements = lists.flatten()
    offsets = pa.array(np.cumsum(np.concatenate([[0], sizes])).astype(np.int32))
    maps = pa.MapArray.from_arrays(offsets, pc.struct_field(elements, [0]), pc.struct_field(elements, [1]))
    return AggregateResult(maps.cast(to_arrow(aggregate.type)))


def _attribute(aggregate: TypedAggregate, states: States) -> AggregateResult:
    """The only value there is; null if there are several."""
    lists = states[0]
    sizes = pc.list_value_length(lists).fill_null(0).to_numpy().astype(np.int64)
    values = pc.struct_field(lists.flatten(), [0])
    places = np.cumsum(sizes) - sizes
    if not len(values):
        return AggregateResult(pa.nulls(len(lists), to_arrow(aggregate.type)))
    return AggregateResult(values.take(pa.array(np.where(sizes == 1, places, 0), mask=sizes != 1)).cast(to_arrow(aggregate.type)))


_ONE_TEXT, _ONE_VALUE = ("string -> map<string,bigint>",), ("T -> T",)
entered(
    "histogram",
    "How often each text is there, of 1,000 texts at most.",
    _ONE_TEXT,
    typed_by(*_ONE_TEXT, arguments=_typing(skips_nulls=True)),
    _state_columns,
    _lift,
    _merging(HISTOGRAM_MAX),
    _histogram,
    subtract=_subtracting(HISTOGRAM_MAX),
    is_nullable=False,
    is_ordered=True,
)
entered(
    "attr",
    "The value, if all rows have the same one; else null.",
    _ONE_VALUE,
    typed_by(*_ONE_VALUE, arguments=_typing(skips_nulls=False)),
    _state_columns,
    _lift,
    _merging(ATTRIBUTES_MAX),
    _attribute,
    subtract=_subtracting(ATTRIBUTES_MAX),
    is_ordered=True,
)
