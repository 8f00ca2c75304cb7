"""
collect_list, collect_set and count_distinct: the values of a group that are not null, all or each once, in canonical order.

Their states grow with the values, and are written whole when they change; so a group has at most ELEMENTS_MAX of them. A function in Python
that aggregates is given all values of its group, however many.
The rows of a table have no order: there lists and sets are in the order of their values, and only the number of values is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.conditionals import if_else
from streamkit.data_type import array_of, is_nested, key_complaint, to_arrow
from streamkit.expressions.aggregates.function import AggregateFunction, AggregateResult, Members, States, argument_type, register
from streamkit.expressions.aggregates.ordered_bytes import decode_lists, encode_ordered, order_complaint, where_there
from streamkit.expressions.core.accumulation import Accumulator, stable_order
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.groups import KeyCodes, one_of_equals
from streamkit.expressions.core.last_bytes import numbers_of_last_bytes
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import Invocation, NoTranslationError
from streamkit.expressions.core.recording import recorded
from streamkit.expressions.core.spark_text import spark_text
from streamkit.log.values.keys import encode_keys
from streamkit.plan.expression import Expression, TypedAggregate, TypedExpression
from streamkit.plan.expression_text import GROUP_VALUES
from streamkit.schema import SchemaColumn

__all__ = ["array_agg", "collect_list", "collect_set", "count_distinct"]

ELEMENTS_MAX = 100_000
NUMBER_BITS = 63
_WAY_OUT = f"a group has at most {ELEMENTS_MAX:,} elements; group by more columns, or by shorter windows"


def _typed_list(call: Invocation) -> tuple[TypedExpression, str]:
    value = call.typed(0)
    return value, array_of(value.type)


def _typed_set(call: Invocation) -> tuple[TypedExpression, str]:
    value = call.typed(0)
    if is_nested(value.type):
        raise NoTranslationError(f"{call.name}() of {value.type} has no incremental state; expected a value that holds no others")
    return value, array_of(value.type)


def _typed_count(call: Invocation) -> tuple[TypedExpression, str]:
    """The columns in a struct, null where one of them is."""
    for value in call.values:
        if key_complaint("", value.type) is not None:
            raise NoTranslationError(
                f"{call.name}() of {value.type} has no incremental state; expected values that a key can have"
            )
    named = [part for place, value in enumerate(call.values) for part in (literal(f"c{place}", "string"), value)]
    there = [call.of("isnotnull", value) for value in call.values]
    both = there[0]
    for one in there[1:]:
        both = call.of("and", both, one)
    return call.of("if", both, call.of("named_struct", *named), literal(None, "void")), "bigint"


def _element(aggregate: TypedAggregate) -> str:
    return "binary" if aggregate.function == "count_distinct" else argument_type(aggregate)


def _state_columns(aggregate: TypedAggregate) -> tuple[SchemaColumn, ...]:
    return (SchemaColumn(f"{aggregate.name}.{aggregate.function}", array_of(_element(aggregate))),)


def _lift(aggregate: TypedAggregate, argument: pa.Array | None, _rows: int) -> list[pa.Array]:
    assert argument is not None, f"{aggregate.function} is of something"
    offsets = np.concatenate(
        [np.zeros(1, np.int32), np.cumsum(argument.is_valid().to_numpy(zero_copy_only=False), dtype=np.int32)]
    )
    values = argument.drop_null()
    if aggregate.function == "count_distinct":
        values = encode_keys(values.flatten()) if len(values) else pa.array([], pa.binary())
    return [_lists(offsets, values, to_arrow(array_of(_element(aggregate))))]


def _lift_set(aggregate: TypedAggregate, argument: pa.Array | None, rows: int) -> list[pa.Array]:
    """As `_lift`; a set has one zero, as Spark's has."""
    assert argument is not None, "a set is of something"
    return _lift(aggregate, one_of_equals(argument), rows)


def _lists(offsets: Integers, values: pa.Array, kind: pa.DataType) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=kind)


