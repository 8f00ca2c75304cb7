"""Whole numbers as times, and times as whole numbers: always milliseconds since 1970, whoever converts."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

TIME_MS_MAX = ((1 << 63) - 1) // 1_000  # from 1970, of what a time in microseconds can hold


def times_of_numbers(numbers: pa.Array, kind: pa.TimestampType) -> pa.Array:
    """Integers, in milliseconds since 1970, as times of a type; ArrowInvalid for one beyond all times."""
    try:
        return numbers.cast(pa.int64()).cast(pa.timestamp("ms", kind.tz)).cast(kind)
    except pa.ArrowInvalid:
        outside = pc.or_(pc.less(numbers, -TIME_MS_MAX), pc.greater(numbers, TIME_MS_MAX))
        found = numbers.filter(outside)
        raise pa.ArrowInvalid(
            f"found {found[0] if len(found) else numbers[0]}, expected milliseconds since 1970, at most {TIME_MS_MAX} before or after it"
        ) from None


def numbers_of_times(times: pa.Array) -> pa.Array:
    """Times as milliseconds since 1970; ArrowInvalid for one between two milliseconds."""
    return times.cast(pa.timestamp("ms", times.type.tz)).cast(pa.int64())
