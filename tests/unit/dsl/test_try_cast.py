"""`Column.try_cast` is null where a cast fails, at any depth; what its argument fails with stays a failure."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import EvaluationError, TopologyError
from streamkit.testing import TopologyTestDriver

SCHEMA = "k int, text string, n bigint, parts array<string>"


def results(columns, rows, zone="UTC"):
    """The columns of each row."""
    app = sk.Topology("app", time_zone=zone)
    app.stream("in", schema=SCHEMA, key="k").select("k", **columns).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", [{"k": 1, "text": None, "n": None, "parts": None, **row} for row in rows])
        return [{name: row[name] for name in columns} for row in driver.read("out")]


def test_what_does_not_fit_is_null():
    """Texts that are no numbers and numbers out of range give null; a type may be a name or one of Spark's."""
    columns = {
        "a": F.col("text").try_cast("int"),
        "b": F.col("n").try_cast("tinyint"),
        "c": F.col("parts").try_cast("array<int>"),
    }

    assert results(columns, [{"text": "7", "n": 5, "parts": ["1", "x", None]}, {"text": "seven", "n": 500}, {}]) == [
        {"a": 7, "b": 5, "c": [1, None, None]},
        {"a": None, "b": None, "c": None},
        {"a": None, "b": None, "c": None},
    ]


def test_it_is_the_same_in_sql_and_as_a_column():
    """Both forms give the same values and types."""
    columns = {"a": F.col("text").try_cast("decimal(5,2)"), "b": F.expr("try_cast(text AS decimal(5,2))")}

    for row in results(columns, [{"text": "1.255"}, {"text": "1000"}, {"text": "x"}]):
        assert row["a"] == row["b"]


def test_the_argument_may_fail():
    """A division by zero inside is an error, as in Spark."""
    with pytest.raises(EvaluationError, match=r"(?i)zero"):
        results({"a": (F.lit(1) / F.col("n")).try_cast("int")}, [{"n": 0}])


def test_times_are_those_of_the_zone():
    """A text without a zone is read in the topology's; one that is no time is null."""
    columns = {"a": F.col("text").try_cast("timestamp").cast("bigint")}

    assert results(columns, [{"text": "2024-07-01 12:00:00"}, {"text": "noon"}], "Europe/Berlin") == [
        {"a": 1719828000},
        {"a": None},
    ]


@pytest.mark.parametrize(
    ("column", "type", "message"),
    [("n", "integr", "integr"), ("n", "binary", "bigint to binary"), ("n", "array<int>", "bigint to array<int>")],
)
def test_types_that_no_cast_knows_are_refused(column, type, message):
    """An unknown type, and one that the value can never become, is an error of the topology."""
    app = sk.Topology("app")

    def build():
        app.stream("in", schema=SCHEMA, key="k").select(v=F.col(column).try_cast(type)).to("out")
        sk.compile(app)

    with pytest.raises(TopologyError, match=message):
        build()
