"""Grace and retention of windows may change at a start: no window closes twice, none stays open, what has expired is gone."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.clock import HandClock
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_available, run_epoch
from streamkit.engine.runs.start import start
from streamkit.state.stores import MemoryStores
from tests.kit.engine_run import Run, append, execute, fresh_log, metric, stored
from tests.kit.sampling import chosen, in_turn

SCHEMA = "k string, v int"
KINDS: dict[str, Any] = {
    "tumbling": lambda **times: sk.tumbling("10 ms", **times),
    "hopping": lambda **times: sk.hopping("10 ms", "5 ms", **times),
    "session": lambda **times: sk.session("10 ms", **times),
    "sliding": lambda **times: sk.sliding("10 ms", **times),
    "calendar": lambda **times: sk.tumbling("1 day", time_zone="Europe/Berlin", **times),
    "functions": lambda **times: sk.tumbling("10 ms", **times),
    "functions of sessions": lambda **times: sk.session("10 ms", **times),
    "functions of sliding": lambda **times: sk.sliding("10 ms", **times),
}
CHANGES = [(0, 30), (30, 0), (20, 5), (5, 20), (0, 30, 0), (30, 0, 15, 60)]
CASES: list[Any] = [*product(["tumbling", "hopping", "functions"], CHANGES, [0, 1], [(None, (1,)), (7, (2, 3))])]
BY_HAND = chosen(CASES, lambda one: {(one[0], one[3]), one[1], one[2]})


def topology(kind, grace, retention=None, **more):
    app = sk.Topology("t")
    times = {"grace": f"{grace} ms", **({} if retention is None else {"retention": f"{retention} ms"}), **more}
    windows = app.stream("in").group_by_key().windowed_by(KINDS[kind](**times))
    if kind.startswith("functions"):
        merging: Any = {"merge": lambda one, other: {"n": one["n"] + other["n"]}} if "sessions" in kind else {}
        counts = windows.aggregate({"n": 0}, lambda state, row: {"n": state["n"] + 1}, "n bigint", store="w", **merging)
    else:
        counts = windows.agg(n=F.count("*"), store="w")
    counts.emit("final").to("out")
    return app


def made(seed, count):
    chance, now, rows = random.Random(seed), 100, []
    for number in range(count):
        now += chance.choice([0, 1, 3, 5, 12])
        rows.append({"k": chance.choice("ab"), "v": number, "ts": max(0, now - chance.choice([0, 0, 4, 11, 18, 35]))})
    return rows


def run(kind, graces, seed, records_max=None, tasks=(1,), retention=None, drained=()):
    """What a topology gives whose grace changes at each start, and its late records; the last start drains, and those of these numbers."""
    rows = made(seed, 30 * len(graces))
    with fresh_log() as log:
        log.create_topic("in", SCHEMA, key="k", partitions=1, config={"retention.ms": "-1"})
        for part, grace in enumerate(graces):
            append(log, "in", rows[30 * part : 30 * part + 30])
            program = compile(topology(kind, grace, retention), log)
            is_last = part == len(graces) - 1
            execute(log, program, Run(tasks=tasks[part % len(tasks)], records_max=records_max, drain=is_last or part in drained))
        return rows, log.read("out").to_pylist(), metric(log, "t", "late")


def by_hand(rows, graces, size=10, advance=10, drained=()):
    """Final counts of windows, record by record: what has closed stays so. A drain closes what the newest record has begun."""
    counts: dict[tuple[str, int], int] = {}
    closed, reached, done = -(10**9), -(10**9), []

    def close(grace):
        close_up_to(reached - grace)

    def close_up_to(end):
        nonlocal closed
        closed = max(closed, end)
        for key in sorted(counts):
            if key[1] + size <= closed:
                done.append((*key, counts.pop(key)))

    for number, row in enumerate(rows):
        grace = graces[number // 30]
        close(grace)  # a start with a shorter grace closes what is due
        reached = max(reached, row["ts"])
        close(grace)
        newest = row["ts"] // advance * advance
        for begin in range(newest, row["ts"] - size, -advance):
            if begin + size > closed:
                counts[row["k"], begin] = counts.get((row["k"], begin), 0) + 1
        if number % 30 == 29 and number // 30 in drained:
            close_up_to(reached // advance * advance + size)
    return sorted([*done, *((*key, count) for key, count in counts.items())])


def milliseconds(moment):
    return round(moment.timestamp() * 1000)


@pytest.mark.parametrize(
    ("kind", "graces", "seed", "way"),
    BY_HAND,
)
def test_each_window_closes_once_by_the_grace_of_its_time(kind, graces, seed, way):
    """Longer or shorter, again and again: results are those of a rule by hand, whatever cut and tasks."""
    rows, found, _ = run(kind, graces, seed, *way)
    given = sorted((row["k"], milliseconds(row["window_start"]), row["n"]) for row in found)
    assert given == by_hand(rows, graces, advance=5 if kind == "hopping" else 10)


@pytest.mark.parametrize(
    ("graces", "kind", "seed", "drained"),
    in_turn(CHANGES, ["tumbling", "hopping", "functions"], [0, 1], [(0, 1, 2), (0,), (0, 1, 2), (1,)]),
)
def test_a_drain_between_changes_closes_what_records_have_begun(kind, graces, seed, drained):
    """Never windows that only the longer grace made look begun: their records were late."""
    rows, found, _ = run(kind, graces, seed, drained=drained)
    given = sorted((row["k"], milliseconds(row["window_start"]), row["n"]) for row in found)
    assert given == by_hand(rows, graces, advance=5 if kind == "hopping" else 10, drained=drained)


@pytest.mark.parametrize(("kind", "way"), in_turn(list(KINDS), ["drain", "idle"]))
def test_what_closes_without_a_record_goes_by_real_times(kind, way):
    """After a longer grace it closes no window that it would not have closed had the grace always been that."""
    scale = 8_640_000 if kind == "calendar" else 1
    assert _closed_without_a_record(kind, way, (0, 60), scale) == _closed_without_a_record(kind, way, (60, 60), scale)


def _closed_without_a_record(kind, way, graces, scale):
    clock, idle = HandClock(1_000_000), {"close_after_idle": "1 minute"} if way == "idle" else {}
    with fresh_log() as log:
        log.create_topic("in", SCHEMA, key="k", partitions=1, config={"retention.ms": "-1"})
        for grace, time, closes in (
            (graces[0], 105, False),
            (graces[1], None, True),
            (graces[1], 135, False),
            (graces[1], 300, False),
        ):
            if time is not None:
                append(log, "in", [{"k": "a", "v": 0, "ts": time * scale}])
            program = compile(topology(kind, grace * scale, 40 * 86_400_000 if kind == "calendar" else None, **idle), log)
            planner = start(log.catalog, log.storage, program, clock=clock)
            run_available(planner, drain=closes and way == "drain", stores=MemoryStores())
            if closes and way == "idle":
                clock.advance(60_000)
                before = planner.committed_end()
                end = planner.next_end(before)
                assert end is not None
                run_epoch(planner, before, end, splits=1, stores=MemoryStores())
        return [(row["window_start"], row["window_end"], row["n"]) for row in log.read("out").to_pylist()]


@pytest.mark.parametrize(
    ("graces", "kind", "seed"),
    in_turn(CHANGES, ["session", "functions of sessions", "sliding", "functions of sliding"], [0, 1, 2]),
)
def test_no_window_gives_two_final_results(kind, graces, seed):
    """Each comes once; of sessions each record is in one, or late."""
    rows, found, late = run(kind, graces, seed, tasks=(1, 2))
    windows = [(row["k"], row["window_start"], row["window_end"]) for row in found]
    assert len(set(windows)) == len(windows) > 3
    if "session" in kind:
        assert sum(row["n"] for row in found) + late == len(rows)


@pytest.mark.parametrize("kind", ["tumbling", "session", "functions", "sliding"])
def test_a_shorter_retention_deletes_what_has_expired_by_it(kind):
    """The store has no window that expired by the new retention, also if no record comes; a longer one keeps from then on."""
    with fresh_log() as log:
        log.create_topic("in", SCHEMA, key="k", partitions=1, config={"retention.ms": "-1"})
        append(log, "in", [{"k": "a", "v": n, "ts": 20 * n} for n in range(50)])
        sizes = []
        for retention, time in ((10_000, 1000), (100, 1020), (100, 1040), (10_000, 1060), (10_000, 1080)):
            append(log, "in", [{"k": "a", "v": 0, "ts": time}])
            execute(log, compile(topology(kind, 0, retention), log), Run(drain=False))
            changelog = log.read("t-w-changelog").to_pylist()
            keys = {row["key"] for row in changelog} - {row["key"] for row in changelog if row.get("_deleted")}
            sizes.append(len(stored(log, "t", "w")))
            assert len(keys) <= sizes[-1] + 2  # the list of a key's windows beside them
        assert sizes[0] >= 50
        assert sizes[1] <= 7 >= sizes[2]
        assert sizes[4] > sizes[3]


def test_a_start_that_failed_does_not_move_the_time_twice(monkeypatch):
    """The grace that the time goes by stands beside it: what is repeated changes nothing."""
    rows = made(1, 60)
    with fresh_log() as log:
        log.create_topic("in", SCHEMA, key="k", partitions=1, config={"retention.ms": "-1"})
        append(log, "in", rows[:30])
        execute(log, compile(topology("tumbling", 0), log), Run(drain=False))
        before = dict(log.catalog.applications.get("t").metrics["stream_times"])
        for grace, moved in ((30, 30), (30, 30), (10, 10), (0, 0), (40, 40)):
            start(log.catalog, log.storage, compile(topology("tumbling", grace), log))
            times = dict(log.catalog.applications.get("t").metrics["stream_times"])
            assert max(times["store/w"], times.get("closed/w", 0)) == before["store/w"] + moved
