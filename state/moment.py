"""Moments as users give them to views: datetimes, dates, ISO 8601 text, numpy's and pandas' times, milliseconds since 1970."""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import Any

import numpy as np

from streamkit.errors import ConfigError
from streamkit.log.rows.event_time import TIME_MS_MAX
from streamkit.log.values.whole_number import as_whole_number

UNIX_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def milliseconds(moment: Any) -> int:
    """A moment in milliseconds since 1970; without a zone it is UTC. ConfigError if it is no moment."""
    is_numpy = isinstance(moment, np.datetime64) and not np.isnat(moment)
    number = int(moment.astype("M8[ms]").astype(np.int64)) if is_numpy else as_whole_number(moment)
    if number is not None and abs(number) <= TIME_MS_MAX:
        return number
    try:
        found = _datetime(moment)
        found = found if found.tzinfo else found.replace(tzinfo=dt.timezone.utc)
        return int((found - UNIX_EPOCH) // dt.timedelta(milliseconds=1))
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(
            f"found the time {moment!r}; expected a datetime, ISO 8601 text such as '2026-01-31' or '2026-01-31T12:00:00Z', "
            "UTC unless it has a zone, or whole milliseconds since 1970"
        ) from None


def bound_ms(moment: Any) -> int | None:
    """A bound in milliseconds; None leaves it open."""
    return None if moment is None else milliseconds(moment)


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
