"""Topics whose keys have windows, read as tables of windows: their final results, their joins, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopologyError
from streamkit.plan.node import structure_hash
from streamkit.plan.operators.source import TableSource
from streamkit.testing import TopologyTestDriver
from tests.kit.engine_run import moment
from tests.kit.sampling import TAKES_ALL, first

KEY = ["k", "window_start", "window_end"]
SCHEMA = "k string, window_start timestamp, window_end timestamp, v bigint"
CUTS = [(1, "one"), (3, 7), (2, "all")] if TAKES_ALL else [(1, 2), (3, 7)]  # tasks, and which records an epoch takes
WINDOWS: dict[str, Callable[[], Any]] = {
    "tumbling": lambda: sk.tumbling("10 ms", grace="5 ms"),
    "hopping": lambda: sk.hopping("10 ms", "5 ms", grace="0 ms"),
    "sessions": lambda: sk.session("5 ms", grace="4 ms"),
    "sliding": lambda: sk.sliding("5 ms", grace="4 ms"),
}
Row = dict[str, Any]
Record = tuple[Any, ...]


def tumbling(**options: Any) -> Any:
    return sk.tumbling("10 ms", **{"grace": "0 ms", **options})


def windows(app: sk.Topology, topic: str = "in", window: Any = None, **options: Any) -> sk.Table:
    return app.table(topic, schema=SCHEMA, key=KEY, windowed=window or tumbling(), **options)


def row(key: str, start: int | None, end: int | None, value: int | None, time: int) -> Row:
    """A row of a window, as it is piped; one without a value deletes."""
    bounds = {"window_start": None if start is None else moment(start), "window_end": None if end is None else moment(end)}
    deletion = {"_deleted": True} if value is None else {}
    return {"k": key, **bounds, "v": value, "_timestamp": moment(time), **deletion}


def ms(moment: Any) -> Any:
    return round(moment.timestamp() * 1000) if hasattr(moment, "timestamp") else moment


def shown(rows: Sequence[Row]) -> list[Record]:
    """Rows as tuples of their own columns, event time, and None for the values of a deletion."""
    return [(*(ms(one[name]) for name in one if not name.startswith("_")), ms(one["_timestamp"])) for one in rows]


def given(app: sk.Topology, rows: Sequence[Row], **options: Any) -> list[Record]:
    """What the topic `out` holds after these rows, each for the topic that its column `topic` names."""
    return given_to(app, rows, ["out"], **options)[0]


def given_to(
    app: sk.Topology, rows: Sequence[Row], topics: Sequence[str], *, tasks: int = 1, batching: Any = "one", drain: bool = False
) -> list[list[Record]]:
    with TopologyTestDriver(app, tasks=tasks, batching=batching) as driver:
        for topic, some in groupby(rows, lambda one: one.get("topic", "in")):
            driver.pipe(topic, [{name: value for name, value in one.items() if name != "topic"} for one in some])
        if drain:
            driver.drain()
        return [shown(driver.read_all(topic)) for topic in topics]


def random_records(seed: int, count: int = 40) -> list[Row]:
    chance, now, rows = random.Random(seed), 100, []
    for number in range(count):
        now += chance.choice([0, 1, 1, 3, 12])
        time = now - chance.choice([0, 0, 0, 2, 6])
        rows.append({"k": chance.choice("abc"), "v": number, "_timestamp": moment(time)})
    return rows


@pytest.mark.parametrize("name", WINDOWS)
def test_results_that_are_read_back_close_as_they_did(name: str) -> None:
    """The changes of windows, written to a topic and read as a table, give the final results that the windows gave themselves."""
    writer, reader = sk.Topology("writer"), sk.Topology("reader")
    counts = (
        writer.stream("in", schema="k string, v bigint", key="k").group_by_key().windowed_by(WINDOWS[name]()).agg(v=F.sum("v"))
    )
    counts.to_stream().to("changes")
    counts.emit("final").to("out")
    windows(reader, window=WINDOWS[name]()).emit("final").to("out")
    for seed, (tasks, batching) in enumerate(first(1, CUTS[1:])):
        with TopologyTestDriver(writer, batching="all") as driver:
            driver.pipe("in", random_records(seed))
            driver.drain()
            final, changes = shown(driver.read("out")), driver.read("changes")
        found = given(reader, [piped(one) for one in changes], tasks=tasks, batching=batching, drain=True)
        assert sorted(found) == sorted(final)
        assert len(final) > 10


def piped(change: Row) -> Row:
    deletion = {"_deleted": True} if change["_deleted"] else {}
    return {name: change[name] for name in (*KEY, "v", "_timestamp")} | deletion


@pytest.mark.parametrize(("tasks", "batching"), CUTS)
def test_a_change_of_a_closed_window_comes_at_once(tasks: int, batching: Any) -> None:
    """A window gives its newest row when it closes, then each change that is not a deletion at once, knowing what it replaces."""
    app = sk.Topology("late")
    table = windows(app, window=tumbling(grace="5 ms")).suppress(until=sk.window_closes())
    table.emit("every", old=True).to("out")
    rows = [
        row("a", 0, 10, 1, 3), row("a", 0, 10, 2, 14), row("a", 0, 10, 3, 15), row("a", 0, 10, None, 16), row("a", 0, 10, 4, 2),
        row("a", 20, 30, 5, 29), row("a", 20, 30, None, 30), row("a", 90, 95, 6, 100),
    ]  # fmt: skip
    wanted = [("a", 0, 10, 3, None, 15), ("a", 0, 10, 4, 3, 2), ("a", 90, 95, 6, None, 100)]
    assert given(app, rows, tasks=tasks, batching=batching) == wanted


def test_filters_and_windows_behind() -> None:
    """What a filter drops gives no final result; results of results are not late, however far a record moves time."""
    app = sk.Topology("behind")
    closed = windows(app).filter("v > 1").emit("final")
    closed.group_by("k").windowed_by(sk.tumbling("100 ms", grace="0 ms")).agg(v=F.sum("v")).emit("final").to("out")
    rows = [row("a", 0, 10, 1, 3), row("a", 10, 20, 4, 13), row("a", 90, 100, 8, 95), row("a", 900, 910, 2, 907)]
    for tasks, batching in CUTS[1:]:
        assert given(app, rows, tasks=tasks, batching=batching, drain=True) == [("a", 0, 100, 12, 95), ("a", 900, 1000, 2, 907)]


def test_a_time_limit_keeps_deletions() -> None:
    """Until a time limit, windows are held back as any row is, and their deletions come (Kafka Streams, sessions and a full buffer)."""
    app = sk.Topology("limited")
    limited = windows(app).suppress(until=sk.time_limit("1 hour"), max_rows=0, when_full="emit")
    limited.emit("every").to("out")
    assert given(app, [row("a", 0, 0, 1, 100), row("a", 0, 0, None, 100)]) == [("a", 0, 0, 1, 100), ("a", 0, 0, None, 100)]


@pytest.mark.parametrize("how", ["inner", "outer"])
def test_windows_of_topics_are_joined(how: str) -> None:
    """Windows that a topic holds are joined with those of another topic and of an aggregation, by key and window."""
    app = sk.Topology("joined")
    own, other = windows(app).rename(v="own"), windows(app, "others").rename(v="other")
    made = app.stream("events", schema="k string, n bigint", key="k").group_by_key().windowed_by(tumbling()).agg(n=F.sum("n"))
    own.join(other, how=how).emit("every", old=True).to("out")
    own.join(made, how=how).to_stream().to("with_made")
    rows = [
        row("a", 0, 10, 1, 1), row("a", 0, 9, 2, 2) | {"topic": "others"}, row("a", 0, 10, 3, 3) | {"topic": "others"},
        {"topic": "events", "k": "a", "n": 5, "_timestamp": moment(4)}, row("a", 0, 9, 4, 5),
        row("a", 700, 710, 5, 900), row("a", 0, 10, 6, 901) | {"topic": "others"},
    ]  # fmt: skip
    outer = how == "outer"
    wanted = {
        "out": [
            *([("a", 0, 10, 1, None, None, None, 1), ("a", 0, 9, None, 2, None, None, 2)] if outer else []),
            ("a", 0, 10, 1, 3, 1 if outer else None, None, 3),
            ("a", 0, 9, 4, 2, None, 2 if outer else None, 5),
            *([("a", 700, 710, 5, None, None, None, 900)] if outer else []),
            ("a", 0, 10, 1, 6, 1, 3, 901),
        ],
        "with_made": [
            *([("a", 0, 10, 1, None, 1)] if outer else []),
            ("a", 0, 10, 1, 5, 4),
            *([("a", 0, 9, 4, None, 5), ("a", 700, 710, 5, None, 900)] if outer else []),
        ],
    }
    for tasks, batching in CUTS:
        found = given_to(app, rows, list(wanted), tasks=tasks, batching=batching)
        assert dict(zip(wanted, found, strict=True)) == wanted, (tasks, batching)


def test_final_results_of_a_join() -> None:
    """A join of windows that topics hold is held back until they close, too."""
    app = sk.Topology("final")
    joined = windows(app).rename(v="own").join(windows(app, "others").rename(v="other"))
    joined.suppress(until=sk.window_closes()).to_stream().to("out")
    rows = [row("a", 0, 10, 1, 1), *(row("a", 0, 10, value, 5) | {"topic": "others"} for value in (2, 3)), row("b", 0, 10, 9, 10)]
    for tasks, batching in CUTS[:2]:
        assert given(app, rows, tasks=tasks, batching=batching) == [("a", 0, 10, 1, 3, 5)]


def test_a_stored_table_is_queried_by_key_and_window() -> None:
    """`store=` keeps the newest row of each window, of any length; a row without a bound is dropped, and counted."""
    app = sk.Topology("stored")
    windows(app, store="kept")
    with TopologyTestDriver(app, tasks=2) as driver:
        rows = [
            row("a", 0, 10, 1, 1),
            row("a", 0, 10, 2, 2),
            row("a", 0, 5, 3, 3),
            row("b", 10, 20, 4, 500),
            row("c", 0, 10, 5, 501),
        ]
        driver.pipe("in", [*rows, row("c", 0, 10, None, 502), row("a", None, 10, 6, 503), row("a", 0, None, 7, 504)])
        store = driver.store("kept")
        kept = [tuple(map(ms, one.values())) for one in store.to_arrow().to_pylist()]
        assert sorted(kept) == [("a", 0, 5, 3), ("a", 0, 10, 2), ("b", 10, 20, 4)]
        assert {one["v"] for one in store.find("a", window_start=0).to_pylist()} == {2, 3}
        assert driver.metrics()["null_key"] == 2


def test_what_is_held_back_survives_a_crash() -> None:
    """Windows that are open survive a crash and another number of tasks."""
    app = sk.Topology("crashed")
    windows(app).emit("final").to("out")
    with TopologyTestDriver(app, tasks=2) as driver:
        driver.pipe("in", [row("a", 0, 10, 1, 1), row("b", 0, 10, 2, 2), row("a", 10, 20, 3, 3)])
        driver.crash()
        driver.restore(tasks=5)
        driver.pipe("in", row("b", 0, 10, 4, 9))
        driver.restart(tasks=1)
        driver.pipe("in", row("c", 0, 10, 5, 10))
        assert shown(driver.read_all("out")) == [("a", 0, 10, 1, 1), ("b", 0, 10, 4, 9), ("c", 0, 10, 5, 10)]


@pytest.mark.parametrize(
    ("schema", "key"),
    [
        (SCHEMA, ["k"]),
        (SCHEMA, ["window_start", "window_end"]),
        (SCHEMA, ["window_start", "window_end", "k"]),
        ("k string, window_start bigint, window_end bigint, v bigint", KEY),
    ],
)
def test_other_keys_are_refused(schema: str, key: list[str]) -> None:
    """A topic without windows in its key is no table of windows: the error says what was found and where it was declared."""
    app = sk.Topology("refused")
    app.table("in", schema=schema, key=key, windowed=tumbling()).to_stream().to("out")
    with pytest.raises(
        TopologyError, match=r"key ends with window_start timestamp, window_end timestamp.*\n  at .*test_windowed_topic"
    ):
        app.explain()


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda app: app.table("in", windowed="10 ms"), r"windowed='10 ms'; expected the windows of the topic's keys: .*hopping"),
        (lambda app: app.table("in", windowed=tumbling(), versioned="1 day"), "versioned= and windowed=; expected one"),
        (lambda app: app.table("in", windowed=tumbling(close_after_idle="1 s")), "close by stream time alone"),
        (lambda app: app.table("in").suppress(until=sk.window_closes()), r"or app.table\(topic, windowed=…\)"),
        (lambda app: app.table("in").emit("final"), r"or app.table\(topic, windowed=…\)"),
        (
            lambda app: windows(app).suppress(until=sk.window_closes(), max_rows=3),
            "expected both or none: max_rows= with when_full='stop'",
        ),
    ],
)
def test_what_windows_of_topics_cannot_be_is_refused(declare: Callable[[sk.Topology], Any], message: str) -> None:
    """Other values than windows, and windows that close by the clock, are refused where they are declared."""
    with pytest.raises(TopologyError, match=message):
        declare(sk.Topology("refused"))


def test_windows_of_another_kind_are_not_joined() -> None:
    """Windows of a topic are joined with windows of their kind and length alone."""
    app = sk.Topology("kinds")
    windows(app).rename(v="own").join(windows(app, "others", sk.session("5 ms", grace="0 ms"))).to("out")
    with pytest.raises(TopologyError, match="found tumbling 10 ms, grace 0 ms and session gap 5 ms"):
        app.explain()


def test_names_of_other_tables_stay() -> None:
    """Stores of tables without windows have the names that they had before there were windows of topics."""
    assert structure_hash(TableSource("users")) == "782fd48c"
    assert structure_hash(TableSource("users")) != structure_hash(TableSource("users", window=tumbling()))
    assert TableSource("users")._digest.hex()[:8] == "eabb1d4e"
