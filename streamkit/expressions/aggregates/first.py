"""first, last and any_value: the value of a group's first or last row in canonical order, null too unless nulls are ignored."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.expressions.aggregates.function import (
    AggregateFunction,
    AggregateResult,
    MergeStates,
    States,
    argument_type,
    register,
)
from streamkit.expressions.core.accumulation import Accumulator, chosen, first_rows, last_rows
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import Invocation, RuleError
from streamkit.expressions.core.recording import constant, given, given_text, recorded
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.schema import SchemaColumn

__all__ = ["any_value", "first", "first_value", "last", "last_value"]

VALUE = "value"


def _typed(call: Invocation) -> tuple[TypedExpression, str]:
    """The value in a struct, which tells a null value from a row that does not count."""
    value = call.typed(0)
    wrapped = call.of("named_struct", literal(VALUE, "string"), value)
    if _ignores_nulls(call):
        wrapped = call.of("if", call.of("isnotnull", value), wrapped, literal(None, "void"))
    return wrapped, value.type


def _ignores_nulls(call: Invocation) -> bool:
    if len(call.arguments) < 2:
        return False
    told = call.typed(1)
    if (told.name, told.type) != ("literal", "boolean") or told.value is None:
        raise RuleError(f"{call.name}() is told by a constant boolean whether it ignores nulls")
    return bool(told.value)


def _state_columns(aggregate: TypedAggregate) -> tuple[SchemaColumn, ...]:
    return (SchemaColumn(f"{aggregate.name}.{aggregate.function}", argument_type(aggregate)),)


def _lift(_: TypedAggregate, argument: pa.Array | None, _rows: int) -> list[pa.Array]:
    return [argument]


def _choosing(choose: Callable[[Mask, Accumulator], Integers]) -> MergeStates:
    def merge(states: States, accumulate: Accumulator) -> list[pa.Array]:
        (column,) = states
        return [chosen(column, choose(column.is_valid().to_numpy(zero_copy_only=False), accumulate))]

    return merge


def _result(_: TypedAggregate, states: States) -> AggregateResult:
    return AggregateResult(pc.struct_field(states[0], VALUE))


def _entered(name: str, choose: Callable[[Mask, Accumulator], Integers], *functions: str) -> AggregateFunction:
    return register(
        AggregateFunction(
            name,
            _typed,
            _state_columns,
            _lift,
            _choosing(choose),
            _result,
            functions=functions,
            arity_max=2,
            is_ordered=True,
            not_of_tables=f"the rows of a table have no order, so none of them is {name}; expected max_by(value, by) or min_by(value, by), with "
            "the column that orders them",
        )
    )


def first(col: Column | str, ignorenulls: bool = False) -> Column:
    """The value of the first record of a group; with `ignorenulls`, of the first record in which it is not null."""
    return recorded("first", col, constant(ignorenulls))


def first_value(col: Column | str, ignoreNulls: bool | Column | None = None) -> Column:
    """As `first`."""
    return recorded("first", col, *map(given_text, given(ignoreNulls)))


def any_value(col: Column | str, ignoreNulls: bool | Column | None = None) -> Column:
    """The value of any record, here of the first."""
    return recorded("first", col, *map(given_text, given(ignoreNulls)))


FIRST = _entered("first", first_rows, "first_value", "any_value")


def last(col: Column | str, ignorenulls: bool = False) -> Column:
    """The value of the last record of a group; with `ignorenulls`, of the last record in which it is not null."""
    return recorded("last", col, constant(ignorenulls))


def last_value(col: Column | str, ignoreNulls: bool | Column | None = None) -> Column:
    """As `last`."""
    return recorded("last", col, *map(given_text, given(ignoreNulls)))


LAST = _entered("last", last_rows, "last_value")
