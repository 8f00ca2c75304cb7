"""Users' functions in a topology: they run as the Python they are, and what goes wrong in them names the record."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.local import run_available
from streamkit.engine.start import start
from streamkit.errors import EvaluationError, TopologyError, UnsupportedExpressionError
from streamkit.expressions.python_functions import called_twice
from streamkit.plan.python_function import digest_of

SCHEMA = "k string, a int, t array<string>"
ROWS = [{"k": "x", "a": 1, "t": ["p"]}, {"k": "y", "a": None, "t": None}, {"k": "x", "a": 3, "t": ["q", None]}]


@pytest.fixture
def log():
    with sk.open_log(":memory:") as log:
        log.create_topic("in", schema=SCHEMA, key="k", partitions=1)
        yield log


@pytest.fixture
def app():
    return sk.Topology("functions")


@pytest.fixture
def stream(app):
    return app.stream("in", schema=SCHEMA, key="k")


def results(log, app, rows=ROWS, topic="out"):
    """The rows of an output topic without their record columns, in the order of offsets."""
    with log.producer() as producer:
        producer.send_batch("in", rows)
    run_available(start(log.catalog, log.storage, sk.compile(app, log), tasks=2))
    found = log.read(topic).to_pylist() if topic else []
    plain = [{name: value for name, value in row.items() if not name.startswith("_")} for row in found if not row.get("_deleted")]
    return sorted(plain, key=lambda row: json.dumps(row, default=str))


def test_a_function_runs_once_a_row_series_or_array(log, app, stream):
    """F.udf sees Python values and None, F.pandas_udf Series, F.arrow_udf arrays; as decorators and as calls."""

    @F.udf("int")
    def doubled(a):
        return None if a is None else 2 * a

    @F.pandas_udf(returnType="bigint")
    def filled(a: pd.Series) -> pd.Series:
        return a.fillna(0).astype("int64") + 1

    shout = F.udf(lambda k: k.upper())
    same = F.arrow_udf(lambda a: a, "int")
    stream.select(doubled("a").alias("d"), filled(F.col("a")).alias("f"), s=shout("k"), e=same("a")).to("out")
    assert results(log, app) == [
        {"k": "x", "d": 2, "f": 2, "s": "X", "e": 1},
        {"k": "x", "d": 6, "f": 4, "s": "X", "e": 3},
        {"k": "y", "d": None, "f": 1, "s": "Y", "e": None},
    ]


def test_functions_stand_anywhere_in_an_expression(log, app, stream):
    """A function is part of conditions, groups and other expressions; rows that a branch skips do not reach it."""
    positive = F.udf(lambda a: 10 // a > 3, "boolean")
    stream.filter(F.when(F.col("a") > 0, positive("a")).otherwise(False)).group_by("k").agg(n=F.count("*")).to("out")
    assert results(log, app, [*ROWS, {"k": "z", "a": 0, "t": []}]) == [{"k": "x", "n": 1}]


def test_map_values_gives_the_declared_columns(log, app, stream):
    """A function of a row replaces the value columns and leaves the key; a column that it leaves out is null. It runs once a row."""
    seen: list[dict[str, Any]] = []

    def described(row):
        seen.append(row)
        return {"note": f"{row['k']}{row['a']}", "many": row["t"] or []}

    stream.map_values(described, schema="note string, many array<string>, more int").to("out")
    assert results(log, app) == [
        {"k": "x", "note": "x1", "many": ["p"], "more": None},
        {"k": "x", "note": "x3", "many": ["q", None], "more": None},
        {"k": "y", "note": "yNone", "many": [], "more": None},
    ]
    assert seen == ROWS


@pytest.mark.parametrize(
    "give",
    [
        lambda batch: pa.table({"b": pa.array([7] * batch.num_rows, pa.int64())}),
        lambda batch: pa.record_batch({"b": pa.array([7] * batch.num_rows)}),
        lambda batch: {"b": pa.array([7] * batch.num_rows)},
    ],
)
def test_map_values_takes_whole_batches(log, app, stream, give):
    """By batch, a function takes a record batch of all columns and gives arrays, which are cast to what is declared."""
    stream.map_values(give, schema="b int", by="batch").to("out")
    assert results(log, app) == [{"k": "x", "b": 7}, {"k": "x", "b": 7}, {"k": "y", "b": 7}]


def test_a_tables_values_are_mapped(log, app):
    """A table keeps its key and its deletions."""
    app.table("in", schema=SCHEMA, key="k").map_values(lambda row: {"b": row["a"]}, schema="b int").to("out")
    with log.producer() as producer:
        producer.send_batch("in", ROWS)
        producer.delete("in", {"k": "x"})
    assert {row["k"]: row["b"] for row in results(log, app, [{"k": "z", "a": 5, "t": []}])} == {"y": None, "z": 5}


def test_select_key_by_columns_and_by_a_function(log, app, stream):
    """The stream is keyed by the new columns from there on, and what was the key is a value."""
    stream.select_key(n=F.coalesce("a", F.lit(0))).group_by_key().agg(k=F.max("k")).to("out")
    stream.select_key(lambda row: {"first": row["k"] + "!"}, schema="first string").to("renamed")
    assert results(log, app) == [{"n": 0, "k": "y"}, {"n": 1, "k": "x"}, {"n": 3, "k": "x"}]
    assert log.topic("renamed").key == ("first",)
    assert set(log.read("renamed")["first"].to_pylist()) == {"x!", "y!"}


def test_looking_changes_nothing(log, app, stream, capsys):
    """Peek passes rows on, foreach and print end a stream; rows of one key come in order."""
    peeked: list[dict[str, Any]] = []
    ended: list[dict[str, Any]] = []
    stream.peek(peeked.append).to("out")
    stream.foreach(ended.append)
    stream.select("a").print("seen")
    assert results(log, app) == sorted(ROWS, key=json.dumps)
    assert peeked == ROWS
    assert [row["a"] for row in ended if row["k"] == "x"] == [1, 3] and len(ended) == 3
    assert sorted(capsys.readouterr().out.splitlines()) == [
        'seen: {"k": "x", "a": 1}', 'seen: {"k": "x", "a": 3}', 'seen: {"k": "y", "a": null}',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (F.udf(lambda a: a + 1, "int")("a"), r"the function lambda raised TypeError: .*, called with a = None"),
        (F.udf(str, "int")("a"), r"the function str gave '1' \(str\); declared is int, called with a = 1"),
        (F.pandas_udf(lambda a: a.head(1), "int")("a"), "gave 1 values for [23] rows; expected one a row"),
        (F.pandas_udf(lambda a: 5, "int")("a"), "gave a int; expected a pandas Series"),
        (F.arrow_udf(lambda a: [1], "int")("a"), "gave a list; expected an Arrow array"),
    ],
)
def test_what_goes_wrong_names_the_record(log, app, stream, column, message):
    """A function that raises, or gives what its type does not hold, fails with topic, partition, offset, key and the user's line."""
    stream.with_columns(r=column).to("out")
    with pytest.raises(EvaluationError, match=rf"topic in, partition 0, offset \d, key k = '.': (.|\n)*{message}") as caught:
        results(log, app)
    assert "test_python_functions.py" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"b": 1, "c": 2}, "gave the column 'c'; declared are b"),
        (None, "gave None; expected a dict of the columns b"),
        ({"b": "x"}, "declared is struct<b:int>"),
    ],
)
def test_a_mapped_row_must_be_as_declared(log, app, stream, given, message):
    """Unknown columns, a missing row and wrong types are errors."""
    stream.map_values(lambda row: given, schema="b int").to("out")
    with pytest.raises(EvaluationError, match=message):
        results(log, app)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda stream: F.udf(5, "int")("a"), TopologyError, "found '?5'?; expected a|expected a function"),
        (lambda stream: F.udf(str, "ints"), TopologyError, "type 'ints'"),
        (lambda stream: F.pandas_udf(str), TopologyError, "has no type; expected returnType"),
        (lambda stream: F.udf(str).asNondeterministic(), UnsupportedExpressionError, "cannot be nondeterministic"),
        (lambda stream: stream.map_values("a", schema="b int"), TopologyError, "expected a Python function"),
        (lambda stream: stream.map_values(str, schema="b int", by="rows"), TopologyError, "expected one of 'row', 'batch'"),
        (lambda stream: stream.map_values(str, schema="b ints"), TopologyError, "type 'ints'"),
        (lambda stream: stream.select_key(str), TopologyError, "needs a schema"),
        (lambda stream: stream.select_key(), TopologyError, "was given no columns"),
        (lambda stream: stream.peek("a"), TopologyError, "expected a Python function of a row"),
        (lambda stream: stream.print(5), TopologyError, "expected a text as label"),
    ],
)
def test_what_is_no_function_is_refused_at_the_call(stream, build, error, message):
    """The message has the line of the call."""
    with pytest.raises(error, match=message) as caught:
        build(stream)
    assert caught.value.at is not None and caught.value.at.file == __file__


