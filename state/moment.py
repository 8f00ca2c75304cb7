"""Moments as users give them to views: datetimes, dates, ISO 8601 text, numpy's and pandas' times, milliseconds since 1970."""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import Any

import numpy as np

from streamkit.errors import ConfigError
from streamkit.log.rows.event_time import TIME_MS_MAX
from streamkit.log.values.whole_number import as_whole_number, whole_number

UNIX_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MILLISECOND = dt.timedelta(milliseconds=1)
_BEHIND_MICROSECONDS = re.compile(r"[.,]\d{6}\d*[1-9]")  # digits that Python does not read


def milliseconds(moment: Any) -> int:
    """A moment in milliseconds since 1970, what is finer cut off; without a zone it is UTC. ConfigError if it is no moment."""
    return _cut(moment)[0]


def whole_milliseconds(moment: Any) -> int | None:
    """A moment in milliseconds since 1970; None if it lies between two, where no window starts. ConfigError if it is no moment."""
    found, is_whole = _cut(moment)
    return found if is_whole else None


def bound_ms(moment: Any) -> int | None:
    """
    The first millisecond that is not before a bound; None leaves it open.

    Times of windows are whole milliseconds. So those from a bound on, and those before it, are the same for this one.
    """
    if moment is None:
        return None
    found, is_whole = _cut(moment)
    return found if is_whole else found + 1


def epoch_or_milliseconds(moment: Any) -> tuple[int | None, int | None]:
    """
    The number of an epoch, or a time in milliseconds since 1970; the other one is None. ConfigError if it is neither.

    A whole number is an epoch, also as a text of digits; everything else is a time.
    """
    is_epoch = as_whole_number(moment) is not None or (isinstance(moment, str) and moment.isascii() and moment.isdecimal())
    if is_epoch:
        return whole_number("as_of", int(moment)), None
    try:
        return None, milliseconds(moment)
    except ConfigError:
        raise ConfigError(
            f"found as_of={moment!r}; expected the number of an epoch, or a time of the host: a datetime, or ISO 8601 text such as "
            "'2026-01-31T12:00:00Z', UTC unless it has a zone"
        ) from None


def _cut(moment: Any) -> tuple[int, bool]:
    """The millisecond that a moment lies in, and whether it is the beginning of it."""
    number, is_whole = as_whole_number(moment), True
    if isinstance(moment, np.datetime64) and not np.isnat(moment):
        cut = moment.astype("M8[ms]")
        number, is_whole = int(cut.astype(np.int64)), bool(cut == moment)
    if number is not None and abs(number) <= TIME_MS_MAX:
        return number, is_whole
    try:
        found = _datetime(moment)
        found = found if found.tzinfo else found.replace(tzinfo=dt.timezone.utc)
        since = found - UNIX_EPOCH  # of pandas' times one with nanoseconds
        is_whole = not since % _MILLISECOND and not (isinstance(moment, str) and _BEHIND_MICROSECONDS.search(moment))
        return int(since // _MILLISECOND), is_whole
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(
            f"found the time {moment!r}; expected a datetime, ISO 8601 text such as '2026-01-31' or '2026-01-31T12:00:00Z', "
            "UTC unless it has a zone, or whole milliseconds since 1970"
        ) from None


def _datetime(moment: Any) -> dt.datetime:
    """The datetime that a text, datetime or date names; TypeError, ValueError or OverflowError if it names none."""
    match moment:
        case str():
            return dt.datetime.fromisoformat(re.sub("[zZ]$", "+00:00", moment))
        case dt.datetime() if not math.isnan(moment.year):  # that of NaT, which pandas calls a datetime, is NaN
            return moment
        case dt.date():
            return dt.datetime(moment.year, moment.month, moment.day, tzinfo=dt.timezone.utc)
    raise TypeError
