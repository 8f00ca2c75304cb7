"""Sessions and sliding windows as tables: which values their changes replace, however the work is cut."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.testing import TopologyTestDriver
from tests.kit.engine_run import moment
from tests.kit.sampling import TAKES_ALL, chosen, first, in_turn

CUTS = [(1, "one"), (1, "all"), (3, 5)]  # tasks, and which records an epoch takes
WINDOWS: dict[str, Callable[[], Any]] = {
    "sessions": lambda: sk.session("5 ms", grace="10 ms"),
    "sessions without grace": lambda: sk.session("5 ms", grace="0 ms"),
    "sliding": lambda: sk.sliding("5 ms", grace="10 ms"),
}
WAYS = [  # each kind of window by columns and by functions
    (window, by, *CUTS[cut])
    for window, by, cut in chosen([*product(WINDOWS, ("columns", "functions"), (1, 2))], lambda way: {(way[0], way[1]), way[2]})
]
Row = dict[str, Any]
Piped = list[tuple[str, int, int]]


def records(seed: int, count: int = 40 if TAKES_ALL else 30) -> Piped:
    """Keys, values and event times in ms at random, often at one moment, some late."""
    chance, now, piped = random.Random(seed), 100, []
    for _ in range(count):
        now += chance.choice([0, 0, 1, 3, 9])
        piped.append((chance.choice("abc"), chance.randrange(4), now - chance.choice([0, 0, 0, 4, 12])))
    return piped


def sums(app: sk.Topology, window: Any, by: str) -> sk.Table:
    """The sum of the values of each window, by columns or by a function."""
    grouped = app.stream("in", schema="k string, v bigint", key="k").group_by_key().windowed_by(window)
    if by == "columns":
        return grouped.agg(n=F.sum("v"))
    return grouped.reduce(lambda one, other: {"v": one["v"] + other["v"]}).rename(v="n")


def read(topology: sk.Topology, piped: Piped, *topics: str, tasks: int = 1, batching: Any = "one") -> list[list[Row]]:
    with TopologyTestDriver(topology, tasks=tasks, batching=batching) as driver:
        driver.pipe("in", [{"k": key, "v": value, "_timestamp": moment(time)} for key, value, time in piped])
        return [driver.read(topic) for topic in topics]


def window_of(row: Row) -> tuple[Any, ...]:
    return row["k"], row["window_start"], row["window_end"]


@pytest.mark.parametrize("by", ["columns", "functions"])
@pytest.mark.parametrize("window", WINDOWS)
def test_a_result_replaces_the_one_of_its_window_before_it(window: str, by: str) -> None:
    """The old value of each change is the newest that its key and window had, none after a deletion, whatever the tasks and cuts."""
    app = sk.Topology("old")
    sums(app, WINDOWS[window](), by).emit("every", old=True).to("out")
    for seed in first(1, range(2)):
        results = [
            read(app, records(seed), "out", tasks=tasks, batching=batching)[0]
            for tasks, batching in (CUTS if TAKES_ALL else CUTS[1:])
        ]
        for rows in results:
            kept: dict[Any, Any] = {}
            for row in rows:
                assert row["old_n"] == kept.get(window_of(row))
                kept[window_of(row)] = None if row["_deleted"] else row["n"]
        by_key = [{key: [(window_of(r), r["n"], r["old_n"]) for r in rows if r["k"] == key] for key in "abc"} for rows in results]
        assert all(one == by_key[0] for one in by_key)
        assert any(r["old_n"] is not None and r["n"] is not None for r in results[0])


@pytest.mark.parametrize(("window", "by", "tasks", "batching"), WAYS)
def test_a_filter_deletes_only_windows_that_matched(window: str, by: str, tasks: int, batching: Any) -> None:
    """A window that did not match before and does not now gives nothing; one that does not match any more is deleted."""
    app = sk.Topology("filtered")
    table = sums(app, WINDOWS[window](), by)
    table.filter("coalesce(n, 0) % 2 = 0").to_stream().to("even")
    table.to_stream().to("all")
    even, everything = read(app, records(7), "even", "all", tasks=tasks, batching=batching)

    kept: dict[Any, int] = {}
    expected: dict[str, list[Any]] = {key: [] for key in "abc"}
    for row in everything:
        matches, matched = not row["_deleted"] and row["n"] % 2 == 0, kept.pop(window_of(row), None) is not None
        if matches:
            kept[window_of(row)] = row["n"]
        if matches or matched:
            expected[row["k"]].append((window_of(row), row["n"] if matches else None, not matches))
    assert {key: [(window_of(row), row["n"], row["_deleted"]) for row in even if row["k"] == key] for key in "abc"} == expected


@pytest.mark.parametrize(("window", "by", "tasks", "batching"), WAYS)
def test_windows_are_grouped_by_their_values(window: str, by: str, tasks: int, batching: Any) -> None:
    """How many windows have a sum: a window leaves the group of its old sum, also a session of one moment that takes another record."""
    app = sk.Topology("grouped")
    table = sums(app, WINDOWS[window](), by)
    table.group_by("n").count().to_stream().to("counts")
    table.to_stream().to("all")
    counts, everything = read(app, records(11), "counts", "all", tasks=tasks, batching=batching)

    newest = {window_of(row): None if row["_deleted"] else row["n"] for row in everything}
    sums_found = [value for value in newest.values() if value is not None]
    last = {row["n"]: row["count"] for row in counts}
    assert {value: count for value, count in last.items() if count} == {value: sums_found.count(value) for value in sums_found}


@pytest.mark.parametrize(("tasks", "batching", "by"), [(*cut, by) for cut, by in in_turn(CUTS, ["columns", "functions"])])
def test_a_session_takes_the_place_of_a_closed_one_with_its_bounds(by: str, tasks: int, batching: Any) -> None:
    """A session that takes no more records is replaced by another of the same moment, and its value is the old one."""
    app = sk.Topology("twins")
    sums(app, sk.session("5 ms", grace="10 ms"), by).emit("every", old=True).to("out")
    (rows,) = read(app, [("a", 1, 100), ("b", 1, 115), ("a", 2, 100)], "out", tasks=tasks, batching=batching)

    assert [(row["n"], row["old_n"]) for row in rows if row["k"] == "a"] == [(1, None), (2, 1)]


@pytest.mark.parametrize(("tasks", "batching"), first(2, CUTS[::-1]))
def test_final_results_replace_nothing(tasks: int, batching: Any) -> None:
    """A table of final results has no old values, so a filter deletes nothing, and groups of windows only grow."""
    app = sk.Topology("final")
    final = sums(app, sk.sliding("5 ms", grace="10 ms"), "columns").suppress(until=sk.window_closes())
    final.emit("every", old=True).to("old")
    final.filter("n % 2 = 0").to_stream().to("even")
    final.group_by("n").count().to_stream().to("counts")
    piped = [*records(5), ("z", 9, 10_000)]
    old, even, counts = read(app, piped, "old", "even", "counts", tasks=tasks, batching=batching)

    assert old
    assert all(row["old_n"] is None and row["n"] is not None for row in old)
    assert sorted(map(window_of, even)) == sorted(window_of(row) for row in old if row["n"] % 2 == 0)
    assert not any(row["_deleted"] for row in even)
    found = [row["n"] for row in old]
    assert {row["n"]: row["count"] for row in counts} == {value: found.count(value) for value in found}
