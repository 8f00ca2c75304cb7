"""Percentiles: exact while there are few values, close beyond, and the same whatever the order and the portions of the values."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from streamkit import functions as F
from streamkit.errors import EvaluationError, StreamKitError
from streamkit.expressions.aggregates import combine, fold, lift, percentiles, result, running, subtract
from streamkit.expressions.aggregates.percentiles import keys_of, values_of
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.schema import Schema, SchemaColumn

SHARES = [0.0, 0.1, 0.5, 0.9, 0.999, 1.0]


def typed(column, type_name="double"):
    return ExpressionAnalyzer("UTC").aggregates(Schema((SchemaColumn("v", type_name),)), [("p", column.expression)], None)[0]


def lifted(aggregate, values, type_name=None):
    rows = pa.record_batch({"v": pa.array(values, type_name)})
    return lift(aggregate, evaluate(aggregate.argument, rows), rows.num_rows)


def folded(aggregate, states):
    _, merged = fold([pa.array(np.zeros(len(states[0]), np.int64))], [], [aggregate], states)
    return merged


def of(column, values, type_name="double", arrow=None):
    aggregate = typed(column, type_name)
    return result(aggregate, folded(aggregate, lifted(aggregate, values, arrow)))[0].as_py()


@pytest.mark.parametrize("seed", range(8))
def test_a_state_depends_on_its_values_alone(seed, monkeypatch):
    """Merged in any order and any portions, by group or row by row, values give the same bytes, above the bound too."""
    monkeypatch.setattr(percentiles, "BOUND_MIN", 5)
    chance = np.random.default_rng(seed)
    values = [
        None if one == 0 else float(one)
        for one in np.round(chance.lognormal(0, 9, 200)) * chance.choice([-1, 0, 1, 2], 200)
    ]  # fmt: skip
    values += [math.inf, -math.inf, math.nan, 5e-324, -0.0]
    aggregate = typed(F.percentile_approx("v", SHARES, 5 + 10 * (seed % 3)))
    states = lifted(aggregate, values, pa.float64())
    whole = folded(aggregate, states)[0].to_pylist()
    order = pa.array(chance.permutation(len(values)))
    shuffled = [column.take(order) for column in states]
    cut = int(chance.integers(1, len(values)))
    parts = [folded(aggregate, [column.slice(*part) for column in shuffled]) for part in ((0, cut), (cut,))]

    assert folded(aggregate, shuffled)[0].to_pylist() == whole
    assert combine([aggregate], *parts)[0].to_pylist() == whole
    each = running(np.zeros(len(values), np.int64), [], [aggregate], shuffled)[0]
    assert each[-1:].to_pylist() == whole
    assert each[cut - 1 : cut].to_pylist() == parts[0][0].to_pylist()


def test_few_values_are_exact():
    """Up to as many distinct values as the accuracy, a percentile is the smallest value that is not below the share, a median the middle."""
    chance = np.random.default_rng(1)
    values = chance.normal(0, 1e6, 99).tolist()
    ranked = sorted(values)

    assert of(F.percentile_approx("v", SHARES), values) == [ranked[max(math.ceil(share * 99), 1) - 1] for share in SHARES]
    assert of(F.percentile("v", [0.25, 0.75]), values) == pytest.approx(np.percentile(values, [25, 75]).tolist())
    assert of(F.median("v"), values) == statistics.median(values)
    assert of(F.median("v"), [3, 1, None, 2, 2**62], "bigint") == 2.5
    assert of(F.percentile_approx("v", 0.5), [Decimal("1.50"), Decimal("-7.25"), Decimal("3.00")], "decimal(5,2)") == Decimal(
        "1.50"
    )
    assert of(F.percentile_approx("v", 0.4), [4, -3, None, 9, 9], "int", pa.int32()) == 4
    assert of(F.percentile_approx("v", [0.5]), [None], "int", pa.int32()) is None


def test_many_values_are_close():
    """Beyond the bound a result is off by less than the powers of two that the values span, divided by the bound."""
    values = np.random.default_rng(2).lognormal(3, 2, 50_000)
    ranked = np.sort(values)
    span = math.log2(ranked[-1] / ranked[0]) + 2
    for accuracy in (200, 1_000, 10_000):
        found = np.array(of(F.percentile_approx("v", SHARES, accuracy), values))
        exact = ranked[np.maximum(np.ceil(np.array(SHARES) * len(ranked)), 1).astype(int) - 1]
        assert (np.abs(found - exact) / exact).max() <= span / accuracy
    assert (found != exact).any()


def test_values_can_be_taken_back():
    """What is left of a state without values is that of the others; without all it gives null."""
    chance = np.random.default_rng(3)
    values = chance.integers(-50, 50, 60).tolist()
    for column in (F.percentile_approx("v", SHARES), F.percentile("v", SHARES)):
        aggregate = typed(column, "bigint")
        states = lifted(aggregate, values)
        some, others = (folded(aggregate, [one.slice(*part) for one in states]) for part in ((0, 20), (20,)))
        whole = folded(aggregate, states)
        assert subtract(aggregate, whole, some)[0].to_pylist() == others[0].to_pylist()
        assert result(aggregate, subtract(aggregate, whole, whole)).to_pylist() == [None]


def test_an_exact_percentile_has_an_end(monkeypatch):
    """Beyond so many distinct values it is an error that names percentile_approx, in whichever order they came."""
    monkeypatch.setattr(percentiles, "ELEMENTS_MAX", 3)
    assert of(F.median("v"), [1, 1, 2, 3, 3], "bigint") == 2.0
    with pytest.raises(EvaluationError, match=r"more than 3 distinct values.*take percentile_approx"):
        of(F.median("v"), [1, 2, 3, 4], "bigint")
    aggregate = typed(F.median("v"), "bigint")
    each = running(np.zeros(5, np.int64), [], [aggregate], lifted(aggregate, [1, 2, 3, 4, 1]))
    found = percentiles.PERCENTILE.result(aggregate, each)
    assert found.overflowed is not None
    assert found.overflowed.tolist() == [False, False, False, True, True]


def test_keys_stand_in_the_order_of_values():
    """The keys of doubles are in their order, also without their last bits, and give the values back."""
    values = np.array([-math.inf, -1e300, -2.5, -1.0, -5e-324, 0.0, 5e-324, 1.0, 1.5, 1e300, math.inf, math.nan])
    keys = keys_of(values)
    assert (np.diff(keys) > 0).all()
    assert keys_of(np.array([-0.0])).tolist() == [0]
    np.testing.assert_array_equal(values_of(keys, np.zeros(len(keys), np.int64)), values)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (F.percentile_approx("v", 1.5), "percentages from 0.0 to 1.0; found 1.5"),
        (F.percentile_approx("v", F.col("v")), "a constant number as its percentage"),
        (F.percentile_approx("v", 0.5, 0), "a positive whole number as its accuracy; found 0"),
        (F.percentile_approx("v", []), "at least one percentage"),
        (F.percentile("v", 0.5, 2), "no frequency"),
        (F.expr("percentile(v)"), "one percentage or an array"),
    ],
)
def test_what_is_no_percentile_is_refused(column, message):
    """A percentage, an accuracy or a frequency that cannot be taken is refused when the topology is compiled."""
    with pytest.raises(StreamKitError, match=message):
        typed(column)
