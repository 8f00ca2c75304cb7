"""What the test driver takes and how it finds it again: generators and DataFrames, keys that are NaN, formats."""

from __future__ import annotations

import datetime as dt
import math

import duckdb
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.errors import SchemaError
from streamkit.testing import TopologyTestDriver
from streamkit.testing.comparison import topic_difference

NAN = float("nan")


def copying(schema="k string, n int", key="k", **arguments):
    app = sk.Topology("app")
    app.stream("in", schema=schema, key=key, **arguments).to("out")
    return TopologyTestDriver(app)


@pytest.mark.parametrize(
    "rows",
    [
        lambda: ({"k": str(number), "n": number} for number in range(3)),
        lambda: iter([{"k": str(number), "n": number} for number in range(3)]),
        lambda: tuple({"k": str(number), "n": number} for number in range(3)),
        lambda: duckdb.sql("select range::varchar k, range n from range(3)"),
        lambda: pa.table({"k": ["0", "1", "2"], "n": [0, 1, 2]}).to_reader(),
    ],
    ids=["generator", "iterator", "tuple", "duckdb", "reader"],
)
@pytest.mark.parametrize("headers", [None, {"h": "x"}], ids=["plain", "headers"])
def test_rows_may_be_anything_that_a_producer_takes(rows, headers):
    """Generators are read once, also with headers; the counts that `batching` goes by are right."""
    if headers and hasattr(rows(), "__arrow_c_stream__"):
        pytest.skip("a table has its headers in a column")
    with copying() as driver:
        driver.pipe("in", rows(), headers=headers)
        assert [row["n"] for row in driver.read("out")] == [0, 1, 2]


@pytest.mark.parametrize("rows", [None, "abc", 5, [("a", 1)], [None], {"k": ["a"]}, [{"k": "a"}]], ids=repr)
def test_what_is_no_rows_is_refused_as_by_a_producer(rows):
    """None of these is a bare error of Python's, and nothing of them is taken."""
    with copying() as driver:
        with pytest.raises(SchemaError):
            driver.pipe("in", rows)
        assert driver.read("out") == []


def test_nan_is_one_key():
    """A key that is NaN is one key: its newest row, its deletion, and the comparison of two runs."""

    def run():
        app = sk.Topology("app")
        app.table("in", schema="k double, n int", key="k").to("out")
        driver = TopologyTestDriver(app)
        driver.pipe("in", {"k": NAN, "n": 1}, timestamp=1)
        driver.pipe("in", {"k": NAN, "n": 2}, timestamp=2)
        return driver

    with run() as one, run() as other:
        assert {found: row["n"] for found, row in one.newest("out").items()} == {math.nan: 2}
        assert topic_difference("out", one.log, other.log) is None
        one.delete("in", {"k": NAN}, timestamp=3)
        assert one.newest("out") == {}
        assert topic_difference("out", one.log, other.log) is not None


def test_several_key_columns_with_nan():
    """So it is with keys of several columns, and beside None."""
    with copying("a double, b double, n int", ["a", "b"]) as driver:
        driver.pipe("in", [{"a": NAN, "b": None, "n": 1}, {"a": NAN, "b": NAN, "n": 2}, {"a": NAN, "b": None, "n": 3}])
        assert {key: row["n"] for key, row in driver.newest("out").items()} == {(math.nan, math.nan): 2, (math.nan, None): 3}


def test_topics_of_a_format_take_and_give_values():
    """Values of a format go in as Python has them or as bytes of the format, and come out as values; newest knows their keys."""
    app = sk.Topology("app")
    app.stream("in", value_format="json", schema="k string, n int", key="k").to("out", value_format="json")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"key": "a", "value": {"n": 1}})
        driver.pipe("in", [{"key": "b", "value": {"n": 2}}, {"key": "a", "value": {"n": 3}}])
        driver.pipe("in", pa.table({"key": [b"c"], "value": [b'{"n": 4}']}), timestamp=dt.datetime(2024, 1, 1))
        assert [row["value"]["n"] for row in driver.read("out")] == [1, 2, 3, 4]
        assert {key: row["value"]["n"] for key, row in driver.newest("out").items()} == {"b": 2, "a": 3, "c": 4}


