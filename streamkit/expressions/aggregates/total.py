"""
Totals that never overflow: the state of `sum` and `avg`.

    bigint and narrower    `sum` bigint, `carry` bigint: the total is sum + carry * 2**64
    decimal(p,s)           `sum` decimal with ten digits more, as Spark's, `carry` bigint: sum + carry * 10**digits, in units of the last digit
    float, double          `sum` double

A total has one representation: `carry` is 0 as long as `sum` can hold the total alone, and a decimal `sum` has the sign of the total.
So a total fits the type of `sum` if `carry` is 0, and it does not depend on the order or the portions in which rows were added.
"""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pyarrow as pa

from streamkit.arrays import AnyArray, Integers, Mask
from streamkit.data_type import from_arrow, to_arrow
from streamkit.decimals import DECIMAL_CONTEXT, power_of_ten
from streamkit.expressions.aggregates.function import States, argument_type
from streamkit.expressions.core.accumulation import Accumulator, accumulated
from streamkit.expressions.core.same_numbers import zeros
from streamkit.log.values.columns import DECIMAL, fixed_array, fixed_values, valid_rows
from streamkit.plan.expression import TypedAggregate
from streamkit.schema import SchemaColumn

PRECISION_MAX = 38
MORE_DIGITS = 10
BIGINT_MAX = 2**63 - 1
WORD = 2**64
_LIMB_BITS, _LIMB = 32, 0xFFFFFFFF  # sums of 2**31 limbs of 32 bits still fit an int64


def total_columns(aggregate: TypedAggregate) -> tuple[SchemaColumn, ...]:
    """The state columns of the total of an aggregate's argument."""
    argument = argument_type(aggregate)
    if argument in ("float", "double"):
        return (SchemaColumn(f"{aggregate.name}.sum", "double", nullable=False),)
    total_type = "bigint"
    if argument.startswith("decimal"):
        layout = to_arrow(argument)
        total_type = f"decimal({min(layout.precision + MORE_DIGITS, PRECISION_MAX)},{layout.scale})"
    return (
        SchemaColumn(f"{aggregate.name}.sum", total_type, nullable=False),
        SchemaColumn(f"{aggregate.name}.carry", "bigint", nullable=False),
    )


def lifted_total(aggregate: TypedAggregate, argument: pa.Array) -> list[pa.Array]:
    """The total of each row alone; 0 of a null."""
    if argument.null_count:
        argument = argument.fill_null(pa.scalar(Decimal(0) if pa.types.is_decimal(argument.type) else 0, argument.type))
    total, *carry = total_columns(aggregate)
    return [argument.cast(total.arrow.type), *(pa.array(zeros.of(len(argument))) for _ in carry)]


def merged_totals(totals: States, accumulate: Accumulator) -> list[pa.Array]:
    """The totals of the rows that the accumulator brings together; null is 0."""
    if len(totals) == 1:
        return [accumulated(totals[0], "sum", accumulate)]
    type_name = from_arrow(totals[0].type)
    total, carry = (_or_zero(column) for column in totals)
    if type_name == "bigint":
        return [pa.array(column) for column in _sum_of_integers(total, carry, accumulate)]
    total, carry = _sum_of_decimals(total, carry, to_arrow(type_name).precision, accumulate)
    return [fixed_array(total, type_name), pa.array(carry)]


def negative_totals(totals: States) -> list[pa.Array]:
    """The totals with the other sign."""
    if len(totals) == 1:
        return [pa.array(-totals[0].to_numpy())]
    type_name = from_arrow(totals[0].type)
    total, carry = (fixed_values(column, from_arrow(column.type)) for column in totals)
    if type_name == "bigint":
        return [pa.array(-total), pa.array((total == -(2**63)) - carry)]  # the smallest number is its own negative in 64 bits
    negative = np.empty(len(total), DECIMAL)
    negative["low"] = -total["low"]
    negative["high"] = ~total["high"] + (total["low"] == 0)
    return [fixed_array(negative, type_name), pa.array(-carry)]


def exact_total(totals: States, row: int) -> int | Decimal:
    """The total of a row, however large."""
    total, carry = (column[row].as_py() for column in totals)
    if isinstance(total, int):
        return int(total + carry * WORD)
    layout = totals[0].type
    with localcontext(DECIMAL_CONTEXT):
        return Decimal(total + carry * power_of_ten(layout.precision - layout.scale))


def _are_zero(values: Integers) -> bool:
    return zeros.share(values) or not values.any()


