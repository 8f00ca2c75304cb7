"""Aggregates over groups of a table that need the values behind the first: min, max, rankings, lists, distinct values."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.evolution import continuation
from streamkit.engine.folding import members
from streamkit.engine.runs.compile import compile
from streamkit.errors import EvaluationError
from streamkit.state.stores import ON_DISK
from streamkit.state.task_state import TaskState
from streamkit.testing import TopologyTestDriver
from tests.kit.engine_run import Run, append, execute, fresh_log, stored, values, written
from tests.kit.sampling import TAKES_ALL, first
from tests.unit.engine.operators.test_table_groups import Row, Users, by_city, changes, outputs, users_of

AGGREGATES = {
    "lowest": F.min("age"), "highest": F.max("age"), "last": F.max("user"), "oldest": F.max_by("user", "age"),
    "youngest": F.min_by("user", "age"), "top": F.top_k("age", 2), "elders": F.top_k(F.struct("age", "user"), 20, by="age"),
    "ages": F.collect_list("age"), "kinds": F.collect_set("age"), "distinct": F.count_distinct("age"), "most": F.max(F.struct("age", "user")),
    "first_by": F.min_by("user", F.struct("age", "user")), "young": F.min_by("user", "age", 3), "n": F.count("age"),
    "spread": F.variance("age"), "middle": F.median("age"), "shares": F.percentile_approx("age", [0.5, 0.9]),
}  # fmt: skip


def app_of(*modes: str) -> sk.Topology:
    app = sk.Topology("members")
    table = users_of(app).group_by("city").agg(**AGGREGATES, store="cities")
    for mode in modes:
        table.emit(mode).to(mode)
    return app


def by_hand(city: str, rows: list[Row]) -> tuple[Any, ...]:
    """What the aggregates of a group are, in plain Python; of equal rows the one with the smallest name comes first."""
    known = [row for row in rows if row["age"] is not None]
    ages = sorted(row["age"] for row in known)
    falling = sorted(known, key=lambda row: (-row["age"], row["user"]))
    rising = sorted(known, key=lambda row: (row["age"], row["user"]))
    most = sorted(
        ((row["age"] is not None, row["age"] or 0), row["user"], {"age": row["age"], "user": row["user"]}) for row in rows
    )
    shares = [ages[math.ceil(share * len(ages)) - 1] for share in (0.5, 0.9)] if ages else None
    return (
        city, min(ages, default=None), max(ages, default=None), max((row["user"] for row in rows), default=None),
        falling[0]["user"] if known else None, rising[0]["user"] if known else None, ages[::-1][:2],
        [{"age": row["age"], "user": row["user"]} for row in falling], ages, sorted(set(ages)), len(set(ages)),
        most[-1][2] if most else None, most[0][2]["user"] if most else None, [row["user"] for row in rising][:3], len(ages),
        round(statistics.variance(ages), 6) if len(ages) > 1 else None, statistics.median(ages) if ages else None, shares,
    )  # fmt: skip


def rounded(found: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(round(value, 6) if isinstance(value, float) else value for value in found)


@pytest.mark.parametrize(("tasks", "batching"), first(1, [(3, 5), (3, 2), (2, "one"), (3, 11), (1, "all")]))
def test_they_are_those_of_the_rows_in_each_group(tasks: int, batching: Any) -> None:
    """After every change the groups that it touches give one result each, of the rows that are in them now."""
    rows, users, expected = changes(1, 18), Users(), []
    for row in rows:
        expected += [(by_hand(city, users.groups[city]), users.times[city], False) for city in users.take(row)]
    found = outputs(app_of("every"), rows, "every", tasks=tasks, batching=batching)["every"]
    assert by_city([(rounded(row), *rest) for row, *rest in found]) == by_city(expected)


@pytest.mark.parametrize("seed", first(1, range(4)))
def test_the_newest_are_those_of_the_rows_in_each_group(seed: int) -> None:
    """If only the newest results are asked for, they are those of the rows that are there at the end."""
    rows, users = changes(seed, 60), Users()
    for row in rows:
        users.take(row)
    newest = {row[0]: rounded(row) for row, *_ in outputs(app_of("latest"), rows, "latest", batching="all")["latest"]}
    assert newest == {city: by_hand(city, group) for city, group in users.groups.items()}


def test_a_restart_goes_on_with_the_members() -> None:
    """Members are restored from the changelog, whatever the number of tasks; a store that lies behind is brought up to date."""
    rows, users = changes(5, 36 if TAKES_ALL else 24), Users()
    for row in rows:
        users.take(row)
    part_rows = len(rows) // 3
    with fresh_log(on_disk=True) as log:
        log.create_topic("users", "user string, city string, age bigint", key="user", partitions=2)
        for start, tasks in zip(range(0, len(rows), part_rows), (3, 1, 2), strict=True):
            part = rows[start : start + part_rows]
            append(log, "users", [
                {"user": row["user"], "city": row["city"], "age": row["age"], "ts": row["_timestamp"], "deleted": row.get("_deleted", False)}
                for row in part
            ])  # fmt: skip
            execute(log, compile(app_of("latest"), log), Run(tasks, records_max=6 if TAKES_ALL else 8, drain=False), ON_DISK)
        newest = {emitted.row["city"]: rounded(tuple(emitted.row.values())) for emitted in written(log, "latest")}
        assert newest == {city: by_hand(city, group) for city, group in users.groups.items()}
        kept = [row["count"] for row in stored(log, "members", "cities-members") if row["aggregate"] == "ages"]
        assert sum(kept) == sum(by_hand(city, group)[14] for city, group in users.groups.items())
        assert min(kept) > 0


def test_a_member_is_found_by_its_key() -> None:
    """The store of members answers for each of its keys how often the member is there."""
    with TopologyTestDriver(app_of(), tasks=3) as driver:
        driver.pipe("users", [{"user": str(number), "city": "abc"[number % 3], "age": number % 7} for number in range(21)])
        members = driver.store("cities-members")
        rows = members.to_arrow().to_pylist()
        assert len({row["city"] for row in rows}) == 3
        for row in rows[::7]:
            assert members.get(row["city"], row["aggregate"], row["member"]) == row
        assert members.get(rows[0]["city"], rows[0]["aggregate"], b"") is None


def test_of_a_large_group_little_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The maximum of a group is found behind those that leave it, without reading the whole group."""
    read: list[int] = []
    original = TaskState.scan

    def scan(self: TaskState, *arguments: Any) -> Any:
        found = original(self, *arguments)
        read.append(len(found[0]))
        return found

    app = sk.Topology("large")
    users = app.table("users")
    users.group_by("city").agg(oldest=F.max("age"), names=F.count_distinct("user"), store="cities").to("out")
    with fresh_log() as log:
        log.create_topic("users", "user string, city string, age bigint", key="user", partitions=1)
        append(log, "users", [{"user": f"u{age}", "city": "rome", "age": age, "ts": 1} for age in range(2_000)])
        execute(log, compile(app, log), Run())
        monkeypatch.setattr(TaskState, "scan", scan)
        append(log, "users", [{"user": f"u{age}", "city": "rome", "age": None, "ts": 2} for age in (1_999, 1_998, 5)])
        execute(log, compile(app, log), Run())
        assert values(log, "out", "oldest", "names")[-1] == (1_997, 2_000)
        assert 0 < sum(read) <= 8


