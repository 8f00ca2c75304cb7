"""Dates and times that texts spell by the rules of Spark's casts: which number each text is, and which texts can be read at all."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.civil_dates import days_from_civil
from streamkit.expressions.core.numbers import values_of
from streamkit.expressions.times.datetime_formats import moments_by_zone
from streamkit.zone_offsets import held_moments, offsets_of

_CONTROLS = "".join(map(chr, range(0x21))) + "\x7f"  # what Spark trims around dates
_DATE = r"(?s)^(?P<sign>[+-]?)(?P<year>[0-9]{4,7})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T].*)?)?)?$"
_TIMESTAMP = (
    r"^(?P<sign>[+-]?)(?P<year>[0-9]{4,6})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T](?P<hour>[0-9]{1,2})"
    r"(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]*))?(?P<zone>[^0-9.].*)?)?)?)?)?)?$"
)
_SECONDS = (1 << 63) // 1_000_000


def read_moments(texts: pa.StringArray, type: str, zone: str) -> tuple[np.ndarray, np.ndarray]:
    """Days (date) or microseconds since 1970, and which texts can be read; `zone` is that of texts which name none."""
    try:  # what Arrow reads it reads as Spark does
        plain = texts.cast(pa.date32() if type == "date" else pa.timestamp("us"))
    except pa.ArrowInvalid:
        return _dates(texts) if type == "date" else _timestamps(texts, type, zone)
    sound = np.ones(len(texts), bool)
    if type == "date":
        return values_of(plain), sound
    local = values_of(plain)
    return held_moments(local, offsets_of(zone)) if type == "timestamp" else (local, sound)


def _dates(texts: pa.StringArray) -> tuple[np.ndarray, np.ndarray]:
    """yyyy, yyyy-m, yyyy-m-d, and anything after a blank or T."""
    fields = pc.extract_regex(pc.utf8_trim(texts, characters=_CONTROLS), pattern=_DATE)
    days, exists = _days(fields)
    is_held = (days >= np.iinfo(np.int32).min) & (days <= np.iinfo(np.int32).max)
    sound = exists & is_held & np.asarray(fields.is_valid())
    return np.where(sound, days, 0).astype(np.int32), sound


def _timestamps(texts: pa.StringArray, type: str, default: str) -> tuple[np.ndarray, np.ndarray]:
    """A date, then perhaps h:m:s with a fraction and a zone, which a timestamp_ntz ignores."""
    fields = pc.extract_regex(pc.utf8_trim(texts, characters=_CONTROLS), pattern=_TIMESTAMP)
    hour, minute, second = (_numbers(fields.field(name), 0) for name in ("hour", "minute", "second"))
    fraction = _numbers(pc.utf8_slice_codeunits(pc.utf8_rpad(fields.field("fraction"), 6, "0"), 0, 6), 0)
    days, exists = _days(fields)
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second
    sound = (
        exists
        & np.asarray(fields.is_valid())
        & (hour < 24)
        & (minute < 60)
        & (second < 60)
        & (np.abs(seconds) < _SECONDS - 86_400)
    )
    local = np.where(sound, seconds, 0) * 1_000_000 + fraction
    zones = pc.utf8_trim(fields.field("zone").fill_null(""), characters=_CONTROLS)
    moments, known = moments_by_zone(local, zones, default)
    return (moments if type == "timestamp" else local), sound & known


def _days(fields: pa.StructArray) -> tuple[np.ndarray, np.ndarray]:
    """Days since 1970 of the fields sign, year, month and day, and whether there is such a day."""
    year, month, day = _numbers(fields.field("year"), 1970), _numbers(fields.field("month"), 1), _numbers(fields.field("day"), 1)
    negative = np.asarray(pc.equal(fields.field("sign"), "-").fill_null(False))
    return days_from_civil(np.where(negative, -year, year), month, day)


def _numbers(digits: pa.StringArray, missing: int) -> np.ndarray:
    present = pc.if_else(pc.greater(pc.binary_length(digits).fill_null(0), 0), digits, str(missing))
    return np.asarray(present.cast(pa.int64()))
