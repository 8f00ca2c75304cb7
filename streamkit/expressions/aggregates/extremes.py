"""
min and max: the smallest and the largest value, null over nothing.

They cannot subtract, since a maximum forgets smaller values; in groups of a table each value is a member.
"""

from __future__ import annotations

import pyarrow as pa

from streamkit.data_type import has_map, to_arrow
from streamkit.expressions.aggregates.function import (
    AggregateFunction,
    AggregateResult,
    Members,
    MergeStates,
    States,
    argument_type,
    by_column,
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
from streamkit.expressions.core.operation import Invocation, NoTranslationError, RuleError, fitted
from streamkit.expressions.core.ordering import without_negative_zeros
from streamkit.expressions.core.recording import recorded
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.schema import SchemaColumn

__all__ = ["max", "min"]


def _typed(call: Invocation) -> tuple[TypedExpression, str]:
    """Values that have an order."""
    (value,) = fitted(call, "any")
    if has_map(value.type):
        raise RuleError(f"{call.name}() takes values that have an order; found {value.type}")
    if complaint := order_complaint(value.type):
        raise NoTranslationError(
            f"{call.name}() of {value.type} has no incremental state: {complaint}; expected values without arrays and maps"
        )
    return value, value.type


def _state_columns(aggregate: TypedAggregate) -> tuple[SchemaColumn, ...]:
    return (SchemaColumn(f"{aggregate.name}.{aggregate.function}", argument_type(aggregate)),)


def _lift(_: TypedAggregate, argument: pa.Array | None, _rows: int) -> list[pa.Array]:
    if argument is not None and pa.types.is_struct(argument.type):  # which of several equal ones is kept depends on the cut
        return [without_negative_zeros(argument)]
    return [argument]


def _merge(is_largest: bool) -> MergeStates:
    plain = by_column("max" if is_largest else "min")

    def merge(states: States, accumulate: Accumulator) -> list[pa.Array]:
        (column,) = states
        if pa.types.is_struct(column.type):
            return [last_extreme(column, column, is_largest, accumulate)]
        return plain(states, accumulate)

    return merge


def _result(aggregate: TypedAggregate, states: States) -> AggregateResult:
    return AggregateResult(states[0].cast(to_arrow(aggregate.type)))


def _members(is_falling: bool) -> Members:
    """The values in order."""

    def lift(_: TypedAggregate, argument: pa.Array) -> pa.BinaryArray:
        return where_there(encode_ordered(argument, is_falling), argument)

    def states(aggregate: TypedAggregate, lists: pa.Array) -> list[pa.Array]:
        return decode_first(lists, [argument_type(aggregate)], [is_falling])[0]

    return Members(lift, states, lambda _: 1, is_set=True)


def min(column: Column | str) -> Column:
    """The smallest value."""
    return recorded("min", column)


MIN = register(AggregateFunction("min", _typed, _state_columns, _lift, _merge(False), _result, members=_members(False)))


def max(column: Column | str) -> Column:
    """The largest value."""
    return recorded("max", column)


MAX = register(AggregateFunction("max", _typed, _state_columns, _lift, _merge(True), _result, members=_members(True)))
