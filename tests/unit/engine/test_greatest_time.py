"""No window ends behind the greatest time of a timestamp: event times have an end before it, by more than the longest window."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import EvaluationError, SchemaError
from streamkit.log.rows.event_time import TIME_MS_MAX
from streamkit.testing import TopologyTestDriver
from tests.kit.sampling import in_turn

FAR = ((1 << 63) - 1) // 1000  # what a timestamp holds at most
WINDOWS = {
    "tumbling": sk.tumbling("1 hour", grace="0 s"),
    "hopping": sk.hopping("1 hour", "20 minutes", grace="0 s"),
    "sliding": sk.sliding("1 hour", grace="0 s"),
    "session": sk.session("1 hour", grace="0 s"),
    "long": sk.tumbling("36000 days", grace="0 s"),
    "month": sk.tumbling("1 month", grace="0 s", time_zone="Europe/Berlin"),
    "millennium": sk.tumbling("9999 months", grace="0 s", time_zone="Europe/Berlin"),
    "week": sk.tumbling("3 weeks", grace="0 s", time_zone="America/New_York"),
}


def counted(window, on_error="fail"):
    app = sk.Topology("app", on_error=on_error)
    rows = app.stream("in", schema="k string, at bigint", key="k", timestamp="at")
    rows.group_by_key().windowed_by(window).count().emit("final").to("out")
    return app


@pytest.mark.parametrize(("name", "time"), in_turn([*WINDOWS], [TIME_MS_MAX, TIME_MS_MAX, TIME_MS_MAX - 3_600_000]))
def test_the_last_windows_end(name, time):
    """Each has an end behind its start, and its result."""
    with TopologyTestDriver(counted(WINDOWS[name])) as driver:
        driver.pipe("in", [{"k": "a", "at": 1000}, {"k": "a", "at": time}])
        driver.drain()
        found = driver.log.read("out")
    starts, ends = (found[part].cast("int64").to_pylist() for part in ("window_start", "window_end"))
    assert len(starts) >= 2
    assert all(start <= end for start, end in zip(starts, ends, strict=True))
    assert any(start <= 1000 * time <= end for start, end in zip(starts, ends, strict=True))


@pytest.mark.parametrize(("name", "time"), in_turn([*WINDOWS], [TIME_MS_MAX + 1, FAR, FAR + 1, (1 << 63) - 1]))
def test_a_time_behind_them_is_refused(name, time):
    """As one that is out of range: the record is left out, or ends the run; others are counted."""
    with TopologyTestDriver(counted(WINDOWS[name], "skip")) as driver:
        driver.pipe("in", [{"k": "a", "at": 1000}, {"k": "a", "at": time}])
        driver.drain()
        assert driver.metrics()["error"] == 1
        assert driver.log.read("out").num_rows >= 1
    with TopologyTestDriver(counted(WINDOWS[name])) as driver, pytest.raises(EvaluationError, match=r"offset 0.*out of range"):
        driver.pipe("in", {"k": "a", "at": time})


def test_the_log_takes_no_such_time():
    """Given beside the record, or in the topic's column of times."""
    app = sk.Topology("app")
    app.stream("in", schema="k string, at timestamp", key="k").to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"k": "a", "at": None}, timestamp=TIME_MS_MAX)
        with pytest.raises(SchemaError, match=str(TIME_MS_MAX)):
            driver.pipe("in", {"k": "a", "at": None}, timestamp=TIME_MS_MAX + 1)
