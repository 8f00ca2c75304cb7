"""Joins of two streams: the rules by hand on random data, however the work is cut. Kafka Streams' cases are in `tests.harness.conformance`."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_next
from streamkit.engine.runs.start import start
from streamkit.log.log import Log
from streamkit.state.stores import ON_DISK
from tests.kit.engine_run import Run, append, execute, fresh_log, metric, stored, waiting, written
from tests.kit.reference import canonical_order
from tests.kit.sampling import TAKES_ALL, chosen, first
from tests.unit.engine.operators.stream_join_by_hand import JoinByHand, Result

KINDS = ("inner", "left", "outer")
MANY = 30 if TAKES_ALL else 16
CUTS = [  # how the work is cut, how many rows each commit of a topic has, and the windows: before, after, grace
    (Run(tasks=1), MANY, [(5, 5, 0), (-2, 6, 1), (0, 0, 0)]),
    (Run(tasks=1, records_max=1), 6, [(5, 5, 7)]),
    (Run(tasks=2, records_max=17, splits=3), MANY, [(0, 8, 3)]),
    (Run(tasks=3, records_max=2, splits=2, drain=False), 8, [(8, 0, 0)]),
    (Run(tasks=7, records_max=43, drain=False), MANY, [(3, 5, 100)]),
    (Run(tasks=7, splits=3), MANY, [(6, -2, 4)]),
]
WAYS = chosen([*product(KINDS, range(len(CUTS)), (False, True))], lambda way: {(way[0], way[2]), way[1]})


@pytest.mark.parametrize(("how", "cut", "is_self_join"), WAYS)
def test_results_and_stores_are_those_of_the_rules(how: str, cut: int, is_self_join: bool) -> None:
    """On random data the results of each key, in order, and what the stores hold are the same by hand, whatever the tasks and cuts."""
    run, count, windows = CUTS[cut]
    for seed, (before, after, grace) in enumerate(windows):
        with fresh_log() as log:
            topics = fill(log, seed, is_self_join, count)
            program = compile(joined(how, before, after, grace, *topics), log)
            execute(log, program, run)
            expected = by_hand(log, topics, how, before, after, grace)
            if run.drain:
                expected.advance(expected.now + program.operator("join").longest_wait_ms)
            check(log, expected)


@pytest.mark.parametrize("how", first(1, KINDS[::-1]))
def test_other_tasks_take_over(how: str) -> None:
    """Generations with more and fewer tasks, one of them without local stores, go on as if one had done it all."""
    with fresh_log(on_disk=True) as log:
        topics = fill(log, 3, is_self_join=False, count=20 if TAKES_ALL else 14)
        program = compile(joined(how, 5, 9, 4, *topics), log)
        for generation, tasks in enumerate((2, 5, 1, 7) if TAKES_ALL else (2, 4, 1, 3)):
            if generation == 2:
                shutil.rmtree(f"{log.root}/stores", ignore_errors=True)
            planner = start(log.catalog, log.storage, program, tasks=tasks, records_max=19)
            for _ in range(2 if generation < 3 else 100):
                run_next(planner)
        check(log, by_hand(log, topics, how, 5, 9, 4))


@pytest.mark.parametrize("how", first(1, KINDS[1:] + KINDS[:1]))
def test_records_that_arrive_between_epochs_are_late_by_the_time_reached(how: str) -> None:
    """What is appended later counts from the stream time that was reached, as late as it is; the rules say what it still meets."""
    with fresh_log() as log:
        count = 20 if TAKES_ALL else 10
        topics, random = fill(log, 5, is_self_join=False, count=count), np.random.default_rng(5)
        program = compile(joined(how, 4, 6, 9, *topics), log)
        expected = JoinByHand(how, 4, 6, 9, {0: ("left",), 1: ("right",)})
        since: dict[str, dict[int, int]] = {}
        reached: dict[int, int] = {}
        for _ in range(4 if TAKES_ALL else 3):
            lanes = waiting(log, topics, since)
            execute(log, program, Run(tasks=2, records_max=11, splits=2, drain=False))
            records = canonical_order(lanes, reached)
            expected.run(records)
            for record in records:
                reached[record.input] = max(reached.get(record.input, record.order), record.order)
            since = {topic: log.end_offsets(topic) for topic in topics}
            for topic in topics:
                append(log, topic, rows(random, 8, int(random.integers(-40, 20)) + max(reached.values())))
        check(log, expected)


@pytest.mark.parametrize("seed", first(1, range(3)))
def test_chains_do_not_depend_on_the_cut(seed: int) -> None:
    """Final results joined with a stream, the result joined again and counted in windows: each topic is the same however work is cut."""
    found = []
    small = 1 if TAKES_ALL else 8
    for run in first(2, (Run(), Run(tasks=3, records_max=small, splits=2), Run(tasks=2, records_max=13, splits=2))):
        with fresh_log() as log:
            fill(log, seed, is_self_join=False, count=12 if TAKES_ALL else 8)
            execute(log, compile(chain(), log), run)
            found.append({topic: sorted(map(repr, written(log, topic))) for topic in ("first", "second", "counts")})
    assert found[0]["first"] and found[0]["second"] and found[0]["counts"]
    assert all(one == found[0] for one in found)


def chain() -> sk.Topology:
    """Three joins of kinds that wait, one behind the other, and windows behind the last."""
    app = sk.Topology("app")
    one, two = app.stream("one"), app.stream("two")
    windows = one.group_by("k").windowed_by(sk.tumbling("6 ms", grace="2 ms"))
    finals = windows.agg(n=F.count("*")).emit("final").select_key("k").drop("window_start", "window_end")
    first = two.join(finals, within=sk.within("4 ms", grace="1 ms"), how="outer", name="first-join")
    second = first.join(one, within=sk.within(before="2 ms", after="7 ms", grace="0 s"), how="left", suffix="_one")
    counts = second.group_by("k").windowed_by(sk.tumbling("10 ms", grace="0 s")).agg(n=F.count("*"), v=F.sum("v_one"))
    first.to("first")
    second.to("second")
    counts.emit("final").to("counts")
    return app


def test_what_is_no_longer_needed_leaves_the_stores_by_tombstones() -> None:
    """After a drain nothing waits, and once time has moved on the buffers hold only what is recent, in the changelog too."""
    with fresh_log(on_disk=True) as log:
        topics = fill(log, 1, is_self_join=False)
        program = compile(joined("outer", 5, 5, 2, *topics), log)
        execute(log, program, Run(drain=False), ON_DISK)
        assert stored(log, "app", "join-left") and stored(log, "app", "join-left-waiting")

        for topic in topics:
            append(log, topic, [{"k": "z", "v": 1, "ts": 10_000_000}])
        execute(log, program, Run(), ON_DISK)

        assert [row["k"] for row in stored(log, "app", "join-left")] == ["z"]
        assert stored(log, "app", "join-left-waiting") == stored(log, "app", "join-right-waiting") == []
        shutil.rmtree(f"{log.root}/stores")
        assert [row["k"] for row in stored(log, "app", "join-left")] == ["z"]


def joined(how: str, before: int, after: int, grace: int, left: str, right: str) -> sk.Topology:
    """The join of two topics, or of one with itself."""
    app = sk.Topology("app")
    window = sk.within(before=f"{before} ms", after=f"{after} ms", grace=f"{grace} ms")
    app.stream(left).join(app.stream(right), within=window, how=how, suffix="_right", name="join").to("out")
    return app


def fill(log: Log, seed: int, is_self_join: bool, count: int = 20) -> tuple[str, str]:
    """The topics of both sides, with random rows."""
    random = np.random.default_rng(seed)
    for topic, partitions in (("one", 2), ("two", 3)):
        log.create_topic(topic, "k string, v bigint", key="k", partitions=partitions)
        for _ in range(3):
            append(log, topic, rows(random, count, int(random.integers(-10, 60))))
    return ("one", "one") if is_self_join else ("one", "two")


def rows(random: np.random.Generator, count: int, first_ms: int) -> list[dict[str, Any]]:
    """Rows of few keys, with ties, late ones, nulls and tombstones."""
    times = first_ms + np.cumsum(random.choice([0, 0, 1, 2, 5], count)) - random.choice([0, 0, 0, 1, 4, 20], count)
    keys = random.choice(np.array(["a", "b", "c", None], object), count, p=[0.4, 0.3, 0.25, 0.05])
    return [
        {"k": key, "v": int(random.integers(1000)), "ts": int(time), "deleted": key is not None and random.random() < 0.05}
        for key, time in zip(keys, times, strict=True)
    ]


def by_hand(log: Log, topics: Sequence[str], how: str, before: int, after: int, grace: int) -> JoinByHand:
    distinct = list(dict.fromkeys(topics))
    sides: dict[int, tuple[str, ...]] = {0: ("left", "right")} if len(distinct) == 1 else {0: ("left",), 1: ("right",)}
    expected = JoinByHand(how, before, after, grace, sides)
    expected.run(canonical_order(waiting(log, distinct)))
    return expected


def check(log: Log, expected: JoinByHand) -> None:
    """The results, the stores and what was counted are those by hand."""
    found = [Result(e.row["k"], e.row["v"], e.row["v_right"], e.timestamp) for e in written(log, "out")]
    assert by_key(found) == by_key(expected.results)
    for store in expected.stores:
        rows = {
            (row["k"], row["window_start"]): list(zip(row["_timestamp"], row["v"])) for row in stored(log, "app", f"join-{store}")
        }
        assert rows == expected.content(store), store
    assert metric(log, "app", "null_key") == expected.keyless
    assert metric(log, "app", "late") == expected.late


def by_key(results: Sequence[Result]) -> Mapping[Any, list[Result]]:
    """The results of each key in their order; those without a key have none."""
    found: dict[Any, list[Result]] = {}
    for result in results:
        found.setdefault(result.key, []).append(result)
    found.get(None, []).sort(key=repr)
    return found
