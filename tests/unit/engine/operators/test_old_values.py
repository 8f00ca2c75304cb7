"""Changes of a table with the values they replace, and when a filter gives deletions of what was never there."""

from __future__ import annotations

from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.testing import TopologyTestDriver
from tests.kit.sampling import TAKES_ALL

CUTS = [(2, "one"), (7, "all"), (2, 3), (1, "one")] if TAKES_ALL else [(2, 2), (3, "all")]
PIPED: list[tuple[str, int | None, int]] = [
    ("a", 1, 5), ("b", 1, 10), ("a", 2, 15), ("b", 2, 8), ("a", 3, 20), ("a", None, 10), ("c", None, 11), ("b", None, 20), ("a", 4, 21),
]  # fmt: skip


def found(topology: sk.Topology, *topics: str, tasks: int = 1, batching: Any = "one") -> list[dict[str, list[tuple[Any, ...]]]]:
    """For each topic and key what came, in order: values, event time in ms, None for the values of a deletion."""
    with TopologyTestDriver(topology, tasks=tasks, batching=batching) as driver:
        for key, value, time in PIPED:
            driver.pipe("in", {"k": key, "v": value} | ({"_deleted": True} if value is None else {}), timestamp=time)
        return [_by_key(driver.read(topic)) for topic in topics]


def _by_key(rows: list[dict[str, Any]]) -> dict[str, list[tuple[Any, ...]]]:
    keys: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        time = round(row["_timestamp"].timestamp() * 1000)
        values = [value for name, value in row.items() if name != "k" and not name.startswith("_")]
        keys.setdefault(row["k"], []).append((*values, time, row["_deleted"]))
    return keys


def table(app: sk.Topology) -> sk.Table:
    return app.table("in", schema="k string, v int", key="k")


@pytest.mark.parametrize(("tasks", "batching"), CUTS)
def test_each_change_has_the_value_it_replaces(tasks: int, batching: Any) -> None:
    """The old value is null if there was no row; a deletion has it too. A deletion of what was not there is a change as well."""
    app = sk.Topology("old")
    table(app).emit("every", old=True).to("source")
    table(app).map_values(lambda row: {"w": row["v"] * 10}, "w int").emit("every", old=True).to("mapped")
    source, mapped = found(app, "source", "mapped", tasks=tasks, batching=batching)

    assert source == {
        "a": [(1, None, 5, False), (2, 1, 15, False), (3, 2, 20, False), (None, 3, 10, True), (4, None, 21, False)],
        "b": [(1, None, 10, False), (2, 1, 8, False), (None, 2, 20, True)],
        "c": [(None, None, 11, True)],
    }
    assert mapped["a"] == [
        (10, None, 5, False),
        (20, 10, 15, False),
        (30, 20, 20, False),
        (None, 30, 10, True),
        (40, None, 21, False),
    ]


@pytest.mark.parametrize(("tasks", "batching"), CUTS)
def test_a_filter_with_old_values_deletes_only_what_was_there(tasks: int, batching: Any) -> None:
    """With old values a row that did not match before and does not now gives nothing; without them it gives a deletion."""
    app = sk.Topology("filtered")
    table(app).filter("v % 2 = 0").emit("every", old=True).to("with_old")
    other = sk.Topology("without")
    table(other).filter("v % 2 = 0").to_stream().to("without")
    (with_old,) = found(app, "with_old", tasks=tasks, batching=batching)
    (without,) = found(other, "without", tasks=tasks, batching=batching)

    assert with_old == {
        "a": [(2, None, 15, False), (None, 2, 20, True), (4, None, 21, False)],
        "b": [(2, None, 8, False), (None, 2, 20, True)],
    }
    assert without["a"] == [(None, 5, True), (2, 15, False), (None, 20, True), (None, 10, True), (4, 21, False)]
    assert without["c"] == [(None, 11, True)]


@pytest.mark.parametrize(("tasks", "batching"), CUTS)
def test_a_filter_below_a_grouping_knows_old_values(tasks: int, batching: Any) -> None:
    """Where a filtered table is grouped by another key, its stream has no deletions of what was never there, as in Kafka Streams."""
    app = sk.Topology("grouped")
    even = table(app).filter("v % 2 = 0")
    even.to_stream().to("stream")
    even.group_by("v").count(store="counts")
    (stream,) = found(app, "stream", tasks=tasks, batching=batching)

    assert stream == {"a": [(2, 15, False), (None, 20, True), (4, 21, False)], "b": [(2, 8, False), (None, 20, True)]}


@pytest.mark.parametrize(("tasks", "batching"), [(1, "one"), (7, "all")])
def test_a_filter_of_kept_rows_knows_old_values(tasks: int, batching: Any) -> None:
    """Rows that a store, an aggregation or a join keeps anyway tell a filter what was there; newest rows are not unfolded for that."""
    app = sk.Topology("kept")
    app.table("in", schema="k string, v int", key="k", store="kept").filter("v % 2 = 0").to_stream().to("store")
    counts = app.stream("in", schema="k string, v int", key="k").group_by_key().agg(v=F.count("*"))
    counts.filter("v % 2 = 0").to_stream().to("counts")
    counts.filter("v % 2 = 0").to("newest")
    table(app).join(counts.rename(v="n")).filter("v % 2 = 0").select("v").to_stream().to("joined")
    store, counted, joined = found(app, "store", "counts", "joined", tasks=tasks, batching=batching)

    assert store == {"a": [(2, 15, False), (None, 20, True), (4, 21, False)], "b": [(2, 8, False), (None, 20, True)]}
    assert counted == {"a": [(2, 15, False), (None, 20, True), (4, 21, False)], "b": [(2, 10, False)]}
    assert all(key != "c" for key in joined)


