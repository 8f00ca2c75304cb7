"""Updates that are held back: which come, when, and that nothing of it depends on how the work is cut."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import count, groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.operators.suppress import _turns
from streamkit.errors import ConfigError, SuppressionFullError, TopologyError
from streamkit.log.values.keys import key_groups
from streamkit.testing import TopologyTestDriver
from tests.kit.engine_run import moment
from tests.kit.sampling import TAKES_ALL, first, in_turn

Row = dict[str, Any]
Record = tuple[Any, ...]
KEYS = ["ann", "bob", "cat", "dan", "eve"]
CUTS = [(1, "one"), (3, 11), (7, "all"), (1, 5)] if TAKES_ALL else [(1, 2), (3, 11)]  # tasks, and which records an epoch takes
LIMIT_MS = 10


def held(**bounds: Any) -> sk.Topology:
    """A table whose updates are held back for 10 ms."""
    app = sk.Topology("held")
    table = app.table("users", schema="user string, v bigint", key="user")
    table.suppress(until=sk.time_limit(f"{LIMIT_MS} ms"), **bounds).emit("every").to("out")
    return app


def updates(seed: int, rows: int = 40) -> list[Row]:
    """Updates at random, some of them deletions and some late."""
    chance, now, found = random.Random(seed), 1000, []
    for number in range(rows):
        now += chance.choice([0, 0, 1, 3, 4, 25])
        time = now - chance.choice([0, 0, 0, 2, 9, 15])
        row: Row = {"user": chance.choice(KEYS), "v": number}
        found.append((row | {"v": None, "_deleted": True} if chance.random() < 0.2 else row) | {"ts": time})
    return found


def as_piped(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in ("ts", "topic")} | {"_timestamp": moment(row["ts"])}


def outputs(
    topology: sk.Topology, rows: Sequence[Row], topic: str = "out", *, tasks: int = 1, batching: Any = "one", drain: bool = False
) -> list[Record]:
    """What a topic holds after these rows: values, event time in ms, and whether it deletes."""
    with TopologyTestDriver(topology, tasks=tasks, batching=batching) as driver:
        for topic_of_rows, some in groupby(rows, lambda row: row.get("topic", "users")):
            driver.pipe(topic_of_rows, [as_piped(row) for row in some])
        if drain:
            driver.drain()
        return [record(row) for row in driver.read_all(topic)]


def assert_same(topology: sk.Topology, rows: Sequence[Row], wanted: Sequence[Record], cuts: Any = CUTS, **options: Any) -> None:
    """That a topology gives these records by any cut: in this order by one task, in this order for each key by several."""
    for tasks, batching in cuts:
        found = outputs(topology, rows, tasks=tasks, batching=batching, **options)
        assert (found if tasks == 1 else by_key(found)) == (wanted if tasks == 1 else by_key(wanted)), (tasks, batching)


def by_key(records: Sequence[Record]) -> list[Record]:
    return sorted(records, key=lambda one: one[0])


def record(row: Row) -> Record:
    values = tuple(milliseconds(value) for name, value in row.items() if not name.startswith("_"))
    return *values, milliseconds(row["_timestamp"]), row["_deleted"]


def milliseconds(value: Any) -> Any:
    return round(value.timestamp() * 1000) if hasattr(value, "timestamp") else value


class Buffer:
    """The rule by definition: one update after the other goes into the buffer, then what is due leaves it, then what is too much."""

    def __init__(self, rows_max: int | None = None, group_of: Callable[[str], int] = lambda user: 0) -> None:
        self.rows_max, self.group_of = rows_max, group_of
        self.time = 0
        self.since: dict[str, int] = {}
        self.newest: dict[str, Row] = {}
        self.out: list[Record] = []

    def take(self, row: Row) -> None:
        user = row["user"]
        self.time = max(self.time, row["ts"])
        self.since.setdefault(user, row["ts"])
        self.newest[user] = row
        for other in [one for one in self.oldest() if self.since[one] + LIMIT_MS <= self.time]:
            self.give(other)
        while self.rows_max is not None and len(same := self.in_group(user)) > self.rows_max:
            self.give(same[0])

    def oldest(self) -> list[str]:
        return sorted(self.since, key=lambda user: (self.since[user], user))

    def in_group(self, user: str) -> list[str]:
        return [one for one in self.oldest() if self.group_of(one) == self.group_of(user)]

    def give(self, user: str) -> None:
        row = self.newest.pop(user)
        del self.since[user]
        self.out.append((user, row["v"], row["ts"], row.get("_deleted", False)))


def expected(rows: Sequence[Row], *bounds: Any) -> list[Record]:
    buffer = Buffer(*bounds)
    for row in rows:
        buffer.take(row)
    return buffer.out


def group(user: str) -> int:
    """The key group of a user."""
    return int(key_groups([pa.array([user])], 128)[0])


@pytest.mark.parametrize("seed", first(1, range(3)))
def test_time_limit(seed: int) -> None:
    """Each key gives its newest update when stream time is the limit past the first one that waits, by any cut and number of tasks."""
    rows = updates(seed)
    wanted = expected(rows)
    assert len(wanted) > 10
    assert_same(held(), rows, wanted)


@pytest.mark.parametrize(("groups", "seed"), in_turn([1, 128], range(2)))
def test_bound_that_emits(seed: int, groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too much for a key group comes early, the oldest first, by any cut and number of tasks."""
    monkeypatch.setenv("STREAMKIT_KEY_GROUPS", str(groups))
    rows = updates(seed)
    rows_max = 2 if groups == 1 else 0
    wanted = expected(rows, rows_max, group if groups > 1 else lambda user: 0)
    assert wanted != expected(rows)
    assert_same(held(max_rows=rows_max), rows, wanted, [(min(tasks, groups), batching) for tasks, batching in CUTS])


