"""approx_count_distinct: Spark's own registers, estimates within the deviation, and states that depend on no order."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopologyError
from streamkit.expressions.aggregates import combine, fold, lift, result, running
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.schema import Schema
from streamkit.testing.driver import TopologyTestDriver

SCHEMA = Schema.parse("v string")
OF_SPARK = {0: 0, 1: 1, 5: 5, 100: 94, 300: 302, 2500: 2573, 30000: 28816}  # by Spark 4.2, of the texts below


def texts(count):
    return [f"v{number}_{count}" for number in range(count)]


def aggregate(*deviation):
    (one,) = ExpressionAnalyzer().aggregates(SCHEMA, [("n", F.approx_count_distinct("v", *deviation).expression)])
    return one


def lifted(one, values):
    batch = pa.RecordBatch.from_pydict({"v": pa.array(values, pa.string())})
    return lift(one, evaluate(one.argument, batch), len(values))


def folded(one, values):
    _, states = fold([], [], [one], lifted(one, values)) if values else ([], lifted(one, [None]))
    return states


@pytest.mark.parametrize(("count", "estimate"), OF_SPARK.items())
def test_small_and_large_counts_are_sparks(count, estimate):
    """Where Spark counts empty registers, and where there are many values, the estimate is that of Spark to the unit."""
    one = aggregate()
    assert result(one, folded(one, [*texts(count), None, *texts(count)[:50]])).to_pylist() == [estimate]


@pytest.mark.parametrize(("count", "deviation"), [(430, 0.05), (700, 0.05), (1500, 0.05), (20000, 0.01), (60, 0.2)])
def test_estimates_are_within_the_deviation(count, deviation):
    """Between the two an estimate is off by less than three times the deviation that was asked for."""
    one = aggregate(deviation)
    (estimate,) = result(one, folded(one, texts(count))).to_pylist()
    assert abs(estimate - count) < 3 * deviation * count


def test_states_depend_on_no_order_and_are_bounded():
    """However values are cut, ordered and merged, the state is the same; it has at most a byte a register, and two."""
    one, values = aggregate(), texts(700)
    whole = folded(one, values)
    shuffled = random.Random(1).sample(values, len(values))
    parts = combine([one], folded(one, shuffled[:30]), folded(one, shuffled[20:]))
    (after,) = running(np.zeros(700, np.int64), [], [one], lifted(one, shuffled))

    assert parts[0].to_pylist() == whole[0].to_pylist() == [after[-1].as_py()]
    assert len(whole[0][0].as_py()) == 513
    assert [len(state.as_py()) for state in after[:3]] == [5, 9, 13]
    assert result(one, [after]).to_pylist()[:5] == [1, 2, 3, 4, 5]


def test_groups_count_for_themselves():
    """In a topology each group has its estimate; nulls do not count."""
    app = sk.Topology("counts")
    stream = app.stream("in", schema="k string, v string", key="k")
    stream.group_by_key().agg(n=F.approx_count_distinct("v"), store="found").emit("every").to("out")
    with TopologyTestDriver(app, tasks=2) as driver:
        driver.pipe("in", [{"k": k, "v": v} for k, v in (("a", "x"), ("b", None), ("a", "y"), ("a", "x"), ("b", "z"))])
        assert sorted((row["k"], row["n"]) for row in driver.store("found").to_arrow().to_pylist()) == [("a", 2), ("b", 1)]
        assert [row["n"] for row in driver.read("out") if row["k"] == "a"] == [1, 2, 2]


@pytest.mark.parametrize("deviation", [0.0, 0.001, 0.5, -1.0])
def test_a_deviation_that_no_state_keeps_is_refused(deviation):
    """The deviation is bounded, because the state grows with the square of its inverse."""
    with pytest.raises(TopologyError, match=r"relative standard deviation from 0\.0044 to 0\.39; found"):
        aggregate(deviation)
