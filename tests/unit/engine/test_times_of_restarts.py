"""Promises about stream time across starts: of operators with other inputs, with or without bounded jumps, and of those that come back."""

from __future__ import annotations

from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.errors import OrphanedStateError
from streamkit.state.stores import MemoryStores
from tests.kit.engine_run import Run, append, execute, fresh_log, stored, written
from tests.kit.sampling import in_turn

WINDOWS = {
    "tumbling": sk.tumbling("10 ms", grace="0 ms"),
    "hopping": sk.hopping("10 ms", "5 ms", grace="0 ms"),
    "session": sk.session("10 ms", grace="0 ms"),
    "sliding": sk.sliding("10 ms", grace="0 ms"),
}  # fmt: skip
AHEAD_MS = 100_000_000


def counted(rows, window, mode="final"):
    return rows.group_by_key().windowed_by(window).agg(n=F.count("*"), store="w").emit(mode)


def reduced(rows, window):
    def larger(one, other):
        return {"v": max(one["v"], other["v"])}

    return rows.select("k", "v").group_by_key().windowed_by(window).reduce(larger, store="w").emit("final")


def left_joined(rows, app):
    within = sk.within("5 ms", grace="5 ms")
    return rows.select("v").join(app.stream("c").select(w="v"), within=within, how="left", name="j")


def waiting(rows, app):
    table = app.table("table", versioned="1 day", store="v").select(w="v")
    return rows.select("v").join(table, how="left", grace="10 ms", name="j")


def held_back(rows, app):
    return rows.to_table(name="kept").suppress(until=sk.time_limit("10 ms"), name="s").to_stream()


OPERATORS: dict[str, Any] = {
    **{name: lambda rows, _, window=window: counted(rows, window) for name, window in WINDOWS.items()},
    **{f"{name} by a function": lambda rows, _, window=window: reduced(rows, window) for name, window in WINDOWS.items()},
    "left join": left_joined,
    "versioned join": waiting,
    "suppress": held_back,
}  # fmt: skip


def topology(make, is_merged):
    """Stream `b` is read on in any case, and joins `a` in front of the operator or not."""
    app = sk.Topology("t")
    first, second = app.stream("a"), app.stream("b")
    second.to("copied")
    make(first.merge(second) if is_merged else first, app).to("out")
    return app


def row(key, time, value=1):
    return {"k": key, "v": value, "ts": time}


def run(log, app, *, records_max=None, drain=False, tasks=1):
    return execute(log, compile(app, log), Run(tasks=tasks, records_max=records_max, drain=drain))


@pytest.fixture
def log():
    with fresh_log() as log:
        for topic in ("a", "b", "c", "table", "in", "new", "old"):
            log.create_topic(topic, "k string, v int", key="k", partitions=1, config={"retention.ms": "-1"})
        yield log


@pytest.mark.parametrize(("name", "has_records"), in_turn([name for name in OPERATORS if name != "suppress"], [True, False]))
def test_what_waits_is_given_when_a_restart_brings_an_input_that_is_ahead(log, name, has_records):
    """Windows that the time of a new input has passed give their final results, rows that wait for it leave, and nothing stays behind."""
    append(log, "a", [row("x", 0), row("y", 3)])
    append(log, "table", [row("x", 0, 7)])
    append(log, "b", [row("z", 1000)])
    run(log, topology(OPERATORS[name], False))
    before = len(written(log, "out"))
    if has_records:
        append(log, "a", [row("x", 2000)])
        append(log, "b", [row("z", 2001)])
    run(log, topology(OPERATORS[name], True), tasks=2)

    early = [one for one in written(log, "out")[before:] if one.timestamp < 100]
    assert {one.row["k"] for one in early} == {"x", "y"}
    waiting = {"w", "j-left-waiting", "j-waiting"} & set(log.catalog.applications.get("t").stores)
    assert waiting and (has_records or not any(stored(log, "t", store) for store in waiting))


def test_rows_that_are_held_back_go_on_with_no_other_input(log):
    """As a table does not: the start is refused with the ways on, and the topology before goes on and gives what it held."""
    append(log, "a", [row("x", 0), row("y", 3)])
    append(log, "b", [row("z", 1000)])
    run(log, topology(held_back, False))
    with pytest.raises(
        OrphanedStateError, match=r"(?s)the store 's' .*the source of its rows was the topic 'a'.*drop_store\('s'"
    ):
        run(log, topology(held_back, True))
    append(log, "a", [row("w", 2000)])
    before = len(written(log, "out"))
    run(log, topology(held_back, False), tasks=2)
    assert {one.row["k"] for one in written(log, "out")[before:] if one.timestamp < 100} == {"x", "y"}


def test_what_is_older_than_an_input_that_is_ahead_is_late(log):
    """Stream time is that of all inputs from the start on: a record of before that time finds its window closed."""
    append(log, "a", [row("x", 0)])
    append(log, "b", [row("z", 1000)])
    make = OPERATORS["tumbling"]
    run(log, topology(make, False))
    append(log, "a", [row("x", 5)])
    (*_, _last) = run(log, topology(make, True))
    assert [one.row["n"] for one in written(log, "out") if one.row["k"] == "x"] == [1]
    assert log.catalog.applications.get("t").metrics["late"]