def test_bound_that_is_not_reached_changes_nothing() -> None:
    """A bound that leaves room for all gives what no bound gives."""
    rows = updates(1)
    assert outputs(held(max_rows=100), rows, batching=3) == expected(rows)


def test_bound_that_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full buffer ends the application, if it is to: the error says what was held back, and what to do."""
    monkeypatch.setenv("STREAMKIT_KEY_GROUPS", "1")
    rows = [{"user": user, "v": 1, "ts": 1} for user in KEYS[:3]]
    with pytest.raises(
        SuppressionFullError, match=r"more than max_rows=2 rows in key group 0.*raise max_rows.*\n  at .*test_suppress"
    ):
        outputs(held(max_rows=2, when_full="stop"), rows)
    assert outputs(held(max_rows=3, when_full="stop"), rows) == []


def test_nothing_is_held_back_without_a_limit() -> None:
    """With a limit of 0 every update comes at once, deletions too, also several that one record causes."""
    app = sk.Topology("at-once")
    lines = app.stream("users", schema="user string, words array<string>", key="user")
    words = lines.flat_map(F.explode("words").alias("word")).group_by("word").agg(n=F.count("*"))
    words.suppress(until=sk.time_limit("0 ms")).emit("every").to("out")
    rows = [{"user": "ann", "words": ["x", "y", "x"], "ts": 5}, {"user": "ann", "words": ["x"], "ts": 3}]
    for tasks, batching in CUTS:
        found = outputs(app, rows, tasks=tasks, batching=batching)
        assert sorted(found) == [("x", 1, 5, False), ("x", 2, 5, False), ("x", 3, 5, False), ("y", 1, 5, False)]


def test_first_update_of_the_record_that_ends_the_wait() -> None:
    """A record that ends a key's wait gives the first update that it causes of the key; the next begins another wait."""
    app = sk.Topology("several")
    lines = app.stream("users", schema="user string, words array<string>", key="user")
    words = lines.flat_map(F.explode("words").alias("word")).group_by("word").agg(n=F.count("*"))
    words.suppress(until=sk.time_limit("10 ms")).emit("every").to("out")
    rows = [{"user": "ann", "words": ["x", "x"], "ts": 5}, {"user": "bob", "words": ["x", "x"], "ts": 15}]
    for bound, batching in [(None, "one"), (None, "all"), (9, "all")]:
        assert outputs(app, rows, batching=batching) == [("x", 3, 15, False)], bound
    assert outputs(app, [*rows, {"user": "ann", "words": [], "ts": 25}]) == [("x", 3, 15, False), ("x", 4, 15, False)]


