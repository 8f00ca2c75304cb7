"""A state that comes alone: folding it gives itself, to the last bit, whatever the function; so one row needs no fold."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.folding.group_state import lifted
from streamkit.expressions.aggregates import AGGREGATES, fold, running
from streamkit.log.database.sqlite import IN_MEMORY
from streamkit.log.opening import open_log
from streamkit.plan.expression import TypedAggregate
from streamkit.plan.expression_text import GROUP_VALUES, OF_KSQL

DOUBLES = [None, 0.1, -0.0, 1e308, math.inf, math.nan, -1e308, 3.0, 0.7]
TEXTS = [None, "a", "", "é", "a", "b", None, "c", "a"]
WITH_ARGUMENTS = {"count_if", "max_by", "min_by", "top_k", "bottom_k", "percentile_approx", "percentile"}
INTERNAL = {"number_of_members", GROUP_VALUES}  # of groups of tables, and of functions in Python; no user calls them
OF_SPARK = {name for name in AGGREGATES if not name.startswith(OF_KSQL)}  # tests/unit/sql/ksql asks the others
CONDITIONS = [None, True, False] * 3


@pytest.fixture(scope="module")
def aggregates() -> Iterator[tuple[TypedAggregate, ...]]:
    """Every aggregate function, of doubles, and of texts where it takes them."""
    numeric = ("sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop")
    others = sorted(OF_SPARK - {*numeric, *WITH_ARGUMENTS, *INTERNAL})
    calls = {f"{name}_d": getattr(F, name)("d") for name in (*numeric, *others)} | {
        f"{name}_s": getattr(F, name)("s") for name in others
    }
    calls |= {
        "count_if": F.count_if("b"),
        "max_by": F.max_by("s", "d"),
        "min_by": F.min_by("d", "s"),
        "top_k": F.top_k("s", 2),
        "bottom_k": F.bottom_k("s", 2),
    }
    calls |= {"percentile_approx": F.percentile_approx("d", 0.5), "percentile": F.percentile("d", [0.1, 0.9])}
    app = sk.Topology("all")
    rows = app.stream("rows", schema="k string, d double, s string, b boolean", key="k")
    rows.group_by("k").agg(**calls, store="all").emit("latest").to("out")
    with open_log(IN_MEMORY) as log:
        log.create_topic("rows", "k string, d double, s string, b boolean", key="k")
        (found,) = {one.aggregates for one in sk.compile(app, log).operators if hasattr(one, "aggregates")}
        yield found


def test_every_function_is_asked(aggregates: tuple[TypedAggregate, ...]) -> None:
    """None is left out of the tests below."""
    assert {one.function for one in aggregates} == OF_SPARK - INTERNAL


@pytest.mark.parametrize("rows", [1, 3], ids=["of one row", "of three rows"])
def test_a_state_that_comes_alone_stays_as_it_is(aggregates: tuple[TypedAggregate, ...], rows: int) -> None:
    """It is the same whether it is folded alone, or beside the states of other groups."""
    batch = pa.RecordBatch.from_pydict(
        {"d": pa.array(DOUBLES, pa.float64()), "s": pa.array(TEXTS, pa.string()), "b": pa.array(CONDITIONS, pa.bool_())}
    )
    for one in aggregates:
        keys, states = pa.array([row // rows for row in range(batch.num_rows)]), lifted([one], batch)
        if rows > 1:
            (keys,), states = fold([keys], [], [one], states)
        (together,), folded = fold([keys], [], [one], states)
        for row, key in enumerate(keys):
            (alone,), found = fold([keys.slice(row, 1)], [], [one], [state.slice(row, 1) for state in states])
            place = together.index(key).as_py()
            assert alone.to_pylist() == [key.as_py()]
            assert repr([state.to_pylist() for state in found]) == repr([state.slice(place, 1).to_pylist() for state in folded])


@pytest.mark.parametrize("groups", [1, 4, 9], ids=["one group", "four groups", "each row its own"])
def test_running_takes_each_group_by_itself(aggregates: tuple[TypedAggregate, ...], groups: int) -> None:
    """After each row a group has the state that it has when its rows come alone, whatever rows of others stand between."""
    codes = np.random.default_rng(groups).permutation(np.arange(9) % groups)
    batch = pa.RecordBatch.from_pydict(
        {"d": pa.array([None, 0.1, 4.0, 1e30, 2.5, math.nan, -7.0, 3.0, 0.7]), "s": pa.array(TEXTS), "b": pa.array(CONDITIONS)}
    )
    for one in aggregates:
        states = lifted([one], batch)
        together = running(codes, [], [one], states)
        for code in range(groups):
            rows = pa.array(np.flatnonzero(codes == code))
            alone = running(np.zeros(len(rows), np.int64), [], [one], [state.take(rows) for state in states])
            found = [column.take(rows) for column in together]
            assert repr([column.to_pylist() for column in found]) == repr([column.to_pylist() for column in alone]), one.function
