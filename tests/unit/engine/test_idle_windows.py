"""Windows that close because nothing came for a while, by the clock."""

from __future__ import annotations

from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.clock import HandClock
from streamkit.engine.epoch.epoch import EpochEnd
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_available, run_epoch
from streamkit.engine.runs.start import start
from streamkit.errors import ConfigError, TopologyError
from streamkit.plan.operators.aggregate import AggregateNode
from streamkit.plan.plain import from_plain, to_plain
from streamkit.state.stores import MemoryStores
from streamkit.testing import TopologyTestDriver
from tests.kit.engine_run import append, fresh_log

IDLE_MS = 60_000
SCHEMA = "user string, v bigint"


def idle_windows(app: sk.Topology, topic: str = "in", **options: Any) -> sk.Table:
    """Counts per 10 ms and user, which close after a minute without records."""
    window = sk.tumbling("10 ms", grace="5 ms", close_after_idle="1 minute", **options)
    return (
        app.stream(topic, schema=SCHEMA, key="user")
        .group_by_key()
        .windowed_by(window, late_to="late")
        .agg(n=F.count("*"), store=topic)
    )


def topology() -> sk.Topology:
    app = sk.Topology("idle")
    idle_windows(app).emit("final").to("out")
    return app


def found(driver: TopologyTestDriver, topic: str = "out") -> list[tuple[Any, ...]]:
    """The results: user, start of the window in ms, count."""
    return [(row["user"], round(row["window_start"].timestamp() * 1000), row["n"]) for row in driver.read(topic)]


@pytest.mark.parametrize("tasks", [1, 3])
def test_idleness_closes_windows(tasks: int) -> None:
    """All open windows close once when no record came for a minute, not before, and not again."""
    with TopologyTestDriver(topology(), tasks=tasks) as driver:
        driver.pipe("in", [{"user": "ann", "v": 1}, {"user": "bob", "v": 2}], timestamp=3)
        driver.pipe("in", {"user": "ann", "v": 3}, timestamp=12)
        driver.advance_wall_clock(milliseconds=IDLE_MS - 1)
        assert found(driver) == []
        driver.advance_wall_clock(milliseconds=1)
        assert sorted(found(driver)) == [("ann", 0, 1), ("ann", 10, 1), ("bob", 0, 1)]
        epoch = driver.epoch
        driver.advance_wall_clock(hours=5)
        assert driver.epoch == epoch


def test_what_comes_later_is_late_and_new_windows_open() -> None:
    """A closed window stays closed for records that come later, also after a crash; windows behind it are as ever."""
    with TopologyTestDriver(topology()) as driver:
        driver.pipe("in", {"user": "ann", "v": 1}, timestamp=3)
        driver.advance_wall_clock("1 minute")
        driver.crash()
        driver.restore(tasks=2)
        driver.pipe("in", [{"user": "ann", "v": 2}, {"user": "bob", "v": 3}], timestamp=9)
        driver.pipe("in", {"user": "ann", "v": 4}, timestamp=11)
        assert driver.metrics()["late"] == len(driver.read("late")) == 2
        driver.advance_wall_clock("1 minute")
        assert found(driver) == [("ann", 0, 1), ("ann", 10, 1)]


def test_a_record_begins_the_wait_again() -> None:
    """The minute counts from the last record of any user."""
    with TopologyTestDriver(topology()) as driver:
        driver.pipe("in", {"user": "ann", "v": 1}, timestamp=3)
        driver.advance_wall_clock("59 seconds")
        driver.pipe("in", {"user": "bob", "v": 1}, timestamp=3)
        driver.advance_wall_clock("59 seconds")
        assert found(driver) == []
        driver.advance_wall_clock("1 second")
        assert sorted(found(driver)) == [("ann", 0, 1), ("bob", 0, 1)]


def test_other_inputs_do_not_keep_windows_open() -> None:
    """Windows close although records of other inputs come, and those of other operators on the same input stay open."""
    app = sk.Topology("two")
    idle_windows(app).emit("final").to("out")
    same = app.stream("in", schema=SCHEMA, key="user").group_by_key().windowed_by(sk.tumbling("10 ms", grace="5 ms"))
    same.agg(n=F.count("*"), store="waits").emit("final").to("waiting")
    app.stream("busy", schema=SCHEMA, key="user").to("copied")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"user": "ann", "v": 1}, timestamp=3)
        for _ in range(3):
            driver.advance_wall_clock("25 seconds")
            driver.pipe("busy", {"user": "eve", "v": 1}, timestamp=3)
        assert found(driver) == [("ann", 0, 1)]
        assert found(driver, "waiting") == []


