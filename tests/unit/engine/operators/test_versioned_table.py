"""Tables with history: which row is the newest, what a stream meets as of its records' times, who ignores what came out of order."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.errors import ConfigError, TopologyError
from streamkit.log.log import Log
from streamkit.plan.program import Program
from streamkit.state.stores import ON_DISK
from streamkit.testing import TopologyTestDriver
from tests.kit.engine_run import Run, append, execute, fresh_log, metric, moment, stored, table_rows, waiting, written
from tests.kit.reference import canonical_order
from tests.kit.sampling import TAKES_ALL, combined, first
from tests.unit.engine.operators.versioned_by_hand import JoinByHand, Result

HISTORY = 24
MANY = 30 if TAKES_ALL else 16  # rows of a topic
CUTS = [
    Run(tasks=1),
    Run(tasks=1, records_max=1),
    Run(tasks=2, records_max=17, splits=3),
    Run(tasks=3, records_max=3, splits=2),
    Run(tasks=7, splits=3),
    Run(tasks=7, records_max=31, drain=False),
]


def name_of(value: object) -> str:
    return f"{value.tasks}-{value.records_max}" if isinstance(value, Run) else str(value)


@pytest.mark.parametrize(
    ("join", "run"), combined([("left", None), ("inner", 9), ("left", HISTORY)], CUTS, together=1), ids=name_of
)
def test_results_are_those_of_the_rules(join: tuple[str, int | None], run: Run) -> None:
    """On random data the results of each key, in order, and the newest rows are those by hand, whatever the tasks and cuts."""
    how, grace = join
    for seed in first(1, range(2)):
        with fresh_log() as log:
            fill(log, seed, 8 if is_slow(run) else MANY)
            program = compile(joined(how, grace), log)
            execute(log, program, run)
            expected = by_hand(log, program, how, grace)
            if run.drain:
                expected.advance(expected.now + (grace or 0))
            assert by_key(results(log)) == by_key(expected.results)
            assert {row["k"]: row["v"] for row in stored(log, "app", "kept")} == expected.table.newest()
            former = [(row["k"], time) for row in stored(log, "app", "kept-history") for time in row["_timestamp"]]
            assert former and len(former) == len(set(former)), "a former version is in one list"
            assert metric(log, "app", "late") == expected.table.late
            changes = [(e.row["k"], None if e.deleted else e.row["v"], e.timestamp) for e in written(log, "changes")]
            assert by_key(changes) == by_key(expected.changes)


@pytest.mark.parametrize("run", CUTS if TAKES_ALL else CUTS[::2], ids=name_of)
def test_joins_of_tables_and_groups_take_what_came_in_order(run: Run) -> None:
    """A joined table and the counts of groups are those of the newest rows; what came out of order has no part in them."""
    with fresh_log() as log:
        fill(log, 5, 8 if is_slow(run) else MANY)
        app = sk.Topology("app")
        table = app.table("t", versioned=f"{HISTORY} ms")
        other = app.table("s", store="other")
        table.join(other, how="outer", store="both")
        table.group_by(rest=F.col("v") % 3).count().to("counts")
        program = compile(app, log)
        execute(log, program, run)
        newest = by_hand(log, program, "left", None).table.newest()
        others = {row["k"]: row["w"] for row in stored(log, "app", "other")}
        expected = {key: (newest.get(key), others.get(key)) for key in {*newest, *others}}
        assert {row["k"]: (row["v"], row["w"]) for row in stored(log, "app", "both")} == expected
        counts = {key[0]: row["count"] for key, row in table_rows(log, "counts").items() if row["count"]}
        assert counts == {rest: sum(v % 3 == rest for v in newest.values()) for rest in {v % 3 for v in newest.values()}}


@pytest.mark.parametrize("run", CUTS if TAKES_ALL else CUTS[3:4], ids=name_of)
def test_a_filter_of_the_table_has_history_too(run: Run) -> None:
    """A record meets the filtered row as of its time: where the row of that time is not kept, it meets none."""
    with fresh_log() as log:
        fill(log, 7, 8 if is_slow(run) else MANY)
        app = sk.Topology("app")
        table = app.table("t", versioned=f"{HISTORY} ms").filter("v % 2 = 0").with_columns(v=F.col("v") * 10)
        app.stream("s").join(table, how="left").to("out")
        program = compile(app, log)
        execute(log, program, run)
        met = by_hand(log, program, "left", None).results
        expected = [(k, w, None if v is None or v % 2 else v * 10, ts) for k, w, v, ts in met]
        assert by_key(results(log)) == by_key(expected)


@pytest.mark.parametrize("grace", first(1, [9, None]))
def test_other_tasks_take_over(grace: int | None) -> None:
    """Generations with more and fewer tasks, one of them without local stores, go on as if one had done it all."""
    with fresh_log(on_disk=True) as log:
        fill(log, 11, 10)
        program = compile(joined("left", grace), log)
        topics = topics_of(program)
        expected = JoinByHand("left", HISTORY, grace, topics.index("t"))
        since: dict[str, dict[int, int]] = {}
        reached: dict[int, int] = {}
        random = np.random.default_rng(3)
        for generation, tasks in enumerate((2, 5, 1, 7) if TAKES_ALL else (2, 4, 1)):
            if generation == 2:
                shutil.rmtree(f"{log.root}/stores")
            execute(log, program, Run(tasks=tasks, records_max=9, drain=False), ON_DISK)
            records = canonical_order(waiting(log, topics, since), reached)
            expected.run(records)
            for record in records:
                reached[record.input] = max(reached.get(record.input, record.order), record.order)
            since = {topic: dict(log.end_offsets(topic)) for topic in topics}
            for topic in topics:
                append(log, topic, rows(random, topic, 10, max(reached.values()) - 10))
        assert by_key(results(log)) == by_key(expected.results)
        assert {row["k"]: row["v"] for row in stored(log, "app", "kept")} == expected.table.newest()


def test_what_is_older_than_the_history_leaves_the_store() -> None:
    """Former rows and records that waited are gone once time has moved on, from the changelog too; the newest row stays."""
    with fresh_log(on_disk=True) as log:
        fill(log, 1, 40)
        program = compile(joined("left", 9), log)
        execute(log, program, Run(drain=False), ON_DISK)
        assert stored(log, "app", "kept-history")
        assert stored(log, "app", "join-waiting")
        kept = {row["k"]: row["v"] for row in stored(log, "app", "kept")}
        append(log, "t", [{"k": "z", "v": 1, "ts": 1_000_000}])
        append(log, "s", [{"k": "z", "w": 1, "ts": 1_000_000}])
        execute(log, program, Run(), ON_DISK)

        shutil.rmtree(f"{log.root}/stores")
        assert stored(log, "app", "kept-history") == stored(log, "app", "join-waiting") == []
        assert {row["k"]: row["v"] for row in stored(log, "app", "kept")} == {**kept, "z": 1}


@pytest.mark.parametrize("options", [{"batching": "one"}, {"batching": "all", "tasks": 3}])
def test_one_key_at_a_glance(options: dict[str, Any]) -> None:
    """A late change counts for the records that wait; one that came at once has met what was known."""
    app = sk.Topology("app")
    rates = app.table("rates", schema="c string, rate int", key="c", versioned="1 second")
    app.stream("paid", schema="c string, n int", key="c").join(rates, grace="10 ms").to("out")
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("rates", {"c": "e", "rate": 1}, timestamp=0)
        driver.pipe("paid", {"c": "e", "n": 1}, timestamp=5)
        driver.pipe("rates", {"c": "e", "rate": 2}, timestamp=4)
        driver.pipe("paid", {"c": "e", "n": 2}, timestamp=15)
        assert [(row["n"], row["rate"]) for row in driver.read("out")] == [(1, 2)]
        driver.drain()
        assert [(row["n"], row["rate"]) for row in driver.read("out")] == [(2, 2)]


def test_changes_out_of_order_come_with_the_row_that_stays() -> None:
    """to_stream gives every change; with old values, one out of order has the newest row as the old one, as in Kafka Streams."""
    app = sk.Topology("app")
    table = app.table("t", schema="k string, v int", key="k", versioned="1 second")
    table.emit("every", old=True).to("changes")
    table.filter("v > 10").emit("every", old=True).to("large")
    table.filter("v > 10").to_stream().to("filtered")
    table.filter("v > 10").emit("latest", old=True).to("latest")
    given = [(1, 10), (2, 30), (3, 20), (4, 20), (None, 40), (5, 35)]
    for options in ({"batching": "one"}, {"batching": "all", "tasks": 2}):
        with TopologyTestDriver(app, **options) as driver:
            rows = [{"k": "a", "v": v, "_timestamp": moment(ts), "_deleted": v is None} for v, ts in given]
            driver.pipe("t", rows)
            found = [(row["v"], row["old_v"]) for row in driver.read("changes")]
            assert found == [(1, None), (2, 1), (3, 2), (4, 2), (None, 2), (5, None)]
            assert [(row["v"], row["old_v"]) for row in driver.read("large")] == [(None, None)] * 6
            assert [row["v"] for row in driver.read("filtered")] == [None] * 6
            assert not [row for row in driver.read("latest") if row["v"] is not None]


@pytest.mark.parametrize("run", [Run(), Run(tasks=3, records_max=40)], ids=["1", "3"])
def test_a_stream_becomes_a_table_with_history(run: Run) -> None:
    """Behind to_table all is as with the table of a topic: computed rows have versions, too."""
    with fresh_log() as log:
        fill(log, 9, 30)
        app = sk.Topology("app")
        table = app.stream("t").repartition().to_table("kept", versioned=f"{HISTORY} ms")
        app.stream("s").join(table, how="left", grace="5 ms").to("out")
        program = compile(app, log)
        execute(log, program, run)
        expected = by_hand(log, program, "left", 5)
        expected.advance(expected.now + 5)
        assert by_key(results(log)) == by_key(expected.results)
        assert {row["k"]: row["v"] for row in stored(log, "app", "kept")} == expected.table.newest()


def test_a_grace_of_zero_is_none() -> None:
    """No record waits longer than until it is there, so all is as without a grace."""
    found = []
    for grace in (None, 0):
        with fresh_log() as log:
            fill(log, 2, 30)
            execute(log, compile(joined("left", grace), log), Run(tasks=3, records_max=40))
            found.append(by_key(results(log)))
    assert found[0] == found[1]


def test_what_is_refused_points_at_the_line() -> None:
    """A grace needs a table with history that is as long; two streams have theirs in the window; a history has a length."""
    app = sk.Topology("app")
    stream, plain = app.stream("s", schema="k string, w int", key="k"), app.table("p", schema="k string, v int", key="k")
    versioned = app.table("t", schema="k string, v int", key="k", versioned="1 minute")
    with pytest.raises(
        TopologyError, match=r"keeps no history .*expected a versioned table: app\.table\(topic, versioned="
    ) as caught:
        stream.join(plain, grace="1 second")
    assert caught.value.at is not None and caught.value.at.file.endswith("test_versioned_table.py")
    with pytest.raises(TopologyError, match="the grace of 2 minutes is longer than the history of table t, 1 minute"):
        stream.join(versioned.filter("v > 1"), grace="2 minutes")
    with pytest.raises(TopologyError, match=r"expected within=sk\.within\(…, grace=…\), and no grace="):
        stream.join(stream, within=sk.within("1 s", grace="0 s"), grace="1 second")
    with pytest.raises(TopologyError, match="the history of the table 't' is 0 long"):
        app.table("t", versioned="0 s")
    with pytest.raises(ConfigError, match="history of a versioned table"):
        app.table("t", versioned="-1 day")


def test_newest_results_do_not_wait() -> None:
    """Which rows emit('latest') gives depends on the cut, so a join with grace refuses them."""
    app = sk.Topology("app")
    stream = app.stream("s", schema="k string, w int", key="k")
    table = app.table("t", schema="k string, v int", key="k", versioned="1 minute")
    stream.group_by_key().count().emit("latest").join(table, grace="1 second").to("out")
    with pytest.raises(TopologyError, match=r"emit\('latest'\) wait for a table would depend on how the input is cut"):
        compile(app)


def is_slow(run: Run) -> bool:
    """Whether epochs are so short that few records must do."""
    return run.records_max is not None and run.records_max < 10


def joined(how: str, grace: int | None) -> sk.Topology:
    """The stream joined with the table, and the table's changes."""
    app = sk.Topology("app")
    table = app.table("t", versioned=f"{HISTORY} ms", store="kept")
    app.stream("s").join(table, how=how, name="join", grace=None if grace is None else f"{grace} ms").to("out")
    table.to_stream().to("changes")
    return app


