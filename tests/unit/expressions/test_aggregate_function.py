"""Aggregate functions as values: what a new one needs is one entry, whatever its state is made of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from streamkit.expressions.aggregates import (
    AGGREGATES,
    AggregateFunction,
    AggregateResult,
    aggregate_named,
    combine,
    fold,
    lift,
    register,
    result,
    running,
)
from streamkit.expressions.aggregates.function import States, takes
from streamkit.expressions.core.accumulation import Accumulator
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.plan.expression_text import OF_KSQL
from streamkit.schema import SchemaColumn


def joined(states: States, accumulate: Accumulator) -> list[pa.Array]:
    """The texts of the rows that come together, in their order: no sum, minimum or maximum of columns."""
    texts, runs = states[0].to_pylist(), accumulate.runs
    rows = [runs.order[start:end].tolist() for start, end in zip(runs.starts, runs.ends, strict=True)]
    return [pa.array(["".join(texts[row] or "" for row in one) for one in rows], pa.string())]


@pytest.fixture
def text_of_all() -> Iterator[TypedAggregate]:
    """Texts one after the other, as `collect_list` would have them, registered for one test."""
    register(
        AggregateFunction(
            "text_of_all",
            takes("string", "string"),
            state_columns=lambda one: (SchemaColumn(f"{one.name}.text", "string"),),
            lift=lambda _one, argument, _rows: [argument],
            merge=joined,
            result=lambda _one, states: AggregateResult(states[0]),
        )
    )
    yield TypedAggregate("all", "text_of_all", "string", TypedExpression("column", "string", (), "v"))
    del AGGREGATES["text_of_all"]


def test_a_function_whose_merge_is_no_ufunc_folds_beside_others(text_of_all: TypedAggregate) -> None:
    """Its rows come per group and in order; folds, running states and combined ones agree with those of the count beside it."""
    count = TypedAggregate("n", "count", "bigint")
    keys, values = pa.array(["b", "a", "b", "c", "a", "b"]), pa.array(["1", "2", "3", "4", None, "6"])
    states = [*lift(text_of_all, values, 6), *lift(count, None, 6)]
    (names,), (largest, texts, counts) = fold([keys], [pa.array(range(6))], [text_of_all, count], states)
    found = zip(names.to_pylist(), largest.to_pylist(), texts.to_pylist(), counts.to_pylist(), strict=True)
    assert sorted(found) == [("a", 4, "2", 2), ("b", 5, "136", 3), ("c", 3, "4", 1)]
    codes = np.array([1, 0, 1, 2, 0, 1])
    texts, counts = running(codes, [], [text_of_all, count], states)
    assert (texts.to_pylist(), counts.to_pylist()) == (["1", "2", "13", "4", "2", "136"], [1, 1, 2, 1, 2, 3])
    nothing = [pa.nulls(6, pa.string()), pa.nulls(6, pa.int64())]
    assert combine([text_of_all, count], states, nothing)[0].to_pylist() == ["1", "2", "3", "4", "", "6"]
    assert result(text_of_all, combine([text_of_all], [values], [values])).to_pylist() == ["11", "22", "33", "44", "", "66"]


def test_a_name_is_entered_once() -> None:
    """A second function of a name would change what stored states mean."""
    with pytest.raises(ValueError, match="there is an aggregate 'sum' already"):
        register(AggregateFunction("sum", *[AGGREGATES["sum"].lift] * 5))  # type: ignore[arg-type]
    assert AGGREGATES["sum"].arity == 1


def test_functions_say_what_planning_needs() -> None:
    """Counts are never null; what can be taken back, and what depends on the order of rows, says so."""
    known = {name: one for name, one in AGGREGATES.items() if not name.startswith(OF_KSQL)}
    assert {name for name, one in known.items() if not one.is_nullable} == {
        "count", "count_if", "count_distinct", "approx_count_distinct", "collect_list", "collect_set", "top_k", "bottom_k", "number_of_members",
        "group values"
    }  # fmt: skip
    assert {name for name, one in known.items() if one.is_ordered} == {
        "first", "last", "max_by", "min_by", "collect_list", "collect_set", "group values"
    }  # fmt: skip
    assert {name for name, one in known.items() if one.subtract} == {
        "count", "count_if", "sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop", "percentile", "percentile_approx"
    }  # fmt: skip
    assert {name for name, one in known.items() if one.members} == {
        "min", "max", "min_by", "max_by", "top_k", "bottom_k", "collect_list", "collect_set", "number_of_members", "group values"
    }  # fmt: skip
    assert aggregate_named("number_of_members") is None
    assert aggregate_named("Median") is AGGREGATES["percentile"]
