"""Tumbling windows: side by side, of one size, or of the days, weeks or months of a time zone."""

from __future__ import annotations

from streamkit.plan.grace import asking_for_grace
from streamkit.plan.length import Duration
from streamkit.plan.window_kinds.calendar import CalendarWindow, windows_of_calendar
from streamkit.plan.window_kinds.hopping import TimeWindow, windows_of_grid


@asking_for_grace
def tumbling(
    size: Duration,
    *,
    grace: Duration,
    retention: Duration | None = None,
    close_after_idle: Duration | None = None,
    time_zone: str | None = None,
) -> TimeWindow | CalendarWindow:
    """
    Windows of one size, side by side, aligned to 1970-01-01T00:00Z: each record is in one.

    A window is [start, start + size). It takes late records until stream time is `grace` past its end; then it is closed, and
    `emit("final")` gives its result. `retention` is how long results can be read from the store, size + grace unless given.
    With `close_after_idle` all windows close, for good, when no input has had a record for so long by the clock; records of these
    windows that come later are late. Runs that end with what is there (`--once`, `--drain`) close none by that.
    Lengths are timedelta or text ("1 hour"). Raises ConfigError if one is not a length of time, and
    TopologyError if they do not fit each other.

    With a `time_zone` windows are those of its calendar: of days, weeks from Monday, or months, as "1 day", "1 week", "3 months". A day on
    which clocks change has 23 or 25 hours. TopologyError if there is no such zone, or for a size of anything else.

        tumbling("1 hour", grace="10 minutes")
        tumbling("1 day", grace="1 hour", time_zone="Europe/Berlin")
    """
    if time_zone is None:
        return windows_of_grid(size, size, grace, retention, close_after_idle)
    return windows_of_calendar(size, time_zone, grace, retention, close_after_idle)
