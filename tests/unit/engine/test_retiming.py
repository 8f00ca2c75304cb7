"""Processors that give rows times of their own, in front of what goes by stream time: refused, with the way that works."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.errors import TopologyError, UnfitFunctionError
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.sampling import in_turn

BASE = 1_617_300_000_000
SCHEMA = "k string, at bigint"
TUMBLING = sk.tumbling("5 seconds", grace="0 s")
BEHIND = {
    "tumbling": lambda app, rows: rows.group_by_key().windowed_by(TUMBLING).count().emit("final"),
    "reduce": lambda app, rows: rows.group_by_key().windowed_by(TUMBLING).reduce(lambda one, other: one).emit("every"),
    "session": lambda app, rows: rows.group_by_key().windowed_by(sk.session("5 s", grace="0 s")).count().emit("every"),
    "sliding": lambda app, rows: rows.group_by_key().windowed_by(sk.sliding("5 s", grace="0 s")).count().emit("every"),
    "hopping of a group by another column": lambda app, rows: (
        rows.group_by(n="at").windowed_by(sk.hopping("4 s", advance="2 s", grace="0 s")).count().emit("every")
    ),
    "join of streams": lambda app, rows: rows.join(
        app.stream("others", schema="k string, w int", key="k"), within=sk.within("5 s", grace="0 s")
    ),
    "suppress": lambda app, rows: rows.to_table().suppress(until=sk.time_limit("10 s")).emit("every"),
    "table with history": lambda app, rows: rows.to_table(versioned="1 hour", store="t").to_stream(),
}


class Retime(sk.Processor):
    def init(self, context):
        self.context = context

    def process(self, record):
        self.context.forward({"at": record["at"]}, timestamp=record["at"])


class Factory:
    """A processor whose code does not say that it gives times: the options come from elsewhere."""

    def __init__(self, options):
        self.options = options

    def init(self, context):
        self.context = context

    def process(self, record):
        self.context.forward({"at": record["at"]}, **self.options(record))


def unseen():
    return Factory(lambda record: {"timestamp": record["at"]})


PROCESSORS = {
    "class": Retime,
    "function": lambda record, context: context.forward({"at": record["at"]}, timestamp=record["at"]),
    "factory": lambda: Retime(),  # noqa: PLW0108
    "partial": partial(Retime),
}


def topology(processor, behind):
    app = sk.Topology("retimed")
    rows = app.stream("in", schema=SCHEMA, key="k").process(processor, "at bigint")
    BEHIND[behind](app, rows).to("out")
    return app


@pytest.mark.parametrize("behind", BEHIND)
def test_times_of_its_own_in_front_of_stream_time_are_refused(behind):
    """When the topology is compiled, with both lines and the ways that work."""
    with pytest.raises(TopologyError, match=r"stream\(…, timestamp='…'\)") as error:
        compile(topology(Retime, behind))
    assert str(error.value).count("test_retiming.py") == 2


@pytest.mark.parametrize("kind", PROCESSORS)
def test_processors_of_all_forms_are_seen_through(kind):
    """Classes, functions, factories."""
    with pytest.raises(TopologyError, match="goes by stream time"):
        compile(topology(PROCESSORS[kind], "tumbling"))


@pytest.mark.parametrize(("behind", "on_error"), in_turn([*BEHIND], ["fail", "skip"]))
def test_what_the_code_does_not_show_is_refused_when_it_happens(behind, on_error):
    """The first row with another time ends the run, whatever on_error says, because no record is to blame."""
    app = topology(unseen, behind).with_on_error(on_error)
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"k": "a", "at": 1_000}, timestamp=1_000)
        with pytest.raises(UnfitFunctionError, match="timestamp=2000, and its own time is 5000"):
            driver.pipe("in", {"k": "a", "at": 2_000}, timestamp=5_000)


def test_batches_and_scheduled_calls_are_looked_at():
    """A column `_timestamp` of a batch, and a time that a scheduled call gives."""

    def retime(batch, context):
        context.forward(pa.table({"at": batch["at"], "_timestamp": batch["at"]}))

    class Later(sk.Processor):
        def init(self, context):
            self.context = context
            context.schedule("1 second", "stream_time", self.give)

        def process(self, record):
            pass

        def give(self, time):
            self.context.forward({"k": "a", "at": 1}, timestamp=time - 100)

    for processor, options in ((retime, {"by": "batch"}), (Later, {})):
        app = sk.Topology("retimed")
        rows = app.stream("in", schema=SCHEMA, key="k").process(
            processor, "k string, at bigint" if not options else "at bigint", **options
        )
        BEHIND["tumbling"](app, rows).to("out")
        with TopologyTestDriver(app) as driver, pytest.raises(UnfitFunctionError, match="goes by stream time"):
            driver.pipe("in", {"k": "a", "at": 1}, timestamp=5_000)


def test_times_that_change_nothing_are_taken():
    """The record's own time, stream time, and any time where nothing behind goes by stream time; children are told apart."""

    class Same(sk.Processor):
        def init(self, context):
            self.context = context
            context.schedule("1 second", "stream_time", lambda time: context.forward({"k": "a", "at": 0}, timestamp=time))

        def process(self, record):
            self.context.forward({"k": record["k"], "at": 1}, timestamp=record.timestamp)
            self.context.forward({"k": record["k"], "at": 2}, timestamp=self.context.stream_time)
            self.context.forward({"k": record["k"], "at": 3}, to="others", timestamp=record["at"])

    app = sk.Topology("same")
    processed = app.stream("in", schema=SCHEMA, key="k").process(Same, "k string, at bigint", key="k")
    BEHIND["tumbling"](app, processed).to("out")
    processed.child("others").filter("at = 3").to("others")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"k": "a", "at": BASE}, timestamp=7_000)
        driver.drain()
        assert [row["count"] for row in driver.read("out")] == [3]
        assert [int(row["_timestamp"].timestamp() * 1000) for row in driver.read("others")] == [BASE]


def test_the_ways_that_work():
    """Event time from the field, or by way of a topic: final results as Kafka Streams has them."""
    rows = [("a", 0), ("a", 2), ("a", 4), ("a", 6), ("b", 7), ("a", 11)]
    expected = [("a", 0, 3), ("a", 5, 1), ("b", 5, 1), ("a", 10, 1)]
    for is_field in (True, False):
        app = sk.Topology("way")
        stream = app.stream("in", schema=SCHEMA, key="k", timestamp="at" if is_field else None)
        if not is_field:
            stream.process(Retime, "at bigint").to("retimed")
            stream = app.stream("retimed", schema="k string, at bigint", key="k")
        stream.group_by_key().windowed_by(TUMBLING).agg(n=F.count("*"), store="n").emit("final").to("out")
        with TopologyTestDriver(app) as driver:
            for number, (user, at) in enumerate(rows):
                driver.pipe("in", {"k": user, "at": BASE + at * 1000}, timestamp=1_700_000_000_000 + number * 10_000)
            driver.drain()
            found = [(row["k"], int(row["window_start"].timestamp()) - BASE // 1000, row["n"]) for row in driver.read("out")]
            assert sorted(found) == sorted(expected)
