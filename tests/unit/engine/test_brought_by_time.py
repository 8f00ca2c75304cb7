"""
Where a row comes from is asked of the row, not of the rows beside it, so it depends on no cut.

A stream of records is merged with final results, which time brings; both stand in one batch or apart, as epochs are cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.rows import rows as engine_rows
from streamkit.engine.stage import dead_letter_rows
from streamkit.names import DUE
from streamkit.testing import TopologyTestDriver
from tests.kit.sampling import TAKES_ALL

CUTS = ("all", 1, 2, 3, "each")
SCHEMA = "v int, at string"


class Where(sk.Processor):
    """Forwards where each record comes from."""

    def init(self, context: Any) -> None:
        self.context = context

    def process(self, record: Any) -> None:
        metadata = self.context.record_metadata
        self.context.forward({"v": record["v"], "at": None if metadata is None else f"{metadata.topic}/{metadata.offset}"})


class Scheduled(sk.Processor):
    """Forwards each record, and a row at each step of stream time."""

    def init(self, context: Any) -> None:
        self.context = context
        context.schedule("5 ms", "stream_time", self.punctuate)

    def process(self, record: Any) -> None:
        self.context.forward({"v": record["v"]})

    def punctuate(self, time: Any) -> None:
        self.context.forward({"k": "a", "v": -1})


def both(app: sk.Topology) -> sk.Stream:
    """Records, and final results of them."""
    results = app.stream("in").group_by_key().windowed_by(sk.tumbling("10 ms", grace="0 ms")).agg(n=F.count("*")).emit("final")
    return app.stream("in").select("v").merge(results.select_key("k").select(v=F.expr("cast(n as int)")))


def bad(row: Any) -> Any:
    if row["v"] in (3, 11):
        raise ValueError(row["v"])
    return {"v": row["v"]}


class Bad(sk.Processor):
    def init(self, context: Any) -> None:
        self.context = context

    def process(self, record: Any) -> None:
        self.context.forward(bad(record))


ON_ERROR = sk.dead_letter("dead")
STEPS: dict[str, Callable[[sk.Stream], sk.Stream]] = {
    "function": lambda stream: stream.map_values(bad, "v int", on_error=ON_ERROR),
    "column": lambda stream: stream.select(v=F.expr("cast(100 div if(v in (3, 11), 0, v) as int)"), on_error=ON_ERROR),
    "filter": lambda stream: stream.filter(lambda row: bad(row)["v"] > 0, on_error=ON_ERROR),
    "flat_map": lambda stream: stream.flat_map_values(lambda row: [bad(row)], "v int", on_error=ON_ERROR),
    "processor": lambda stream: stream.process(Bad, "v int", on_error=ON_ERROR),
}


def run(app: sk.Topology, cut: Any, tasks: int, topic: str, *columns: str) -> list[Any]:
    topics = {"in": {"schema": "k string, v int", "key": "k"}}
    with TopologyTestDriver(app, topics=topics, batching=cut, tasks=tasks) as driver:
        for number in range(9):
            driver.pipe("in", {"k": "a", "v": number + 10}, timestamp=number * 4)
        return sorted(repr([row[name] for name in columns]) for row in driver.read(topic))


def places(cut: Any, tasks: int = 1) -> list[Any]:
    app = sk.Topology("places")
    both(app).process(Where, SCHEMA).to("out")
    return run(app, cut, tasks, "out", "v", "at")


def schedules(cut: Any, tasks: int = 1) -> list[Any]:
    """Rows that a schedule forwards, beside records and results, as another processor sees them."""
    app = sk.Topology("schedules")
    both(app).process(Scheduled, "v int").process(Where, SCHEMA).to("out")
    return run(app, cut, tasks, "out", "v", "at")


def letters(step: str, cut: Any, tasks: int = 1) -> list[Any]:
    app = sk.Topology("letters")
    STEPS[step](both(app)).to("out")
    return run(app, cut, tasks, "dead", "topic", "partition", "offset", "key", "value", "is_whole")


@pytest.mark.parametrize("given", [places, schedules])
def test_record_metadata_is_of_the_row(given: Callable[..., list[Any]]) -> None:
    """A record says its topic and offset whatever shares its batch, and what time brought says nothing."""
    expected = given("all")
    assert "[11, 'in/1']" in expected
    assert "[3, None]" in expected
    ways = [(cut, tasks) for cut in CUTS for tasks in (1, 2)] if TAKES_ALL else [(1, 2)]
    assert all(given(*way) == expected for way in ways)


@pytest.mark.parametrize("step", STEPS)
def test_dead_letters_are_of_the_row(step: str) -> None:
    """The letter of a record has the record whatever shares its batch; that of a final result has the row itself."""
    expected = letters(step, "all")
    assert expected[0].startswith("['in', 0, 1,")
    assert all(letter.startswith("[None,") for letter in expected[1:])
    assert len(expected) == 3
    assert all(letters(step, cut) == expected for cut in (CUTS if TAKES_ALL else ("each",)))


def test_a_batch_that_is_asked_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a result in the batch made all of it results, letters would depend on the cut."""
    original = engine_rows.brought_by_time
    monkeypatch.setattr(dead_letter_rows, "brought_by_time", lambda row: original(row) | (DUE in row.schema.names))
    assert letters("function", "all") != letters("function", "each")