def fill(log: Log, seed: int, count: int) -> None:
    """The topics of the stream and of the table, with random rows."""
    random = np.random.default_rng(seed)
    for topic, value, partitions in (("s", "w", 2), ("t", "v", 3)):
        log.create_topic(topic, f"k string, {value} bigint", key="k", partitions=partitions)
        for _ in range(3):
            append(log, topic, rows(random, topic, count, int(random.integers(-10, 60))))


def rows(random: np.random.Generator, topic: str, count: int, first_ms: int) -> list[dict[str, Any]]:
    """Rows of few keys, with ties, late ones, nulls and tombstones."""
    times = first_ms + np.cumsum(random.choice([0, 0, 1, 2, 5], count)) - random.choice([0, 0, 0, 1, 4, 20, 40], count)
    keys = random.choice(np.array(["a", "b", "c", None], object), count, p=[0.4, 0.3, 0.25, 0.05])
    name = {"s": "w", "t": "v"}[topic]
    return [
        {"k": key, name: int(random.integers(1000)), "ts": int(time), "deleted": key is not None and random.random() < 0.15}
        for key, time in zip(keys, times, strict=True)
    ]


def by_hand(log: Log, program: Program, how: str, grace: int | None) -> JoinByHand:
    topics = topics_of(program)
    expected = JoinByHand(how, HISTORY, grace, topics.index("t"))
    expected.run(canonical_order(waiting(log, topics)))
    return expected


