"""Kinds of windows over event time."""

from __future__ import annotations

import datetime as dt

from streamkit.plan.duration import duration_ms
from streamkit.plan.windows import TimeWindow

Duration = dt.timedelta | str


def tumbling(size: Duration, *, grace: Duration, retention: Duration | None = None) -> TimeWindow:
    """
    Windows of one size, side by side, aligned to 1970-01-01T00:00Z: each record is in one.

    A window is [start, start + size). It takes late records until stream time is `grace` past its end; then it is closed, and
    `emit("final")` gives its result. `retention` is how long results can be read from the store, size + grace unless given.
    Lengths are timedelta or text ("1 hour"). Raises ConfigError for what is no length of time, TopologyError for lengths
    that do not fit each other.

        tumbling("1 hour", grace="10 minutes")
    """
    return _window(size, size, grace, retention)


def hopping(size: Duration, advance: Duration, *, grace: Duration, retention: Duration | None = None) -> TimeWindow:
    """
    Windows of one size that start every `advance`: each record is in about size / advance of them.

    `advance` is at most the size, and at least so long that a record is in no more than 1,500 windows (a day by the minute is
    1,440), since each costs a row; else TopologyError. All else is as in `tumbling`.

        hopping("1 hour", "15 minutes", grace="10 minutes")
    """
    return _window(size, advance, grace, retention)


def _window(size: Duration, advance: Duration, grace: Duration, retention: Duration | None) -> TimeWindow:
    size_ms = duration_ms(size, "window size")
    grace_ms = duration_ms(grace, "grace")
    retention_ms = size_ms + grace_ms if retention is None else duration_ms(retention, "retention")
    return TimeWindow(size_ms, duration_ms(advance, "window advance"), grace_ms, retention_ms)
