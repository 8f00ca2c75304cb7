"""What compiling refuses: topologies that cannot mean anything over the topics there are."""

from __future__ import annotations

import re

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopicNotFoundError, TopologyError, UnsupportedExpressionError
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.log.opening import open_log
from streamkit.plan.operators.filter import FilterNode


@pytest.fixture(scope="module")
def analyzer():
    return ExpressionAnalyzer()


@pytest.fixture(scope="module")
def log():
    log = open_log(":memory:")
    flights = (
        "carrier string NOT NULL, flight int NOT NULL, tailnum string, origin string, dep_delay int, distance int, ts timestamp"
    )
    log.create_topic("flights", schema=flights, key=["carrier", "flight"], timestamp="ts")
    log.create_topic("planes", schema="tailnum string NOT NULL, year int, seats int", key="tailnum")
    log.create_topic("keyless", schema="a int, b string")
    log.create_topic("wide", schema="flight bigint NOT NULL, gate string", key="flight")
    log.create_topic("late", schema="flight int NOT NULL, dep_delay int, carrier string NOT NULL", key=["carrier", "flight"])
    log.create_topic(
        "strict", schema="carrier string NOT NULL, flight int NOT NULL, origin string NOT NULL", key=["carrier", "flight"]
    )
    return log


@pytest.fixture
def app():
    return sk.Topology("app")


def test_declared_schema_must_be_the_topics(app, log, analyzer):
    """A declaration that contradicts the topic is refused, and both are shown."""
    app.stream("planes", schema="tailnum string, year bigint", key="tailnum").to("copy")

    with pytest.raises(
        TopologyError, match=r"(?s)declared: tailnum string, year bigint.*the topic: tailnum string NOT NULL, year int"
    ):
        sk.compile(app, log, analyzer)


def flights(app):
    return app.stream("flights")


def counted_twice(app):
    """A table whose results, kept for a join, take the name of another store."""
    flights(app).group_by("carrier").agg(n=F.count("*"), store="totals-results")
    return flights(app).group_by("origin").agg(n=F.count("*"), store="totals")


