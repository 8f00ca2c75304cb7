"""Steps between a connector and a topic: which rows fail, and that the others go on."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from streamkit.connectors.runtime.pipeline import PipelineStep, pass_through
from streamkit.errors import SchemaError


def refuse(names_rows):
    """A step that refuses rows of value None: it says which, or not."""

    def run(topic, rows):
        wrong = tuple(row for row, value in enumerate(rows["value"].to_pylist()) if value is None)
        if wrong:
            raise SchemaError("found null", wrong if names_rows else ())
        return {topic: rows}

    return PipelineStep("TRANSFORMATION", run)


def route(topic, rows):
    """Odd values to another topic."""
    odd = pa.array([value is not None and value % 2 == 1 for value in rows["value"].to_pylist()])
    return {topic: rows.filter(pa.compute.invert(odd)), "odd": rows.filter(odd)}


@pytest.mark.parametrize("names_rows", [True, False])
def test_only_rows_that_fail_are_left_out(names_rows):
    """Whether a step names its rows or not, exactly those that fail are told, by their number; the order of the others stays."""
    chance = random.Random(1)
    for count in (0, 1, 2, 3, 17):
        values = [None if chance.random() < 0.3 else number for number in range(count)]
        rows = pa.table({"value": pa.array(values, pa.int64())})
        passed = pass_through([refuse(names_rows)], "t", rows)
        assert [failure.row for failure in passed.failures] == [row for row, value in enumerate(values) if value is None]
        kept = dict(passed.parts)["t"]["value"].to_pylist() if passed.parts else []
        assert kept == [value for value in values if value is not None]


def test_numbers_outlive_other_steps():
    """A row keeps its number through steps that leave rows out or send them elsewhere."""
    rows = pa.table({"value": pa.array([1, 2, None, 3, None, 4])})
    later = PipelineStep("KAFKA_PRODUCE", lambda topic, some: refuse(True).run(topic, some))
    passed = pass_through([PipelineStep("TRANSFORMATION", route), later], "even", rows)
    assert [(failure.row, failure.stage) for failure in passed.failures] == [(2, "KAFKA_PRODUCE"), (4, "KAFKA_PRODUCE")]
    assert dict(passed.parts)["even"]["value"].to_pylist() == [2, 4]
    assert dict(passed.parts)["odd"]["value"].to_pylist() == [1, 3]


def test_the_first_failure_is_enough():
    """Without tolerance nobody looks for more failures than the first, however many rows would fail."""
    calls = []

    def run(topic, rows):
        calls.append(rows.num_rows)
        raise SchemaError("found null", tuple(range(rows.num_rows)))

    passed = pass_through([PipelineStep("TRANSFORMATION", run)], "t", pa.table({"value": [None] * 1_000}), is_tolerant=False)
    assert [failure.row for failure in passed.failures] == [0]
    assert calls == [1_000, 1]


def test_failures_are_told_in_the_order_of_the_rows():
    """Whichever step refuses a row; and a number that no row has is not believed."""

    def late(topic, rows):
        if 1 in rows["value"].to_pylist():
            raise SchemaError("found one", (rows.num_rows + 3,))
        return {topic: rows}

    rows = pa.table({"value": pa.array([0, 1, 2, None])})
    passed = pass_through([refuse(True), PipelineStep("KAFKA_PRODUCE", late)], "t", rows)
    assert [(failure.row, failure.stage) for failure in passed.failures] == [(1, "KAFKA_PRODUCE"), (3, "TRANSFORMATION")]
    assert dict(passed.parts)["t"]["value"].to_pylist() == [0, 2]
