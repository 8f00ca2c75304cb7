"""on_error= of tables: a change that makes a step fail is left out, and the table keeps the row it had."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.errors import EvaluationError, TopologyError
from streamkit.log.dead_letter import dead_letters_of
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.engine_run import moment
from tests.kit.sampling import TAKES_ALL, in_turn

SCHEMA = "k string, v int"
WAYS: list[dict[str, Any]] = [{}, {"batching": "all", "tasks": 3}, {"batching": 5, "tasks": 2}]
DEAD = sk.dead_letter("dead")
Use = Callable[[sk.Topology, sk.Table], Any]


def inverse(row: dict[str, Any]) -> dict[str, Any]:
    return {"w": 100 // row["v"]}


def halves(batch: pa.RecordBatch) -> dict[str, Any]:
    """Fails for the whole batch if one of its rows has no inverse."""
    return {"w": pc.divide(100, batch["v"])}


def side(app: sk.Topology) -> sk.Table:
    return app.table("side", schema="k string, s int", key="k")


STEPS: dict[str, Callable[[sk.Table, Any], sk.Table]] = {
    "map_values": lambda t, e: t.map_values(inverse, "w int", on_error=e, name="step"),
    "map_values by batch": lambda t, e: t.map_values(halves, "w int", by="batch", on_error=e).named("step"),
    "select": lambda t, e: t.select(w=F.expr("100 div v"), on_error=e).named("step"),
    "with_columns": lambda t, e: t.with_columns(w=F.expr("100 div v"), on_error=e).named("step"),
    "filter": lambda t, e: t.filter("100 div v > 30", on_error=e, name="step"),
    "filter_not": lambda t, e: t.filter_not(lambda row: 100 // row["v"] > 30, on_error=e, name="step"),
}
USES: dict[str, Use] = {
    "every": lambda app, t: t.to_stream().to("out"),
    "newest": lambda app, t: t.to("out"),
    "newest behind another step": lambda app, t: t.filter("k <> 'c'", name="other").to("out"),
    "stream join": lambda app, t: app.stream("side", schema="k string, s int", key="k").join(t, how="left").to("out"),
    "join": lambda app, t: t.join(side(app)).to_stream().to("out"),
    "left join": lambda app, t: t.join(side(app), how="left").to_stream().to("out"),
    "newest of a join": lambda app, t: t.join(side(app), how="outer").to("out"),
    "foreign key join": lambda app, t: t.with_columns(f=F.col("k")).join(side(app), on={"f": "k"}).to_stream().to("out"),
    "suppress": lambda app, t: t.suppress(until=sk.time_limit("2 seconds")).to_stream().to("out"),
}  # fmt: skip
SEEDS = 10  # whose records give results, whatever takes the table
NEWEST = (
    "newest",
    "newest behind another step",
    "newest of a join",
)  # which rows come depends on the cut; the last of each key does not
SOURCES: dict[str, Callable[[sk.Topology], sk.Table]] = {
    "table": lambda app: app.table("in", schema=SCHEMA, key="k"),
    "to_table": lambda app: app.stream("in", schema=SCHEMA, key="k").to_table(),
    "versioned": lambda app: app.table("in", schema=SCHEMA, key="k", versioned="1 hour"),
    "join": lambda app: app.table("in", schema=SCHEMA, key="k").join(app.table("more", schema="k string, m int", key="k"), how="left"),
    "suppress": lambda app: app.table("in", schema=SCHEMA, key="k").suppress(until=sk.time_limit("0 seconds")),
}  # fmt: skip


def topology(step: str, use: str, on_error: Any, source: str = "table", default: Any = "fail") -> sk.Topology:
    app = sk.Topology("app", on_error=default)
    USES[use](app, STEPS[step](SOURCES[source](app), on_error))
    return app


def records(seed: int = 0, count: int = 20 if TAKES_ALL else 16) -> list[tuple[str, dict[str, Any]]]:
    """Changes of few keys for the table and what it is joined with; one in five fails, and some are deletions."""
    chance = random.Random(seed)
    found: list[tuple[str, dict[str, Any]]] = []
    for number in range(count):
        row: dict[str, Any] = {"k": chance.choice("abc"), "_timestamp": moment(number * 500)}
        if chance.random() < 0.3:
            found.append(("side", {**row, "s": number}))
        elif chance.random() < 0.15:
            found.append(("in", {**row, "v": None, "_deleted": True}))
        else:
            found.append(("in", {**row, "v": chance.choice([0, 1, 2, 4, 5])}))
    return [
        *found,
        ("in", {"k": "a", "v": 2, "_timestamp": moment(count * 500)}),
        ("in", {"k": "a", "v": 0, "_timestamp": moment(count * 500)}),
    ]


def is_bad(row: dict[str, Any]) -> bool:
    return row.get("v") == 0


def results(
    app: sk.Topology, given: list[tuple[str, dict[str, Any]]], newest: bool, **options: Any
) -> tuple[Any, list[str], int]:
    """The rows of "out" by key, or the last of each; the dead letters; how many changes were counted as errors. It is restored on its way."""
    with TopologyTestDriver(app, **options) as driver:
        topics = set(driver.log.topics())
        for number, (topic, row) in enumerate(given):
            if topic in topics:
                driver.pipe(topic, row)
            if number == len(given) // 2:
                driver.drain()
                driver.restore(tasks=options.get("tasks", 1) + 1)
        driver.drain()
        out: dict[str, list[Any]] = {}
        columns = [*driver.log.topic("out").schema.names, "_timestamp", "_deleted"]
        for row in driver.log.read("out", columns).select(columns).to_pylist():
            out.setdefault(row["k"], []).append(row)
        letters = [one for batch in driver.log.scan("dead") for one in dead_letters_of(batch)] if "dead" in topics else []
        dead = sorted(f"{one.topic} {one.partition} {one.key} {one.value} {one.operator} {one.is_whole}" for one in letters)
        errors = driver.log.catalog.applications.get("app").metrics.get("error", {})
        return {key: kept for key, rows in out.items() if (kept := told(rows, newest))}, dead, errors.get("step", 0)


def told(rows: list[Any], newest: bool) -> list[Any]:
    """The rows of a key, or the last one, without deletions of what was not there: a table that kept the bad row gives one for it."""
    kept: list[Any] = []
    for row in rows[-1:] if newest else rows:
        if not row["_deleted"] or (kept and not kept[-1]["_deleted"]):
            kept.append(row)
    return kept


@cache
def results_without_failures(step: str, use: str, source: str, seed: int) -> Any:
    """What the changes give that do not fail, in few epochs of two tasks."""
    good = [
        (topic, {**row, "k": "elsewhere", "v": 5} if is_bad(row) else row) for topic, row in records(seed)
    ]  # as much time passes
    wanted, none, nothing = results(topology(step, use, None, source), good, use in NEWEST, batching="all", tasks=2)
    wanted.pop("elsewhere", None)
    assert (wanted or seed > SEEDS) and not none and not nothing
    return wanted


def check(step: str, use: str, source: str, on_error: Any, seed: int, **options: Any) -> tuple[list[str], int]:
    """Compare the results with those of the changes that do not fail; give the dead letters, and how many failed."""
    given, wanted = records(seed), results_without_failures(step, use, source, seed)
    out, dead, errors = results(topology(step, use, on_error, source), given, use in NEWEST, **options)
    assert out == wanted
    assert errors == sum(is_bad(row) for _, row in given)
    return dead, errors


@pytest.mark.parametrize(("use", "options"), in_turn(list(USES), WAYS), ids=repr)
def test_a_change_that_fails_is_as_if_it_had_not_been_there(use: str, options: dict[str, Any]) -> None:
    """Whatever takes the table, the cut and the tasks: it keeps the row it had, and the change is counted and goes to its topic."""
    steps = ("filter", "map_values") if options.get("batching") == "all" and use != "suppress" else ("map_values",)
    steps = steps if TAKES_ALL else steps[:1]
    for seed, step in enumerate(steps):
        dead, errors = check(step, use, "table", DEAD, seed, **options)
        assert len(dead) == errors
        assert all(one.startswith("in 0 ") and one.endswith(' {"v": 0} step True') for one in dead)


@pytest.mark.parametrize("step", STEPS)
def test_every_step_of_a_table_leaves_changes_out(step: str) -> None:
    """All steps of one row, by a function of rows or batches and by columns, for every change and for the newest."""
    uses = ("every", "newest", "join")
    for use in uses if TAKES_ALL else [uses[list(STEPS).index(step) % 3]]:
        assert check(step, use, "table", "skip", 3, batching="all")[0] == []


@pytest.mark.parametrize("source", SOURCES)
def test_every_table_that_is_kept_by_its_changes_leaves_some_out(source: str) -> None:
    """Tables of topics, of streams, with history, of joins and of what was held back leave out what a step behind them fails on."""
    uses = ("every", "newest", "left join")
    for number, use in enumerate(uses if TAKES_ALL else uses[len(source) % 3 :][:1]):
        for options in WAYS[1:] if TAKES_ALL else [WAYS[1 + (number + len(source)) % 2]]:
            check("map_values", use, source, "skip", 5, **options)


def test_by_default_a_change_that_fails_ends_the_run() -> None:
    """Without on_error, and with "fail" of the step under another default, the error names the record and the step's line."""
    for on_error, default in ((None, "fail"), ("fail", "skip")):
        for use in ("every", "newest", "join"):
            app = topology("map_values", use, on_error, default=default)
            with TopologyTestDriver(app) as driver, pytest.raises(EvaluationError) as raised:
                driver.pipe("in", {"k": "a", "v": 0})
            assert str(raised.value).startswith("topic in, partition 0, offset 0, key k = 'a': ")
            assert f"at {Path(__file__)}:" in str(raised.value).splitlines()[-1]


