"""Waiting for work: how long at most, what ends it, and what does not wait at all."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.clock import HandClock
from streamkit.engine.runs import planner as planners
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.planner import Planner
from streamkit.engine.runs.start import start
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from tests.kit.engine_run import append, fresh_log
from tests.kit.waiting import wait_until

SCHEMA = "user string, v bigint"
IDLE_MS = 60_000
LONG_SECONDS = 1_000.0  # no test waits for so long


class Tick(sk.Processor):
    """Gives a row every 30 and every 40 ms of the wall clock."""

    def init(self, context: Any) -> None:
        for interval in ("30 ms", "40 ms"):
            context.schedule(interval, "wall_clock", lambda time: context.forward({"user": "tick", "v": time}))

    def process(self, record: Any) -> None:
        """Only time matters."""


def idle_windows() -> sk.Topology:
    app = sk.Topology("idle")
    for topic, idle in (("one", "1 minute"), ("two", "2 minutes")):
        window = sk.tumbling("10 ms", grace="5 ms", close_after_idle=idle)
        stream = app.stream(topic, schema=SCHEMA, key="user")
        stream.group_by_key().windowed_by(window).agg(n=F.count("*"), store=topic).emit("final").to(f"{topic}-out")
    return app


def ticking() -> sk.Topology:
    app = sk.Topology("ticking")
    stream = app.stream("one", schema=SCHEMA, key="user")
    stream.process(Tick, schema=SCHEMA).to("one-out")
    return app


def created(log: Log) -> Log:
    for topic in ("one", "two"):
        log.create_topic(topic, SCHEMA, "user", partitions=2)
    return log


def counting() -> sk.Topology:
    app = sk.Topology("counting")
    app.stream("one", schema=SCHEMA, key="user").group_by_key().agg(n=F.count("*"), store="counts").to("one-out")
    return app


@pytest.fixture
def patience(monkeypatch):
    """Waits have no bound but what is due."""
    monkeypatch.setattr(planners, "WAIT_SECONDS", (0.0, LONG_SECONDS))


@pytest.mark.parametrize("make", [idle_windows, ticking])
def test_a_wait_ends_when_something_is_due(patience, make):
    """A wait is as long as nothing is due, to the millisecond: then there is an epoch without records, again and again."""
    clock, app = HandClock(1_000_003), make()
    with fresh_log() as log:
        created(log)
        planner = start(log.catalog, log.storage, compile(app, log), clock=clock)
        append(log, "one", [{"user": "ann", "v": 1, "ts": 3}])
        run_available(planner)
        if make is idle_windows:
            clock.advance(7)
            append(log, "two", [{"user": "ann", "v": 1, "ts": 3}])
            run_available(planner)
        moments: list[int] = []
        while (wait_ms := round(planner.wait_s(planner.committed_end()) * 1000)) < LONG_SECONDS * 1000 and len(moments) < 6:
            clock.advance(wait_ms - 1)
            assert planner.next_end(planner.committed_end()) is None
            clock.advance(1)
            moments.append(clock.now_ms() - 1_000_003)
            assert run_available(planner)

        assert moments == ([IDLE_MS, 2 * IDLE_MS + 7] if make is idle_windows else [30, 40, 60, 80, 90, 120])


def test_a_wait_has_bounds():
    """Without anything that is due, half a second; and never less than ten milliseconds, so that a clock which was set cannot make it spin."""
    clock = HandClock(1_000_000)
    with fresh_log() as log:
        created(log)
        planner = start(log.catalog, log.storage, compile(ticking(), log), clock=clock)
        append(log, "one", [{"user": "ann", "v": 1, "ts": 3}])
        assert planner.wait_s(planner.committed_end()) == 0.5
        run_available(planner)
        assert planner.wait_s(planner.committed_end()) == 0.03
        clock.advance(10_000)
        assert planner.wait_s(planner.committed_end()) == 0.01


@pytest.fixture(params=["file", "memory"])
def log(request, tmp_path):
    with open_log(":memory:" if request.param == "memory" else tmp_path / "log") as opened:
        opened.settings = replace(opened.settings, maintenance_interval_ms=0)
        yield created(opened)


def has_taken(running, count):
    return running.records() == count


def send(log, *users):
    with log.producer() as producer:
        for user in users:
            producer.send("one", {"user": user, "v": 1})


def test_a_local_run_is_woken_by_commits(log, patience):
    """What is sent is taken although no look is due for a long time, however often; and so is an order to stop."""
    running = sk.run(counting(), log=log, engine="local", tasks=1)
    for count in range(1, 6):
        send(log, f"user {count}")
        wait_until(partial(has_taken, running, count))
    running.stop()

    assert running.wait(0)
    assert sorted(log.store("counting", "counts").to_arrow()["user"].to_pylist()) == [f"user {count}" for count in range(1, 6)]


def test_a_local_run_follows_the_clock(log, patience):
    """Ticks of the wall clock come without records."""
    running = sk.run(ticking(), log=log, engine="local", tasks=1)
    wait_until(lambda: running.status()["epoch"] >= 5)
    running.stop()

    assert running.wait(0)


def test_an_idle_run_looks_seldom(log, monkeypatch):
    """Neither its own commits nor those that come make it look more often than there is something to see."""
    looks = []
    look = Planner.next_end

    def counted(*given):
        looks.append(given)
        return look(*given)

    monkeypatch.setattr(Planner, "next_end", counted)
    running = sk.run(counting(), log=log, engine="local", tasks=1)
    send(log, "ann")
    wait_until(lambda: running.records() == 1)
    time.sleep(0.3)
    looks.clear()
    time.sleep(2)
    idle = len(looks)
    running.stop()

    assert idle <= 5


@pytest.mark.parametrize("options", [{"trigger": "available_now"}, {"drain": True}, {"trigger": "50 milliseconds"}])
def test_runs_that_end_or_have_an_interval_do_not_wait(log, monkeypatch, options):
    """They look when they are to look."""

    def refuse(self, before):
        raise AssertionError

    monkeypatch.setattr(Planner, "wait_s", refuse)
    send(log, "ann")
    running = sk.run(counting(), log=log, engine="local", tasks=1, **options)
    wait_until(lambda: running.records() == 1)
    if "drain" in options or options["trigger"] == "available_now":
        assert running.wait(60)
    else:
        time.sleep(0.2)
        assert running.is_active
        running.stop()
        assert running.wait(0)


def test_a_stop_comes_through_at_any_moment(log, patience):
    """An order to stop is noticed, whether the run looks, works, or has just begun to wait."""
    for number in range(8):
        running = sk.run(counting(), log=log, engine="local", tasks=1)
        time.sleep(0.01 * number)
        ended = threading.Event()
        threading.Thread(target=lambda running=running, ended=ended: (running.stop(), ended.set()), daemon=True).start()
        assert ended.wait(60)
