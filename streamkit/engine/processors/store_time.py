"""Times as the stores of processors take them: whole milliseconds since 1970 UTC; where one is taken, a datetime will do."""

from __future__ import annotations

import datetime as dt
from typing import Any, TypeAlias

import numpy as np

from streamkit.log.rows.event_time import TIME_MS_MAX
from streamkit.plan.processing import RefusedCallError

StoreTime: TypeAlias = "int | dt.datetime"
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
LAST_MS = TIME_MS_MAX + 1  # behind every time that a log takes


def milliseconds(moment: Any) -> int:
    """A time in whole ms since 1970 UTC; RefusedCallError if it is none."""
    if moment.__class__ is int and abs(moment) < LAST_MS:
        return int(moment)
    if isinstance(moment, dt.datetime):
        moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.timezone.utc)
        return int((moment - EPOCH) // dt.timedelta(milliseconds=1))
    if isinstance(moment, np.datetime64):  # what a column has outside the years of a datetime
        found = int(moment.astype("M8[ms]").astype(np.int64))
        if abs(found) < LAST_MS:
            return found
    raise RefusedCallError(f"found the time {moment!r}; expected whole milliseconds since 1970, or a datetime")


def bound(moment: Any) -> int:
    """A time that bounds what is read, as `milliseconds`; a whole number beyond all times, such as the largest of 64 bits, leaves it open."""
    if isinstance(moment, int) and not isinstance(moment, bool) and abs(moment) >= LAST_MS:
        return LAST_MS if moment > 0 else -LAST_MS
    return milliseconds(moment)
