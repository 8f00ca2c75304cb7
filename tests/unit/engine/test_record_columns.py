"""Record columns in expressions: the event time and the headers of a stream's records."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopologyError
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.engine_run import moment

SCHEMA = "k string, v int"
DAY_MS = 86_400_000
CUTS = [{"batching": "one"}, {"batching": "all", "tasks": 3}, {"batching": 5, "tasks": 2, "partitions": 2}]
ROWS: list[dict[str, Any]] = [
    {"k": "a", "v": 1, "_timestamp": moment(10), "_headers": [("trace", b"x"), ("trace", b"y")]},
    {"k": "a", "v": 2, "_timestamp": moment(40)},
    {"k": "a", "v": None, "_timestamp": moment(50), "_deleted": True, "_headers": [("trace", b"z")]},
    {"k": "b", "v": 3, "_timestamp": moment(DAY_MS + 5)},
    {"k": "a", "v": 4, "_timestamp": moment(DAY_MS + 7), "_headers": [("other", None)]},
]


@pytest.fixture
def app():
    return sk.Topology("records")


@pytest.fixture
def stream(app):
    return app.stream("in", schema=SCHEMA, key="k")


def outcome(app: sk.Topology, *columns: str, rows: Any = ROWS, **options: Any) -> list[tuple[Any, ...]]:
    """What the topic "out" gets of these rows, in the order of their values."""
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("in", rows)
        driver.drain()
        return sorted((tuple(row[name] for name in columns) for row in driver.read("out")), key=repr)


@pytest.mark.parametrize("options", CUTS, ids=repr)
def test_the_event_time_can_be_read_by_every_step_of_a_stream(app, stream, options):
    """Columns, conditions, keys and what functions are given have the time of each record, whatever the cut; a tombstone has one, too."""
    kept = stream.filter(F.col("_timestamp") > F.lit(moment(10)))
    late = kept.split().branch("_timestamp > timestamp'1970-01-02 00:00:00Z'", "late").default("rest")
    keyed = late["rest"].merge(late["late"]).select_key(day=F.to_date("_timestamp"))
    keyed.with_columns(at=F.col("_timestamp"), tomorrow=F.udf(lambda at: at + dt.timedelta(1), "timestamp")("_timestamp")).to(
        "out"
    )
    days, rest = [dt.date(1970, 1, 1 + n) for n in (0, 0, 1, 1)], dt.timedelta(1)
    times = [moment(40), None, moment(DAY_MS + 5), moment(DAY_MS + 7)]
    wanted = [(day, at, at and at + rest) for day, at in zip(days, times)]
    assert outcome(app, "day", "at", "tomorrow", **options) == sorted(wanted, key=repr)


@pytest.mark.parametrize("options", CUTS[1:], ids=repr)
@pytest.mark.parametrize(
    "window",
    [None, sk.tumbling("2 days", grace="0 s"), sk.session("2 days", grace="0 s"), sk.hopping("2 days", "1 hour", grace="0 s")],
    ids=repr,
)
def test_aggregates_and_groups_can_read_the_event_time(app, stream, window, options):
    """So a group may be a day, and an aggregate take the first or last moment, or the value that was there then."""
    grouped = stream.group_by(day=F.to_date("_timestamp"))
    counts = (grouped.windowed_by(window) if window else grouped).agg(
        first=F.min("_timestamp"), last=F.max("_timestamp"), newest=F.max_by("v", "_timestamp"), store="days"
    )
    counts.emit("every" if window is None else "final").to("out")
    found = outcome(app, "day", "first", "last", "newest", **options)
    assert (dt.date(1970, 1, 1), moment(10), moment(40), 2) in found
    assert (dt.date(1970, 1, 2), moment(DAY_MS + 5), moment(DAY_MS + 7), 4) in found


@pytest.mark.parametrize("options", CUTS, ids=repr)
def test_headers_can_be_read_by_every_step_of_a_stream(app, stream, options):
    """They are an array of names and bytes, without elements for a record that has none, also behind an exchange."""
    traced = stream.filter(F.exists("_headers", lambda header: header["key"] == "trace"))
    others = stream.filter("v is not null").select_key("v").repartition().filter(F.size("_headers") == 0).select_key("k")
    merged = traced.merge(others.select("v"))
    merged.with_columns(values=F.transform("_headers", lambda header: header["value"])).to("out")
    wanted = [("a", [b"x", b"y"]), ("a", []), ("b", []), ("a", None)]  # a tombstone has no values
    assert outcome(app, "k", "values", **options) == sorted(wanted, key=repr)


def test_rows_that_time_brings_have_no_headers(app, stream):
    """A final result is of many records, so its headers are an array without elements."""
    results = stream.group_by_key().windowed_by(sk.tumbling("1 hour", grace="0 s")).count().emit("final")
    results.with_columns(headers=F.size("_headers"), at=F.col("_timestamp")).to("out")
    found = outcome(app, "k", "headers", "at", "count")
    assert found == [("a", 0, moment(40), 2), ("a", 0, moment(DAY_MS + 7), 1), ("b", 0, moment(DAY_MS + 5), 1)]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda stream, table: table.filter("_timestamp IS NOT NULL"), "and this is a table; expected it before the table"),
        (lambda stream, table: table.group_by(day=F.to_date("_timestamp")).count(), "and this is a table"),
        (lambda stream, table: table.group_by("k").agg(last=F.max("_timestamp")), "and this is a table"),
        (lambda stream, table: stream.filter("_order > 1"), "_order cannot be read by an expression; _timestamp and _headers"),
        (lambda stream, table: stream.select("_timestamp"), r"expected another name, as in select\(at=F.col\('_timestamp'\)\)"),
        (lambda stream, table: stream.with_columns(_headers=F.lit(1)), "a column cannot be called '_headers'"),
        (lambda stream, table: stream.group_by("_timestamp").count(), "a column cannot be called '_timestamp'"),
    ],
)
def test_what_cannot_be_read_is_refused(app, stream, build, message):
    """The message has the user's line, and says where the column can be read."""
    build(stream, app.table("rows", schema=SCHEMA, key="k")).to("out")
    with pytest.raises(TopologyError, match=message) as caught, TopologyTestDriver(app):
        pass
    assert caught.value.at is not None and caught.value.at.file == __file__