def test_join_sees_what_was_emitted() -> None:
    """A join meets the last update that came, not the one that is held back (Kafka Streams' shouldWorkBeforeJoinRight)."""
    app = sk.Topology("joined")
    left = app.table("left", schema="k string, lv string", key="k")
    right = app.table("right", schema="k string, rv string", key="k").suppress(until=sk.time_limit("10 ms"))
    left.join(right, how="outer").emit("every").to("out")
    steps = [
        ("right", "B", "1", 0), ("right", "A", "1", 0), ("right", "tick", "tick", 10), ("right", "A", "2", 11), ("left", "A", "a", 12),
        ("left", "B", "b", 12), ("left", "A", "b", 13), ("right", "tick", "tick1", 21),
    ]  # fmt: skip
    rows = [{"topic": topic, "k": key, topic[0] + "v": value, "ts": time} for topic, key, value, time in steps]
    wanted = [
        ("A", None, "1", 0, False), ("B", None, "1", 0, False), ("A", "a", "1", 12, False), ("B", "b", "1", 12, False),
        ("A", "b", "1", 13, False), ("tick", None, "tick1", 21, False), ("A", "b", "2", 13, False),
    ]  # fmt: skip
    assert_same(app, rows, wanted)


def test_stateless_steps_and_newest() -> None:
    """A table that is held back is a table: it is filtered with deletions, and kept in a compacted topic."""
    app = sk.Topology("steps")
    table = app.table("users", schema="user string, v bigint", key="user").suppress(until=sk.time_limit("10 ms"))
    table.filter("v > 1").with_columns(w=F.col("v") * 2).to("out")
    rows = [{"user": "ann", "v": 5, "ts": 0}, {"user": "bob", "v": 1, "ts": 10}, {"user": "ann", "v": 0, "ts": 30}]
    assert outputs(app, [*rows, {"user": "cat", "v": 9, "ts": 50}]) == [
        ("ann", 5, 10, 0, False),
        ("bob", None, None, 10, True),
        ("ann", None, None, 30, True),
    ]


def test_drain_gives_what_is_held_back() -> None:
    """A drain moves time past every limit, so that nothing stays behind, also where two tables hold back one after the other."""
    app = sk.Topology("drained")
    table = app.table("users", schema="user string, v bigint", key="user")
    table.suppress(until=sk.time_limit("10 ms")).suppress(until=sk.time_limit("7 ms")).emit("every").to("out")
    rows = [{"user": "ann", "v": 1, "ts": 0}, {"user": "bob", "v": 2, "ts": 3}, {"user": "ann", "v": 3, "ts": 4}]
    assert_same(app, rows, [("ann", 3, 4, False), ("bob", 2, 3, False)], drain=True)


def test_windows_over_what_was_held_back() -> None:
    """Updates that were held back are not late for windows behind, however far the record that ended their wait moved time."""
    app = sk.Topology("behind")
    table = app.table("users", schema="user string, v bigint", key="user")
    late = table.suppress(until=sk.time_limit("10 ms")).suppress(until=sk.time_limit("20 ms")).emit("every")
    late.group_by_key().windowed_by(sk.tumbling("10 ms", grace="0 ms")).agg(n=F.count("*")).emit("final").to("out")
    rows = [{"user": "ann", "v": 1, "ts": 3}, {"user": "bob", "v": 2, "ts": 500}, {"user": "cat", "v": 3, "ts": 900}]
    assert_same(app, rows, [("ann", 0, 10, 1, 3, False), ("bob", 500, 510, 1, 500, False)])


