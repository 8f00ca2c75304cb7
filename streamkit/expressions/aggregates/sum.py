"""sum: of the values that are not null; null over none. The total may pass the type on its way; the result must fit it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import INTEGERS, decimal_of, to_arrow
from streamkit.expressions.aggregates.count import count_column, counted
from streamkit.expressions.aggregates.function import AggregateFunction, AggregateResult, States, register, takes
from streamkit.expressions.aggregates.total import exact_total, lifted_total, merged_totals, negative_totals, total_columns
from streamkit.expressions.core.accumulation import Accumulator, accumulated, per_group
from streamkit.expressions.core.coercion import bounded_decimal
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.groups import row_by_row
from streamkit.expressions.core.recording import recorded
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.schema import SchemaColumn

__all__ = ["sum"]


def _sum_type(arguments: Sequence[TypedExpression]) -> str:
    """Integers add up to bigint, floats to double, decimals to ten digits more."""
    type = arguments[0].type
    if digits := decimal_of(type):
        return bounded_decimal(digits[0] + 10, digits[1])
    return "bigint" if type in INTEGERS else "double"


def total_and_count(aggregate: TypedAggregate) -> tuple[SchemaColumn, ...]:
    """The state columns: those of a total, and how many values it adds up."""
    return (*total_columns(aggregate), count_column(aggregate))


def lift(aggregate: TypedAggregate, argument: pa.Array | None, rows: int) -> list[pa.Array]:
    """The total and the count of each row alone."""
    assert argument is not None
    return [*lifted_total(aggregate, argument), counted(argument, rows)]


def merge(states: States, accumulate: Accumulator) -> list[pa.Array]:
    """Totals and counts of the rows that are combined."""
    return [*merged_totals(states[:-1], accumulate), accumulated(states[-1], "sum", accumulate)]


def subtract(left: States, right: States) -> list[pa.Array]:
    """The first totals and counts without the second; of doubles as exact as their difference, and infinity stays."""
    negative = [*negative_totals(right[:-1]), pc.negate(right[-1])]
    both = [pa.concat_arrays(pair) for pair in zip(left, negative, strict=True)]
    return merge(both, per_group(row_by_row(len(left[0]), 2)))


def _result(aggregate: TypedAggregate, states: States) -> AggregateResult:
    *totals, counts = (column.fill_null(0) if column.null_count else column for column in states)
    overflowed = totals[1].to_numpy() != 0 if len(totals) > 1 else np.zeros(len(counts), np.bool_)
    nothing = (counts.to_numpy() == 0) | overflowed
    values = totals[0].cast(to_arrow(aggregate.type))
    if nothing.any():
        values = pc.if_else(pa.array(nothing), pa.scalar(None, values.type), values)
    if not overflowed.any():
        return AggregateResult(values)
    return AggregateResult(values, overflowed, str(exact_total(totals, int(np.argmax(overflowed)))))


def sum(column: Column | str) -> Column:
    """The sum of the values that are not null."""
    return recorded("sum", column)


SUM = register(AggregateFunction("sum", takes("numeric", _sum_type), total_and_count, lift, merge, _result, subtract=subtract))