HOUR = sk.tumbling("1 hour", grace="0 s")
REFUSALS = {
    "missing topic": (
        lambda app: app.stream("fligths").to("x"),
        TopicNotFoundError,
        r"'fligths' does not exist; there are: flights, keyless, .*; did you mean 'flights'\?.*(\n|.)*test_compile_refusals.py",
    ),
    "own changelog": (
        lambda app: (flights(app).group_by("origin").count(store="n"), flights(app).to("app-n-changelog")),
        TopologyError,
        r"'app-n-changelog' is the changelog of the store 'n'.*(\n|.)*test_compile_refusals.py",
    ),
    "unknown column": (lambda app: flights(app).filter(F.col("orign") == "JFK").to("x"), TopologyError, r"(?s)orign.*origin"),
    "unknown group": (
        lambda app: flights(app).group_by("orign").count().to("x"),
        TopologyError,
        "no column 'orign'; there are: carrier",
    ),
    "wrong type": (
        lambda app: flights(app).filter(F.col("origin") + F.col("ts") > 1).to("x"),
        TopologyError,
        r"types of the operands do not go together: string and timestamp.*(\n|.)*test_compile_refusals.py",
    ),
    "no boolean": (lambda app: flights(app).filter("distance").to("x"), TopologyError, "boolean"),
    "no aggregate": (
        lambda app: flights(app).group_by("origin").agg(x=F.col("distance")).to("x"),
        TopologyError,
        "aggregate",
    ),
    "unknown function": (
        lambda app: flights(app).select(x=F.aes_encrypt("origin", F.lit("k"))).to("x"),
        UnsupportedExpressionError,
        "aes_encrypt",
    ),
    "key of a table": (
        lambda app: app.table("planes").with_columns(tailnum=F.upper("tailnum")).to("x"),
        TopologyError,
        "changes the key column 'tailnum' of a table",
    ),
    "join type": (
        lambda app: flights(app).join(app.table("wide"), on={"origin": "flight"}).to("x"),
        TopologyError,
        "string.*bigint",
    ),
    "join clash": (
        lambda app: flights(app).with_columns(year=F.lit(1)).join(app.table("planes"), on="tailnum").to("x"),
        TopologyError,
        "both sides of the join have the column 'year'",
    ),
    "join key": (lambda app: flights(app).join(app.table("planes")).to("x"), TopologyError, "cannot be joined; expected on="),
    "keyless table": (lambda app: app.table("keyless").to("x"), TopologyError, "'keyless' has no key"),
    "keyless group": (
        lambda app: app.stream("keyless").group_by_key().count().to("x"),
        TopologyError,
        "needs a key, and the stream has none",
    ),
    "windowed table": (
        lambda app: flights(app).join(flights(app).group_by("origin").windowed_by(HOUR).count(), on="origin").to("x"),
        TopologyError,
        "on= does not name their bounds window_start, window_end; expected on= with all columns of the table's key",
    ),
    "two stores of one name": (
        lambda app: flights(app).join(counted_twice(app), on="origin").to("x"),
        TopologyError,
        "two different stores are called 'totals-results'; expected another name",
    ),
    "hidden column": (
        lambda app: flights(app).group_by(origin=F.upper("origin")).count().to("x"),
        TopologyError,
        "'origin' would hide the stream's column",
    ),
    "window column": (
        lambda app: flights(app).rename(ts="window_start").group_by("window_start").windowed_by(HOUR).count().to("x"),
        TopologyError,
        "'window_start' (occurs twice|has the name of a window's bound)",
    ),
    "duplicate column": (lambda app: flights(app).rename(origin="tailnum").to("x"), TopologyError, "same name"),
    "other output": (
        lambda app: flights(app).select("origin").to("late"),
        TopologyError,
        r"(?s)'late' exists and does not fit.*written:.*origin string.*the topic:.*dep_delay int",
    ),
    "null where none may be": (
        lambda app: flights(app).select("origin").to("strict"),
        TopologyError,
        "'strict' exists and does not fit",
    ),
    "other key": (
        lambda app: flights(app).join(app.table("planes"), on="tailnum").select("carrier").to("planes"),
        TopologyError,
        "'planes' exists and does not fit",
    ),
    "two rows": (
        lambda app: (flights(app).to("x"), flights(app).select("origin").to("x")),
        TopologyError,
        "two different streams go to the topic 'x'",
    ),
    "own name": (lambda app: flights(app).with_columns(_offset=F.lit(1)).to("x"), TopologyError, "'_offset' is StreamKit's own"),
    "no end": (lambda app: flights(app).filter("dep_delay > 1"), TopologyError, "has no end"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_say_what_is_wrong(app, log, analyzer, case):
    """What cannot mean anything over these topics is refused before the first epoch, by name."""
    build, error, message = REFUSALS[case]

    def build_and_compile():
        build(app)
        sk.compile(app, log, analyzer)

    with pytest.raises(error, match=message):
        build_and_compile()


def test_refusals_name_the_users_line(app, log, analyzer):
    """The message ends with file and line of the step it is about."""
    app.stream("flights").filter("orign = 'JFK'").to("x")

    with pytest.raises(TopologyError) as raised:
        sk.compile(app, log, analyzer)

    (sink,) = app.sinks
    assert isinstance(sink.child, FilterNode)
    assert raised.value.at == sink.child.at
    assert str(raised.value).splitlines()[-1] == f"  at {sink.child.at}"


def test_unknown_source_without_a_log(analyzer):
    """Without a log, a source that does not say what it holds is refused."""
    app = sk.Topology("app")
    app.stream("s").to("t")

    with pytest.raises(TopologyError, match=r"unknown without a log; expected a log, or schema= and key="):
        sk.compile(app, None, analyzer)


def test_log_without_topics_is_named(app, analyzer, tmp_path):
    """Who takes a folder for his log that is none is told which log has no topics."""
    app.stream("flights").to("copy")

    with (
        sk.open_log(tmp_path / "mistyped") as log,
        pytest.raises(
            TopicNotFoundError,
            match=rf"the topic 'flights' does not exist; the log {re.escape(log.location)} has no topics at all",
        ),
    ):
        sk.compile(app, log, analyzer)
