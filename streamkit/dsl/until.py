"""Until when a table holds back its updates."""

from __future__ import annotations

import datetime as dt

from streamkit.plan.length import length_ms
from streamkit.plan.operators.suppress import TimeLimit, WindowCloses


def time_limit(limit: dt.timedelta | str) -> TimeLimit:
    """
    Until stream time is `limit` past the first update that was held back: for `Table.suppress`.

    The limit is a timedelta or text ("5 minutes"); ConfigError if it is not a length of time. With 0 no update is held back.
    """
    return TimeLimit(length_ms(limit, "time limit"))


def window_closes() -> WindowCloses:
    """Until the window of a row closes: for `Table.suppress`."""
    return WindowCloses()
