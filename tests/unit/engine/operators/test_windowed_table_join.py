"""Joins of tables whose keys have windows: what a change gives, whatever the tasks and cuts, and how long rows are kept."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopologyError
from streamkit.testing import TopologyTestDriver
from tests.kit.engine_run import moment
from tests.kit.sampling import TAKES_ALL, first, in_turn

CUTS = [(1, 4), (2, 9), (7, "all")]  # tasks, and which records an epoch takes
SIZE_MS, GRACE_MS = 10, 5
HOW = ["inner", "left", "outer"]
SCHEMA = "k string, side string, v bigint"
WINDOWS: dict[str, Callable[[], Any]] = {
    "hopping": lambda: sk.hopping("10 ms", "5 ms", grace="5 ms"),
    "sessions": lambda: sk.session("5 ms", grace="10 ms"),
    "sliding": lambda: sk.sliding("5 ms", grace="10 ms"),
}
Row = dict[str, Any]
Piped = list[tuple[str, str, int, int]]  # key, side, value, event time


def tumbling() -> Any:
    return sk.tumbling(f"{SIZE_MS} ms", grace=f"{GRACE_MS} ms")


def records(seed: int, count: int = 36 if TAKES_ALL else 28) -> Piped:
    """Records of both sides at random, often at one moment, some late."""
    chance, now, piped = random.Random(seed), 100, []
    for number in range(count):
        now += chance.choice([0, 0, 1, 3, 9])
        piped.append((chance.choice("ab"), chance.choice("lr"), number, now - chance.choice([0, 0, 0, 4, 12])))
    return piped


def side(app: sk.Topology, which: str, window: Any, topic: str = "in") -> sk.Table:
    """The sum of one side's values in each window, in a column named after the side."""
    rows = app.stream(topic, schema=SCHEMA, key="k").filter(F.col("side") == which)
    return rows.group_by_key().windowed_by(window).agg(F.sum("v").alias(which))


def read(app: sk.Topology, piped: Piped, *topics: str, tasks: int, batching: Any) -> list[list[Row]]:
    with TopologyTestDriver(app, tasks=tasks, batching=batching) as driver:
        rows = [{"k": key, "side": which, "v": value, "_timestamp": moment(time)} for key, which, value, time in piped]
        for begin in range(0, len(rows), 4):
            driver.pipe("in", rows[begin : begin + 4])
        return [driver.read(topic) for topic in topics]


def ms(moment: Any) -> int:
    found: int = round(moment.timestamp() * 1000)
    return found


def shown(rows: Sequence[Row], key: str) -> list[tuple[Any, ...]]:
    return [(ms(row["window_start"]), row["l"], row["r"], ms(row["_timestamp"])) for row in rows if row["k"] == key]


def by_hand(piped: Piped, how: str, key: str, right_size_ms: int = SIZE_MS) -> list[tuple[Any, ...]]:
    """What a join of both sides' tumbling windows gives for a key, by the rules of Kafka Streams; windows of two lengths meet by their starts."""
    sums: dict[tuple[str, int], tuple[int, int]] = {}
    given, now = [], 0
    for one, which, value, time in piped:
        size_ms = SIZE_MS if which == "l" else right_size_ms
        now, start = max(now, time), time // size_ms * size_ms
        if one != key or start + size_ms + GRACE_MS <= now:
            continue
        total, newest = sums.get((which, start), (0, time))
        sums[which, start] = (total + value, max(newest, time))
        found = [sums.get((other, start)) for other in "lr"]
        is_given = how == "outer" or None not in found or (how == "left" and found[0] is not None)
        if is_given:
            times = [row[1] for row in found if row is not None]
            given.append((start, *(None if row is None else row[0] for row in found), max(times)))
    return given


@pytest.mark.parametrize(("how", "cuts"), [(how, CUTS if TAKES_ALL else [cut]) for how, cut in in_turn(HOW, CUTS[:2])])
def test_a_change_meets_the_other_side_of_its_window(how: str, cuts: Sequence[Any]) -> None:
    """Each change of a window is joined with the other table's row of the same key and window, by any tasks and cuts."""
    app = sk.Topology("joined")
    side(app, "l", tumbling()).join(side(app, "r", tumbling()), how=how).to_stream().to("out")
    for seed, (tasks, batching) in enumerate(cuts):
        piped = records(seed)
        (rows,) = read(app, piped, "out", tasks=tasks, batching=batching)
        for key in "ab":
            assert shown(rows, key) == by_hand(piped, how, key)
        assert len(rows) > 2


