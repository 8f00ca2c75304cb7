"""
Random topologies of tables over one topic: filtered, joined with each other, grouped, by foreign keys, kept, made of streams again.

In the end a table follows from the newest rows of its topic alone. So each step is also a plain function of rows, and what the topology
gave last of each key must be what these functions make of the newest rows. Whatever way a record takes to an operator, and however often it
comes there, no row stays behind, and nothing stops a run: not a deletion of what never was, nor an epoch of which nothing is left.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine import kernels
from streamkit.engine.operators import foreign_key_join, table_table_join
from streamkit.errors import StreamKitError
from streamkit.testing import TopologyTestDriver
from tests.sampling import first

SCHEMA = "k string, g string, v bigint"
KEYS = "abcd"
AGGREGATES = ("max", "min", "collect_list", "collect_set")
Rows = Mapping[str, tuple[str | None, int | None]]


@dataclass(frozen=True)
class Made:
    """A table of columns k, g and v, and what it holds for the rows of the topic."""

    table: Any
    rows: Callable[[Rows], Rows]


def filtered(chosen: random.Random, one: Made, other: Made) -> Made:
    return Made(
        one.table.filter("v % 2 = 0"),
        lambda rows: {k: (g, v) for k, (g, v) in one.rows(rows).items() if v is not None and not v % 2},
    )


def moved(chosen: random.Random, one: Made, other: Made) -> Made:
    """Some rows point to another key."""
    return Made(
        one.table.with_columns(g=F.when(F.col("v") % 3 == 0, "b").otherwise(F.col("g"))),
        lambda rows: {k: ("b" if v is not None and not v % 3 else g, v) for k, (g, v) in one.rows(rows).items()},
    )


def joined(chosen: random.Random, one: Made, other: Made) -> Made:
    how = chosen.choice(["inner", "left", "outer", "outer"])
    table = one.table.join(other.table.rename(g="h", v="w"), how=how, store=_store(chosen))

    def rows_of(rows: Rows) -> Rows:
        left, right = one.rows(rows), other.rows(rows)
        keys = {"inner": left.keys() & right.keys(), "left": left.keys(), "outer": left.keys() | right.keys()}[how]
        return {k: _both(left.get(k, (None, None)), right.get(k, (None, None))) for k in keys}

    return Made(_of_both(table), rows_of)


def joined_by_foreign_key(chosen: random.Random, one: Made, other: Made) -> Made:
    how = chosen.choice(["inner", "left"])
    table = one.table.join(other.table.rename(g="h", v="w"), on={"g": "k"}, how=how, store=_store(chosen))

    def rows_of(rows: Rows) -> Rows:
        left, right = one.rows(rows), other.rows(rows)
        found = {k: (row, right.get(row[0]) if row[0] is not None else None) for k, row in left.items()}
        return {k: _both(row, there or (None, None)) for k, (row, there) in found.items() if there or how == "left"}

    return Made(_of_both(table), rows_of)


def grouped(chosen: random.Random, one: Made, other: Made) -> Made:
    """Groups by either column, with aggregates that keep the members of groups."""
    by, name = chosen.choice(["g", "k"]), chosen.choice(AGGREGATES)
    group = one.table.group_by("g") if by == "g" else one.table.group_by_key()
    table = group.agg(n=F.count("*"), x=getattr(F, name)("v"), store=_store(chosen)).filter("n > 0")
    value = F.size("x") if name.startswith("collect") else F.coalesce("x", F.lit(0))
    table = table.select(v=(F.col("n") + value).cast("bigint"), **({"x": F.col("n")} if by == "g" else {}))
    table = table.rename(g="k").select("v") if by == "g" else table.select("v")

    def rows_of(rows: Rows) -> Rows:
        groups: dict[str, list[int | None]] = {}
        for k, (g, v) in one.rows(rows).items():
            if (key := g if by == "g" else k) is not None:
                groups.setdefault(key, []).append(v)
        return {key: ("c", len(values) + _aggregated(name, values)) for key, values in groups.items()}

    return Made(table.with_columns(g=F.lit("c")).select("g", "v"), rows_of)


def made_of_changes(chosen: random.Random, one: Made, other: Made) -> Made:
    return Made(one.table.to_stream().to_table(), one.rows)


STEPS = (filtered, moved, joined, joined, joined, joined_by_foreign_key, grouped, made_of_changes)


def _of_both(table: Any) -> Any:
    value = F.coalesce(F.col("v"), F.lit(0)) * 2 + F.coalesce(F.col("w"), F.lit(0))
    return table.select(g=F.coalesce("g", "h"), v=(value % 1000).cast("bigint"))


def _both(left: tuple[str | None, int | None], right: tuple[str | None, int | None]) -> tuple[str | None, int]:
    return (left[0] if left[0] is not None else right[0], ((left[1] or 0) * 2 + (right[1] or 0)) % 1000)


def _aggregated(name: str, values: list[int | None]) -> int:
    there = [value for value in values if value is not None]
    if name.startswith("collect"):
        return len(there) if name == "collect_list" else len({*there})
    return (max if name == "max" else min)(there, default=0)


def _store(chosen: random.Random) -> str | None:
    return f"s{chosen.randrange(10**9)}" if chosen.random() < 0.2 else None


def difference(seed: int) -> str | None:
    """What a random topology holds in the end beside what it must hold; None if they are the same."""
    chosen = random.Random(seed)
    app = sk.Topology("tables")
    source = (
        app.table("in", schema=SCHEMA, key="k") if chosen.random() < 0.7 else app.stream("in", schema=SCHEMA, key="k").to_table()
    )
    made = [Made(source, lambda rows: rows)]
    for _ in range(chosen.randint(2, 5)):
        one, other = (chosen.choice([*made[-3:], *made]) for _ in range(2))
        made.append(chosen.choice(STEPS)(chosen, one, other))
    last = made[-1].table
    (last if chosen.random() < 0.5 else last.emit("every")).to("out")
    rows: dict[str, tuple[str | None, int | None]] = {}
    clock = count(1)
    batching: Any = chosen.choice(["one", "all", chosen.randint(2, 5)])
    with TopologyTestDriver(app, tasks=chosen.choice([1, 3]), partitions=chosen.choice([1, 2]), batching=batching) as driver:
        for _ in range(chosen.randint(4, 30)):
            k = chosen.choice(KEYS)
            if chosen.random() < 0.25:
                rows.pop(k, None)
                driver.delete("in", {"k": k}, timestamp=next(clock))
            else:
                rows[k] = chosen.choice([*KEYS, None]), chosen.choice([None, *range(9)])
                driver.pipe("in", {"k": k, "g": rows[k][0], "v": rows[k][1]}, timestamp=next(clock))
        newest = {row["k"]: (row["g"], row["v"]) for row in driver.newest("out").values()}
    wanted = dict(made[-1].rows(rows))
    return None if newest == wanted else f"expected {wanted}, found {newest}"


@pytest.mark.parametrize("seed", first(12, range(2_000)))
def test_tables_of_one_topic_hold_what_follows_from_its_rows(seed):
    """Whatever steps they are made by, in any cut and with any number of tasks."""
    assert difference(seed) is None


answers = foreign_key_join._answers


def never(table: Any, rows: pa.RecordBatch, *others: Any) -> Any:
    return np.zeros(rows.num_rows, bool)


def all_answered(*arguments: Any) -> Any:
    results, has_result = answers(*arguments)
    return results, np.ones_like(has_result)


BUGS: dict[str, tuple[Any, str, Callable[..., Any], int]] = {  # and a seed at which it shows
    "operators get batches without rows": (kernels, "present", lambda rows: rows, 14),
    "a join of tables keeps what a record deletes on both sides": (table_table_join, "vanishes_too", never, 9),
    "a row that changes with the deletion of what it names keeps it": (foreign_key_join, "_answers", all_answered, 130),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_table_is_caught(bug):
    """With the bug a topology that is right otherwise holds something else, or stops."""
    home, name, planted, seed = BUGS[bug]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(home, name, planted)
        try:
            is_wrong = difference(seed) is not None
        except (StreamKitError, pa.ArrowInvalid):
            is_wrong = True
    assert is_wrong
    assert difference(seed) is None
