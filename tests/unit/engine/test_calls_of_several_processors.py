"""Processors of which one takes what another one forwards: the rows of its call come behind those that it is given, whatever was read first."""

from __future__ import annotations

from typing import Any

import pytest

import streamkit as sk
from streamkit.plan import node
from streamkit.testing import TopologyTestDriver


class Told:
    """Passes records on, and tells when it is called."""

    def __init__(self, name: str) -> None:
        self.name = name

    def init(self, context: Any) -> None:
        self.context = context
        context.schedule("10 ms", "stream_time", self.call)

    def process(self, record: Any) -> None:
        self.context.forward({"told": record.value["told"]})

    def call(self, time: int) -> None:
        self.context.forward({"k": 1, "told": f"{self.name} {time}"})


def test_any_number_of_steps_was_declared_before() -> None:
    """What a process has declared in its life, such as a notebook, does not count among the steps of a topology."""
    for _ in range(1 << 16):
        next(node._DECLARATIONS)
    app = sk.Topology("calls")
    app.stream("a", schema="k int, told string", key="k").process_values(lambda: Told("one"), "told string").to("out")
    with TopologyTestDriver(app, partitions=1) as driver:
        driver.pipe("a", {"k": 1, "told": "record"}, timestamp=1)
        assert [row["told"] for row in driver.read("out")] == ["record", "one 1"]


@pytest.mark.parametrize("batching", ["one", "all"])
@pytest.mark.parametrize("is_first", [True, False], ids=["declared first", "declared last"])
def test_rows_of_a_call_come_behind_those_it_was_given(is_first: bool, batching: Any) -> None:
    """The processor below takes a stream of its own too, which may be declared before the one above."""
    app = sk.Topology("calls")
    schema = "k int, told string"
    one, other = (app.stream(name, schema=schema, key="k") for name in (("a", "b") if is_first else ("b", "a")))
    above, beside = (one, other) if is_first else (other, one)
    given = above.process_values(lambda: Told("above"), "told string")
    given.merge(beside).process_values(lambda: Told("below"), "told string").to("out")
    with TopologyTestDriver(app, batching=batching, partitions=1) as driver:
        for number, time in enumerate((1, 25, 49)):
            driver.pipe("a", {"k": 1, "told": f"record {number}"}, timestamp=time)
        told = [row["told"] for row in driver.read("out")]
    assert told == [
        *("record 0", "above 1", "below 1"),
        *("record 1", "above 25", "below 25"),
        *("record 2", "above 49", "below 49"),
    ]
