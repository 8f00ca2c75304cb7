"""Tables grouped by another key: what a change takes from one group and adds to another, however the work is cut."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.evolution import continuation
from streamkit.engine.runs.compile import compile
from streamkit.errors import EvaluationError, TopologyError, UnknownVerbError
from streamkit.testing import TopologyTestDriver
from tests.kit.engine_run import Run, append, execute, fresh_log, metric, moment, values
from tests.kit.sampling import TAKES_ALL, first

pytestmark = pytest.mark.filterwarnings("ignore:the subtractor .* does not undo")  # some show in which order functions are called
Row = dict[str, Any]
SCHEMA = "user string, city string, age bigint"
KEYS, CITIES = ["ann", "bob", "cat", "dan", "eve"], ["rome", "oslo", "bern", None]
CUTS = first(1, [(3, 2), (2, "one"), (7, 5), (7, "all"), (3, 5), (1, "one"), (2, 11)])  # tasks, and which records an epoch takes


def users_of(app: sk.Topology) -> sk.Table:
    return app.table("users", schema=SCHEMA, key="user")


def changes(seed: int, count: int = 30 if TAKES_ALL else 22) -> list[Row]:
    """Changes of users at random, some of them deletions; event times rise, with ties."""
    chance, now, rows = random.Random(seed), 0, []
    for _ in range(count):
        now += chance.choice([0, 1, 5])
        row: Row = {"user": chance.choice(KEYS), "city": chance.choice(CITIES), "age": chance.choice([None, 1, 2, 30])}
        if chance.random() < 0.2:
            row |= {"city": None, "age": None, "_deleted": True}
        rows.append(row | {"_timestamp": now})
    return rows


def outputs(
    topology: sk.Topology, rows: list[Row], *topics: str, tasks: int = 1, batching: Any = "one"
) -> dict[str, list[tuple[Any, ...]]]:
    """What each topic holds after these rows: (columns without the record's own, event time in ms, whether it deletes)."""
    with TopologyTestDriver(topology, tasks=tasks, batching=batching) as driver:
        piped = [{**row, "_timestamp": moment(row["_timestamp"])} for row in rows]
        for begin in range(0, len(piped), 3):
            driver.pipe("users", piped[begin : begin + 3])
        return {topic: [_record(row) for row in driver.read(topic)] for topic in topics}


def _record(row: Row) -> tuple[Any, ...]:
    values = tuple(value for name, value in row.items() if not name.startswith("_"))
    return values, round(row["_timestamp"].timestamp() * 1000), row["_deleted"]


class Users:
    """The rule by definition: what is in each group now, one change after the other."""

    def __init__(self, keeps: Callable[[Row], bool] = lambda row: True) -> None:
        self.keeps = keeps
        self.rows: dict[str, Row] = {}
        self.groups: dict[str, list[Row]] = {}
        self.times: dict[str, int] = {}

    def take(self, row: Row) -> list[str]:
        """Take a change; the groups that change, the one that is left first."""
        old, new = self.rows.pop(row["user"], None), None if row.get("_deleted") else row
        if new is not None:
            self.rows[row["user"]] = new
        touched = []
        for one, is_added in ((old, False), (new, True)):
            if one is None or one["city"] is None or not self.keeps(one):
                continue
            group = self.groups.setdefault(one["city"], [])
            group.append(one) if is_added else group.remove(one)
            self.times[one["city"]] = max(row["_timestamp"], self.times.get(one["city"], 0))
            touched.append(one["city"])
        return list(dict.fromkeys(touched))


def aggregated() -> sk.Topology:
    """Aggregates by columns, of a table that is filtered before; every change, and the newest."""
    app = sk.Topology("aggregated")
    adults = users_of(app).filter("age IS NULL OR age < 30")
    ages = {"users": F.count("*"), "aged": F.count("age"), "grown": F.count_if(F.col("age") > 1), "total": F.sum("age")}
    table = adults.group_by("city").agg(**ages, mean=F.avg("age"), store="cities")
    table.to_stream().to("every")
    table.to("newest")
    return app


def aggregates(city: str, rows: list[Row]) -> tuple[Any, ...]:
    ages = [row["age"] for row in rows if row["age"] is not None]
    mean = sum(ages) / len(ages) if ages else None
    return city, len(rows), len(ages), sum(age > 1 for age in ages), sum(ages) if ages else None, mean


@pytest.mark.parametrize(("tasks", "batching"), CUTS)
def test_aggregates_are_those_of_the_rows_in_each_group(tasks: int, batching: Any) -> None:
    """After every change the groups that it touches give one result each, of the rows that are in them now."""
    users, expected = Users(lambda row: row["age"] is None or row["age"] < 30), []
    for row in changes(1):
        expected += [(aggregates(city, users.groups[city]), users.times[city], False) for city in users.take(row)]
    found = outputs(aggregated(), changes(1), "every", "newest", tasks=tasks, batching=batching)
    newest = {values[0]: values for values, _, _ in found["newest"]}

    assert by_city(found["every"]) == by_city(expected)
    assert newest == {city: aggregates(city, rows) for city, rows in users.groups.items()}


def by_city(records: list[tuple[Any, ...]]) -> dict[str, list[tuple[Any, ...]]]:
    return {city: [record for record in records if record[0][0] == city] for city in CITIES if city is not None}


def log_of(state: Row, row: Row) -> Row:
    return {"log": f"{state['log']}+{row['user']}"}


def unlog_of(state: Row, row: Row) -> Row:
    return {"log": f"{state['log']}-{row['user']}"}


def folded() -> sk.Topology:
    app = sk.Topology("folded")
    users_of(app).group_by("city").aggregate({"log": ""}, log_of, unlog_of, "log string", store="logs").to_stream().to("every")
    return app


@pytest.mark.parametrize(("tasks", "batching"), CUTS)
def test_functions_are_called_in_the_order_of_the_changes(tasks: int, batching: Any) -> None:
    """A change takes the old row away before it adds the new one, and gives one result if both are in one group."""
    users, logs, expected = Users(), dict.fromkeys(CITIES, ""), []
    for row in changes(3):
        old = users.rows.get(row["user"])
        touched = users.take(row)
        if old is not None:
            logs[old["city"]] += f"-{row['user']}"
        if not row.get("_deleted"):
            logs[row["city"]] += f"+{row['user']}"
        expected += [((city, logs[city]), users.times[city], False) for city in touched]
    found = outputs(folded(), changes(3), "every", tasks=tasks, batching=batching)

    assert by_city(found["every"]) == by_city(expected)


def test_the_group_that_is_left_comes_first() -> None:
    """A change of the group gives a result of the old group, and then one of the new, whatever their names."""
    app = sk.Topology("left")
    users_of(app).group_by("city").count().to_stream().to("every")
    rows = [user("ann", "oslo", 1), user("ann", "bern", 2), user("ann", "rome", 3)]

    assert [values for values, _, _ in outputs(app, rows, "every", batching="all")["every"]] == [
        ("oslo", 1), ("oslo", 0), ("bern", 1), ("bern", 0), ("rome", 1),
    ]  # fmt: skip


def user(name: str, city: str | None, timestamp: int, age: int | None = None) -> Row:
    return {"user": name, "city": city, "age": age, "_timestamp": timestamp}


def gone(name: str, timestamp: int) -> Row:
    return user(name, None, timestamp) | {"_deleted": True}


def test_nothing_is_taken_from_a_group_without_state() -> None:
    """A function that gives None deletes its group; then the subtractor is not called, a deletion is given, and an addition begins again."""

    def taken(state: Row, row: Row) -> Row | None:
        assert state["n"] > 0
        return None

    app = sk.Topology("none")
    added = lambda state, row: {"n": state["n"] + 1}  # noqa: E731
    users_of(app).group_by("city").aggregate({"n": 0}, added, taken, "n int", store="n").to_stream().to("every")
    rows = [user("ann", "rome", 1), user("bob", "rome", 9), gone("ann", 5), gone("bob", 6), user("cat", "rome", 7)]
    for tasks, batching in ((1, "one"), (2, "all")):
        assert outputs(app, rows, "every", tasks=tasks, batching=batching)["every"] == [
            (("rome", 1), 1, False), (("rome", 2), 9, False),
            (("rome", None), 9, True), (("rome", None), 6, True), (("rome", 1), 7, False),
        ]  # fmt: skip


def test_a_reduction_takes_the_first_row_as_it_is() -> None:
    """The functions of a reduction get dicts of all columns but those of the group."""
    app = sk.Topology("reduced")
    plus = lambda a, b: {"user": a["user"] + "+" + b["user"], "age": a["age"] + b["age"]}  # noqa: E731
    minus = lambda a, b: {"user": a["user"] + "-" + b["user"], "age": a["age"] - b["age"]}  # noqa: E731
    users_of(app).group_by("city").reduce(plus, minus).to_stream().to("every")
    rows = [user("ann", "rome", 1, 5), user("bob", "rome", 2, 7), user("ann", "rome", 3, 6), gone("bob", 4)]

    assert [values for values, _, _ in outputs(app, rows, "every", batching="all")["every"]] == [
        ("rome", "ann", 5), ("rome", "ann+bob", 12), ("rome", "ann+bob-ann+ann", 13), ("rome", "ann+bob-ann+ann-bob", 6),
    ]  # fmt: skip


def test_rows_without_a_group_are_in_none() -> None:
    """A null group drops that half of a change, and is counted; what a filter takes out leaves its group."""
    app = sk.Topology("nulls")
    users_of(app).filter("age > 0").group_by("city").count().to_stream().to("every")
    rows = [user("ann", None, 1, 1), user("ann", "rome", 2, 1), user("ann", None, 3, 1), user("bob", "rome", 4, 0)]
    with TopologyTestDriver(app) as driver:
        for row in rows:
            driver.pipe("users", {k: v for k, v in row.items() if k != "_timestamp"}, timestamp=row["_timestamp"])

        assert driver.read("every", "city", "count") == [{"city": "rome", "count": 1}, {"city": "rome", "count": 0}]
        assert driver.metrics()["null_key"] == 3


def test_a_computed_group_is_not_computed_of_deletions() -> None:
    """What rows are grouped by is computed of the rows that are there: a Python function never sees the nulls of a deletion."""
    app = sk.Topology("computed")
    initial = F.udf(lambda city: city[0], "string")
    users_of(app).group_by(letter=initial("city")).count().to_stream().to("every")
    rows = [user("ann", "rome", 1), gone("ann", 2), gone("bob", 3)]

    assert [values for values, _, _ in outputs(app, rows, "every")["every"]] == [("r", 1), ("r", 0)]


@pytest.mark.parametrize(("tasks", "batching"), CUTS)
def test_groups_of_groups(tasks: int, batching: Any) -> None:
    """A table of groups can be mapped, filtered and grouped again, and the result is that of the rows that are there."""
    app = sk.Topology("again")
    cities = users_of(app).group_by("city").count()
    sized = cities.filter("count > 0").map_values(lambda row: {"size": "big" if row["count"] > 1 else "small"}, "size string")
    sized.group_by("size").agg(cities=F.count("*"), store="sizes").to("sizes")
    users = Users()
    for row in changes(4):
        users.take(row)
    sizes = ["big" if len(rows) > 1 else "small" for rows in users.groups.values() if rows]
    found = {values[0]: values[1] for values, _, _ in outputs(app, changes(4), "sizes", tasks=tasks, batching=batching)["sizes"]}

    assert found == {size: sizes.count(size) for size in found}
    assert set(sizes) <= set(found)


@pytest.mark.parametrize(("tasks", "batching"), CUTS)
def test_windows_are_grouped_again(tasks: int, batching: Any) -> None:
    """The results of windows are a table whose rows change as records come; they can be grouped by the window."""
    app = sk.Topology("windows")
    events = app.stream("users", schema=SCHEMA, key="user")
    per_user = events.group_by_key().windowed_by(sk.tumbling("10 ms", grace="1 hour"))
    counts = per_user.count().group_by("window_start").agg(users=F.count("*"), most=F.sum("count")).to_stream()
    counts.with_columns(start=F.unix_millis("window_start")).select("start", "users", "most").to("columns")
    keep = per_user.aggregate({"n": 0}, lambda s, row: {"n": s["n"] + 1}, "n bigint")
    keep.group_by("window_start").agg(users=F.count("*"), most=F.sum("n")).to_stream().to("functions")
    rows = [row for row in changes(5) if not row.get("_deleted")]
    seen: dict[tuple[int, str], int] = {}
    expected = []
    for row in rows:
        start = row["_timestamp"] // 10 * 10
        seen[start, row["user"]] = seen.get((start, row["user"]), 0) + 1
        inside = [n for (other, _), n in seen.items() if other == start]
        expected.append((start, len(inside), sum(inside)))
    found = outputs(app, rows, "columns", "functions", tasks=tasks, batching=batching)

    assert sorted(values[-3:] for values, _, _ in found["columns"]) == sorted(expected)
    assert sorted(values[1:] for values, _, _ in found["functions"]) == sorted(values[1:] for values in expected)


@pytest.mark.parametrize(("tasks", "batching"), CUTS)
def test_joined_tables_are_grouped(tasks: int, batching: Any) -> None:
    """A join of tables can be grouped: a change of either side moves the joined row."""
    app = sk.Topology("joined")
    users = users_of(app)
    elders = users.filter("age = 30").select("age")
    users.select("city").join(elders, how="left").group_by("city", "age").count(store="n").to("out")
    model = Users()
    for row in changes(6):
        model.take(row)
    groups = [(row["city"], 30 if row["age"] == 30 else None) for row in model.rows.values()]
    records = outputs(app, changes(6), "out", tasks=tasks, batching=batching)["out"]
    newest = {values[:2]: values[2] for values, _, _ in records}

    assert {group: n for group, n in newest.items() if n} == {
        group: groups.count(group) for group in groups if group != (None, None)
    }


def test_what_a_group_cannot_give_is_refused() -> None:
    """An aggregate from which no row can be taken away is refused by name, and so is a function that takes another number of arguments."""
    app = sk.Topology("refused")
    users = users_of(app)
    with pytest.raises(TopologyError, match="with 2 arguments"):
        users.group_by("city").reduce(lambda a: a, lambda a, b: a)  # type: ignore[misc, arg-type]
    users.group_by("city").agg(oldest=F.first("age")).to("out")
    with pytest.raises(
        TopologyError,
        match=r"oldest = first.* cannot be kept for groups of a table: the rows of a table have no order.*expected max_by\(value, by\)",
    ):
        compile(app)
    sketched = sk.Topology("refused")
    users_of(sketched).group_by("city").agg(ages=F.approx_count_distinct("age")).to("out")
    with pytest.raises(TopologyError, match=r"ages = approx.* cannot forget the value .* expected count_distinct"):
        compile(sketched)
    with pytest.raises(UnknownVerbError, match=r"to_stream\(\) of the table, because changes can have windows"):
        users.group_by("city").windowed_by(sk.tumbling("1 hour", grace="0 s"))  # type: ignore[attr-defined]
    with pytest.raises(TopologyError, match=r"a stream joins a table or a global table by stream.join\(table\)"):
        users.join(users.to_stream())  # type: ignore[arg-type]
    other = sk.Topology("refused")
    arrays = other.table("users", schema="user string, city string, tags array<string>", key="user")
    arrays.group_by("city").agg(tags=F.collect_list("tags")).to("out")
    with pytest.raises(TopologyError, match=r"values of array<string> have no order; expected values without arrays and maps"):
        compile(other)
    with pytest.raises(TopologyError, match="no columns"):
        users.group_by().count()
    with pytest.raises(TopologyError, match="replaces nothing"):
        windows = app.stream("users", schema=SCHEMA, key="user").group_by_key().windowed_by(sk.tumbling("1 hour", grace="0 s"))
        windows.count().emit("final", old=True)


def test_more_rows_taken_than_added_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grouping that an earlier version began beside a table with rows would count below zero: it stops, and says what to do."""
    monkeypatch.setattr(continuation, "young_keepers", lambda program, known: [])  # as a version that filled none

    def app(is_grouped: bool) -> sk.Topology:
        topology = sk.Topology("late")
        users = topology.table("users", store="users")
        if is_grouped:
            users.group_by("city").count().to_stream().to("counts")
        return topology

    with fresh_log() as log:
        log.create_topic("users", "user string, city string", key="user", partitions=1)
        append(log, "users", [{"user": name, "city": "rome", "ts": 1} for name in ("ann", "bob", "dan")])
        execute(log, compile(app(False), log), Run())
        append(log, "users", [{"user": name, "city": "oslo", "ts": 2} for name in ("ann", "bob")])
        append(log, "users", [{"user": "cat", "city": "rome", "ts": 3}])
        execute(log, compile(app(True), log), Run())
        assert values(log, "counts", "city", "count") == [("oslo", 1), ("oslo", 2), ("rome", 1)]
        assert metric(log, "late", "not_found") == 2

        append(log, "users", [{"user": name, "city": "oslo", "ts": 4} for name in ("cat", "dan")])
        with pytest.raises(
            EvaluationError, match=r"more rows were taken from the group \{'city': 'rome'\} than it had.*another store"
        ):
            execute(log, compile(app(True), log), Run())
