"""
Sums, minima and maxima of a column: per group, or running within each group; exact for whole numbers and decimals.

Null is neutral. Floating-point sums add one value after the other, in the order of the rows. NaN is the greatest value, as in Spark.
"""

from __future__ import annotations

from math import isqrt
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.errors import EvaluationError
from streamkit.expressions.groups import Codes, Groups
from streamkit.log.values.columns import DECIMAL, Mask, canonical, fixed_array, fixed_dtype, fixed_values, valid_rows

Values: TypeAlias = npt.NDArray[Any]

BIGINT_MAX = 2**63 - 1
_LIMB_BITS, _LIMB = 32, 0xFFFFFFFF  # sums of 2**31 limbs of 32 bits still fit an int64


class Accumulator(Protocol):
    """How values come together: by a ufunc, from a neutral value."""

    def __call__(self, ufunc: np.ufunc, values: Values, neutral: Any) -> Values: ...


def per_group(groups: Groups) -> Accumulator:
    """One value for each group, in the order of `groups.rows`."""
    used = groups.used

    def accumulate(ufunc: np.ufunc, values: Values, neutral: Any) -> Values:
        if ufunc is np.add and values.dtype == np.float64 and len(values):
            return np.bincount(groups.codes, weights=values, minlength=groups.size)[used]
        totals = np.full(groups.size, neutral, values.dtype)
        ufunc.at(totals, groups.codes, values)
        return totals[used]

    return accumulate


def within_groups(codes: Codes) -> Accumulator:
    """One value for each row: what the rows of its group up to and with it come to."""
    order = _stable_order(codes)
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    sizes = np.diff(starts, append=len(codes))

    def accumulate(ufunc: np.ufunc, values: Values, neutral: Any) -> Values:
        runs = values[order]
        _accumulate_runs(ufunc, runs, starts, sizes)
        result = np.empty_like(runs)
        result[order] = runs
        return result

    return accumulate


@np.errstate(invalid="ignore", over="ignore")  # infinity and NaN are values
def accumulated(column: pa.Array, function: str, accumulate: Accumulator) -> pa.Array:
    """
    The column's "sum", "min" or "max", as the accumulator groups its rows, in the column's own type.

    A sum takes bigint, double and decimal columns, and is 0 over nothing; a minimum takes any type, and is null over nothing.
    Raises EvaluationError when a sum does not fit its type.
    """
    column, type_name = canonical(column)
    if function == "sum":
        return _sum(column, type_name, accumulate)
    valid = valid_rows(column)
    some = None if valid is None else accumulate(np.maximum, valid.view(np.uint8), 0).view(np.bool_)
    if type_name == "void" or column.null_count == len(column):
        return pa.nulls(0 if some is None else len(some), column.type)
    dtype = fixed_dtype(type_name)
    if dtype is None or dtype == DECIMAL:
        return _extreme_by_rank(column, function, accumulate, valid, some)
    values = fixed_values(column, type_name)
    return fixed_array(_extreme(values, function, accumulate, valid), type_name, some)


def _sum(column: pa.Array, type_name: str, accumulate: Accumulator) -> pa.Array:
    values = _or_neutral(fixed_values(column, type_name), valid_rows(column), np.zeros((), fixed_dtype(type_name)))
    if type_name == "double":
        return pa.array(accumulate(np.add, values, 0.0))
    if type_name == "bigint":
        return pa.array(_sum_of_integers(values, accumulate))
    return _sum_of_decimals(values, type_name, accumulate)


def _sum_of_integers(values: Values, accumulate: Accumulator) -> Values:
    if _sum_fits(values):
        return accumulate(np.add, values, 0)
    low, high = _carried([accumulate(np.add, limb, 0) for limb in (values & _LIMB, values >> _LIMB_BITS)], "bigint")
    return (high << _LIMB_BITS) | low