@pytest.mark.parametrize(("how", "cut"), in_turn(HOW, CUTS[:2]))
def test_windows_of_two_lengths_meet_by_their_starts(how: str, cut: Any) -> None:
    """A table whose windows get other ends on their way through a stream is joined with windows of that length, each change of it, too."""
    app = sk.Topology("lengths")
    longer = side(app, "r", sk.tumbling(f"{2 * SIZE_MS} ms", grace=f"{GRACE_MS} ms"))
    ends = F.timestamp_millis(F.unix_millis("window_start") + SIZE_MS)
    moved = longer.to_stream().with_columns(own_end=F.col("window_end"), window_end=ends).to_table()
    side(app, "l", tumbling()).join(moved, how=how).to_stream().to("out")
    tasks, batching = cut
    piped = records(7)
    (rows,) = read(app, piped, "out", tasks=tasks, batching=batching)
    assert len(rows) > 2
    for key in "ab":
        assert shown(rows, key) == by_hand(piped, how, key, 2 * SIZE_MS)
    assert {ms(row["window_end"]) - ms(row["window_start"]) for row in rows} == {SIZE_MS}
    assert {ms(row["own_end"]) - ms(row["window_start"]) for row in rows if row["own_end"] is not None} == {2 * SIZE_MS}


@pytest.mark.parametrize("window", WINDOWS)
def test_all_kinds_of_windows_are_joined(window: str) -> None:
    """Sums and counts of the same windows, joined, end as what each table ends as; merged sessions are gone. Three tables are joined, too."""
    app = sk.Topology("kinds")
    stream = app.stream("in", schema=SCHEMA, key="k")
    sums, counts, most = (
        stream.group_by_key().windowed_by(WINDOWS[window]()).agg(value.alias(name))
        for name, value in (("s", F.sum("v")), ("n", F.count("*")), ("m", F.max("v")))
    )
    sums.join(counts).filter("n > 0").join(most, how="left").to_stream().to("out")
    stream.group_by_key().windowed_by(WINDOWS[window]()).agg(s=F.sum("v"), n=F.count("*"), m=F.max("v")).to_stream().to("all")
    for seed, (tasks, batching) in enumerate(first(1, CUTS[1:])):
        ends = [
            _newest(rows)
            for rows in read(app, records(seed, 36 if TAKES_ALL else 18), "out", "all", tasks=tasks, batching=batching)
        ]
        assert ends[0] == ends[1]
        assert len(ends[0]) > 5


@pytest.mark.parametrize(("tasks", "batching"), CUTS)
def test_a_row_that_vanishes_on_both_sides_is_deleted(tasks: int, batching: Any) -> None:
    """If one record deletes the rows of both sides, the joined row is deleted, once."""
    app = sk.Topology("together")
    table = app.table("in", schema="k string, side string, v bigint", key="k")
    table.select(one="v").join(table.select(other="v")).to_stream().to("out")
    with TopologyTestDriver(app, tasks=tasks, batching=batching) as driver:
        for time in (1, 2, 4):
            driver.pipe("in", {"k": "a", "side": "l", "v": time}, timestamp=time)
            driver.delete("in", {"k": "a"}, timestamp=time)
        driver.delete("in", {"k": "a"}, timestamp=5)
        assert [row["one"] for row in driver.read("out")] == [1, 1, None, 2, 2, None, 4, 4, None]


def _newest(rows: Sequence[Row]) -> dict[Any, Any]:
    kept: dict[Any, Any] = {}
    for row in rows:
        kept[row["k"], row["window_start"], row["window_end"]] = None if row["_deleted"] else (row["s"], row["n"], row["m"])
    return {key: row for key, row in kept.items() if row is not None}


@pytest.mark.parametrize("batching", ["one", "all"])
def test_a_window_is_kept_as_long_as_the_other_side_may_change_it(batching: str) -> None:
    """A row waits for a stream that is behind; when neither side changes the window any more, both stores forget it."""
    app = sk.Topology("behind")
    left, right = side(app, "l", tumbling(), "left"), side(app, "r", tumbling(), "right")
    left.join(right).to_stream().to("out")
    with TopologyTestDriver(app, batching=batching) as driver:
        driver.pipe("left", {"k": "a", "side": "l", "v": 1}, timestamp=0)
        driver.pipe("left", {"k": "a", "side": "l", "v": 2}, timestamp=100_000_000)
        driver.pipe("right", {"k": "a", "side": "r", "v": 3}, timestamp=5)
        assert [(row["l"], row["r"]) for row in driver.read("out")] == [(1, 3)]
        stores = [name for name in _stores(driver) if name.endswith("-results")]
        assert [driver.store(name).to_arrow().num_rows for name in stores] == [2, 1]
        driver.pipe("right", {"k": "b", "side": "r", "v": 3}, timestamp=200_000_000)
        driver.pipe("left", {"k": "b", "side": "l", "v": 3}, timestamp=200_000_000)
        assert [driver.store(name).to_arrow().column("k").to_pylist() for name in stores] == [["b"], ["b"]]
        assert driver.metrics()["expired"] >= 3


def _stores(driver: TopologyTestDriver) -> list[str]:
    return sorted(store.name for store in driver.program.stores)