def topics_of(program: Program) -> list[str]:
    """The topics in the order of the inputs, which is that of records whose order keys are equal."""
    return [source.topic for source in program.inputs]


def results(log: Log) -> list[Result]:
    return [(e.row["k"], e.row["w"], e.row["v"], e.timestamp) for e in written(log, "out")]


def by_key(found: Sequence[tuple[Any, ...]]) -> dict[Any, list[tuple[Any, ...]]]:
    """The rows of each key in their order; those without a key have none."""
    lists: dict[Any, list[tuple[Any, ...]]] = {}
    for row in found:
        lists.setdefault(row[0], []).append(row)
    return {key: sorted(some) if key is None else some for key, some in lists.items()}


@pytest.mark.parametrize("batching", ["one", "all"])
def test_a_row_that_came_out_of_order_is_in_no_group(batching):
    """A row that is older than its key's newest, which an earlier epoch may have brought, changes no group; one of its time replaces it."""
    app = sk.Topology("app")
    table = app.table("t", schema="k string, v bigint", key="k", versioned=f"{HISTORY} ms")
    table.group_by("v").count(store="counts")
    with TopologyTestDriver(app, batching=batching) as driver:
        for time, value in ((10, 1), (5, 2), (10, 3), (9, 4)):
            driver.pipe("t", {"k": "a", "v": value}, timestamp=time)
        assert {row["v"]: row["count"] for row in driver.store("counts").to_arrow().to_pylist() if row["count"]} == {3: 1}


