"""A topic that a topology writes and reads again: a first start creates it, and later starts go on with it."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile_passing_over, compile_with_settings
from streamkit.engine.runs.options import AVAILABLE_NOW
from streamkit.engine.runs.preview import preview
from streamkit.engine.runs.start import start
from streamkit.errors import TopicNotFoundError, TopologyError
from streamkit.plan.refusal import stop_at
from streamkit.sql.script.topology import topology_of
from streamkit.testing import TopologyTestDriver
from tests.kit.engine_run import Run, execute, fresh_log

SCHEMA = "id int, n int NOT NULL"
ROWS = [{"id": number % 2, "n": number} for number in range(4)]


@pytest.fixture
def log():
    """A log with four records of the topic `in`, which has two partitions."""
    with fresh_log() as opened:
        opened.create_topic("in", SCHEMA, key="id", partitions=2)
        with opened.producer() as producer:
            for time, row in enumerate(ROWS):
                producer.send("in", row, timestamp_ms=time)
        yield opened


def more(handle, by=1):
    """The records with a larger `n`."""
    return handle.select("id", (F.col("n") + by).cast("int").alias("n"))


def plain(app):
    more(app.stream("in")).to("middle")
    more(app.stream("middle")).to("out")


def in_json(app):
    more(app.stream("in")).to("middle", value_format="json")
    more(app.stream("middle", value_format="json", schema="id int, n int", key="id")).to("out")


def in_avro(app):
    app.stream("in").to("first", value_format="avro")  # what reads it does not say which columns it has
    more(app.stream("first", value_format="avro"), 2).to("out")


def in_the_other_order(app):
    more(app.stream("last"), 0).to("out")
    more(app.stream("middle")).to("last")
    more(app.stream("in")).to("middle")


def as_tables(app):
    app.stream("in").group_by("id").agg(n=F.max("n")).to("newest", partitions=3)
    app.table("newest").select("id", (F.col("n") + 2).alias("n")).to("out")


WAYS = [plain, in_json, in_avro, in_the_other_order, as_tables]


def newest(log, topic="out"):
    rows = sorted(log.read(topic).to_pylist(), key=lambda row: row["n"])
    return {row["id"]: row["n"] for row in rows}


@pytest.mark.parametrize("way", WAYS)
def test_it_is_created_and_read(log, way):
    """Records reach the end of all stages, at a second start with the very program of the first, and new ones after it."""
    app = sk.Topology("app")
    way(app)
    first = compile_with_settings(app, log)
    execute(log, first, Run())
    assert newest(log) == {0: 4, 1: 5}

    again = compile_with_settings(app, log)
    assert again.text == first.text
    assert {change.fate for change in preview(log.catalog, again).changes} == {"same"}
    with log.producer() as producer:
        producer.send("in", {"id": 0, "n": 10}, timestamp_ms=20)
    execute(log, again, Run(tasks=2))
    assert newest(log) == {0: 12, 1: 5}


@pytest.mark.parametrize("way", WAYS)
def test_a_plan_says_what_a_start_creates(log, way):
    """The topics and their partitions are those of the start behind it, and a plan makes none."""
    app = sk.Topology("app")
    way(app)
    before = set(log.topics())
    program = compile_passing_over(app, log, stop_at)
    found = preview(log.catalog, program)
    assert found.refusals == ()
    assert set(log.topics()) == before

    start(log.catalog, log.storage, program)
    own = {output.topic for output in program.outputs}
    created = {change.name: change.text for change in found.of("outputs")}
    assert created == {
        name: f"topic is created: partitions={log.topic(name).partitions}, cleanup.policy={dict(log.topic(name).config)['cleanup.policy']}"
        for name in own
    }
    read_back = {source.topic for source in program.inputs} & own
    assert {change.name for change in found.of("inputs") if "topic is created" in change.text} == read_back
    assert {dict(log.topic(name).config)["retention.ms"] for name in own} == {"-1"}


@pytest.mark.parametrize(("own", "others"), [(None, 2), (1, 2), (5, 5)])
def test_how_many_partitions_it_has(log, own, others):
    """As many as it says; else as many as the widest topic that is read, of those that are there or say so."""
    app = sk.Topology("app")
    app.stream("in").to("a", partitions=own)
    app.stream("a").to("b")
    app.stream("b").to("out")
    start(log.catalog, log.storage, compile_with_settings(app, log))

    assert {name: log.topic(name).partitions for name in ("a", "b", "out")} == {"a": own or 2, "b": others, "out": others}


def test_it_has_the_columns_that_its_source_declares(log):
    """They may be wider than what is written, and stand in another order, as those of a topic that is there."""
    app = sk.Topology("app")
    app.stream("in").to("middle")
    app.stream("middle", schema="n bigint, note string, id int", key="id").to("out")
    execute(log, compile_with_settings(app, log), Run())

    assert str(log.topic("middle").schema) == str(log.topic("out").schema) == "n bigint, note string, id int"
    assert [row["n"] for row in log.read("out").sort_by("n").to_pylist()] == [0, 1, 2, 3]


def test_what_is_written_does_not_fit_what_its_source_declares(log):
    """An error with both at the line that writes, and no topic."""
    app = sk.Topology("app")
    app.stream("in").to("middle")
    app.stream("middle", schema="id int, n tinyint", key="id").to("out")

    with pytest.raises(TopologyError, match=r"(?s)'n' is tinyint, and int cannot become that.*written:.*test_topics_read_back"):
        compile_with_settings(app, log)
    assert log.topics() == ["in"]


def test_one_that_is_there_is_taken_as_it_is(log):
    """Its columns count and not those that are written; columns that do not fit are an error."""
    log.create_topic("middle", "id int, n bigint, note string", key="id", partitions=7)
    app = sk.Topology("app")
    plain(app)
    execute(log, compile_with_settings(app, log), Run())
    assert (log.topic("middle").partitions, newest(log)) == (7, {0: 4, 1: 5})

    log.create_topic("other", "id int, m int", key="id")
    app = sk.Topology("second")
    app.stream("in").to("other")
    app.stream("other").to("out-2")
    with pytest.raises(TopologyError, match=r"the topic 'other' exists and does not fit: it has no column 'n'"):
        compile_with_settings(app, log)


def test_a_topic_that_nothing_writes(log):
    """The error names the topic that is missing, and not those that are made of it."""
    app = sk.Topology("app")
    app.stream("middle").to("out")
    app.stream("inn").to("middle")

    with pytest.raises(TopicNotFoundError, match=r"'inn' does not exist; there are: in; did you mean 'in'"):
        compile_with_settings(app, log)


@pytest.mark.parametrize("format", [None, "json"])
def test_a_cycle_needs_a_source_that_declares_its_columns(log, format):
    """Then records go round until a condition ends it; without it an error names the topics, at the line of a source."""
    formats = {} if format is None else {"value_format": format}
    given = itertools.count()

    def cycle(**declared):
        app = sk.Topology(f"app-{next(given)}")
        low = app.stream("a", **declared, **formats).filter("n < 6")
        app.stream("in").merge(more(low)).to("b")
        app.stream("b").to("a", **formats)
        app.stream("a", **declared, **formats).to("out")
        return app

    execute(log, compile_with_settings(cycle(schema="id int, n int", key="id"), log), Run())
    assert newest(log) == {0: 6, 1: 6}
    with fresh_log() as other:
        other.create_topic("in", SCHEMA, key="id")
        if format is None:
            with pytest.raises(TopicNotFoundError, match=r"(?s)'a', 'b' do not exist, and .* made of them; .*schema=.*\.py:"):
                compile_with_settings(cycle(), other)


@pytest.mark.parametrize("way", [plain, in_avro, as_tables])
def test_a_test_driver_creates_it_as_a_start_does(log, way):
    """What the driver knows of the first topic is enough, and rows of any time may go to the others."""
    app = sk.Topology("app")
    way(app)
    with TopologyTestDriver(app, topics={"in": {"schema": SCHEMA, "key": "id", "partitions": 2}}) as driver:
        driver.pipe("in", ROWS)
        assert newest(driver.log) == {0: 4, 1: 5}
        start(log.catalog, log.storage, compile_with_settings(app, log))
        for output in driver.program.outputs:
            made, meant = driver.log.topic(output.topic), log.topic(output.topic)
            assert (made.schema, made.key, made.partitions, made.format) == (
                meant.schema,
                meant.key,
                meant.partitions,
                meant.format,
            )
        if way is plain:
            driver.pipe("middle", {"id": 9, "n": 9}, timestamp="2090-01-01")
            assert newest(driver.log)[9] == 10


def test_a_run_once_leaves_to_the_next_one_what_it_writes(log):
    """Each run processes the records that are there when it begins, of topics that it creates too: none."""
    log.settings = replace(log.settings, maintenance_interval_ms=0)
    app = sk.Topology("app")
    plain(app)
    counts = []
    for _ in range(3):
        sk.run(app, engine="local", log=log, trigger=AVAILABLE_NOW).wait()
        counts.append((log.read("middle").num_rows, log.read("out").num_rows))
    assert counts == [(4, 0), (4, 4), (4, 4)]


@pytest.mark.parametrize("declares", ["where it is read", "for the start"])
def test_a_declaration_that_is_not_what_is_written(declares):
    """Before there is the topic the error is of the two places of the topology, and advises nothing that needs the topic."""
    app = sk.Topology("two_places")
    app.stream("source", schema="k string, v int", key="k").with_columns(w=F.col("v") * 2).to("mid")
    if declares == "for the start":
        app.add_topic("mid", "k string, w int", key="k")
        app.stream("mid").to("out")
    else:
        app.stream("mid", schema="k string, w int", key="k").to("out")
    with sk.open_log(":memory:") as log:
        log.create_topic("source", "k string, v int", key="k")
        with pytest.raises(TopologyError) as caught:
            compile_with_settings(app, log)

        here = rf"{re.escape(__file__)}:\d+"
        assert re.fullmatch(
            r"what is written to the topic 'mid' is not what the topology declares of it: it has no column 'v'; expected a declaration with the written "
            r"columns, as they are or wider, with others only if they may be null, and with the same key\n"
            r"  written:  k string, v int, w int; key \['k'\]\n  declared: k string, w int; key \['k'\]"
            rf"\n  declared at {here}\n  at {here}",
            str(caught.value),
        )
        log.create_topic("mid", "k string, w int", key="k")
        with pytest.raises(TopologyError, match="the topic 'mid' exists and does not fit: it has no column 'v'"):
            compile_with_settings(app, log)


def test_a_declared_format_that_is_not_what_is_written():
    """So it is of a file whose statements give one topic two schemas, or columns and a format."""
    avro = "VALUE_FORMAT = 'AVRO'"
    ksql = (
        "SET 'streamkit.sql.dialect' = 'ksql'; CREATE STREAM S (K STRING KEY, V INT, T BIGINT) WITH (VALUE_FORMAT = 'JSON');\n"
        f"CREATE STREAM R WITH ({avro}) AS SELECT K, V, T FROM S;\n"
        f"CREATE STREAM R1 (K STRING KEY, V INT) WITH (KAFKA_TOPIC = 'R', {avro});\nCREATE STREAM R2 AS SELECT K, V FROM R1;"
    )
    spark = (
        "CREATE STREAM s (k STRING KEY, v INT);\n"
        f"CREATE STREAM r WITH ({avro}) AS SELECT k, v FROM s;\n"
        "CREATE STREAM r1 (k STRING KEY, v INT) WITH (KAFKA_TOPIC = 'r');\nCREATE STREAM r2 AS SELECT k, v FROM r1;"
    )
    with sk.open_log(":memory:") as log:
        with pytest.raises(TopologyError) as caught:
            compile_with_settings(topology_of(ksql, "two", "two.sql"), log)
        message = str(caught.value)
        begin = "what is written to the topic 'R' is not what the topology declares of it: its schema does not have 'T', which is written"
        assert message.startswith(begin)
        assert "declare this one as it is written\n  declared at two.sql:3:1\n  at two.sql:2:15" in message
        both = r"values of avro are written, and columns declared; expected the same in both places\n  declared at two\.sql:3:1"
        with pytest.raises(TopologyError, match=both):
            compile_with_settings(topology_of(spark, "two", "two.sql"), log)


def test_a_missing_topic_is_told_which_ones_are_there():
    """What the topology itself makes is no topic that is there; it is named as that, since one of them may be meant."""
    app = sk.Topology("missing")
    app.stream("source", schema="k string, v int", key="k").to("middle")
    app.stream("middle", schema="k string, v int", key="k").to("out")
    with sk.open_log(":memory:") as log:
        with pytest.raises(
            TopicNotFoundError, match=r"'source' does not exist; the log has no topics yet; the topology makes middle\. Create it"
        ):
            compile_with_settings(app, log)
        log.create_topic("sources", "k string, v int", key="k")
        with pytest.raises(TopicNotFoundError, match=r"there are: sources; the topology makes middle; did you mean 'sources'\?"):
            compile_with_settings(app, log)