def test_turns() -> None:
    """Rows of one key that one record gives keep their order, whatever moments they waited since."""
    codes, newest, ranks = np.array([1, 2, 1, 1]), np.array([4, 5, 6, 7]), np.array([8, 8, 8, 9])
    assert _turns(codes, newest, ranks).tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("seed", first(1, range(2)))
def test_chain(seed: int) -> None:
    """Held back updates that are aggregated and held back again, by windows, do not depend on the cut."""
    app = sk.Topology("chain")
    table = app.table("users", schema="user string, v bigint", key="user").suppress(until=sk.time_limit("5 ms"))
    counted = (
        table.emit("every").group_by("user").windowed_by(sk.tumbling("20 ms", grace="0 ms")).agg(n=F.count("*"), v=F.max("v"))
    )
    counted.suppress(until=sk.time_limit("15 ms")).emit("every").to("out")
    counted.suppress(until=sk.window_closes()).emit("every").to("closed")
    rows = [row for row in updates(seed) if not row.get("_deleted")]
    wanted = outputs_of_both(app, rows, *CUTS[0])
    assert all(len(found) > 10 for found in wanted)
    for tasks, batching in CUTS[1:]:
        found = outputs_of_both(app, rows, tasks, batching)
        for one, other in zip(found, wanted, strict=True):
            assert (one if tasks == 1 else by_key(one)) == (other if tasks == 1 else by_key(other)), (tasks, batching)


def outputs_of_both(app: sk.Topology, rows: Sequence[Row], tasks: int, batching: Any) -> list[list[Record]]:
    """What the topics `out` and `closed` hold in the end."""
    with TopologyTestDriver(app, tasks=tasks, batching=batching) as driver:
        driver.pipe("users", [as_piped(row) for row in rows])
        driver.drain()
        return [[record(row) for row in driver.read_all(topic)] for topic in ("out", "closed")]


def windows_of(app: sk.Topology) -> sk.Table:
    events = app.stream("users", schema="user string, v bigint", key="user")
    return events.group_by_key().windowed_by(sk.tumbling("2 ms", grace="1 ms")).agg(n=F.count("*"))


def test_window_closes() -> None:
    """Until its window closes a row is held back, then it comes once (Kafka Streams' shouldSupportFinalResultsForTimeWindows)."""
    app = sk.Topology("windows")
    windows_of(app).suppress(until=sk.window_closes()).emit("every").to("out")
    times = [0, 1, 2, 1, 0, 5, 0]
    rows = [{"user": "k1", "v": number, "ts": time} for number, time in zip(count(), times, strict=False)]
    assert_same(app, rows, [("k1", 0, 2, 4, 1, False), ("k1", 2, 4, 1, 2, False)])


def test_window_closes_behind_stateless_steps() -> None:
    """Steps between the windows and `suppress` are applied to final results; what a filter drops there deletes nothing."""
    app = sk.Topology("between")
    windows_of(app).filter("n > 1").with_columns(twice=F.col("n") * 2).suppress(until=sk.window_closes()).filter("n > 2").to(
        "out"
    )
    rows = [
        {"user": user, "v": 1, "ts": time}
        for user, time in [("a", 0), ("a", 0), ("a", 1), ("b", 0), ("c", 0), ("c", 1), ("d", 9)]
    ]
    assert outputs(app, rows) == [("a", 0, 2, 3, 6, 1, False), ("c", 0, 2, None, None, 1, True)]