def test_a_version_is_in_one_place_wherever_it_moves() -> None:
    """A deletion that a row of its time replaces is gone, and one that is followed later leaves the list in which it was the newest."""
    with TopologyTestDriver(versioned_join(None), batching="one") as driver:

        def former() -> list[int]:
            return sorted(time for row in driver.store("kept-history").to_arrow().to_pylist() for time in row["_timestamp"])

        driver.pipe("t", {"k": "a", "v": 1}, timestamp=0)
        driver.delete("t", {"k": "a"}, timestamp=2)
        driver.pipe("t", {"k": "a", "v": 2}, timestamp=2)
        driver.pipe("s", {"k": "a", "w": 0}, timestamp=3)
        assert driver.read("out")[0]["v"] == 2
        assert former() == [0]
        driver.delete("t", {"k": "a"}, timestamp=4)
        driver.pipe("t", {"k": "a", "v": 3}, timestamp=20)
        assert former() == [0, 2, 4]
        driver.delete("t", {"k": "b"}, timestamp=20)
        driver.pipe("t", {"k": "b", "v": 4}, timestamp=20)
        assert former() == [0, 2, 4]


@pytest.mark.parametrize("batching", ["one", "all"])
def test_a_record_older_than_the_history_meets_the_newest_row_alone(batching: str) -> None:
    """What the table had so long ago is forgotten; where nothing came since, the newest row is still what it had."""
    with TopologyTestDriver(versioned_join(None), batching=batching) as driver:
        for key, time in (("a", 0), ("b", 0), ("b", 50), ("c", 100)):
            driver.pipe("t", {"k": key, "v": time}, timestamp=time)
        for key, time in (("z", 100), ("a", 1), ("b", 1), ("b", 51)):
            driver.pipe("s", {"k": key, "w": time}, timestamp=time)
        found = [(row["k"], row["w"], row["v"]) for row in driver.read("out")]
        assert sorted(found) == [("a", 1, 0), ("b", 1, None), ("b", 51, 50), ("z", 100, None)]


