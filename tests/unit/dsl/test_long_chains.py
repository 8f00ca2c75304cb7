"""Chains of hundreds of steps, and what a topology does with them: none is too deep for Python's stack."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.testing import TopologyTestDriver
from tests.kit.sampling import first

STEPS = 220
QUICK = 3  # kinds in an ordinary run
STREAM_STEPS = {
    "with_columns": lambda app, rows, number: rows.with_columns(v=F.col("v") + 1),
    "select": lambda app, rows, number: rows.select(v=F.col("v") + 1),
    "filter": lambda app, rows, number: rows.filter(f"v <> {number + 7}"),
    "rename": lambda app, rows, number: rows.rename(**{"v": "u"} if number % 2 == 0 else {"u": "v"}),
    "named": lambda app, rows, number: rows.filter("k > 0").named(f"step-{number}"),
    "peek": lambda app, rows, number: rows.peek(lambda row: None),
    "map_values": lambda app, rows, number: rows.map_values(lambda row: {"v": row["v"] + 1}, "v int"),
    "merge": lambda app, rows, number: rows.merge(app.stream(f"t{number}", schema="k int, v int", key="k")),
    "split": lambda app, rows, number: rows.split().branch("k > 0", "a").default("b")["a"],
    "table with_columns": lambda app, rows, number: rows.with_columns(v=F.col("v") + 1),
    "table filter": lambda app, rows, number: rows.filter(f"v <> {number + 7}"),
}


def chained(kind, steps=STEPS):
    """A topology with a chain of steps of a kind."""
    app = sk.Topology("app")
    read = app.table if kind.startswith("table") else app.stream
    rows = read("in", schema="k int, v int", key="k")
    for number in range(steps):
        rows = STREAM_STEPS[kind](app, rows, number)
    rows.to("out")
    return app


@pytest.mark.parametrize(
    "kind", first(QUICK, [*dict.fromkeys(["with_columns", "merge", "table filter", "rename", *STREAM_STEPS])])
)
def test_a_long_chain_is_shown_and_runs(kind):
    """It prints, explains, draws, and gives the row that went through all of its steps."""
    app = chained(kind, 100 if kind == "split" else STEPS)

    assert "in" in str(app) and app.to_mermaid() and app.explain()
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"k": 1, "v": 0})
        (row,) = driver.read("out")
    adds = kind in ("with_columns", "select", "map_values", "table with_columns")
    assert row["v"] == (STEPS if adds else 0)


def test_windows_stand_above_long_chains():
    """So do groups, windows and their final results."""
    app = sk.Topology("app")
    rows = app.stream("in", schema="k int, v int", key="k")
    for _ in range(STEPS):
        rows = rows.with_columns(v=F.col("v") + 1)
    counts = rows.group_by_key().windowed_by(sk.tumbling("1 hour", grace="0 s")).agg(n=F.sum("v"))
    for _ in range(STEPS):
        counts = counts.filter("n > 0")
    counts.emit("final").to("out")

    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"k": 1, "v": 0}, timestamp=1)
        driver.drain()
        assert [row["n"] for row in driver.read("out")] == [STEPS]
