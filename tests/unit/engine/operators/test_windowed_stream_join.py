"""Streams joined with tables of windows: which row a record meets, until when, and that neither tasks nor cuts matter."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopologyError
from streamkit.testing import TopologyTestDriver
from tests.kit.engine_run import moment
from tests.kit.sampling import first

CUTS: list[tuple[int, Any]] = [(1, 4), (3, 11), (2, "all")]  # tasks, and which records an epoch takes
SIZE_MS, GRACE_MS, RETENTION_MS = 10, 5, 30
SCHEMA = "k string, v bigint, f timestamp, t timestamp"  # a record with the bounds of a window asks for its row
ASKED = {"k": "k", "f": "window_start", "t": "window_end"}
WINDOWS: dict[str, Callable[[], Any]] = {
    "tumbling": lambda: sk.tumbling("10 ms", grace="5 ms"),
    "hopping": lambda: sk.hopping("10 ms", "5 ms", grace="5 ms"),
    "sessions": lambda: sk.session("5 ms", grace="10 ms"),
    "sliding": lambda: sk.sliding("5 ms", grace="10 ms"),
}
Row = dict[str, Any]


def asking(how: str = "left") -> sk.Topology:
    """Records that ask for windows of the sums of the others."""
    app = sk.Topology("asking")
    records = app.stream("in", schema=SCHEMA, key="k")
    window = sk.tumbling(f"{SIZE_MS} ms", grace=f"{GRACE_MS} ms", retention=f"{RETENTION_MS} ms")
    sums = records.filter("t IS NULL AND v IS NOT NULL").group_by_key().windowed_by(window).agg(s=F.sum("v"))
    records.filter("v IS NULL").join(sums, on=ASKED, how=how).select("k", "s").to("out")
    return app


def adding(key: str, value: int, time: int) -> Row:
    return {"k": key, "v": value, "f": None, "t": None, "_timestamp": moment(time)}


def question(key: str | None, start: int | None, end: int | None, time: int) -> Row:
    bounds = {"f": None if start is None else moment(start), "t": None if end is None else moment(end)}
    return {"k": key, "v": None, **bounds, "_timestamp": moment(time)}


def random_records(seed: int, count: int = 120) -> list[Row]:
    """Records to add up, often late, and questions for windows of right and wrong lengths, often old ones, some without a bound."""
    chance, now, rows = random.Random(seed), 100, []
    for number in range(count):
        now += chance.choice([0, 0, 1, 3, 9])
        time = now - chance.choice([0, 0, 0, 4, 12])
        if chance.random() < 0.5:
            rows.append(adding(chance.choice("ab"), number, time))
            continue
        start = now // SIZE_MS * SIZE_MS - chance.choice([0, 0, 10, 10, 20, 30, 40])
        end = chance.choice([start + SIZE_MS] * 5 + [start + 9, None])
        rows.append(question(chance.choice("ab"), chance.choice([start] * 9 + [None]), end, time))
    return rows


def by_hand(rows: list[Row]) -> list[tuple[str, int | None]]:
    """What each question meets: the sum as it is then, of a window that has not been forgotten."""
    sums: dict[tuple[str, int], int] = {}
    now, found = 0, []
    for row in rows:
        time = round(row["_timestamp"].timestamp() * 1000)
        now = max(now, time)
        if row["v"] is not None:
            start = time // SIZE_MS * SIZE_MS
            if start + SIZE_MS + GRACE_MS > now:
                sums[row["k"], start] = sums.get((row["k"], start), 0) + row["v"]
            continue
        start, end = (-1 if row[name] is None else round(row[name].timestamp() * 1000) for name in ("f", "t"))
        is_one = end == start + SIZE_MS and start + RETENTION_MS >= now
        found.append((row["k"], sums.get((row["k"], start)) if is_one else None))
    return found


def given(app: sk.Topology, rows: list[Row], *, tasks: int = 1, batching: Any = "one", topic: str = "out") -> list[Row]:
    with TopologyTestDriver(app, tasks=tasks, batching=batching) as driver:
        driver.pipe("in", rows)
        found: list[Row] = driver.read_all(topic)
        return found


@pytest.mark.parametrize("how", ["left", "inner"])
def test_a_record_meets_the_row_of_its_key_and_window(how: str) -> None:
    """A record meets the row as of its place while the table keeps the window, by the record's stream time, whatever the tasks and cuts."""
    for seed in first(1, range(8)):
        rows = random_records(seed)
        wanted = [one for one in by_hand(rows) if how == "left" or one[1] is not None]
        assert len({one[1] for one in wanted}) > 3
        for tasks, batching in first(2, CUTS):
            found = [(row["k"], row["s"]) for row in given(asking(how), rows, tasks=tasks, batching=batching)]
            for key in "ab":
                assert [one for one in found if one[0] == key] == [one for one in wanted if one[0] == key], (tasks, batching)


