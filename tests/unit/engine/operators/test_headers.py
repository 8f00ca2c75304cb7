"""Headers: a result has those of the record that caused it, through every step that does not fold, wait or close."""

from __future__ import annotations

import itertools
import random

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.plan.operators.exchange import Send
from streamkit.plan.operators.source import SourceRows
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.engine_run import Run, execute, fresh_log, moment
from tests.kit.sampling import TAKES_ALL, first

SCHEMA = "k string, v int"
TRACE = [("trace", b"\x01"), ("trace", b"\x02"), ("empty", None)]


@pytest.fixture
def app():
    return sk.Topology("traced")


@pytest.fixture
def stream(app):
    return app.stream("in", schema=SCHEMA, key="k")


def headers(driver, topic="out"):
    """The headers of each record of a topic, as pairs; None of one without."""
    return [pairs(row["_headers"]) for row in driver.read(topic, "_headers")]


def pairs(read):
    """Headers as they are read, as pairs."""
    return None if read is None else [(one["key"], one["value"]) for one in read]


def pipe(driver, topic="in", value=1, trace=TRACE, key="a", timestamp=1, **more):
    driver.pipe(topic, {"k": key, "v": value, "_headers": trace, **more}, timestamp=timestamp)


STEPS = {
    "to": lambda stream: stream,
    "filter": lambda stream: stream.filter("v > 0"),
    "select": lambda stream: stream.select(w=F.col("v") + 1),
    "map": lambda stream: stream.map(lambda row: {"w": row["v"]}, "w int", key="w"),
    "map_values": lambda stream: stream.map_values(lambda row: {"w": row["v"]}, "w int"),
    "map_batches": lambda stream: stream.map_batches(lambda batch: {"w": batch["v"]}, "w int"),
    "select_key": lambda stream: stream.select_key("v"),
    "repartition": lambda stream: stream.select_key("v").repartition(),
    "merge": lambda stream: stream.filter("v > 0").merge(stream.filter("v < 0")),
    "split": lambda stream: stream.split().branch("v > 0", "some").default("rest")["some"],
    "peek": lambda stream: stream.peek(lambda row: None),
    "flat_map": lambda stream: stream.flat_map(F.explode(F.array("v"))),
    "flat_map_values": lambda stream: stream.flat_map_values(lambda row: [{"w": row["v"]}], "w int"),
    "table": lambda stream: stream.to_table(store="newest").emit("every"),
    "latest of a table": lambda stream: stream.to_table(store="newest").emit("latest"),
    "filtered table": lambda stream: stream.to_table(store="newest").filter("v > 0").emit("every"),
    "old values": lambda stream: stream.to_table(store="newest").emit("every", old=True),
    "count": lambda stream: stream.group_by_key().count().emit("every"),
    "windows": lambda stream: stream.group_by_key().windowed_by(sk.tumbling("1 s", grace="0 s")).count().emit("every"),
    "sessions": lambda stream: stream.group_by_key().windowed_by(sk.session("1 s", grace="0 s")).count().emit("every"),
    "sliding windows": lambda stream: stream.group_by_key().windowed_by(sk.sliding("1 s", grace="0 s")).count().emit("every"),
    "reduce": lambda stream: stream.group_by_key().reduce(lambda one, other: other).emit("every"),
    "groups of a table": lambda stream: stream.to_table().group_by("v").count().emit("every"),
    "joined tables": lambda stream: stream.to_table().join(stream.rename(v="w").to_table()).emit("every"),
}


@pytest.mark.parametrize("steps", [[step] for step in STEPS] if TAKES_ALL else [[*STEPS]], ids=lambda steps: steps[0])
def test_a_step_keeps_headers(app, stream, steps):
    """What a step gives of a record has the record's headers, in their order, with repeated names and nulls; without any it has none."""
    for number, step in enumerate(steps):
        STEPS[step](stream).to(f"out{number}")
    with TopologyTestDriver(app, tasks=2) as driver:
        pipe(driver)
        pipe(driver, trace=None, timestamp=2)
        for number, step in enumerate(steps):
            found = headers(driver, f"out{number}")
            assert TRACE in found and None in found, (step, found)
            assert all(one in (TRACE, None) for one in found), step


