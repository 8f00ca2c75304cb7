"""
top_k, bottom_k, extremes of structs and percentiles of streams.

They are those of the records that a group or a window has, under every window, cut and number of tasks.
"""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopologyError
from streamkit.testing import TopologyTestDriver
from tests.kit.engine_run import moment
from tests.kit.sampling import TAKES_ALL, first

Row = dict[str, Any]
SCHEMA = "k string, v double, i int, s string"
LONG = "the same beginning of several texts, "
TEXTS = [None, "", LONG[:15], LONG[:16], f"{LONG}a", f"{LONG}a\0", f"{LONG}b", "x", "y\0", "yé"]  # in their order
WINDOWS = {
    "none": None,
    "tumbling": sk.tumbling("10 ms", grace="6 ms"),
    "hopping": sk.hopping("32 ms" if TAKES_ALL else "12 ms", "2 ms", grace="6 ms"),
    "session": sk.session("4 ms", grace="6 ms"),
    "sliding": sk.sliding("5 ms", grace="6 ms"),
}
RANKED = {
    "top": F.top_k("v", 3),
    "by": F.top_k("s", 2, by="i"),
    "pairs": F.expr("top_k(named_struct('i', i, 's', s), 4, named_struct('i', i, 'v', v))"),
    "few": F.min_by("s", "i", 2),
    "fewest": F.expr("min_by(s, i, 1)"),
    "low": F.bottom_k("v", 3),
    "largest": F.max(F.struct("i", "s")),
    "smallest": F.min(F.struct("i", "s")),
    "share": F.percentile_approx("i", [0.2, 0.9]),
    "middle": F.median("i"),
}
ALL = {"all": F.collect_list(F.struct("v", "i", "s"))}


def rows_of(seed: int, count: int = 40) -> list[Row]:
    """Records in groups a and b, out of order, with ties and nulls."""
    chance, now, rows = random.Random(seed), 0, []
    for _ in range(count):
        now += chance.choice([0, 0, 1, 2, 7])
        row = {
            "k": chance.choice("ab"),
            "v": chance.choice([None, -1.5, 0.0, 2.0, math.inf]),
            "i": chance.choice([None, 1, 2, 3]),
        }
        rows.append(row | {"s": chance.choice(TEXTS), "at": max(0, now - chance.choice([0, 0, 3, 5]))})
    return rows


def results(
    rows: list[Row], window: str, mode: str, aggregates: dict[str, Any], batching: Any = "all", tasks: int = 1
) -> list[Row]:
    app = sk.Topology("ranked")
    grouped: Any = app.stream("in", schema=SCHEMA, key="k").group_by_key()
    grouped = grouped if WINDOWS[window] is None else grouped.windowed_by(WINDOWS[window])
    grouped.agg(**aggregates).emit(mode).to("out")
    with TopologyTestDriver(app, batching=batching, tasks=tasks) as driver:
        values = [{**{name: row[name] for name in ("k", "v", "i", "s")}, "_timestamp": moment(row["at"])} for row in rows]
        for begin in range(0, len(values), 3):
            driver.pipe("in", values[begin : begin + 3])
        driver.drain()
        found = driver.read("out")
        names = [name for name in ("k", "window_start", "window_end", "_deleted", *aggregates) if name in found[0]]
        return [{name: row[name] for name in names} for row in found]


def ranked(rows: list[Row]) -> Row:
    """What the aggregates are, in plain Python."""
    numbers = sorted(row["i"] for row in rows if row["i"] is not None)
    by = sorted((row for row in rows if row["i"] is not None), key=lambda row: (-row["i"], TEXTS.index(row["s"])))
    few = [row["s"] for row in sorted(by, key=lambda row: (row["i"], TEXTS.index(row["s"])))]
    pair = sorted(((row["i"] or 0, TEXTS.index(row["s"]), row["i"], row["s"]) for row in rows), key=lambda one: one[:2])
    pairs = sorted(rows, key=lambda row: (-(row["i"] or 0), *_falling(row["v"]), TEXTS.index(row["s"])))
    return {
        "top": sorted((row["v"] for row in rows if row["v"] is not None), reverse=True)[:3],
        "by": [row["s"] for row in by[:2]],
        "pairs": [{"i": row["i"], "s": row["s"]} for row in pairs[:4]],
        "few": few[:2],
        "fewest": few[:1],
        "low": sorted(row["v"] for row in rows if row["v"] is not None)[:3],
        "largest": dict(zip("is", pair[-1][2:])),
        "smallest": dict(zip("is", pair[0][2:])),
        "share": [numbers[max(math.ceil(share * len(numbers)), 1) - 1] for share in (0.2, 0.9)] if numbers else None,
        "middle": (numbers[(len(numbers) - 1) // 2] + numbers[len(numbers) // 2]) / 2 if numbers else None,
    }


def _falling(value: float | None) -> tuple[bool, float]:
    return (True, 0.0) if value is None else (False, -value)


@pytest.mark.parametrize("window", WINDOWS)
def test_results_are_those_of_the_records(window: str) -> None:
    """After every record, and when windows close, they are what plain Python makes of the records that are collected beside them."""
    rows = rows_of(1, 24)
    for mode in ("every", "latest" if window == "none" else "final"):
        together = results(rows, window, mode, {**ALL, **RANKED})
        assert len(together) > 1
        for row in together:
            if not row["_deleted"]:
                assert {name: row[name] for name in RANKED} == ranked(row["all"])


@pytest.mark.parametrize(
    ("window", "mode"),
    first(3, [("none", "every"), ("hopping", "final"), ("session", "every"), ("tumbling", "every"), ("sliding", "final")]),
)
def test_results_do_not_depend_on_the_cut(window: str, mode: str) -> None:
    """One by one or all at once, with one task or three: the same results of every record and every window."""
    rows = rows_of(2, 12)
    whole = results(rows, window, mode, RANKED)
    for batching, tasks in (("one", 1), (5, 3)) if TAKES_ALL else [(5, 3)]:
        cut = results(rows, window, mode, RANKED, batching, tasks)
        for key in "ab":
            assert [row for row in cut if row["k"] == key] == [row for row in whole if row["k"] == key]


def test_wide_rankings_and_large_groups() -> None:
    """More values than there are give all; a ranking longer than what intervals are made for is right, too."""
    rows = rows_of(3, 60)
    for k in (1, 17, 100, 100_000):
        found = {row["k"]: row["top"] for row in results(rows, "none", "every", {"top": F.top_k("v", k)}, "all", 2)}
        for key in "ab":
            values = [row["v"] for row in rows if row["k"] == key and row["v"] is not None]
            assert found[key] == sorted(values, reverse=True)[:k]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (F.top_k("v", 0), "constant from 1 to 100,000"),
        (F.expr("top_k(v, i)"), "constant from 1 to 100,000"),
        (F.top_k(F.array("v"), 2), "values of array<double> have no order"),
        (F.top_k("v", 2, by=F.array("v")), "values of array<double> have no order"),
        (F.top_k(F.struct(F.array("v").alias("a")), 2), "values of array<double> have no order"),
    ],
)
def test_what_has_no_ranking_is_refused(column: Any, message: str) -> None:
    """A number that is no constant, and values without an order, are refused when the topology is compiled."""
    with pytest.raises(TopologyError, match=message):
        results([], "none", "latest", {"n": column})