def test_the_topology_says_it_for_steps_that_do_not() -> None:
    """on_error of the topology goes for steps of tables too."""
    given = records(1)
    wanted = results(topology("select", "newest", "skip"), given, newest=True)
    assert results(topology("select", "newest", None, default="skip"), given, newest=True) == wanted


def test_a_table_of_results_leaves_out_what_every_result_fails_on() -> None:
    """Each result of an aggregation stands for itself where every one is taken, so one that fails is left out."""
    app = sk.Topology("app", on_error="skip")
    totals = app.stream("in", schema=SCHEMA, key="k").group_by_key().agg(v=F.sum("v"))
    totals.map_values(lambda row: {"w": 12 // (row["v"] - 3)}, "w bigint").to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", [{"k": "a", "v": v} for v in (1, 2, 3)])
        assert driver.read("out", "w") == [{"w": -6}, {"w": 4}]


FORMER: dict[str, Use] = {
    "group": lambda app, t: t.group_by("w").count().to_stream().to("out"),
    "old values": lambda app, t: t.emit("every", old=True).to("out"),
    "a filter of a table that is kept": lambda app, t: t.filter("w > 1").to_stream().to("out"),
}


@pytest.mark.parametrize("use", FORMER)
def test_where_former_rows_count_nothing_is_left_out(use: str) -> None:
    """What was left out would be taken away later: the run ends, and a step that asks for more is refused with what to do."""

    def made(on_error: Any, default: Any) -> sk.Topology:
        app = sk.Topology("app", on_error=default)
        table = app.table("in", schema=SCHEMA, key="k", store="kept")
        FORMER[use](app, table.map_values(inverse, "w int", on_error=on_error))
        return app

    with (
        TopologyTestDriver(made(None, "skip")) as driver,
        pytest.raises(EvaluationError, match="topic in, partition 0, offset 1"),
    ):
        driver.pipe("in", [{"k": "a", "v": 1}, {"k": "a", "v": 0}])
    with pytest.raises(
        TopologyError,
        match=r"(?s)found on_error=skip of a step of a table whose old values must be known.*to_stream\(\).*to_table\(\)",
    ):
        compile(made("skip", "fail"))


def test_a_table_made_of_a_stream_has_former_rows_without_those_that_failed() -> None:
    """The way that the error names: the step behind to_stream(), and to_table() behind it, so a group adds and takes away the same rows."""
    app = sk.Topology("app")
    stream = app.table("in", schema=SCHEMA, key="k").to_stream().map_values(inverse, "w int", on_error="skip")
    stream.to_table().group_by("w").count().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", [{"k": "a", "v": v} for v in (1, 0, 2)])
        assert {row["w"]: row["count"] for row in driver.read("out")} == {100: 0, 50: 1}


@pytest.mark.parametrize("mode", ["latest", "final"])
def test_results_that_come_once_are_not_left_out(mode: str) -> None:
    """The newest or final result of a window has none before it to stay: a step before emit() is refused, one behind it is a stream's."""
    app = sk.Topology("app")
    windows = (
        app.stream("in", schema=SCHEMA, key="k")
        .group_by_key()
        .windowed_by(sk.tumbling("1 second", grace="0 s"))
        .agg(v=F.sum("v"))
    )
    windows.map_values(inverse, "w int", on_error="skip").emit(mode).to("out")
    with pytest.raises(TopologyError, match=rf"taken by emit\('{mode}'\).*expected no on_error= there"):
        compile(app)


def test_global_tables_leave_nothing_out() -> None:
    """Every task reads a global table whole whenever it likes, so a step of one takes no on_error but fail."""
    table = sk.Topology("app").global_table("in", schema=SCHEMA, key="k")
    with pytest.raises(TopologyError, match="found on_error=skip of a step of a global table"):
        table.map_values(inverse, "w int", on_error="skip")
    table.map_values(inverse, "w int", on_error="fail")


def test_stores_of_tables_do_not_depend_on_what_becomes_of_errors() -> None:
    """Names of stores are the same whatever on_error says, so that it can be changed between two starts."""
    for use in USES:
        stores = [[store.name for store in compile(topology("map_values", use, e)).stores] for e in (None, "skip", DEAD)]
        assert stores[0] == stores[1] == stores[2]
