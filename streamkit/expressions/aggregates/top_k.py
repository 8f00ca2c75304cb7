"""
top_k: the values of the rows in which another is largest, or the largest values, in falling order; bottom_k: the smallest, in rising order.

A state has the first rows as bytes in their order (`ordered_bytes`), at most `k`: by what they are ordered, the largest (or smallest)
first, then by value, the smallest first. So equal ones have an order too, and a state depends on its rows alone, not on their order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.data_type import array_of, fields_of, to_arrow
from streamkit.expressions.aggregates.collection import ELEMENTS_MAX
from streamkit.expressions.aggregates.function import AggregateFunction, AggregateResult, Members, States, argument_type, register
from streamkit.expressions.aggregates.leading import NOTHING, first_of_ordered, running_first
from streamkit.expressions.aggregates.ordered_bytes import (
    decode_ordered,
    encode_ordered,
    order_complaint,
    order_within,
    where_there,
)
from streamkit.expressions.core.accumulation import Accumulator, Runs, accumulated
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import Invocation, NoTranslationError, RuleError
from streamkit.expressions.core.recording import constant, given, recorded
from streamkit.expressions.core.spark_text import spark_text
from streamkit.plan.expression import Expression, TypedAggregate, TypedExpression
from streamkit.schema import SchemaColumn

__all__ = ["bottom_k", "top_k"]

VALUE, BY, NUMBER = "value", "by", "k"


def _typed(call: Invocation) -> tuple[TypedExpression, str]:
    """The value, by what it is ordered if that is another, and `k` in a struct; null where what it is ordered by is."""
    value, told = call.typed(0), call.typed(1)
    number = call.cast(told, "int") if told.name == "literal" and told.value is not None else told
    if number.name != "literal" or number.type != "int" or not 1 <= int(number.value) <= ELEMENTS_MAX:
        raise RuleError(f"{call.name}() takes how many values are wanted as a constant from 1 to {ELEMENTS_MAX:,}")
    by = call.typed(2) if len(call.arguments) > 2 else None
    for one in (value, by):
        if one is not None and (complaint := order_complaint(one.type)):
            raise NoTranslationError(
                f"{call.name}() has no incremental state: {complaint}; expected values without arrays and maps"
            )
    parts = [literal(VALUE, "string"), value, *([literal(BY, "string"), by] if by else []), literal(NUMBER, "string"), number]
    decides = by or value
    there = call.of("isnotnull", decides)
    return call.of("if", there, call.of("named_struct", *parts), literal(None, "void")), array_of(value.type)


def _state_columns(aggregate: TypedAggregate) -> tuple[SchemaColumn, ...]:
    return (SchemaColumn(f"{aggregate.name}.first", array_of("binary")), SchemaColumn(f"{aggregate.name}.k", "int"))


def _lift(aggregate: TypedAggregate, argument: pa.Array | None, rows: int) -> list[pa.Array]:
    assert argument is not None, "a ranking is of something"
    encoded = _encoded(aggregate, argument)
    offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(argument.is_valid().to_numpy(zero_copy_only=False))])
    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), encoded.drop_null(), type=pa.list_(pa.binary()))
    return [lists, pc.struct_field(argument, NUMBER)]


def _encoded(aggregate: TypedAggregate, argument: pa.Array) -> pa.BinaryArray:
    """The rows as bytes in their order, null where a row does not count."""
    value, names = pc.struct_field(argument, VALUE), argument.type.names
    found = encode_ordered(value, _is_falling(aggregate))
    if BY in names:
        by = encode_ordered(pc.struct_field(argument, BY), _is_falling(aggregate))
        found = pc.binary_join_element_wise(by, encode_ordered(value), b"")
    return where_there(found, argument)


def _merge(states: States, accumulate: Accumulator) -> list[pa.Array]:
    lists, numbers = states
    runs, limits = accumulate.runs, accumulated(numbers, "max", accumulate)
    sizes = pc.list_value_length(lists).fill_null(0).to_numpy().astype(np.int64)
    most = limits.fill_null(0).to_numpy().astype(np.int64)
    if (runs.ends - runs.starts).sum() == len(runs.order):
        owners, values = _of_groups(lists.flatten(), sizes, most, runs)
    else:
        owners, values = _row_by_row(lists.flatten(), sizes, most, runs)
    offsets = np.searchsorted(owners, np.arange(len(runs.starts) + 1)).astype(np.int32)
    return [pa.ListArray.from_arrays(pa.array(offsets), values, type=pa.list_(pa.binary())), limits]


def _of_groups(values: pa.BinaryArray, sizes: Integers, limits: Integers, runs: Runs) -> tuple[Integers, pa.BinaryArray]:
    """Each row goes into one result: the owners and values of what is kept."""
    lengths = runs.ends - runs.starts
    places = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths - runs.starts, lengths)
    results = np.empty(len(sizes), np.int64)
    results[runs.order[places]] = np.repeat(np.arange(len(lengths)), lengths)
    owners = np.repeat(results, sizes)
    order = order_within(owners, values)
    kept = first_of_ordered(owners, order, limits)
    return owners[kept], values.take(pa.array(kept))


def _row_by_row(values: pa.BinaryArray, sizes: Integers, limits: Integers, runs: Runs) -> tuple[Integers, pa.BinaryArray]:
    """The rows up to each."""
    found = values.dictionary_encode()
    order = pc.sort_indices(found.dictionary)
    ranks = np.empty(len(order), np.int64)
    ranks[order.to_numpy()] = np.arange(len(order))
    of_values = ranks[found.indices.to_numpy()] if len(found) else np.empty(0, np.int64)
    width = int(min(limits.max(initial=0), sizes.sum()))
    table = _as_rows(of_values, sizes, width)[runs.order]
    back = np.empty(len(sizes), np.int64)
    back[runs.order] = np.arange(len(sizes))
    merged = running_first(table, runs.starts[runs.order])[back]
    owners, columns = np.nonzero(merged != NOTHING)
    return owners, found.dictionary.take(order).take(pa.array(merged[owners, columns]))


def _as_rows(ranks: Integers, sizes: Integers, width: int) -> Integers:
    """Lists of ranks, which are in order, as rows."""
    table = np.full((len(sizes), width), NOTHING)
    owners = np.repeat(np.arange(len(sizes)), sizes)
    columns = np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    inside = columns < width
    table[owners[inside], columns[inside]] = ranks[inside]
    return table


def _result(aggregate: TypedAggregate, states: States) -> AggregateResult:
    lists = states[0]
    fields = dict(fields_of(argument_type(aggregate)) or ())
    types = [fields[name] for name in (BY, VALUE) if name in fields]
    values = decode_ordered(lists.flatten(), types, [_is_falling(aggregate), False][: len(types)])[-1]
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy().astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return AggregateResult(pa.ListArray.from_arrays(pa.array(offsets), values, type=to_arrow(aggregate.type)))


def _number(aggregate: TypedAggregate) -> int:
    """The constant `k`, which stands in the struct of the argument."""
    assert aggregate.argument is not None, "a ranking is of something"
    return int(aggregate.argument.arguments[1].arguments[-1].value)


def _of_members(aggregate: TypedAggregate, lists: pa.Array) -> list[pa.Array]:
    return [lists, pa.array(np.full(len(lists), _number(aggregate)), pa.int32())]


def _is_falling(aggregate: TypedAggregate) -> bool:
    return aggregate.function == "top_k"


def _entered(name: str) -> AggregateFunction:
    return register(
        AggregateFunction(
            name, _typed, _state_columns, _lift, _merge, _result,
            arity=2, arity_max=3, is_nullable=False, members=Members(_encoded, _of_members, _number), has_bytes=True,
        )
    )  # fmt: skip


def top_k(col: Column | str, k: int, by: Column | str | None = None) -> Column:
    """
    The `k` largest values in falling order as an array; with `by`, the values of the records with the largest `by`.

    Where `by` is equal, the smallest values come first; a struct is ordered by its fields, from the first on. Records in which `by` (or
    without it, the value) is null do not count. PySpark has no such function.

        views.group_by("site").agg(top=F.top_k(F.struct("page", "views"), 3, by="views"))
    """
    return recorded("top_k", col, constant(k), *given(by))


TOP_K = _entered("top_k")


@spark_text("top_k")
def _top_text(_arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    return _ranking_text("max_by", texts)


def _ranking_text(function: str, texts: Sequence[str]) -> str | None:
    """Spark orders by the value itself only if told, and has the number behind."""
    return f"{function}({texts[0]}, {texts[2] if len(texts) > 2 else texts[0]}, {texts[1]})" if len(texts) >= 2 else None


def bottom_k(col: Column | str, k: int, by: Column | str | None = None) -> Column:
    """The `k` smallest values in rising order as an array; with `by`, the values of the records with the smallest `by`. Else as `top_k`."""
    return recorded("bottom_k", col, constant(k), *given(by))


BOTTOM_K = _entered("bottom_k")


@spark_text("bottom_k")
def _bottom_text(_arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    return _ranking_text("min_by", texts)