def test_a_key_cannot_be_mapped(log, app, stream):
    """map_values leaves the key alone; to change it there is select_key."""
    stream.map_values(lambda row: row, schema="k string").to("out")
    with pytest.raises(TopologyError, match="declares the column 'k', which is part of the key"):
        sk.compile(app, log)


def test_a_function_that_is_not_deterministic_is_found(log, app, stream):
    """Called twice, as tests do, it gives itself away."""
    numbers = iter(range(100))
    stream.with_columns(n=F.udf(lambda a: next(numbers), "int")("a")).to("out")
    with called_twice(), pytest.raises(EvaluationError, match="gave two results for the same values"):
        results(log, app)


def test_functions_are_known_by_what_they_do():
    """The same code with the same captured values has one digest, wherever it stands; other values or code have another."""

    def adding(n):
        return lambda a: a + n

    assert digest_of(adding(1)) == digest_of(adding(1)) != digest_of(adding(2))
    assert digest_of(lambda a: a + 1) != digest_of(lambda a: a - 1)


@pytest.mark.spark
def test_functions_travel_to_sparks_workers(spark, tmp_path):
    """On Spark, where other processes run them, captured values and helpers of the file come along."""
    suffix = "!"
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic("in", schema=SCHEMA, key="k", partitions=2)
        with log.producer() as producer:
            producer.send_batch("in", ROWS)
        app = sk.Topology("travelling")
        stream = app.stream("in")
        stream.map_values(lambda row: {"b": helped(row["k"]) + suffix}, schema="b string").to("out")
        sk.run(app, spark, log, trigger="available_now").wait()
        assert sorted(log.read("out")["b"].to_pylist()) == ["<x>!", "<x>!", "<y>!"]


def helped(k):
    return f"<{k}>"