def test_a_value_taken_that_was_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grouping that an earlier version began beside a table with rows stops when a value leaves that it never saw, and says so."""
    monkeypatch.setattr(continuation, "young_keepers", lambda program, known: [])  # as a version that filled none

    def app(is_grouped: bool) -> sk.Topology:
        topology = sk.Topology("late")
        users = topology.table("users", store="users")
        if is_grouped:
            users.group_by("city").agg(oldest=F.max("age")).to_stream().to("out")
        return topology

    with fresh_log() as log:
        log.create_topic("users", "user string, city string, age int", key="user", partitions=1)
        append(log, "users", [{"user": "ann", "city": "rome", "age": 7, "ts": 1}])
        execute(log, compile(app(False), log), Run())
        append(
            log, "users", [{"user": "bob", "city": "rome", "age": 5, "ts": 2}, {"user": "ann", "city": "oslo", "age": 7, "ts": 3}]
        )
        with pytest.raises(EvaluationError, match=r"more rows were taken from the group \['rome'\] than it had, for oldest"):
            execute(log, compile(app(True), log), Run())


def test_long_intervals_and_short_ones_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first members are the same whether they are found by intervals of powers of two or by writing out every interval."""
    rows = changes(8, 40)
    found = outputs(app_of("every"), rows, "every", batching="all")
    monkeypatch.setattr(members, "WIDTH_MAX", 0)
    assert outputs(app_of("every"), rows, "every", batching="all") == found
