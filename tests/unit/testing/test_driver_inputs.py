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