FORGETTING = {
    "latest": lambda stream: stream.group_by_key().count().emit("latest"),
    "final": lambda stream: stream.group_by_key().windowed_by(sk.tumbling("1 ms", grace="0 s")).count().emit("final"),
    "suppress": lambda stream: stream.to_table().suppress(until=sk.time_limit("1 ms")).emit("every"),
}


@pytest.mark.parametrize("step", FORGETTING)
@pytest.mark.parametrize("is_seen", [False, True])
def test_what_many_records_give_has_no_headers(app, stream, step, is_seen):
    """Newest and final results of aggregations, and updates that were held back, have none, whoever else reads the headers."""
    FORGETTING[step](stream).to("out")
    if is_seen:
        stream.to("others")
    with TopologyTestDriver(app) as driver:
        for timestamp in (1, 2, 10):
            pipe(driver, timestamp=timestamp)
        found = headers(driver)
        assert found and not any(found)


def test_tombstones_and_deletions_keep_headers(app, stream):
    """A tombstone has its headers behind a table and in the topic, as any record does."""
    stream.to("copied")
    stream.to_table(store="newest").emit("every").to("changed")
    with TopologyTestDriver(app) as driver:
        pipe(driver)
        pipe(driver, value=None, trace=[("why", b"gone")], timestamp=2, _deleted=True)
        for topic in ("copied", "changed"):
            assert headers(driver, topic)[1] == [("why", b"gone")]


def test_joins_take_those_of_the_record_that_gives_the_result(app, stream):
    """A stream's record keeps its own beside a table; of two streams' records the later one's count."""
    names = app.table("names", schema="k string, name string", key="k")
    everyone = app.global_table("everyone", schema="k string, label string", key="k")
    others = app.stream("others", schema="k string, w int", key="k")
    stream.join(names).join(everyone, how="left").to("named")
    stream.join(others, within=sk.within("1 s", grace="0 s")).to("paired")
    with TopologyTestDriver(app) as driver:
        driver.pipe("names", {"k": "a", "name": "Ann", "_headers": [("from", b"table")]}, timestamp=1)
        driver.pipe("everyone", {"k": "a", "label": "A", "_headers": [("from", b"global")]}, timestamp=1)
        pipe(driver, timestamp=2)
        driver.pipe("others", {"k": "a", "w": 1, "_headers": [("from", b"others")]}, timestamp=3)
        pipe(driver, trace=[("from", b"in")], timestamp=4)
        assert headers(driver, "named") == [TRACE, [("from", b"in")]]
        assert headers(driver, "paired") == [[("from", b"others")], [("from", b"in")]]


def test_a_row_without_a_partner_keeps_its_own_only_if_it_is_given_at_once(app, stream):
    """A left join's result that time brings has no headers; that of a null key, which waits for nobody, has the record's."""
    others = app.stream("others", schema="k string, w int", key="k")
    stream.join(others, within=sk.within("1 ms", grace="0 s"), how="left").to("out")
    with TopologyTestDriver(app) as driver:
        pipe(driver)
        pipe(driver, key=None, timestamp=100)
        assert headers(driver) == [None, TRACE]


def test_processors_read_and_change_headers(app, stream):
    """A processor sees the headers, hands them on unless it gives others, and has none in a call that was scheduled."""

    class Traced(sk.Processor):
        def init(self, context: sk.ProcessorContext) -> None:
            self.context = context
            context.schedule("1 s", "stream_time", lambda time: context.forward({"k": "a", "w": "called"}))

        def process(self, record: sk.Record) -> None:
            assert record.headers == tuple(TRACE) and record.header("trace") == b"\x02" and record.header("no") is None
            self.context.forward({"w": "as it is"})
            self.context.forward({"w": "a dict"}, headers={"n": b"1"})
            self.context.forward({"w": "pairs"}, headers=[*record.headers, ("n", None)])
            self.context.forward({"w": "none"}, headers={})

    stream.process(Traced, "w string").to("out")
    with TopologyTestDriver(app) as driver:
        pipe(driver)
        expected = [TRACE, [("n", b"1")], [*TRACE, ("n", None)], None, None]
        assert headers(driver) == expected