def test_a_run_with_an_end_closes_nothing() -> None:
    """A run that takes what is there and ends never closes by idleness; the epoch's end says what another closed."""
    clock = HandClock(1_000_000)
    with fresh_log() as log:
        log.create_topic("in", SCHEMA, key="user", partitions=2)
        app = topology()
        planner = start(log.catalog, log.storage, compile(app, log), clock=clock)
        append(log, "in", [{"user": "ann", "v": 1, "ts": 3}])
        run_available(planner)
        clock.advance(IDLE_MS)
        before = planner.committed_end()
        assert planner.next_end(before, until=planner.input_ends()) is None
        end = planner.next_end(before)
        assert end is not None
        assert end.records == 0
        assert end.times["closed/in"] == 3 + 10 + 5
        assert from_plain(EpochEnd, to_plain(end)) == end


@pytest.mark.parametrize("back_ms", [1, IDLE_MS, 400 * 24 * 3_600_000])
def test_a_clock_that_goes_back_closes_nothing_twice(back_ms: int) -> None:
    """Where the clock of the host goes back, windows wait longer or as long as they say; what has closed stays closed, and is given once."""
    clock = HandClock(1_700_000_000_000)
    with fresh_log() as log:
        log.create_topic("in", SCHEMA, key="user", partitions=1)
        planner = start(log.catalog, log.storage, compile(topology(), log), clock=clock)

        def results() -> list[tuple[str, int]]:
            while (end := planner.next_end(before := planner.committed_end())) is not None:
                run_epoch(planner, before, end, 1, MemoryStores())
            return [(row["user"], row["n"]) for row in log.read("out").to_pylist()]

        append(log, "in", [{"user": "ann", "v": 1, "ts": 3}])
        assert results() == []
        clock.advance(IDLE_MS)
        assert results() == [("ann", 1)]
        clock.time_ms -= back_ms
        assert results() == [("ann", 1)]
        append(log, "in", [{"user": "ann", "v": 1, "ts": 9}, {"user": "bob", "v": 1, "ts": 40}])
        assert results() == [("ann", 1)]
        clock.advance(IDLE_MS + back_ms)
        assert results() == [("ann", 1), ("bob", 1)]


def test_it_is_part_of_the_windows_and_names_stay() -> None:
    """The text of the windows says it, names of stores depend on it only if it is given, and 0 is refused."""
    window = sk.tumbling("10 ms", grace="5 ms")
    assert repr(window) == "TimeWindow(size_ms=10, advance_ms=10, grace_ms=5, retention_ms=15)"
    node = idle_windows(sk.Topology("idle")).node
    assert isinstance(node, AggregateNode)
    assert str(node.window) == "tumbling 10 ms, grace 5 ms, closed after 1 minute without records"
    with pytest.raises(TopologyError, match="close_after_idle is 0"):
        sk.tumbling("10 ms", grace="0 ms", close_after_idle="0 ms")
    with TopologyTestDriver(topology()) as driver, pytest.raises(ConfigError, match="idleness"):
        driver.run_on_spark()


@pytest.mark.parametrize("zone", [{}, {"time_zone": "America/New_York"}, {"time_zone": "Asia/Tokyo"}])
def test_nothing_closes_before_the_first_time(zone: dict[str, str]) -> None:
    """A record without an event time, which is left out, has begun no window: idleness closes none, and the next record is in time."""
    app = sk.Topology("app", on_error="skip")
    window = sk.tumbling("1 day", grace="0 s", close_after_idle="1 minute", **zone)
    rows = app.stream("in", schema="k string, at bigint", key="k", timestamp="at")
    rows.group_by_key().windowed_by(window).count().emit("final").to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"k": "a", "at": None})
        driver.advance_wall_clock(minutes=2)
        driver.pipe("in", {"k": "a", "at": 5})
        driver.drain()
        assert (driver.log.read("out").num_rows, driver.metrics()["late"]) == (1, 0)