def _merge_lists(states: States, accumulate: Accumulator) -> list[pa.Array]:
    return [joined(states[0], accumulate, lambda owners, values: np.arange(len(values)), ELEMENTS_MAX)]


def _merge_all(states: States, accumulate: Accumulator) -> list[pa.Array]:
    return [joined(states[0], accumulate, lambda owners, values: np.arange(len(values)), None)]


def _merge_sets(states: States, accumulate: Accumulator) -> list[pa.Array]:
    return [joined(states[0], accumulate, _first_of_each, ELEMENTS_MAX)]


def joined(
    column: pa.Array,
    accumulate: Accumulator,
    keep: Callable[[Integers, pa.Array], Integers],
    elements_max: int | None,
) -> pa.Array:
    """The elements of the rows that each result combines, those that `keep` gives the places of, and one too many at most."""
    runs = accumulate.runs
    sizes, lists, owners_of_rows = runs.ends - runs.starts, column, runs.owners
    if owners_of_rows is None:  # a row stands once for each result that it goes into
        lists = column.take(pa.array(runs.order[runs.places(sizes)]))
        owners_of_rows = np.repeat(np.arange(len(sizes)), sizes)
    counts = pc.list_value_length(lists).fill_null(0).to_numpy()
    values = lists.flatten()
    owners = owners_of_rows if (counts == 1).all() else np.repeat(owners_of_rows, counts)
    kept = keep(owners, values)
    # Rows of one result are in their order already, which a stable sort by results leaves as it is.
    kept = kept[stable_order(owners[kept])]
    counts = np.bincount(owners[kept], minlength=len(sizes))
    if elements_max is not None and (counts > elements_max + 1).any():
        rank = np.arange(len(kept)) - np.repeat(np.cumsum(counts) - counts, counts)
        kept, counts = kept[rank <= elements_max], np.minimum(counts, elements_max + 1)
    return _lists(np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), values.take(pa.array(kept)), column.type)


def _first_of_each(owners: Integers, values: pa.Array) -> Integers:
    """
    The places of the first of equal values of one owner.

    Each place stands in one number behind its owner and a code of its value. Numpy sorts numbers in a fifth of the time in which it sorts
    their places.
    """
    if not len(values):
        return np.empty(0, np.int64)
    bits = len(values).bit_length()
    codes = _codes_by_owner(owners, values, NUMBER_BITS - bits)
    in_order = np.sort(codes << bits | np.arange(len(codes)))
    is_first = np.diff(in_order >> bits, prepend=-1) != 0
    return np.sort(in_order[is_first] & (1 << bits) - 1)


def _codes_by_owner(owners: Integers, values: pa.Array, bits_max: int) -> Integers:
    """A number for each value, of so many bits at most; equal where the values and their owners are."""
    count, numbers = int(owners.max()) + 1, numbers_of_last_bytes(values)
    if numbers is not None:
        smallest = int(numbers.min())
        span = int(numbers.max()) - smallest + 1
        if (count * span).bit_length() <= bits_max:
            return owners * span + (numbers - smallest)
    coded = KeyCodes.of(values)
    codes: Integers = owners * len(coded.values) + coded.codes
    if (count * len(coded.values)).bit_length() <= bits_max:
        return codes
    without_gaps: Integers = pa.array(codes).dictionary_encode().indices.to_numpy().astype(np.int64)
    return without_gaps


def _collected(_: TypedAggregate, states: States) -> AggregateResult:
    kept = _all_collected(states)
    too_many = pc.list_value_length(kept).to_numpy() > ELEMENTS_MAX
    if not too_many.any():
        return AggregateResult(kept)
    values = if_else(pa.array(too_many), pa.scalar(None, kept.type), kept)
    return AggregateResult(values, too_many, f"more than {ELEMENTS_MAX:,} elements", _WAY_OUT)


def _all_collected(states: States) -> pa.Array:
    """The lists as they are kept; a null is empty."""
    (column,) = states
    lengths = pc.list_value_length(column).fill_null(0).to_numpy()
    return _lists(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]), column.flatten(), column.type)