def test_processors_of_batches_have_a_column_of_headers(app, stream):
    """With by="batch" headers are a column, which a processor may give back changed; rows without keep those of their record."""

    def shout(batch: pa.RecordBatch, context: sk.ProcessorContext) -> None:
        assert pairs(batch["_headers"][0].as_py()) == [("trace", b"a")]
        context.forward(pa.RecordBatch.from_pydict({"w": batch["v"]}))
        changed = pa.array([[{"key": "new", "value": b""}]], batch.schema.field("_headers").type)
        context.forward(pa.RecordBatch.from_pydict({"w": batch["v"], "_headers": changed}))

    stream.filter("v > 0").process(shout, "w int", by="batch").to("out")
    with TopologyTestDriver(app) as driver:
        pipe(driver, trace=[("trace", b"a")])
        assert headers(driver) == [[("trace", b"a")], [("new", b"")]]


def test_headers_are_read_only_where_somebody_sees_them(app, stream):
    """A plan without a topic or processor behind reads none; an aggregation that folds asks for none, and a Send for it moves none."""
    stream.group_by("v").count(store="counts")
    assert not any(one.headers for one in compile(app).operators if isinstance(one, SourceRows | Send))
    stream.to("out")
    program = compile(app)
    assert [one.headers for one in program.operators if isinstance(one, SourceRows)] == [True]
    assert sorted(one.headers for one in program.operators if isinstance(one, Send)) == [False, True]


def test_batches_without_headers_have_no_column_for_them(app, stream, monkeypatch):
    """Where no record has headers nothing is carried: no batch of any operator has the column."""
    from streamkit.engine.stage import registry as kernels

    seen: list[str] = []

    def noting(operator, inputs, context, run=kernels.run_operator):
        results = run(operator, inputs, context)
        seen.extend(name for rows in results.values() if rows is not None for name in rows.schema.names)
        return results

    monkeypatch.setattr("streamkit.engine.stage.kernel.run_operator", noting)
    monkeypatch.setattr("streamkit.engine.stage.reader.run_operator", noting)
    stream.filter("v > 0").to("out")
    with TopologyTestDriver(app) as driver:
        pipe(driver, trace=None)
        assert headers(driver) == [None]
        assert "k" in seen and "_headers" not in seen
        pipe(driver)
        assert headers(driver) == [TRACE] and "_headers" in seen


def everything(app):
    """Topics with headers by every way, some through exchanges."""
    stream = app.stream("in", schema=SCHEMA, key="k")
    names = app.table("names", schema="k string, name string", key="k")
    stream.filter("v % 5 > 0").select_key("v").repartition().to("moved")
    stream.join(names, how="left").to("named")
    stream.group_by("v").count().emit("every").to("counted")
    stream.process(lambda record, context: context.forward({"w": len(record.headers)}), "w int").to("processed")
    names.emit("every").to("changed")


def fill(log, seed):
    """Records of two topics with and without headers, at times that are not in order."""
    made = random.Random(seed)
    with log.producer() as producer:
        for number in range(60):
            trace = None if made.random() < 0.4 else [("n", str(number).encode())]
            own = {"_timestamp": moment(made.randrange(200)), "_headers": trace}
            if made.random() < 0.3:
                producer.send_batch("names", [{"k": made.choice("abc"), "name": str(number), **own}])
            else:
                producer.send_batch("in", [{"k": made.choice("abc"), "v": made.randrange(9), **own}])


def test_headers_depend_neither_on_tasks_nor_on_the_cut():
    """One by one, all at once and cut at random, with 1, 2, 3 and 7 tasks: the same records have the same headers."""
    topics = {"moved": "v", "named": "v", "counted": "count", "processed": "w", "changed": "name"}
    found = []
    for tasks, records_max in first(2, ((1, None), (3, 4), (2, 7), (2, 1), (7, 20))):
        app = sk.Topology("traced")
        everything(app)
        with fresh_log() as log:
            log.create_topic("in", schema=SCHEMA, key="k", partitions=3)
            log.create_topic("names", schema="k string, name string", key="k", partitions=2)
            fill(log, 1)
            execute(log, compile(app, log), Run(tasks=tasks, records_max=records_max, splits=2))
            columns = {name: (value, "_timestamp", "_headers") for name, value in topics.items()}
            read = {name: log.read(name, columns=wanted).select(wanted).to_pylist() for name, wanted in columns.items()}
            found.append({name: sorted(map(repr, rows)) for name, rows in read.items()})
    assert any("'n'" in row for row in itertools.chain(*found[0].values()))
    for one in found[1:]:
        assert one == found[0]