def test_a_topic_may_be_declared_as_the_log_creates_it():
    """Its format stands as text, with a schema of its own; columns beside a format are refused as there."""
    app = sk.Topology("app")
    app.stream("in", value_format="json", schema="k string, n int", key="k").to("out")
    with TopologyTestDriver(app, topics={"in": {"format": "json"}}) as driver:
        driver.pipe("in", {"key": "a", "value": {"n": 1}})
        assert [(row["k"], row["n"]) for row in driver.read("out")] == [("a", 1)]
    with pytest.raises(SchemaError, match="format"):
        TopologyTestDriver(app, topics={"in": {"format": "json", "schema": "k string"}})


@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF", "JSON", "DELIMITED"])
@pytest.mark.parametrize("key", ["", "K STRING KEY, "], ids=["without key", "with key"])
def test_bytes_of_one_query_are_input_of_the_next(key, format):
    """What a query of the ksql dialect wrote is piped as it is, in each format, with and without key columns."""
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute(
            f"CREATE STREAM I ({key}A INT, B STRING) WITH (KAFKA_TOPIC = 'i', VALUE_FORMAT = 'JSON', PARTITIONS = 1);"
            f"CREATE STREAM P WITH (VALUE_FORMAT = '{format}', KAFKA_TOPIC = 'p') AS SELECT * FROM I;"
            "CREATE STREAM O WITH (VALUE_FORMAT = 'JSON', KAFKA_TOPIC = 'o') AS SELECT * FROM P"
        )
        queries = sql.execute("SHOW QUERIES")[0].table
        assert queries is not None
        first, second = map(sql.topology, queries["query"].to_pylist())
        with TopologyTestDriver(first, log=log) as driver:
            driver.pipe("i", {"key": b"k" if key else None, "value": b'{"A":1,"B":"x"}'})
            (written,) = driver.read_arrow("p").select(["key", "value"]).to_pylist()
        with TopologyTestDriver(second, log=log) as driver:
            for record in (written, {**written, "key": b"z"}):
                driver.pipe("p", record)
            assert driver.read_arrow("o")["value"].to_pylist() == [b'{"A":1,"B":"x"}'] * 2


def test_a_topic_that_says_nothing_of_its_keys_is_still_that_of_its_query():
    """A topic of AVRO that was made before its format said that keys are texts fits, and is written on."""
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}, engine="local") as sql:
        sql.execute("CREATE STREAM R (A INT) WITH (KAFKA_TOPIC = 'r', VALUE_FORMAT = 'AVRO', PARTITIONS = 1)")
        said = log.topic("r").format
        assert said is not None
        log.create_topic("p", format="avro", format_schema=said.schema, partitions=1)
        sql.execute(
            "CREATE STREAM P WITH (KAFKA_TOPIC = 'p', VALUE_FORMAT = 'AVRO') AS SELECT * FROM R; INSERT INTO R VALUES (3)"
        )
        assert sql.catch_up(60)
        assert sql.query("SELECT * FROM P").to_pylist() == [{"A": 3}]
        assert said != log.topic("p").format


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_record_without_a_key_is_none_of_a_table(caplog, is_alone):
    """In an encoded topic of a table it is left out with a warning, as Kafka Streams' driver has it; one with columns refuses it, as its log does."""
    log = sk.open_log(":memory:")
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute("CREATE TABLE T (ID INT PRIMARY KEY, A INT) WITH (KAFKA_TOPIC='t', FORMAT='JSON', PARTITIONS=1)")
        sql.execute("CREATE TABLE R WITH (KAFKA_TOPIC='r') AS SELECT ID, A + 1 AS B FROM T")
        rows = [{"key": b"1", "value": b'{"A": 1}'}, {"key": None, "value": b'{"A": 2}'}, {"key": b"2", "value": b'{"A": 3}'}]
        with TopologyTestDriver(sql.topology("CTAS_R_1")) as driver:
            for one in rows if is_alone else [rows]:
                driver.pipe("t", one, timestamp=1)
            assert [(row["key"], row["value"]) for row in driver.read("r")] == [(1, {"B": 2}), (2, {"B": 4})]
    assert [one.message for one in caplog.records] == [
        "topic t: 1 records without a key are left out, since the topic keeps rows by key"
    ]
    with copying() as driver:
        driver.log.alter_topic("in", config={"cleanup.policy": "compact"})
        with pytest.raises(SchemaError, match="the key is null, and a compacted topic keeps rows by key"):
            driver.pipe("in", {"k": None, "n": 1})
