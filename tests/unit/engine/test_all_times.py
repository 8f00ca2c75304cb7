"""Windows of every kind close alike wherever in time their records lie: from the first event time to the last."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.log.rows.event_time import TIME_MS_MAX
from streamkit.testing import TopologyTestDriver
from tests.kit.sampling import combined

DAY_MS = 86_400_000
LATER_MS = 1_000 * DAY_MS
WINDOWS = {
    "tumbling": sk.tumbling("1 day", grace="1 hour"),
    "hopping": sk.hopping("2 days", "1 day", grace="0 s"),
    "cumulative": sk.cumulative("1 day", step="6 hours", grace="1 hour"),
    "sliding": sk.sliding("1 hour", grace="1 hour"),
    "session": sk.session("1 hour", grace="1 hour"),
    "days": sk.tumbling("1 day", grace="0 s", time_zone="UTC"),
    "days of a zone": sk.tumbling("1 day", grace="1 hour", time_zone="America/New_York"),
    "weeks": sk.tumbling("2 weeks", grace="2 days", time_zone="Asia/Tokyo"),
    "months": sk.tumbling("3 months", grace="0 s", time_zone="Europe/Berlin"),
    "long grace": sk.tumbling("1 day", grace="900 days", time_zone="-18:00"),
}
BEGINS = {
    "first": -TIME_MS_MAX,
    "far back": -8_000_000_000_000_000,
    "year -4400": -200_000_000_000_000,
    "year -1200": -100_000_000_000_000 - 2 * DAY_MS,
    "year 1": -62_135_596_800_000,
    "1970": -2 * DAY_MS + 1,
    "2020": 1_577_836_800_000,
    "far ahead": 8_000_000_000_000_000,
    "last": TIME_MS_MAX - LATER_MS,
}


@pytest.mark.parametrize(("kind", "begin", "by"), combined([*WINDOWS], [*BEGINS], ["a record", "a drain"]))
def test_each_window_has_its_final_result(kind, begin, by):
    """A later record or a drain gives every window there is, once, by either way to ask for it; no record is late."""
    app, first = sk.Topology("app"), BEGINS[begin]
    windows = app.stream("in", schema="k string, id int", key="k").group_by_key().windowed_by(WINDOWS[kind]).count(store="w")
    windows.emit("latest").to("latest")
    windows.emit("final").to("final")
    windows.suppress(until=sk.window_closes()).to("suppressed")
    with TopologyTestDriver(app, batching="all") as driver:
        driver.pipe("in", [{"k": "a", "id": day, "_timestamp": first + day * DAY_MS} for day in range(4)])
        there = results(driver, "latest")
        if by == "a record":
            driver.pipe("in", [{"k": "b", "id": 9, "_timestamp": first + LATER_MS}])
        else:
            driver.drain()
        assert driver.metrics()["late"] == 0
        final, suppressed = (sorted(row for row in results(driver, topic) if row[0] == "a") for topic in ("final", "suppressed"))
    assert there or (kind == "sliding" and first < 0)
    assert final == suppressed == sorted(there)


def results(driver, topic):
    """Key, start, end and count of each result of a topic, the times in microseconds."""
    rows = driver.log.read(topic)
    starts, ends = (rows[name].cast("int64").to_pylist() for name in ("window_start", "window_end"))
    return list(zip(rows["k"].to_pylist(), starts, ends, rows["count"].to_pylist(), strict=True))
