"""
max_by and min_by: the value of the row in which another is largest or smallest.

Of several such rows of a stream it is that of the last. The rows of a table have no order: there it is the smallest value.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import fields_of, to_arrow
from streamkit.expressions.aggregates.function import (
    AggregateFunction,
    AggregateResult,
    Members,
    MergeStates,
    States,
    argument_type,
    register,
)
from streamkit.expressions.aggregates.ordered_bytes import (
    decode_first,
    encode_ordered,
    last_extreme,
    order_complaint,
    where_there,
)
from streamkit.expressions.core.accumulation import Accumulator
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import Invocation, NoTranslationError
from streamkit.expressions.core.recording import constant, recorded
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.recast import recast
from streamkit.schema import SchemaColumn

__all__ = ["max_by", "min_by"]

VALUE, BY = "value", "by"


def _typed(call: Invocation) -> tuple[TypedExpression, str]:
    """Value and order in a struct, null where the order is."""
    value, by = call.values
    if complaint := order_complaint(by.type):
        raise NoTranslationError(
            f"{call.name}() by {by.type} has no incremental state: {complaint}; expected values without arrays and maps"
        )
    both = call.of("named_struct", literal(VALUE, "string"), value, literal(BY, "string"), by)
    return call.of("if", call.of("isnotnull", by), both, literal(None, "void")), value.type


def _state_columns(aggregate: TypedAggregate) -> tuple[SchemaColumn, ...]:
    return (SchemaColumn(f"{aggregate.name}.{aggregate.function}", argument_type(aggregate)),)


def _lift(_: TypedAggregate, argument: pa.Array | None, _rows: int) -> list[pa.Array]:
    return [argument]


def _merge(is_largest: bool) -> MergeStates:
    def merge(states: States, accumulate: Accumulator) -> list[pa.Array]:
        return [last_extreme(states[0], pc.struct_field(states[0], BY), is_largest, accumulate)]

    return merge


def _result(_: TypedAggregate, states: States) -> AggregateResult:
    return AggregateResult(pc.struct_field(states[0], VALUE))


def _members(is_falling: bool) -> Members:
    """The values by what they are ordered by, and then by themselves."""

    def lift(_: TypedAggregate, argument: pa.Array) -> pa.BinaryArray:
        by, value = (pc.struct_field(argument, [name]) for name in (BY, VALUE))
        both = pc.binary_join_element_wise(encode_ordered(by, is_falling), encode_ordered(value), b"")
        return where_there(both, argument)

    def states(aggregate: TypedAggregate, lists: pa.Array) -> list[pa.Array]:
        kind = argument_type(aggregate)
        types = dict(fields_of(kind) or ())
        (by, value), is_there = decode_first(lists, [types[BY], types[VALUE]], [is_falling, False])
        fields = {VALUE: value, BY: by}
        arrow = to_arrow(kind)
        columns = [recast(fields[field.name], field.type) for field in arrow]
        return [pa.StructArray.from_arrays(columns, fields=list(arrow), mask=pc.invert(is_there))]

    return Members(lift, states, lambda _: 1, is_set=True, complaint=_complaint)


def _complaint(aggregate: TypedAggregate) -> str | None:
    return order_complaint(argument_type(aggregate))


def _entered(name: str, is_largest: bool) -> AggregateFunction:
    return register(
        AggregateFunction(
            name, _typed, _state_columns, _lift, _merge(is_largest), _result,
            arity=2, is_ordered=True, members=_members(is_largest),
        )
    )  # fmt: skip


def max_by(col: Column | str, ord: Column | str, k: int | None = None) -> Column:
    """
    The value of `col` where `ord` is largest; if several records have it, the value of the last of them.

    With `k` the values of the `k` records in which `ord` is largest, as `top_k` gives them.
    """
    return recorded("max_by", col, ord) if k is None else recorded("top_k", col, constant(k), ord)


MAX_BY = _entered("max_by", True)


def min_by(col: Column | str, ord: Column | str, k: int | None = None) -> Column:
    """
    The value of `col` where `ord` is smallest; if several records have it, the value of the last of them.

    With `k` the values of the `k` records in which `ord` is smallest, as `bottom_k` gives them.
    """
    return recorded("min_by", col, ord) if k is None else recorded("bottom_k", col, constant(k), ord)


MIN_BY = _entered("min_by", False)