@pytest.mark.parametrize(("tasks", "batching"), CUTS)
def test_a_filter_below_a_join_knows_what_was_kept(tasks: int, batching: Any) -> None:
    """A join of a filtered table deletes no row of a key that never matched, if the rows below the filter are kept."""
    app = sk.Topology("joined")
    even = app.table("in", schema="k string, v int", key="k", store="kept").filter("v % 2 = 0")
    counts = app.stream("in", schema="k string, v int", key="k").group_by_key().agg(n=F.count("*"))
    even.join(counts).to_stream().to("joined")
    (joined,) = found(app, "joined", tasks=tasks, batching=batching)

    assert joined == {
        "a": [(2, 1, 15, False), (2, 2, 15, False), (None, None, 20, True), (4, 3, 21, False), (4, 4, 21, False)],
        "b": [(2, 1, 10, False), (2, 2, 10, False), (None, None, 20, True)],
    }


@pytest.mark.parametrize(("tasks", "batching"), CUTS)
def test_a_filter_of_held_back_rows_knows_what_was_given(tasks: int, batching: Any) -> None:
    """Behind a suppress a filter deletes only what came before; behind final results it deletes nothing."""
    app = sk.Topology("held")
    table(app).suppress(until=sk.time_limit("0 ms")).filter("v % 2 = 0").to_stream().to("given")
    events = app.stream("in", schema="k string, v int", key="k").group_by_key()
    counts = events.windowed_by(sk.tumbling("10 ms", grace="0 ms")).agg(v=F.count("*"))
    counts.suppress(until=sk.window_closes()).filter("v % 2 = 0").to_stream().to("finals")
    given, finals = found(app, "given", "finals", tasks=tasks, batching=batching)

    assert given == {"a": [(2, 15, False), (None, 20, True), (4, 21, False)], "b": [(2, 8, False), (None, 20, True)]}
    assert finals == {}


def test_final_results_replace_nothing() -> None:
    """With old values, a final result comes as the first of its window, and a grouping behind it adds it once."""
    app = sk.Topology("finals")
    events = app.stream("in", schema="k string, v int", key="k").group_by_key()
    finals = events.windowed_by(sk.tumbling("10 ms", grace="0 ms")).agg(v=F.sum("v")).suppress(until=sk.window_closes())
    finals.emit("every", old=True).select("v", "old_v").to("changes")
    finals.group_by("k").agg(total=F.sum("v")).to_stream().to("totals")
    changes, totals = found(app, "changes", "totals")

    assert {key: [row[-4:-2] for row in rows] for key, rows in changes.items()} == {"a": [(1, None), (2, None)], "b": [(1, None)]}
    assert {key: rows[-1][0] for key, rows in totals.items()} == {"a": 3, "b": 1}


def test_newest_changes_replace_what_was_there_before_the_epoch() -> None:
    """The changes of a key within an epoch are one change, from the row before the epoch to the newest."""
    app = sk.Topology("newest")
    table(app).emit("latest", old=True).to("out")
    with TopologyTestDriver(app, batching="each") as driver:
        driver.pipe("in", [{"k": "a", "v": 1}, {"k": "a", "v": 2}, {"k": "b", "v": 7}])
        driver.pipe("in", [{"k": "a", "v": 3}, {"k": "a", "v": 4}])

        assert driver.read("out", "k", "v", "old_v") == [
            {"k": "a", "v": 2, "old_v": None}, {"k": "b", "v": 7, "old_v": None}, {"k": "a", "v": 4, "old_v": 2},
        ]  # fmt: skip


@pytest.mark.parametrize(("tasks", "batching"), CUTS)
def test_results_of_aggregates_have_old_values(tasks: int, batching: Any) -> None:
    """Aggregates, also in windows and by functions, say what the result was before."""
    app = sk.Topology("results")
    events = app.stream("in", schema="k string, v int", key="k").group_by_key()
    events.agg(n=F.count("*")).emit("every", old=True).to("columns")
    events.aggregate({"n": 0}, lambda state, row: {"n": state["n"] + 1}, "n int").emit("every", old=True).to("functions")
    events.windowed_by(sk.tumbling("16 ms", grace="1 hour")).count().emit("every", old=True).select("count", "old_count").to(
        "windows"
    )
    columns, functions, windows = found(app, "columns", "functions", "windows", tasks=tasks, batching=batching)

    assert columns == functions
    assert columns["a"] == [(1, None, 5, False), (2, 1, 15, False), (3, 2, 20, False), (4, 3, 21, False)]
    assert [row[-4:-2] for row in windows["a"]] == [(1, None), (2, 1), (1, None), (2, 1)]


@pytest.mark.parametrize(("tasks", "batching"), CUTS)
def test_what_comes_out_of_order_is_not_an_old_value(tasks: int, batching: Any) -> None:
    """Of a table with history, a change is beside the row that was the newest before it: one that came out of order never was."""
    app = sk.Topology("history")
    app.table("in", schema="k string, v int", key="k", versioned="1 hour").emit("every", old=True).to("changes")
    (changes,) = found(app, "changes", tasks=tasks, batching=batching)

    assert changes == {
        "a": [(1, None, 5, False), (2, 1, 15, False), (3, 2, 20, False), (None, 3, 10, True), (4, 3, 21, False)],
        "b": [(1, None, 10, False), (2, 1, 8, False), (None, 1, 20, True)],
        "c": [(None, None, 11, True)],
    }
