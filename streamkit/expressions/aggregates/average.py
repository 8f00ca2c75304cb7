"""avg: the exact total divided by the count, once; null over nothing. Of integers and floats a double, of decimals rounded half up."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Mask
from streamkit.data_type import decimal_of, to_arrow
from streamkit.decimals import DECIMAL_CONTEXT, power_of_ten, rounded
from streamkit.expressions.aggregates.function import AggregateFunction, AggregateResult, States, register, takes
from streamkit.expressions.aggregates.sum import lift, merge, subtract, total_and_count
from streamkit.expressions.aggregates.total import PRECISION_MAX, exact_total
from streamkit.expressions.core.coercion import bounded_decimal
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.recording import recorded
from streamkit.plan.expression import TypedAggregate, TypedExpression

__all__ = ["avg", "mean"]

_COUNT_DIGITS = 20  # more than any count has


def _mean_type(arguments: Sequence[TypedExpression]) -> str:
    """Of decimals four digits more, else double."""
    digits = decimal_of(arguments[0].type)
    return bounded_decimal(digits[0] + 4, digits[1] + 4) if digits else "double"


def _result(aggregate: TypedAggregate, states: States) -> AggregateResult:
    *totals, counts = (column.fill_null(0) if column.null_count else column for column in states)
    if aggregate.type.startswith("decimal"):
        return _decimal_mean(totals, counts, to_arrow(aggregate.type))
    numbers = totals[0].to_numpy()
    if len(totals) > 1:
        numbers = numbers.astype(np.float64)
        for row in np.flatnonzero(totals[1].to_numpy()).tolist():
            numbers[row] = float(exact_total(totals, row))
    return AggregateResult(pc.divide(pa.array(numbers), _or_null(counts).cast(pa.float64(), safe=False)))


def _or_null(counts: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(counts, 0), pa.scalar(None, pa.int64()), counts)


def _decimal_mean(totals: States, counts: pa.Array, layout: pa.DataType) -> AggregateResult:
    """Divided exactly, then rounded half up, as Spark does."""
    wide = totals[0].cast(pa.decimal256(PRECISION_MAX, totals[0].type.scale))
    quotient = pc.divide(wide, _or_null(counts).cast(pa.decimal256(_COUNT_DIGITS, 0)))
    means = rounded(quotient, layout.scale, "half_towards_infinity")
    carried = totals[1].to_numpy() != 0
    with np.errstate(invalid="ignore"):  # NaN stands for null
        large = np.abs(means.cast(pa.float64()).to_numpy(zero_copy_only=False)) > 0.99 * 10.0 ** (layout.precision - layout.scale)
    doubtful = carried | large | (counts.to_numpy() >= 2**32)  # Arrow divides rightly by one word
    if doubtful.any():
        return _large_means(means, doubtful, totals, counts, layout)
    return AggregateResult(means.cast(layout))


def _large_means(near: pa.Array, rows: Mask, totals: States, counts: pa.Array, layout: pa.DataType) -> AggregateResult:
    """As `_decimal_mean`, where means of some rows are computed one by one: their totals need more digits, or they may not fit."""
    overflowed, found = np.zeros(len(counts), np.bool_), ""
    means: list[Decimal | None] = []
    for row in np.flatnonzero(rows).tolist():
        mean = _exact_mean(totals, counts[row].as_py(), row, layout.scale)
        if mean is not None and mean.copy_abs() >= power_of_ten(layout.precision - layout.scale):
            overflowed[row], found, mean = True, found or str(mean), None
        means.append(mean)
    known = pc.if_else(pa.array(rows), pa.scalar(None, near.type), near).cast(layout)
    values = pc.replace_with_mask(known, pa.array(rows), pa.array(means, layout))
    return AggregateResult(values, overflowed if overflowed.any() else None, found)


def _exact_mean(totals: States, count: int, row: int, scale: int) -> Decimal | None:
    if not count:
        return None
    with localcontext(DECIMAL_CONTEXT, prec=PRECISION_MAX * 4):
        return (Decimal(exact_total(totals, row)) / count).quantize(power_of_ten(-scale), ROUND_HALF_UP)


def avg(column: Column | str) -> Column:
    """The mean of the values that are not null."""
    return recorded("avg", column)


mean = avg


AVERAGE = register(
    AggregateFunction(
        "avg", takes("numeric", _mean_type), total_and_count, lift, merge, _result, subtract=subtract, functions=("mean",)
    )
)