def _or_zero(column: pa.Array) -> AnyArray:
    type_name = from_arrow(column.type)
    values, valid = fixed_values(column, type_name), valid_rows(column)
    if valid is None:
        return values
    filled = values.copy()
    filled[~valid] = np.zeros((), values.dtype)
    return filled


def _sum_fits(values: Integers) -> bool:
    """Whether no sum of some of the values can leave 64 bits."""
    return len(values) == 0 or max(-int(values.min()), int(values.max())) * len(values) <= BIGINT_MAX


def _sum_of_integers(total: Integers, carry: Integers, accumulate: Accumulator) -> tuple[Integers, Integers]:
    is_carried = not _are_zero(carry)
    if not is_carried and _sum_fits(total):
        sums = accumulate(np.add, total, 0)
        return sums, zeros.of(len(sums))
    low = accumulate(np.add, total & _LIMB, 0)
    high = accumulate(np.add, total >> _LIMB_BITS, 0) + (low >> _LIMB_BITS)
    sums = (high << _LIMB_BITS) | (low & _LIMB)
    carries = (high >> _LIMB_BITS) + (sums < 0)
    return sums, carries + accumulate(np.add, carry, 0) if is_carried else carries


def _sum_of_decimals(total: AnyArray, carry: Integers, digits: int, accumulate: Accumulator) -> tuple[AnyArray, Integers]:
    low, high = total["low"].view(np.int64), total["high"]
    is_carried = not _are_zero(carry)
    if not is_carried and (high == low >> 63).all() and _sum_fits(low):
        sums = accumulate(np.add, low, 0)
        return _within_digits(_in_two_words(sums, sums >> 63), digits, [sums], zeros.of(len(sums)))
    parts = [low & _LIMB, (low >> _LIMB_BITS) & _LIMB, high & _LIMB, high >> _LIMB_BITS]
    limbs = [accumulate(np.add, part, 0) for part in parts]
    carries = accumulate(np.add, carry, 0) if is_carried else zeros.of(len(limbs[0]))
    for index in range(1, len(limbs)):
        limbs[index] = limbs[index] + (limbs[index - 1] >> _LIMB_BITS)
        limbs[index - 1] = limbs[index - 1] & _LIMB
    sums = _in_two_words((limbs[1] << _LIMB_BITS) | limbs[0], (limbs[3] << _LIMB_BITS) | limbs[2])
    return _within_digits(sums, digits, limbs, carries)


def _in_two_words(low: Integers, high: Integers) -> AnyArray:
    words = np.empty(len(low), DECIMAL)
    words["low"], words["high"] = low.view(np.uint64), high
    return words


def _within_digits(sums: AnyArray, digits: int, limbs: list[Integers], carries: Integers) -> tuple[AnyArray, Integers]:
    """The sums, with the part beyond their digits moved to the carry; such sums are few, and computed one by one from their limbs."""
    base = 10**digits
    if _are_zero(carries) and _fits_easily(limbs, base):
        return sums, carries
    carries = carries.copy()
    fits = (carries == 0) & ~_reaches(sums, base)
    if len(limbs) > 1:
        fits &= (limbs[-1] >= -(2**31)) & (limbs[-1] < 2**31)
    for row in np.flatnonzero(~fits).tolist():
        exact = int(carries[row]) * base + sum(int(limb[row]) << (_LIMB_BITS * place) for place, limb in enumerate(limbs))
        carry, rest = divmod(abs(exact), base)
        sign = -1 if exact < 0 else 1
        high, low = divmod(sign * rest, WORD)
        sums[row], carries[row] = (low, high), sign * carry
    return sums, carries


def _fits_easily(limbs: list[Integers], base: int) -> bool:
    """Whether the highest limb alone shows that every sum is below the base."""
    highest, weight = limbs[-1], 2 ** (_LIMB_BITS * (len(limbs) - 1))
    return len(highest) == 0 or (max(-int(highest.min()), int(highest.max())) + 1) * weight <= base


def _reaches(values: AnyArray, bound: int) -> Mask:
    """Which values are at least the bound, or at most its negative."""
    low, high = values["low"], values["high"]
    (top_high, top_low), (bottom_high, bottom_low) = divmod(bound, WORD), divmod(-bound, WORD)
    above = (high > top_high) | ((high == top_high) & (low >= np.uint64(top_low)))
    below = (high < bottom_high) | ((high == bottom_high) & (low <= np.uint64(bottom_low)))
    reaches: Mask = above | below
    return reaches