@pytest.mark.parametrize("options", CUTS, ids=repr)
def test_the_place_of_a_record_can_be_read(app, stream, options):
    """Columns, conditions and keys have the partition and the offset at which each record was read, whatever the cut."""
    placed = stream.filter(F.col("_offset") >= 0).with_columns(p=F.col("_partition"), o=F.col("_offset"))
    merged = placed.merge(placed.filter(F.col("v") > 9)).select_key(place=F.concat_ws("-", F.col("_partition"), F.col("_offset")))
    merged.to("out")
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("in", ROWS)
        read = {(row["_partition"], row["_offset"]) for row in driver.log.read("in").to_pylist() if not row["_deleted"]}
        found = driver.read("out", "place", "p", "o", "_deleted")

    assert {(row["p"], row["o"]) for row in found if not row["_deleted"]} == read
    assert {row["place"] for row in found if not row["_deleted"]} == {f"{partition}-{offset}" for partition, offset in read}


@pytest.mark.parametrize("mode", ["every", "latest"])
@pytest.mark.parametrize("options", CUTS, ids=repr)
def test_aggregates_and_groups_can_read_the_place(app, stream, options, mode):
    """Also where readers fold rows, which carry no place further."""
    counts = stream.group_by(partition=F.col("_partition")).agg(first=F.min("_offset"), last=F.max("_offset"), rows=F.count("*"))
    counts.emit(mode).to("out")
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("in", ROWS)
        driver.drain()
        newest = driver.newest("out")
        ends = {partition: end for partition, end in driver.log.end_offsets("in").items() if end}

    assert {partition: row["last"] for partition, row in newest.items()} == {
        partition: end - 1 for partition, end in ends.items()
    }


def test_results_have_no_place(app, stream):
    """Rows of a table, of a join and of a processor are no records as they were read; the message says where to read the place."""
    table = stream.group_by("k").count()
    joined = stream.join(app.table("other", schema="k string, w int", key="k"), on="k")
    for rows in (table.emit("every"), joined, stream.repartition()):
        rows.select(o=F.col("_offset")).to("out")
        with pytest.raises(TopologyError, match="_offset is where a record was read, and these rows are no records but results"):
            sk.compile(app)
        app._sinks.clear()
    table.filter(F.col("_offset") > 1).to("out")
    with pytest.raises(TopologyError, match="this is a table"):
        sk.compile(app)