def _sum_of_decimals(values: Values, type_name: str, accumulate: Accumulator) -> pa.Array:
    low, high = values["low"].view(np.int64), values["high"]
    total = np.empty(0, DECIMAL)
    if (high == low >> 63).all() and _sum_fits(low):
        sums = accumulate(np.add, low, 0)
        total = np.empty(len(sums), DECIMAL)
        total["low"], total["high"] = sums.view(np.uint64), sums >> 63
    else:
        limbs = [low & _LIMB, (low >> _LIMB_BITS) & _LIMB, high & _LIMB, high >> _LIMB_BITS]
        sums_of_limbs = _carried([accumulate(np.add, limb, 0) for limb in limbs], type_name)
        total = np.empty(len(sums_of_limbs[0]), DECIMAL)
        total["low"] = ((sums_of_limbs[1] << _LIMB_BITS) | sums_of_limbs[0]).view(np.uint64)
        total["high"] = (sums_of_limbs[3] << _LIMB_BITS) | sums_of_limbs[2]
    return _within_precision(fixed_array(total, type_name), type_name)


def _sum_fits(values: Values) -> bool:
    """Whether no sum of some of the values can leave 64 bits."""
    return len(values) == 0 or max(-int(values.min()), int(values.max())) * len(values) <= BIGINT_MAX


def _carried(limbs: list[Values], type_name: str) -> list[Values]:
    """Sums of limbs, lowest first, as limbs again; EvaluationError if the highest does not hold what is carried into it."""
    for index in range(1, len(limbs)):
        limbs[index] = limbs[index] + (limbs[index - 1] >> _LIMB_BITS)
        limbs[index - 1] = limbs[index - 1] & _LIMB
    if not ((limbs[-1] >= -(2**31)) & (limbs[-1] < 2**31)).all():
        raise _overflow(type_name)
    return limbs


def _within_precision(column: pa.Array, type_name: str) -> pa.Array:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise _overflow(type_name) from error
    return column


def _overflow(type_name: str) -> EvaluationError:
    return EvaluationError(
        f"found a sum beyond the range of {type_name}; expected sums that fit: cast the argument to a wider type"
    )


def _extreme(values: Values, function: str, accumulate: Accumulator, valid: Mask | None) -> Values:
    """The smallest or largest of numbers, whatever where there is none."""
    ufunc: np.ufunc = np.maximum if function == "max" else np.minimum
    if values.dtype.kind != "f":
        limits = np.iinfo(values.dtype)
        neutral: float = limits.min if function == "max" else limits.max
    elif function == "max":
        neutral = -np.inf
    else:
        ufunc, neutral = np.fmin, np.nan  # takes NaN for the greatest
    return accumulate(ufunc, _or_neutral(values, valid, neutral), neutral)


def _extreme_by_rank(column: pa.Array, function: str, accumulate: Accumulator, valid: Mask | None, some: Mask | None) -> pa.Array:
    """As `_extreme`, of values that numpy cannot compare: their ranks are compared."""
    encoded = column.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    ranks = np.empty(len(order), np.int64)
    ranks[order.to_numpy()] = np.arange(len(order))
    ranks_of_rows = ranks[encoded.indices.fill_null(0).to_numpy()]
    extreme = pa.array(_extreme(ranks_of_rows, function, accumulate, valid), mask=None if some is None else ~some)
    return encoded.dictionary.take(order).take(extreme)


def _or_neutral(values: Values, valid: Mask | None, neutral: Any) -> Values:
    if valid is None:
        return values
    filled = values.copy()
    filled[~valid] = neutral
    return filled


def _stable_order(codes: Codes) -> Codes:
    """Row numbers in the order of the codes, which are not negative; numpy sorts 16 bits at a time in linear time."""
    if len(codes) == 0 or codes.max() >> 32:
        return np.argsort(codes, kind="stable")
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    high = (codes >> 16).astype(np.uint16)
    return order[np.argsort(high[order], kind="stable")] if high.any() else order


def _accumulate_runs(ufunc: np.ufunc, values: Values, starts: Codes, sizes: Codes) -> None:
    """
    Replace each run of values by its running totals, strictly from left to right.

    Few runs are long: they go one by one; all others advance together, one position a round.
    """
    long = isqrt(len(values)) + 16
    for start, size in zip(starts[sizes > long], sizes[sizes > long]):
        run = values[start : start + size]
        ufunc.accumulate(run, out=run)
    starts, sizes = starts[sizes <= long], sizes[sizes <= long]
    by_size = np.argsort(-sizes)
    starts, sizes = starts[by_size], sizes[by_size]
    for position in range(1, int(sizes[0]) if len(sizes) else 0):
        places = starts[: np.searchsorted(-sizes, -position)] + position
        values[places] = ufunc(values[places - 1], values[places])
