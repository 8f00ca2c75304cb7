"""count and count_if: how many rows, values that are not null, or conditions that hold."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.expressions.aggregates.function import AggregateFunction, AggregateResult, States, by_column, register, takes
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.recording import recorded
from streamkit.expressions.core.same_numbers import ones
from streamkit.plan.expression import Call, Literal, TypedAggregate
from streamkit.schema import SchemaColumn

__all__ = ["count", "count_if"]

COUNT_ENDING = ".count"  # of the name of a state column that counts


def _state_columns(aggregate: TypedAggregate) -> tuple[SchemaColumn, ...]:
    return (count_column(aggregate),)


def _lift(_: TypedAggregate, argument: pa.Array | None, rows: int) -> list[pa.Array]:
    return [counted(argument, rows)]


def _lift_condition(_: TypedAggregate, argument: pa.Array | None, _rows: int) -> list[pa.Array]:
    assert argument is not None
    return [argument.fill_null(False).cast(pa.int64())]


def _subtract(left: States, right: States) -> list[pa.Array]:
    return [pc.subtract(left[0], right[0])]


def _result(_: TypedAggregate, states: States) -> AggregateResult:
    return AggregateResult(states[0])


def count_column(aggregate: TypedAggregate) -> SchemaColumn:
    """The state column that counts."""
    return SchemaColumn(f"{aggregate.name}{COUNT_ENDING}", "bigint", nullable=False)


def counted(argument: pa.Array | None, rows: int) -> pa.Array:
    """1 for each row whose argument is not null, else 0; without an argument 1 for each."""
    if argument is None or not argument.null_count:
        return pa.array(ones.of(rows))
    return argument.is_valid().cast(pa.int64())


def count(column: Column | str) -> Column:
    """How many values are not null; for "*", how many rows."""
    return Column(Call("count", (Literal(1),))) if isinstance(column, str) and column == "*" else recorded("count", column)


COUNT = register(
    AggregateFunction(
        "count", takes("any", "bigint"), _state_columns, _lift, by_column("sum"), _result, subtract=_subtract, is_nullable=False
    )
)


def count_if(column: Column | str) -> Column:
    """In how many rows the condition is true."""
    return recorded("count_if", column)


COUNT_IF = register(
    AggregateFunction(
        "count_if",
        takes("boolean", "bigint"),
        _state_columns,
        _lift_condition,
        by_column("sum"),
        _result,
        subtract=_subtract,
        is_nullable=False,
    )
)