def jumping(jump, other=None):
    app = sk.Topology("t")
    rows = app.stream("in", max_jump=jump) if jump else app.stream("in")
    counted(rows, sk.tumbling("10 s", grace="0 s"), "every").to("out")
    within = sk.within("10 s", grace="1 s")
    rows.join(app.stream("c", max_jump=jump) if jump else app.stream("c"), within=within, name="j", suffix="_2").to("met")
    return app


@pytest.mark.parametrize("jumps", [("1 hour", None), ("1 hour", "1 minute"), ("1 hour", None, "1 hour"), ("1 hour", None, None)])
def test_state_ahead_of_stream_time_is_found_under_any_bound(log, jumps):
    """Windows and rows that a bounded jump left ahead of stream time go on when the bound is removed, lowered, or comes back."""
    append(log, "in", [row("a", 0), row("a", AHEAD_MS), row("a", AHEAD_MS + 1)])
    append(log, "c", [row("a", 0)])
    run(log, jumping(jumps[0]))
    for number, jump in enumerate(jumps[1:], 2):
        append(log, "in", [row("a", AHEAD_MS + number)])
        run(log, jumping(jump))
    append(log, "c", [row("a", AHEAD_MS)])
    run(log, jumping(jumps[-1]))

    counts = [one.row["n"] for one in written(log, "out") if one.timestamp >= AHEAD_MS]
    assert counts == list(range(1, len(jumps) + 2))
    assert sum(one.timestamp >= AHEAD_MS for one in written(log, "met")) == len(jumps) + 1


def test_a_bound_that_comes_back_counts_from_the_time_of_the_topic(log):
    """While jumps were not bounded the partitions' times stood still; they are not taken up again where they stood."""
    append(log, "in", [row("a", 0)])
    run(log, jumping("1 hour"))
    append(log, "in", [row("a", AHEAD_MS)])
    run(log, jumping(None))
    append(log, "in", [row("a", AHEAD_MS + 20_000)])
    run(log, jumping("1 hour"))
    times = dict(log.catalog.applications.get("t").metrics["stream_times"])
    assert times["store/w"] == AHEAD_MS + 20_000


def dropping(topic, store):
    app = sk.Topology("t")
    rows = app.stream(topic)
    if store:
        counted(rows, sk.tumbling("10 s", grace="0 s"), "every").to(f"out-{topic}")
    else:
        rows.to("copy")
        app.drop_store("w")
    return app


@pytest.mark.parametrize("has_epoch", [True, False])
def test_a_store_that_comes_back_has_no_past(log, has_epoch):
    """What was dropped takes its stream time along, whether or not an epoch came in between."""
    append(log, "new", [row("a", AHEAD_MS)])
    run(log, dropping("new", True))
    if has_epoch:
        append(log, "new", [row("a", AHEAD_MS + 1)])
    run(log, dropping("new", False))
    append(log, "old", [row("a", 1000), row("a", 2000)])
    run(log, dropping("old", True))
    assert [one.row["n"] for one in written(log, "out-old")] == [1, 2]
    assert not log.catalog.applications.get("t").metrics.get("late")


class Ticking(sk.Processor):
    def init(self, context):
        context.schedule("1 minute", "wall_clock", lambda _: None)

    def process(self, record):
        pass


def test_a_clock_goes_with_its_operator(log):
    """A processor that comes back counts its intervals from its own first epoch again."""

    def app(is_ticking):
        app = sk.Topology("t")
        rows = app.stream("a")
        rows.to("copy")
        if is_ticking:
            rows.process(Ticking, "n int", name="p").to("out")
        else:
            app.drop_store("p-schedules")
        return app

    append(log, "a", [row("x", 0)])
    run(log, app(True))
    clocks = [name for name, _ in log.catalog.applications.get("t").metrics["stream_times"] if name.startswith("clock/start/")]
    planner = start(log.catalog, log.storage, compile(app(False), log))
    run_available(planner, stores=MemoryStores())
    left = [name for name, _ in log.catalog.applications.get("t").metrics["stream_times"] if name.startswith("clock/start/")]
    assert clocks and not left


@pytest.mark.parametrize("name", OPERATORS)
def test_every_time_of_an_operator_is_of_one_of_its_stores(log, name):
    """Stream times are kept by the names of stores, so those of what was dropped are known."""
    windows = {
        one.id: one.windowing for one in compile(topology(OPERATORS[name], True), log).operators if one.windowing is not None
    }
    assert windows
    program = compile(topology(OPERATORS[name], True), log)
    assert all(window.store in program.operator(keeper).stores for keeper, window in windows.items())


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_can_look_ahead(log, name):
    """Whatever keeps something by time can be told that some of it may be ahead of stream time, also reductions by functions."""
    program = compile(topology(OPERATORS[name], False), log)
    found = [one for one in program.operators if one.windowing is not None and one.kind != "versioned_table"]
    assert found and all(one.keeping_ahead().keeps_ahead for one in found)