@pytest.mark.parametrize("cuts", [(2,), (1, 3), (1, 2, 4)], ids=str)
def test_records_of_one_time_wait_together(cuts: tuple[int, ...]) -> None:
    """Records of the same key and time that came in different epochs are all joined, in the order in which they came."""
    records = [("a", 10)] * 4 + [("z", 20)]
    with TopologyTestDriver(versioned_join(9), batching="all") as driver:
        driver.pipe("t", {"k": "a", "v": 1}, timestamp=5)
        for number, (key, time) in enumerate(records):
            if number in cuts:
                assert driver.read("out") == []
            driver.pipe("s", {"k": key, "w": number}, timestamp=time)
        assert [(row["w"], row["v"]) for row in driver.read("out")] == [(number, 1) for number in range(4)]


@pytest.mark.parametrize("batching", ["one", "all"])
def test_a_record_that_is_a_version_too_meets_itself(batching: str) -> None:
    """A stream that is joined with the table that it makes meets the version of its own place, and none that comes behind it."""
    app = sk.Topology("app")
    stream = app.stream("t", schema="k string, v bigint", key="k")
    stream.join(stream.to_table(versioned=f"{HISTORY} ms").rename(v="own"), how="left").to("out")
    with TopologyTestDriver(app, batching=batching) as driver:
        for time, value in ((10, 1), (10, 2), (5, 3), (12, 4), (7, 5)):
            driver.pipe("t", {"k": "a", "v": value}, timestamp=time)
        assert [(row["v"], row["own"]) for row in driver.read("out")] == [(number, number) for number in range(1, 6)]


def versioned_join(grace: int | None) -> sk.Topology:
    """A stream beside the table with history."""
    app = sk.Topology("app")
    table = app.table("t", schema="k string, v bigint", key="k", versioned=f"{HISTORY} ms", store="kept")
    more: dict[str, Any] = {} if grace is None else {"grace": f"{grace} ms"}
    app.stream("s", schema="k string, w bigint", key="k").join(table, how="left", **more).to("out", partitions=1)
    return app


@pytest.mark.parametrize(
    ("kind", "batching"), [("table", "each"), *((kind, "all") for kind in ("table", "to_table", "filtered", "windows"))]
)
def test_a_table_that_goes_ahead_takes_no_row_from_records_that_wait(kind: str, batching: Any) -> None:
    """
    A run that is drained after each day gives what one run gives.

    The next day begins with records of the table, by which its history has left those behind that wait for the stream's time.
    """
    days = 3 if TAKES_ALL else 2

    def results_of(is_daily: bool) -> list[tuple[Any, ...]]:
        app = sk.Topology("app")
        rates = (
            app.stream("rates", schema="k string, v int", key="k").to_table(versioned="1 hour")
            if kind == "to_table"
            else app.table("rates", schema="k string, v int", key="k", versioned="1 hour")
        )
        rates = rates.filter("v <> 13") if kind == "filtered" else rates
        joined = app.stream("paid", schema="k string, n int", key="k").join(rates, grace="10 minutes", how="left")
        if kind == "windows":
            windows = sk.tumbling("30 minutes", grace="1 minute")
            joined.group_by_key().windowed_by(windows).agg(n=F.sum("n"), v=F.sum("v")).emit("final").to("out")
        else:
            joined.to("out")
        with TopologyTestDriver(app, batching=batching) as driver:
            for day in range(1, days + 1):
                for number, (hour, v) in enumerate((("01:00", 13), ("02:00", day), ("03:00", 10 * day))):
                    driver.pipe("rates", {"k": "ab"[number % 2], "v": v}, timestamp=f"2020-01-0{day} {hour}")
                    driver.pipe("rates", {"k": "a", "v": v}, timestamp=f"2020-01-0{day} {hour}")
                driver.pipe("paid", [{"k": key, "n": day} for key in "abc"], timestamp=f"2020-01-0{day} 03:05")
                driver.pipe("paid", [{"k": "a", "n": 5}], timestamp=f"2020-01-0{day} 02:59")
                if is_daily:
                    driver.drain()
            driver.drain()
            return sorted((row["k"], str(row["_timestamp"]), row["n"], row["v"]) for row in driver.read("out"))

    once = results_of(False)
    assert once == results_of(True)
    assert sum(row[3] is not None for row in once) >= 2 * days
