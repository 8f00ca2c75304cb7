"""A promise about every aggregate: of a column that gets a wider type it goes on as one that always had it, or the start is refused."""

from __future__ import annotations

import datetime as dt
import decimal
from itertools import product
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.errors import OrphanedStateError, TopologyError
from streamkit.expressions.aggregates import AGGREGATES
from tests.kit.engine_run import Run, append, execute, fresh_log, stored
from tests.kit.sampling import TAKES_ALL

CALLS = {
    "count": lambda: F.count("v"),
    "top_k": lambda: F.top_k("v", 2),
    "bottom_k": lambda: F.bottom_k("v", 2),
    "max_by": lambda: F.max_by("v", "v"),
    "min_by": lambda: F.min_by("k", "v"),
    "percentile": lambda: F.percentile("v", 0.5),
    "percentile_approx": lambda: F.percentile_approx("v", 0.5),
}  # fmt: skip
MORE = {
    "max_by of two": lambda: F.max_by("k", "v", 2),
    "top_k by": lambda: F.top_k("k", 2, by="v"),
    "count_distinct of two": lambda: F.count_distinct("v", "k"),
}  # fmt: skip
NAMES = [*sorted(name for name, one in AGGREGATES.items() if one.is_called), *MORE]
WIDER: dict[str, tuple[str, str, list[Any], list[Any]]] = {
    "int": ("int", "bigint", [5, 7, None, 5], [5, 9]),
    "decimal": ("decimal(5,1)", "decimal(9,1)", [decimal.Decimal("1.5"), decimal.Decimal("2.5")], [decimal.Decimal("1.5")]),
    "float": ("float", "double", [0.5, 2.0, 0.5], [0.5]),
    "date": ("date", "timestamp_ntz", [dt.date(2020, 1, 1), dt.date(2020, 1, 2)], [dt.datetime(2020, 1, 1)]),
}  # fmt: skip


def call(name):
    return MORE[name]() if name in MORE else CALLS.get(name, lambda: getattr(F, name)("v"))()


def topology(name, is_table, cast=None):
    app = sk.Topology("t")
    rows = app.table("in") if is_table else app.stream("in")
    if cast is not None:
        rows = rows.with_columns(v=F.col("v").cast(cast))
    rows.group_by(g=F.lit("g")).agg(a=call(name), store="s")
    return app


def run(log, app):
    execute(log, compile(app, log), Run(drain=False))


def held(log):
    return stored(log, "t", "s")


def ways():
    """All; in an ordinary run each aggregate of an int and of one other type, once of a stream and once of a table."""
    ways = [*product(["stream", "table"], ["altered", "cast"])]
    if TAKES_ALL:
        return [(name, types, *way) for name, types, way in product(NAMES, WIDER, ways)]
    numbered = [*enumerate(NAMES)]
    found = [(name, "int", *ways[number % 4]) for number, name in numbered]
    return found + [(name, [*WIDER][number // 4 % 3 + 1], *ways[3 - number % 4]) for number, name in numbered]


@pytest.mark.parametrize(("name", "types", "rows", "change"), ways())
def test_an_aggregate_of_a_wider_column_is_right_or_refused(name, types, rows, change):
    """Whether its topic was altered or a cast was put in front: state whose bytes depend on the type is never read as of another."""
    before, now, first, later = WIDER[types]
    is_table, is_cast = rows == "table", change == "cast"
    with fresh_log() as log:
        log.create_topic("in", f"k string, v {before}", key="k", partitions=1)
        append(log, "in", [{"k": f"k{place}", "v": value, "ts": place} for place, value in enumerate(first)])
        try:
            run(log, topology(name, is_table))
            compile(topology(name, is_table, now), log)
        except TopologyError:
            pytest.skip("no aggregate of these types")
        if not is_cast:
            log.alter_topic("in", schema=f"k string, v {now}")
        if is_cast and types == "date":
            later = [value.date() for value in later]
        append(log, "in", [{"k": f"k{place}", "v": value, "ts": 10 + place} for place, value in enumerate(later)])
        wide = topology(name, is_table, now if is_cast else None)
        try:
            run(log, wide)
        except OrphanedStateError:
            return
        gone_on = held(log)
        log.catalog.applications.reset("t")
        run(log, wide)
        assert alike(gone_on) == alike(held(log))


def alike(rows):
    """Rows without the last digits of doubles, which may depend on how an epoch folds them."""
    return [{name: round(value, 9) if isinstance(value, float) else value for name, value in row.items()} for row in rows]


@pytest.mark.parametrize("name", ["count_distinct", "top_k", "approx_count_distinct"])
def test_a_cast_back_in_front_of_the_group_goes_on(name):
    """What the refusal advises: the aggregate has the values of the type of before, and its state."""
    with fresh_log() as log:
        log.create_topic("in", "k string, v int", key="k", partitions=1)
        append(log, "in", [{"k": "a", "v": 5, "ts": 0}])
        run(log, topology(name, False))
        log.alter_topic("in", schema="k string, v bigint")
        append(log, "in", [{"k": "a", "v": 5, "ts": 1}])
        with pytest.raises(OrphanedStateError, match="cast the column back"):
            run(log, topology(name, False))
        run(log, topology(name, False, "int"))
        found = held(log)
        log.catalog.applications.reset("t")
        run(log, topology(name, False, "int"))
        assert found == held(log)