def test_final_results_meet_once_both_have_been_given() -> None:
    """A join of final results gives one row a window, when the later of both windows closes."""
    app = sk.Topology("final")
    left, right = (
        side(app, which, tumbling(), topic).suppress(until=sk.window_closes()) for which, topic in (("l", "left"), ("r", "right"))
    )
    left.join(right).to_stream().to("out")
    for batching in ("one", "all"):
        with TopologyTestDriver(app, batching=batching) as driver:
            for topic, value, time in [("left", 1, 0), ("right", 2, 1), ("left", 4, 9), ("left", 8, 50), ("right", 16, 3)]:
                driver.pipe(topic, {"k": "a", "side": topic[0], "v": value}, timestamp=time)
            assert driver.read("out") == []
            driver.pipe("right", {"k": "a", "side": "r", "v": 32}, timestamp=60)
            assert [(ms(row["window_start"]), row["l"], row["r"]) for row in driver.read("out")] == [(0, 5, 18)]


@pytest.mark.parametrize(("tasks", "batching"), first(1, CUTS[1:]))
def test_changes_of_a_join_know_what_they_replace(tasks: int, batching: Any) -> None:
    """With old values each change of a joined, or held back, window has the row that it replaces; groups over it count right."""
    app = sk.Topology("old")
    joined = side(app, "l", tumbling()).join(side(app, "r", tumbling()), how="outer")
    joined.emit("every", old=True).to("out")
    joined.suppress(until=sk.time_limit("0 ms")).emit("every", old=True).to("held")
    joined.with_columns(both=F.col("l").isNotNull() & F.col("r").isNotNull()).group_by("both").count().to("counts")
    out, held, counts = read(app, records(3), "out", "held", "counts", tasks=tasks, batching=batching)
    for rows in (out, held):
        kept: dict[Any, Any] = {}
        for row in rows:
            window = (row["k"], row["window_start"])
            assert (row["old_l"], row["old_r"]) == kept.get(window, (None, None))
            kept[window] = (row["l"], row["r"])
    expected = Counter(None not in values for values in kept.values())
    assert {row["both"]: row["count"] for row in counts} == dict(expected)


@pytest.mark.parametrize("window", ["tumbling", "sessions"])
def test_a_stored_join_is_queried_by_key_and_window(window: str) -> None:
    """`store=` keeps the joined windows, which are found by their key and start."""
    app = sk.Topology("stored")
    make = tumbling if window == "tumbling" else WINDOWS[window]
    side(app, "l", make()).join(side(app, "r", make()), how="outer", store="joined")
    with TopologyTestDriver(app) as driver:
        for which, value, time in [("l", 1, 100), ("r", 2, 100), ("l", 4, 112)]:
            driver.pipe("in", {"k": "a", "side": which, "v": value}, timestamp=time)
        store, first = driver.store("joined"), 100
        assert [(row["l"], row["r"]) for row in store.to_arrow().to_pylist()] == [(1, 2), (4, None)]
        found = store.get("a", window_start=first)
        assert found is not None
        assert (ms(found["window_start"]), ms(found["window_end"])) == (100, 110 if window == "tumbling" else 100)
        assert (found["l"], found["r"]) == (1, 2)
        assert store.get("b", window_start=first) is None
        if window == "sessions":
            assert store.find("a").num_rows == 2


def test_a_table_of_windowed_records_is_joined_too() -> None:
    """A stream of windows that became a table again is joined with an aggregation by key and window."""
    app = sk.Topology("again")
    table = side(app, "l", tumbling()).to_stream().to_table()
    table.join(side(app, "r", tumbling()), on="k").to_stream().to("out")
    piped = records(5)
    for tasks, batching in CUTS[1:2]:
        (rows,) = read(app, piped, "out", tasks=tasks, batching=batching)
        assert [shown(rows, key) for key in "ab"] == [by_hand(piped, "inner", key) for key in "ab"]


def refused(join: Callable[[sk.Topology], Any]) -> str:
    app = sk.Topology("refused")
    join(app)
    with pytest.raises(TopologyError) as error:
        app.explain()
    return str(error.value)


def test_what_cannot_be_joined_is_refused() -> None:
    """Other windows, no windows, a foreign key, and a stream that names no window are refused with what was found and what is expected."""
    others = refused(lambda app: side(app, "l", tumbling()).join(side(app, "r", sk.session("5 ms", grace="0 ms"))).to("out"))
    assert "found tumbling 10 ms, grace 5 ms and session gap 5 ms" in others
    plain = "k string, r bigint"
    assert "no windows" in refused(lambda app: side(app, "l", tumbling()).join(app.table("t", schema=plain, key="k")).to("out"))
    by_value = refused(
        lambda app: side(app, "l", tumbling()).join(app.table("t", schema="id bigint, x int", key="id"), on={"l": "id"}).to("out")
    )
    assert "keys have no windows" in by_value
    stream = refused(lambda app: app.stream("in", schema=SCHEMA, key="k").join(side(app, "l", tumbling()), on="k").to("out"))
    assert "the table's keys have windows, and on= does not name their bounds" in stream