@pytest.mark.parametrize("name", WINDOWS)
def test_results_meet_the_table_that_they_are_of(name: str) -> None:
    """Every result of windows, joined with their table, meets itself; the final ones still find it, when their window closes."""
    app = sk.Topology("itself")
    sums = app.stream("in", schema="k string, v bigint", key="k").group_by_key().windowed_by(WINDOWS[name]()).agg(s=F.sum("v"))
    for mode in ("every", "final"):
        sums.emit(mode).join(sums.select(other="s"), how="left").to(mode)
    rows = [{name: one[name] for name in ("k", "v", "_timestamp")} for one in random_records(1, 80) if one["v"] is not None]
    for tasks, batching in first(1, CUTS[1:]):
        with TopologyTestDriver(app, tasks=tasks, batching=batching) as driver:
            driver.pipe("in", rows)
            assert {one.partition_by for one in driver.program.outputs} == {("k",)}  # as the windows, so that nothing moves again
            for mode in ("every", "final"):
                found = [row for row in driver.read(mode) if not row["_deleted"]]
                assert len(found) > 5
                assert all(row["other"] == row["s"] for row in found)


def test_windows_are_kept_until_the_stream_is_past_them() -> None:
    """A stream that is behind finds windows that their own stream has closed long ago; then the store forgets them."""
    app = sk.Topology("behind")
    window = sk.tumbling("10 ms", grace="5 ms")
    sums = app.stream("added", schema="k string, v bigint", key="k").group_by_key().windowed_by(window).agg(s=F.sum("v"))
    app.stream("in", schema=SCHEMA, key="k").join(sums, on=ASKED, how="left").to("out")
    for batching in ("one", "all"):
        with TopologyTestDriver(app, batching=batching) as driver:
            driver.pipe("added", [{"k": "a", "v": 1, "_timestamp": moment(0)}, {"k": "a", "v": 2, "_timestamp": moment(100_000)}])
            driver.pipe("in", [question("a", 0, 10, 3), question("a", 0, 10, 15), question("a", 0, 10, 16)])
            assert [row["s"] for row in driver.read("out")] == [1, 1, None]
            (kept,) = [store.name for store in driver.program.stores if store.name.endswith("-results")]
            assert driver.store(kept).to_arrow().column("s").to_pylist() == [2]


def test_windows_of_topics_and_of_tables_of_streams() -> None:
    """Windows that a topic holds, and those of a stream that became a table, with history too, are met, and found for good."""
    app = sk.Topology("topics")
    schema, key = "k string, window_start timestamp, window_end timestamp, v bigint", ["k", "window_start", "window_end"]
    questions = app.stream("in", schema=SCHEMA, key="k").drop("v")
    tables = {
        "topic": app.table("windows", schema=schema, key=key, windowed=sk.tumbling("10 ms", grace="0 ms")),
        "again": app.stream("windows", schema=schema, key=key).to_table(),
        "results": _results(app).to_stream().to_table(),
        "history": _results(app).to_stream().to_table(versioned="1 hour"),
    }
    for name, table in tables.items():
        questions.join(table, on=ASKED).to(name)
    for tasks, batching in CUTS:
        with TopologyTestDriver(app, tasks=tasks, batching=batching) as driver:
            bounds = {"window_start": moment(0), "window_end": moment(10)}
            for one, value in (("a", 1), ("b", 2)):
                driver.pipe("windows", {"k": one, **bounds, "v": value}, timestamp=1)
                driver.pipe("added", {"k": one, "v": value}, timestamp=1)
            driver.pipe("in", [question("a", 0, 10, 5), question("a", 0, 9, 5), question("b", 0, 10, 900_000)])
            for name in tables:
                assert sorted((row["k"], row["v"]) for row in driver.read(name)) == [("a", 1), ("b", 2)], name


def _results(app: sk.Topology) -> sk.Table:
    stream = app.stream("added", schema="k string, v bigint", key="k")
    return stream.group_by_key().windowed_by(sk.tumbling("10 ms", grace="5 ms")).agg(v=F.sum("v"))


def test_a_window_that_is_not_named_is_refused() -> None:
    """`on=` must name the bounds of windows, or the stream's key hold them."""
    for on, message in [
        ("k", "does not name their bounds window_start, window_end"),
        (None, r"the stream's key \['k'\] does not hold their bounds"),
    ]:
        app = sk.Topology("refused")
        app.stream("in", schema=SCHEMA, key="k").join(_results(app), on=on, suffix="_sum").to("out")
        with pytest.raises(TopologyError, match=message):
            app.explain()