@pytest.mark.parametrize("make", [lambda: sk.tumbling("6 ms", grace="3 ms"), lambda: sk.session("4 ms", grace="3 ms")])
def test_a_bound_of_windows_stops_at_one_more(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many windows may be open as ever are at once, and the results stay the same; with one less the application ends, by any cut."""
    monkeypatch.setenv("STREAMKIT_KEY_GROUPS", "1")
    rows = [row for row in updates(4, 40 if TAKES_ALL else 24) if not row.get("_deleted")]

    def bounded(rows_max: int | None) -> sk.Topology:
        app = sk.Topology("bounded")
        counts = (
            app.stream("users", schema="user string, v bigint", key="user").group_by_key().windowed_by(make()).agg(n=F.count("*"))
        )
        bound: dict[str, Any] = {} if rows_max is None else {"max_rows": rows_max, "when_full": "stop"}
        counts.suppress(until=sk.window_closes(), **bound).emit("every").to("out")
        counts.to_stream().to("changes")
        return app

    wanted = outputs(bounded(None), rows)
    most = next(bound for bound in range(1, 20) if _runs(bounded(bound), rows, "all"))
    assert 2 < most < 15
    for batching in ("one", 7, "all") if TAKES_ALL else (5, "all"):
        assert outputs(bounded(most), rows, batching=batching) == wanted
        assert not _runs(bounded(most - 1), rows, batching)


def _runs(topology: sk.Topology, rows: Sequence[Row], batching: Any) -> bool:
    """Whether the bound of a `suppress` is large enough."""
    try:
        outputs(topology, rows, batching=batching)
    except SuppressionFullError as error:
        assert "windows that have not closed in key group 0" in str(error)
        return False
    return True


def test_window_closes_needs_windows() -> None:
    """Without windows there is no last result, and none comes early: both are refused at the user's line."""
    app = sk.Topology("refused")
    table = app.table("users", schema="user string, v bigint", key="user")
    with pytest.raises(TopologyError, match="needs windows"):
        table.suppress(until=sk.window_closes())
    with pytest.raises(TopologyError, match=r"expected both or none: max_rows= with when_full='stop'.*\n  at .*test_suppress"):
        windows_of(sk.Topology("bounded")).suppress(until=sk.window_closes(), max_rows=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"until": "5 minutes"}, r"until='5 minutes'; expected sk.time_limit\(\"5 minutes\"\) or sk.window_closes\(\)"),
        ({"until": sk.time_limit("1 s"), "when_full": "drop"}, "when_full='drop'; expected one of emit, stop"),
        ({"until": sk.time_limit("1 s"), "max_rows": -1}, "max_rows=-1; expected 0 or more"),
    ],
)
def test_refused(arguments: dict[str, Any], message: str) -> None:
    """What `suppress` cannot take is refused where it is called, with what it takes."""
    table = sk.Topology("refused").table("users", schema="user string, v bigint", key="user")
    with pytest.raises(TopologyError, match=message):
        table.suppress(**arguments)
    with pytest.raises(ConfigError, match="time limit"):
        sk.time_limit("soon")


def test_crash_and_other_numbers_of_tasks() -> None:
    """What is held back survives a crash and another number of tasks."""
    with TopologyTestDriver(held(), tasks=2) as driver:
        driver.pipe("users", [{"user": "ann", "v": 1}, {"user": "bob", "v": 2}], timestamp=0)
        driver.crash()
        driver.restore(tasks=5)
        driver.pipe("users", {"user": "ann", "v": 3}, timestamp=5)
        driver.restart(tasks=1)
        driver.pipe("users", {"user": "eve", "v": 4}, timestamp=12)
        assert [record(row) for row in driver.read_all("out")] == [("ann", 3, 5, False), ("bob", 2, 0, False)]
        assert [row["user"] for row in driver.store("users-suppressed").to_arrow().to_pylist()] == ["eve"]
        assert driver.store("users-suppressed-since").to_arrow().num_rows == 1