def _counted(_: TypedAggregate, states: States) -> AggregateResult:
    counts = pc.list_value_length(states[0]).fill_null(0).to_numpy().astype(np.int64)
    too_many = counts > ELEMENTS_MAX
    if not too_many.any():
        return AggregateResult(pa.array(counts))
    return AggregateResult(pa.array(counts, mask=too_many), too_many, f"more than {ELEMENTS_MAX:,} values", _WAY_OUT)


def _lift_member(_: TypedAggregate, argument: pa.Array) -> pa.BinaryArray:
    return where_there(encode_ordered(argument), argument)


def _state_of_members(aggregate: TypedAggregate, lists: pa.Array) -> list[pa.Array]:
    return [decode_lists(lists, argument_type(aggregate))]


def _complaint(aggregate: TypedAggregate) -> str | None:
    return order_complaint(argument_type(aggregate))


def _one_too_many(_: TypedAggregate) -> int:
    return ELEMENTS_MAX + 1


def _number_columns(aggregate: TypedAggregate) -> tuple[SchemaColumn, ...]:
    return (SchemaColumn(f"{aggregate.name}.number", "bigint", nullable=False),)


def _refuse(*_: object) -> NoReturn:
    raise AssertionError("numbers of members are never merged")


LIST_MEMBERS = Members(_lift_member, _state_of_members, _one_too_many, complaint=_complaint)
ALL_MEMBERS = Members(_lift_member, _state_of_members, lambda _: None, complaint=_complaint)
SET_MEMBERS = Members(_lift_member, _state_of_members, _one_too_many, is_set=True, complaint=_complaint)
NUMBER_OF_MEMBERS = Members(_lift_member, lambda _, numbers: [numbers], lambda _: None, is_set=True, is_number=True)


def collect_list(col: Column | str) -> Column:
    """The values that are not null as an array, in the order of the records; an error beyond 100,000 of them."""
    return recorded("collect_list", col)


array_agg = collect_list


COLLECT_LIST = register(
    AggregateFunction(
        "collect_list", _typed_list, _state_columns, _lift, _merge_lists, _collected,
        functions=("array_agg",), is_nullable=False, is_ordered=True, members=LIST_MEMBERS,
    )
)  # fmt: skip


ALL_VALUES = register(
    AggregateFunction(
        GROUP_VALUES, _typed_list, _state_columns, _lift, _merge_all, lambda _, states: AggregateResult(_all_collected(states)),
        is_nullable=False, is_ordered=True, members=ALL_MEMBERS, is_called=False,
    )
)  # fmt: skip


def collect_set(col: Column | str) -> Column:
    """The distinct values that are not null as an array, in the order in which they first occur; an error beyond 100,000 of them."""
    return recorded("collect_set", col)


COLLECT_SET = register(
    AggregateFunction(
        "collect_set", _typed_set, _state_columns, _lift_set, _merge_sets, _collected,
        is_nullable=False, is_ordered=True, members=SET_MEMBERS,
    )
)  # fmt: skip


def count_distinct(col: Column | str, *cols: Column | str) -> Column:
    """How many distinct values there are, or combinations of values, none of which is null; exact, and an error beyond 100,000."""
    return recorded("count_distinct", col, *cols)


COUNT_DISTINCT = register(
    AggregateFunction(
        "count_distinct", _typed_count, _state_columns, _lift, _merge_sets, _counted,
        arity_max=16, is_nullable=False, of_table="number_of_members", has_bytes=True,
    )
)  # fmt: skip


@spark_text("count_distinct")
def _count_text(_arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    return f"count(DISTINCT {', '.join(texts)})" if texts else None


NUMBER = register(
    AggregateFunction(
        "number_of_members", _typed_count, _number_columns, _refuse, _refuse, lambda _, states: AggregateResult(states[0].fill_null(0)),
        is_nullable=False, members=NUMBER_OF_MEMBERS, is_called=False,
    )
)  # fmt: skip
