"""A drain closes each operator's windows by its own length, so a job that is drained each day gives what one run gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.testing import TopologyTestDriver
from tests.kit.engine_run import moment

HOUR, DAY = 3_600_000, 86_400_000
TOPICS = {"in": {"schema": "k string, v int", "key": "k"}, "right": {"schema": "k string, w int", "key": "k"}}


def hours_and_days(app: sk.Topology, stream: sk.Stream) -> None:
    """Windows of two lengths over one stream."""
    stream.group_by_key().windowed_by(sk.tumbling("1 hour", grace="10 minutes")).agg(n=F.count("*")).emit("final").to("out")
    stream.group_by("v").windowed_by(sk.tumbling("1 day", grace="1 hour")).agg(n=F.count("*")).emit("final").to("second")


def chain(app: sk.Topology, stream: sk.Stream) -> None:
    """Windows over windows."""
    hours = stream.group_by_key().windowed_by(sk.tumbling("1 hour", grace="10 minutes")).agg(n=F.count("*")).emit("final")
    hours.group_by("k").windowed_by(sk.tumbling("1 day", grace="0 ms")).agg(n=F.sum("n"), hours=F.count("*")).emit("final").to(
        "out"
    )


def sessions(app: sk.Topology, stream: sk.Stream) -> None:
    stream.group_by("v").windowed_by(sk.session("20 minutes", grace="5 minutes")).agg(n=F.count("*")).emit("final").to("out")
    stream.group_by_key().windowed_by(sk.tumbling("1 day", grace="1 hour")).agg(n=F.count("*")).emit("final").to("second")


def held_back(app: sk.Topology, stream: sk.Stream) -> None:
    """Updates that are held back, beside windows that wait for much longer."""
    stream.group_by_key().agg(n=F.count("*")).suppress(sk.time_limit("10 minutes")).to_stream().to("out")
    stream.group_by_key().windowed_by(sk.tumbling("1 day", grace="2 hours")).agg(n=F.count("*")).emit("final").to("second")


def joined(app: sk.Topology, stream: sk.Stream) -> None:
    right = app.stream("right")
    stream.join(right, on="k", within=sk.within("10 minutes", grace="20 minutes"), how="left").select("k", "v", "w").to("out")
    stream.group_by_key().windowed_by(sk.tumbling("1 day", grace="2 hours")).agg(n=F.count("*")).emit("final").to("second")


def months(app: sk.Topology, stream: sk.Stream) -> None:
    """Windows of a calendar, some of which end long before the longest of them would."""
    days, all_months = (sk.tumbling(f"1 {unit}", grace="0 ms", time_zone="Europe/Berlin") for unit in ("day", "month"))
    stream.group_by_key().windowed_by(all_months).agg(n=F.count("*")).emit("final").to("out")
    stream.group_by_key().windowed_by(days).agg(n=F.count("*")).emit("final").to("second")


def test_months_are_as_one_run() -> None:
    """A drain at the end of a month closes that month alone: records of the next are not late."""
    month_starts = [31 * DAY - HOUR, 59 * DAY - HOUR, 90 * DAY - HOUR]  # in 1970, in Berlin
    found = []
    for daily in (True, False):
        app = sk.Topology("months")
        months(app, app.stream("in"))
        with TopologyTestDriver(app, topics={"in": TOPICS["in"]}) as driver:
            for number, start in enumerate(month_starts):
                for moment in (start, start + DAY, start + 27 * DAY):
                    driver.pipe("in", {"k": "a", "v": number}, timestamp=moment)
                if daily or number == 2:
                    driver.drain()
            found.append([[without_places(row) for row in driver.read(output)] for output in ("out", "second")])
    assert found[0] == found[1]
    assert [row["n"] for row in found[0][0]] == [3, 3, 3]


@pytest.mark.parametrize("build", [hours_and_days, chain, sessions, held_back, joined])
def test_three_days_are_as_one_run(build: Callable[[sk.Topology, sk.Stream], None]) -> None:
    """Days that follow each other without a gap give the same whether each is drained or the last one only."""
    daily, once = results(build, daily=True), results(build, daily=False)
    assert daily == once
    assert daily[0]


def results(build: Callable[[sk.Topology, sk.Stream], None], daily: bool) -> list[list[str]]:
    app = sk.Topology("daily")
    build(app, app.stream("in"))
    outputs = [output for output in ("out", "second") if build is not chain or output == "out"]
    topics = TOPICS if build is joined else {"in": TOPICS["in"]}
    with TopologyTestDriver(app, topics=topics, batching="all") as driver:
        for day in range(3):
            rows, right = [], []
            for hour in range(0, 24, 2):
                time_ms = day * DAY + hour * HOUR
                rows.append({"k": "ab"[hour % 2], "v": day, "_timestamp": moment(time_ms)})
                rows.append({"k": "c", "v": hour, "_timestamp": moment(time_ms + 30 * 60_000)})
                if build is joined and hour % 3:
                    right.append({"k": "c", "w": hour, "_timestamp": moment(time_ms + 35 * 60_000)})
            driver.pipe("in", rows)
            driver.pipe("right", right)
            if daily or day == 2:
                driver.drain()
        return [sorted(repr(sorted(without_places(row).items())) for row in driver.read(output)) for output in outputs]


def without_places(row: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in ("_offset", "_partition")}


def test_what_a_drain_has_closed_stays_closed() -> None:
    """A record for a window that a drain has given is late in the next run; the store has the window until it expires."""
    app = sk.Topology("closed")
    stream = app.stream("in")
    window = sk.tumbling("1 hour", grace="10 minutes")
    stream.group_by_key().windowed_by(window).agg(n=F.count("*"), store="hours").emit("final").to("out")
    with TopologyTestDriver(app, topics={"in": TOPICS["in"]}) as driver:
        driver.pipe("in", {"k": "a", "v": 1}, timestamp=HOUR)
        driver.drain()
        assert [row["n"] for row in driver.read("out")] == [1]
        assert len(driver.store("hours").to_arrow()) == 1
        driver.pipe("in", {"k": "a", "v": 2}, timestamp=HOUR + 1)
        driver.pipe("in", {"k": "a", "v": 3}, timestamp=2 * HOUR)
        driver.drain()
        assert [(row["n"], row["window_start"].hour) for row in driver.read("out")] == [(1, 2)]
