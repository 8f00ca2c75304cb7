"""When windows have closed: every kind says it by one rule, in all the forms in which kernels ask."""

from __future__ import annotations

import numpy as np
import pytest

from streamkit.log.rows.event_time import TIME_MS_MAX
from streamkit.plan.closing import are_over
from streamkit.plan.window_kinds.calendar import Calendar, CalendarWindow
from streamkit.plan.window_kinds.cumulative import CumulativeWindow
from streamkit.plan.window_kinds.hopping import TimeWindow
from streamkit.plan.window_kinds.session import SessionWindow
from streamkit.plan.window_kinds.sliding import SlidingWindow
from streamkit.plan.windows import Windowing, WindowKind

DAY_MS = 86_400_000
LONG_MS = 400 * DAY_MS
STARTS = [  # where windows of all these kinds begin
    day * DAY_MS
    for day in (-TIME_MS_MAX // DAY_MS + 1, -92_592_592, -1_157_409, -1_157_407, -2, 0, 20_000, 1_157_409, TIME_MS_MAX // DAY_MS)
]
KINDS: dict[
    str, tuple[WindowKind, int, int]
] = {  # and how long after its start one closes that begins then; and by which time it is known
    "tumbling": (TimeWindow(60, 60, 7, LONG_MS), 60 + 7, 0),
    "hopping": (TimeWindow(60, 20, 7, LONG_MS), 60 + 7, 0),
    "without grace": (TimeWindow(60, 60, 0, LONG_MS), 60, 0),
    "cumulative": (CumulativeWindow(60, 20, 7, LONG_MS), 20 + 7, 20),
    "days": (CalendarWindow(Calendar("day", 1, "UTC"), 7, LONG_MS), DAY_MS + 7, 0),
    "sliding": (SlidingWindow(60, 7, LONG_MS), 60 + 1 + 7, 0),
    "session of one record": (SessionWindow(60, 7, LONG_MS), 60 + 1 + 7, 0),
}


def windowing_of(kind: WindowKind) -> Windowing:
    return kind.windowing((0,), "windows", may_lead=False)


def test_what_is_due_is_over_at_its_moment() -> None:
    """A millisecond before it is not over; at the moment, and ever after, it is."""
    assert are_over(np.array([11, 10, 9]), 10).tolist() == [False, True, True]
    assert are_over(np.array([10, 10]), np.array([9, 10])).tolist() == [False, True]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("name", KINDS)
def test_a_window_closes_at_its_end_and_the_grace(name: str, start: int) -> None:
    """At that stream time it has closed, and not a millisecond before: as moment, as mask, as number, and by what is still open."""
    kind, closes_after, known_by = KINDS[name]
    window, known, moment = windowing_of(kind), np.array([start + known_by]), start + closes_after

    assert window.closes_at(known).tolist() == [moment]
    for reached, has_closed in ((moment - 1, False), (moment, True), (moment + 1, True)):
        times = np.array([reached])
        assert window.are_closed(known, reached).tolist() == [has_closed]
        assert (known < window.first_open(times)).tolist() == [has_closed]
    before, at = window.closed(np.array([moment - 1, moment])).tolist()
    assert at == before + 1


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("name", KINDS)
def test_windows_take_rows_until_they_close(name: str, start: int) -> None:
    """So do all but sessions: these take none in the last millisecond before."""
    kind, closes_after, known_by = KINDS[name]
    window, known, moment = windowing_of(kind), np.array([start + known_by]), start + closes_after
    last = moment - 2 if kind.merges else moment - 1

    assert [window.take_rows(known, reached).tolist() for reached in (last, last + 1)] == [[True], [False]]
