"""
Texts as moments and dates, each by what it says alone.

ISO 8601: `2026-01-31T12:00:00.5+01:00`, a date alone as its midnight, without a zone in UTC. Years that are not of 1 to 9999 have a sign, as in
`+57861-07-09T08:00:00Z`. An integer is milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import to_arrow

TIMES = ("timestamp", "timestamp_ntz")
_YEARS, _DAYS = 400, 146_097  # after which the calendar repeats itself
_FIRST_YEAR = 2000
_PER_DAY = {"D": 1, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}
_SIGNED_YEAR = r"^(?P<year>[+-]\d{4,7})(?P<rest>-.*)$"
_ZONE = r"[T ][\d:.]*(Z|[+-]\d\d(:?\d\d)?)$"
_DATE = r"^\d{4}-\d\d-\d\d$"
_MILLISECONDS = r"^-?\d+$"


def times_of_texts(texts: pa.Array, type: str) -> pa.Array:
    """The texts as `timestamp`, `timestamp_ntz` or `date`; ArrowInvalid if one of them is none, or lies beyond the type."""
    if type == "timestamp" and pc.all(pc.ends_with(texts, "Z")).as_py():
        try:
            return texts.cast(to_arrow(type))  # as most are written, at once
        except pa.ArrowInvalid:
            pass
    read = {"timestamp": _times, "timestamp_ntz": _local_times}.get(type, lambda found: found.cast(to_arrow(type)))
    return read_signed_years(texts, read)


def _times(texts: pa.Array) -> pa.Array:
    spelled = pc.if_else(pc.match_substring_regex(texts, _DATE), pc.binary_join_element_wise(texts, "T00:00:00", ""), texts)
    zoned = pc.if_else(pc.match_substring_regex(spelled, _ZONE), spelled, pc.binary_join_element_wise(spelled, "Z", ""))
    return _spelled_or_counted(texts, zoned, to_arrow("timestamp"))


def _local_times(texts: pa.Array) -> pa.Array:
    return _spelled_or_counted(texts, texts, to_arrow("timestamp_ntz"))


def _spelled_or_counted(texts: pa.Array, spelled: pa.Array, target: pa.DataType) -> pa.Array:
    """Times that are written out, as `spelled` has them, or as milliseconds since 1970."""
    numbers = pc.match_substring_regex(texts, _MILLISECONDS)
    if not pc.any(numbers).as_py():
        return pc.cast(spelled, target)
    none = pa.scalar(None, pa.string())
    times = pc.cast(pc.if_else(numbers, none, spelled), target)
    stamps = pc.cast(pc.cast(pc.if_else(numbers, texts, none), pa.int64()), pa.timestamp("ms", target.tz))
    return pc.if_else(numbers, pc.cast(stamps, target), times)


def read_signed_years(texts: pa.Array, read: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Texts as times: `read` takes those whose years have four digits, and years may have a sign; ArrowInvalid as in `read`."""
    if not pc.any(pc.match_substring_regex(texts, _SIGNED_YEAR)).as_py():
        return read(texts)
    signed, rest = pc.extract_regex(texts, _SIGNED_YEAR).flatten()  # null where the text is another
    years = np.array([int(year or _FIRST_YEAR) for year in signed.to_pylist()], np.int64)
    turns = (years - _FIRST_YEAR) // _YEARS
    near = pc.binary_join_element_wise(pa.array(years - _YEARS * turns).cast(pa.string()), rest, "")
    return _turned(read(pc.coalesce(near, texts)), turns)


def _turned(times: pa.Array, turns: np.ndarray) -> pa.Array:
    """The times so many repetitions of the calendar later; ArrowInvalid if the type cannot hold one."""
    is_date = pa.types.is_date(times.type)
    stored = pa.int32() if is_date else pa.int64()
    length = pa.scalar(_DAYS * _PER_DAY["D" if is_date else times.type.unit], pa.int64())
    numbers = times.cast(stored).cast(pa.int64())
    for part in (turns // 2, turns - turns // 2):  # in one go the way may be longer than what is counted in, and its end not
        numbers = pc.add_checked(numbers, pc.multiply_checked(pa.array(part), length))
    return numbers.cast(stored).view(times.type)
