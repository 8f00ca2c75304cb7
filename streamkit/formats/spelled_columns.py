"""Columns as texts, all values at once, each as Python spells it alone: what JSON and CSV have in common."""

from __future__ import annotations

import base64
import math

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.recast import recast

UNITS = ("s", "ms", "us")
_BOUNDS = {  # the first number of a unit in year 1, and the first after year 9999
    unit: np.array(["0001-01-01", "10000-01-01"], f"M8[{unit}]").astype(np.int64).tolist() for unit in ("D", *UNITS)
}
_PERIODS = {  # of 400 years, after which the calendar repeats itself
    unit: 146_097 * count for unit, count in (("D", 1), ("s", 86_400), ("ms", 86_400_000), ("us", 86_400_000_000))
}
_REPR_RANGE = (1e-4, 1e16)  # of numbers that orjson spells as repr does: without an exponent


def is_atomic(kind: pa.DataType) -> bool:
    """Whether each value of a type is one text here: the atomic types of topics, and words of a dictionary."""
    if pa.types.is_dictionary(kind):
        return bool(kind.value_type == pa.string())
    if pa.types.is_timestamp(kind):
        return kind.unit in UNITS and kind.tz in (None, "UTC")
    is_number = pa.types.is_integer(kind) or pa.types.is_decimal128(kind) or kind in (pa.float32(), pa.float64())
    return is_number or kind in (pa.null(), pa.bool_(), pa.string(), pa.binary(), pa.date32())


def spelled_bytes(column: pa.Array) -> pa.Array:
    """Bytes in base 64."""
    return pa.array([None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()], pa.string())


def spelled_times(column: pa.Array, between: str, *, any_year: bool = False) -> pa.Array:
    """
    Dates and times as ISO 8601 has them, with `between` in front of the hours, a fraction of a second in six digits unless it is zero.

    With `any_year` one that is not of 1 to 9999 has a sign, as in `+57861-07-09`; else it is a ValueError.
    """
    kind = column.type
    unit = "D" if pa.types.is_date(kind) else kind.unit
    numbers = column.cast(pa.int32()) if unit == "D" else column.cast(pa.int64())
    first, end = _BOUNDS[unit]
    least, most = pc.min_max(numbers).as_py().values()
    if least is not None and not first <= least <= most < end:
        if not any_year:
            raise ValueError("a time lies beyond the years 1 to 9999")
        return _with_far_years(column, numbers, unit, between)
    if unit == "D":
        return column.cast(pa.string())
    times = column.cast(pa.timestamp(unit))
    seconds = pc.floor_temporal(times, unit="second")
    texts = seconds.cast(pa.timestamp("s")).cast(pa.string())
    if unit != "s" and pc.any(is_broken := pc.not_equal(seconds, times)).as_py():
        texts = pc.if_else(is_broken, times.cast(pa.timestamp("us")).cast(pa.string()), texts)
    if between != " ":
        texts = pc.binary_replace_slice(texts, start=10, stop=11, replacement=between)
    return texts if kind.tz is None else pc.binary_join_element_wise(texts, "Z", "")


def _with_far_years(column: pa.Array, numbers: pa.Array, unit: str, between: str) -> pa.Array:
    """Times of any years: those at the same place in the 400 years from 1970 on, after which the calendar repeats itself, with their own year."""
    counts = numbers.fill_null(0).to_numpy().astype(np.int64)
    turns, near = np.divmod(counts, _PERIODS[unit])
    texts = spelled_times(recast(where_valid(column, pa.array(near, numbers.type)), column.type), between)
    years = near.astype(f"M8[{unit}]").astype("M8[Y]").astype(np.int64) + 1970 + 400 * turns
    named = [f"{year:04}" if 1 <= year <= 9999 else f"{year:+05}" for year in years.tolist()]
    return pc.binary_join_element_wise(pa.array(named), pc.utf8_slice_codeunits(texts, 4), "")


def spelled_floats(column: pa.Array, names: tuple[str, str, str], *, is_repr: bool) -> pa.Array:
    """
    Numbers as orjson writes them, all in one list, which is cut at its commas; or as Python's repr does.

    `names` stand for NaN, the infinity and the negative one.
    """
    if not len(column):
        return pa.array([], pa.string())
    numbers = column.cast(pa.float64())
    written = orjson.dumps(numbers.fill_null(0).to_numpy(), option=orjson.OPT_SERIALIZE_NUMPY)
    texts = pc.split_pattern(pa.array([written[1:-1]], pa.string()), ",").flatten()
    if is_repr:
        sizes = pc.abs(numbers)
        is_other = pc.and_not(pc.or_(pc.less(sizes, _REPR_RANGE[0]), pc.greater_equal(sizes, _REPR_RANGE[1])), pc.equal(sizes, 0))
        is_other = is_other.fill_null(False)
        texts = pc.replace_with_mask(texts, is_other, pa.array(map(repr, numbers.filter(is_other).to_pylist()), pa.string()))
    if not pc.all(pc.is_finite(numbers)).as_py():
        found = (pc.is_nan(numbers), pc.equal(numbers, math.inf), pc.equal(numbers, -math.inf))
        for is_so, name in zip(found, names, strict=True):
            texts = pc.if_else(is_so.fill_null(False), name, texts)
    return where_valid(column, texts)


def where_valid(column: pa.Array, found: pa.Array) -> pa.Array:
    """What was found, null where the column is."""
    return pc.if_else(column.is_valid(), found, pa.scalar(None, found.type)) if column.null_count else found
