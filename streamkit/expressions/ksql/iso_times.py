"""
Dates and times that texts spell in part, as ksqlDB casts them: `2020`, `2020-05`, `2020-05-01T10:00`, `2020-05-01T10:00:00.123+02:00`.

What is not there is the first month, day, hour, minute, second. A time without a zone is in UTC.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.civil_dates import days_from_civil

DAY_MILLIS = 86_400_000
_TIME = r"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]{1,9}))?)?)?"
_MOMENT = (
    r"^(?P<sign>[+-]?)(?P<year>[0-9]{1,7})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})"
    rf"(?:T(?:{_TIME})?(?:(?P<utc>Z)|(?P<east>[+-])(?P<hours>[0-9]{{2}}):?(?P<minutes>[0-9]{{2}}))?)?)?)?$"
)
_LOCAL_TIME = r"^(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))?)?$"


def moments(texts: pa.StringArray) -> tuple[Integers, Mask]:
    """Milliseconds since 1970, and which texts are a date with a time."""
    fields = pc.extract_regex(_trimmed(texts), pattern=_MOMENT)
    days, is_day = _days(fields)
    millis, is_time = _millis(fields)
    offset = (_number(fields, "hours") * 60 + _number(fields, "minutes")) * 60_000
    west = np.asarray(pc.equal(fields.field("east"), "-").fill_null(False))
    found = days * DAY_MILLIS + millis - np.where(west, -offset, offset)
    return found, is_day & is_time & np.asarray(fields.is_valid())


def days(texts: pa.StringArray) -> tuple[Integers, Mask]:
    """Days since 1970, and which texts are a date without a time."""
    fields = pc.extract_regex(_trimmed(texts), pattern=_MOMENT)
    found, is_day = _days(fields)
    has_time = np.asarray(pc.greater(pc.binary_length(fields.field("hour")), 0).fill_null(False))
    return found, is_day & ~has_time & np.asarray(fields.is_valid())


def times_of_day(texts: pa.StringArray) -> tuple[Integers, Mask]:
    """Milliseconds since midnight, and which texts are a time of day."""
    fields = pc.extract_regex(_trimmed(texts), pattern=_LOCAL_TIME)
    found, is_time = _millis(fields)
    return found, is_time & np.asarray(fields.is_valid())


def _trimmed(texts: pa.StringArray) -> pa.StringArray:
    return pc.utf8_trim(texts, characters="".join(map(chr, range(0x21))))


def _days(fields: pa.StructArray) -> tuple[Integers, Mask]:
    year, month, day = _number(fields, "year"), _number(fields, "month", 1), _number(fields, "day", 1)
    negative = np.asarray(pc.equal(fields.field("sign"), "-").fill_null(False))
    found, exists = days_from_civil(np.where(negative, -year, year), month, day)
    return np.where(exists, found, 0).astype(np.int64), np.asarray(exists, bool)


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
