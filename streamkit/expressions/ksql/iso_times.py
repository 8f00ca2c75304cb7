"""
Dates and times that texts spell in part, as ksqlDB casts them: `2020`, `2020-05`, `2020-05-01T10`, `2020-05-01T10:00:00.123+02:00`.

What is not there is the first month, day, hour, minute, second. A time without a zone is in UTC.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.civil_dates import days_from_civil

DAY_MILLIS = 86_400_000
_DATE = r"(?P<sign>[+-]?)(?P<year>[0-9]{4,7})(?:-(?P<month>[0-9]{2})(?:-(?P<day>[0-9]{2})"
_ZONE = r"(?P<east>[+-])(?P<offset>[0-9]|[0-9]{2}(?:[0-9]{2}(?:[0-9]{2})?|:[0-9]{2}(?::[0-9]{2})?)?)"
_DAY = rf"^{_DATE})?)?$"
_MOMENT = rf"^{_DATE}(?:T(?P<clock>[0-9:.]*)(?:Z|{_ZONE})?)?)?)?$"
_CLOCK = r"^(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})\.(?P<fraction>[0-9]{3})$"
_LOCAL_TIME = r"^(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))?)?$"
_MIDNIGHT = "00:00:00.000"  # what completes a time, sign by sign
_OFFSET_MILLIS_MAX = 18 * 3_600_000


def moments(texts: pa.StringArray) -> tuple[Integers, Mask]:
    """Milliseconds since 1970, and which texts are a date with a time; a day up to 31 that a month does not have is its last one."""
    fields = pc.extract_regex(_trimmed(texts), pattern=_MOMENT)
    year, month, day = _date(fields)
    for shorter in (30, 29, 28):
        _, exists = days_from_civil(year, month, day)
        day = np.where(~exists & (day == shorter + 1), shorter, day)
    found, is_day = days_from_civil(year, month, day)
    clock = fields.field("clock").fill_null("")
    missing = pc.min_element_wise(pc.binary_length(clock), len(_MIDNIGHT))
    completions = pa.array([_MIDNIGHT[place:] for place in range(len(_MIDNIGHT) + 1)])
    complete = pc.binary_join_element_wise(clock, completions.take(missing), "")
    times = pc.extract_regex(complete, pattern=_CLOCK)
    millis, is_time = _millis(times)
    offset, is_offset = _offset(fields)
    is_moment = is_day & _is_year(fields) & is_time & is_offset & np.asarray(times.is_valid())
    return np.where(is_day, found, 0).astype(np.int64) * DAY_MILLIS + millis - offset, is_moment & np.asarray(fields.is_valid())


def days(texts: pa.StringArray) -> tuple[Integers, Mask]:
    """Days since 1970, and which texts are a date without a time."""
    fields = pc.extract_regex(_trimmed(texts), pattern=_DAY)
    found, is_day = days_from_civil(*_date(fields))
    return np.where(is_day, found, 0).astype(np.int64), is_day & _is_year(fields) & np.asarray(fields.is_valid())


def times_of_day(texts: pa.StringArray) -> tuple[Integers, Mask]:
    """Milliseconds since midnight, and which texts are a time of day."""
    fields = pc.extract_regex(_trimmed(texts), pattern=_LOCAL_TIME)
    found, is_time = _millis(fields)
    return found, is_time & np.asarray(fields.is_valid())


def _trimmed(texts: pa.StringArray) -> pa.StringArray:
    return pc.utf8_trim(texts, characters="".join(map(chr, range(0x21))))


def _date(fields: pa.StructArray) -> tuple[Integers, Integers, Integers]:
    """Year, month and day; a month or day that the text leaves out is the first."""
    year = _number(fields, "year")
    negative = np.asarray(pc.equal(fields.field("sign"), "-").fill_null(False))
    return np.where(negative, -year, year), _number(fields, "month", 1), _number(fields, "day", 1)


def _is_year(fields: pa.StructArray) -> Mask:
    """Which years have the sign that their digits need, and only that: + with more than four of them."""
    has_more = np.asarray(pc.greater(pc.binary_length(fields.field("year")), 4).fill_null(False))
    sign = fields.field("sign").fill_null("")
    is_plus, is_minus = (np.asarray(pc.equal(sign, one)) for one in "+-")
    return np.asarray(is_minus | (is_plus == has_more))


def _offset(fields: pa.StructArray) -> tuple[Integers, Mask]:
    """Milliseconds that a zone is ahead of UTC, and which of them there are."""
    digits = pc.replace_substring(fields.field("offset").fill_null(""), ":", "")
    digits = pc.replace_substring_regex(digits, r"^([0-9])$", r"0\1")
    digits = pc.utf8_rpad(digits, 6, "0")
    hours, minutes, seconds = (_numbers(pc.utf8_slice_codeunits(digits, start, start + 2), 0) for start in (0, 2, 4))
    millis = ((hours * 60 + minutes) * 60 + seconds) * 1000
    west = np.asarray(pc.equal(fields.field("east"), "-").fill_null(False))
    return np.where(west, -millis, millis), (minutes < 60) & (seconds < 60) & (millis <= _OFFSET_MILLIS_MAX)


def _millis(fields: pa.StructArray) -> tuple[Integers, Mask]:
    hour, minute, second = (_number(fields, name) for name in ("hour", "minute", "second"))
    fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(fields.field("fraction"), 3, "0"), 0, 3)
    millis = ((hour * 60 + minute) * 60 + second) * 1000 + _numbers(fraction, 0)
    return millis, (hour < 24) & (minute < 60) & (second < 60)


def _number(fields: pa.StructArray, name: str, missing: int = 0) -> Integers:
    return _numbers(fields.field(name), missing)


def _numbers(digits: pa.StringArray, missing: int) -> Integers:
    there = pc.greater(pc.binary_length(digits), 0).fill_null(False)
    return np.asarray(pc.if_else(there, digits, str(missing)).cast(pa.int64()))
