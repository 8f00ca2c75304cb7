"""Columns that are called like those of StreamKit's own stores, lists and states: they work, or the topology is refused."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopologyError
from streamkit.testing import TopologyTestDriver
from tests.kit.engine_run import moment

ROWS = [{"k": "a", "g": "x", "v": 1}, {"k": "b", "g": "x", "v": 3}, {"k": "b", "g": "y", "v": 3}]
STATES = ["a.count", "a.sum", "A.Sum", "b.mean", "b.count"]


def results(app: sk.Topology, name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the topology gives for rows whose column `g` has another name, which is `g` again in the results."""
    with TopologyTestDriver(app) as driver:
        named = [{name if column == "g" else column: value for column, value in row.items()} for row in rows]
        driver.pipe("t", [{**row, "_timestamp": moment(time)} for time, row in enumerate(named)])
        driver.crash()
        driver.restore()
        driver.drain()
        return [{"g" if column == name else column: value for column, value in row.items()} for row in driver.read("o")]


def members(name: str) -> sk.Topology:
    """Groups of a table, by a column of this name, with aggregates that keep members."""
    app = sk.Topology("members")
    table = app.table("t", schema=f"k string, {name} string, v int", key="k")
    table.group_by(name).agg(m=F.max("v"), n=F.count_distinct("v"), l=F.collect_list("k")).to("o")
    return app


def averages(name: str, window: bool, emission: str) -> sk.Topology:
    """Groups of a stream, by a column of this name, with aggregates whose states have several columns."""
    app = sk.Topology("averages")
    groups = app.stream("t", schema=f"k string, `{name}` string, v int", key="k").group_by(**{name: F.col(f"`{name}`")})
    if window:
        groups = groups.windowed_by(sk.tumbling("1 hour", grace="0 s"))
    groups.agg(a=F.avg("v"), b=F.variance("v"), n=F.count("v")).emit(emission).to("o")
    return app


@pytest.mark.parametrize(
    "name", ["aggregate", "member", "count", "Member", "aggregate_", "valid_from", "number", "timestamp", "schedule"]
)
def test_groups_of_tables(name):
    """The store of members finds other names for its own columns."""
    assert results(members(name), name, ROWS) == usual_members()


@cache
def usual_members() -> list[dict[str, Any]]:
    return results(members("g"), "g", ROWS)


@pytest.mark.parametrize("window", [False, True])
@pytest.mark.parametrize("name", STATES)
def test_groups_of_streams(name, window):
    """Rows that are folded before they travel have the group and the states side by side: one name for both is refused."""
    assert results(averages(name, window, "every"), name, ROWS) == usual_averages(window)
    with pytest.raises(TopologyError, match=r"is called like the column .*expected another name.*\n.*test_internal_names.py"):
        averages(name, window, "latest").explain()


@cache
def usual_averages(window: bool) -> list[dict[str, Any]]:
    return results(averages("g", window, "every"), "g", ROWS)


@pytest.mark.parametrize("name", ["_since", "_Since"])
@pytest.mark.parametrize("key", ["k", "name"])
def test_updates_held_back(name, key):
    """The store of rows that wait has a column of the moment since which they do: refused at the user's line, as key and as value."""
    app = sk.Topology("held")
    table = app.table("t", schema=f"k string, {name} bigint, v int", key=name if key == "name" else "k")
    table.suppress(until=sk.time_limit("1 hour")).to("o")
    with pytest.raises(TopologyError, match=rf"column '{name}'.*expected another name, as in select.*\n.*test_internal_names.py"):
        app.explain()


def test_such_a_name_elsewhere():
    """Where no rows are held back, the name is one like others."""
    app = sk.Topology("elsewhere")
    app.table("t", schema="k string, _since string, v int", key="k").filter("v > 0").to("o")
    assert results(app, "_since", ROWS[:1])[0]["g"] == "x"
