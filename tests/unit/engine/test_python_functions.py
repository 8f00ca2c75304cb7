"""Users' functions in a topology: they run as the Python they are, and what goes wrong in them names the record."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.errors import EvaluationError, TopologyError, UnsupportedExpressionError
from streamkit.expressions.python.python_functions import called_twice
from streamkit.plan.function_digest import digest_of
from streamkit.testing.driver import TopologyTestDriver

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


def test_the_types_of_a_series_do_not_depend_on_the_nulls_beside_a_row(log, app, stream):
    """Integers and booleans come in pandas' nullable types, cut into whatever batches, with a null among them or without."""
    types = F.pandas_udf(lambda a, b: pd.Series([f"{a.dtype} {b.dtype}"] * len(a)), "string")
    floats = F.pandas_udf(lambda a: a.astype("float64") / 2, "double")
    stream.select(types("a", F.col("a") > 1).alias("types"), floats("a").alias("half")).to("out")
    found = results(log, app)
    assert {row["types"] for row in found} == {"Int32 boolean"}
    assert [row["half"] for row in found] == [0.5, 1.5, None]


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


def test_what_is_printed_is_json(capsys):
    """Each line is JSON by its standard, which has no NaN, and holds every value of the row."""
    app = sk.Topology("printed")
    columns = "k string, x double, b binary, d decimal(38,18), t timestamp, n timestamp_ntz, e date, a array<double>"
    nested = "m map<date,binary>, s struct<t:timestamp,d:decimal(5,2)>"
    app.stream("in", schema=f"{columns}, {nested}", key="k").print()
    moment = dt.datetime(2024, 1, 1, 0, 0, 0, 1, dt.UTC)
    row = {
        "k": "é\n\u2028", "x": math.nan, "b": b"\x00\xff", "d": decimal.Decimal("1.000000000000000001"), "t": moment,
        "n": dt.datetime(9999, 12, 31), "e": dt.date(1, 1, 1), "a": [math.inf, None, -math.inf, 0.5],
        "m": {dt.date(2024, 1, 2): b"\xff"}, "s": {"t": moment, "d": decimal.Decimal("1.50")},
    }  # fmt: skip
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", row)
        driver.pipe("in", dict.fromkeys(row))

    def refused(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    first, second = (json.loads(line, parse_constant=refused) for line in capsys.readouterr().out.split("\n")[:-1])
    assert first == {
        "k": "é\n\u2028", "x": "NaN", "b": "AP8=", "d": "1.000000000000000001", "t": "2024-01-01T00:00:00.000001Z",
        "n": "9999-12-31T00:00:00", "e": "0001-01-01", "a": ["Infinity", None, "-Infinity", 0.5],
        "m": {"2024-01-02": "/w=="}, "s": {"t": "2024-01-01T00:00:00.000001Z", "d": "1.50"},
    }  # fmt: skip
    assert second == dict.fromkeys(row)


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
        (5, "gave 5; expected a dict of the columns b"),
        ({"b": 1, "_deleted": True}, "gave the column '_deleted'; declared are b"),
        ({"b": "x"}, r"gave b = 'x' \(str\), and declared is b int, called with"),
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
        (lambda stream: F.udf(5, "int"), TopologyError, "found 5; expected a function"),
        (lambda stream: F.udf(lambda a, b: a)("a"), TopologyError, "cannot be called with 1 columns: missing .* 'b'"),
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
    with pytest.raises(TopologyError, match="declares no column but those of the key \\['k'\\]; expected value columns"):
        sk.compile(app, log)


def test_a_function_that_is_not_deterministic_is_found(log, app, stream):
    """Called twice, as tests do, it gives itself away."""
    numbers = iter(range(100))
    stream.with_columns(n=F.udf(lambda a: next(numbers), "int")("a")).to("out")
    with called_twice(), pytest.raises(EvaluationError, match="gave two results for the same values"):
        results(log, app)


def test_the_test_driver_finds_a_function_that_is_not_deterministic(app, stream):
    """The driver calls each function twice, and says so if the results differ."""
    numbers = iter(range(100))
    stream.with_columns(n=F.udf(lambda a: next(numbers), "int")("a")).to("out")
    with TopologyTestDriver(app) as driver, pytest.raises(EvaluationError, match="gave two results for the same values"):
        driver.pipe("in", ROWS)


CUT_ROWS = [
    {"n": 2**53 + 1, "b": True, "t": [2**53 + 1], "m": {"x": 1}, "d": 1.5},
    {"n": None, "b": None, "t": [None], "m": None, "d": None},
]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (F.pandas_udf(lambda n: n + 1, "bigint")("n"), [2**53 + 2, None]),
        (F.pandas_udf(lambda n: n + 1, "decimal(20,2)")("n"), [decimal.Decimal(2**53 + 2), None]),
        (F.pandas_udf(lambda n: n.fillna(0).astype("uint64") + 2**63, "decimal(20,0)")("n"), [2**63 + 2**53 + 1, 2**63]),
        (F.pandas_udf(lambda b: ~b, "boolean")("b"), [False, None]),
        (F.pandas_udf(lambda t: t.map(str), "string")("t"), ["[9007199254740993]", "[None]"]),
        (F.pandas_udf(lambda m: m.map(str), "string")("m"), ["{'x': 1}", "None"]),
        (F.pandas_udf(lambda d: d.map(str), "string")("d"), ["1.5", "nan"]),
    ],
)
@pytest.mark.parametrize("batching", ["one", "all"])
def test_a_series_does_not_depend_on_the_nulls_of_its_batch(app, column, expected, batching):
    """Integers stay integers beside a null, booleans booleans: else results would depend on the cut into epochs."""
    stream = app.stream("in", schema="n bigint, b boolean, t array<bigint>, m map<string,int>, d double")
    stream.select(r=column).to("out")
    with TopologyTestDriver(app, batching=batching) as driver:
        driver.pipe("in", CUT_ROWS)
        assert [row["r"] for row in driver.read("out", "r")] == expected


@pytest.mark.parametrize("rows", [CUT_ROWS, CUT_ROWS[:1]])
def test_a_function_may_write_into_its_series(app, rows):
    """Whether it may does not depend on the nulls of a batch, and what it writes is seen nowhere else."""

    def overwritten(values):
        values[:] = 7
        return values

    function = F.pandas_udf(overwritten, "double")
    stream = app.stream("in", schema="n bigint, b boolean, t array<bigint>, m map<string,int>, d double")
    stream.select("d", r=function("d"), i=function("n")).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", rows)
        assert driver.read("out", "d", "r", "i") == [{"d": row["d"], "r": 7.0, "i": 7.0} for row in rows]


def test_the_columns_of_a_data_frame_are_taken_by_name(app, stream):
    """Their order is free; other names, and a frame where one column is wanted, are errors."""
    frame = F.pandas_udf(lambda k: pd.DataFrame({"y": k, "x": k + "!"}), "struct<x:string,y:string>")
    stream.select(r=frame("k")).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", ROWS[:1])
        assert driver.read("out", "r") == [{"r": {"x": "x!", "y": "x"}}]


@pytest.mark.parametrize(
    ("type", "message"),
    [("struct<x:string,z:string>", "gave the columns y, x; declared are x, z"), ("string", "expected a pandas Series")],
)
def test_a_data_frame_of_other_columns_is_refused(log, app, stream, type, message):
    """The message has the names that were found and those that were declared."""
    stream.select(r=F.pandas_udf(lambda k: pd.DataFrame({"y": k, "x": k}), type)("k")).to("out")
    with pytest.raises(EvaluationError, match=message):
        results(log, app)


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("int", 1.5),
        ("bigint", decimal.Decimal("1.5")),
        ("array<int>", [1, 1.5]),
        ("struct<x:int>", {"x": 1.5}),
        ("struct<x:int>", (1.5,)),
        ("map<string,int>", {"x": 1.5}),
        ("struct<x:array<int>>", {"x": [np.float32(1.5)]}),
    ],
)
def test_a_fraction_is_no_integer(log, app, stream, type, value):
    """It is an error, also inside a nested value; it is not cut off."""
    stream.select(r=F.udf(lambda k: value, type)("k")).to("out")
    with pytest.raises(EvaluationError, match="declared is"):
        results(log, app)


def test_a_map_is_a_dict_to_a_function(app):
    """In rows and in arguments, as PySpark hands it over; whole doubles are integers where these are declared."""
    stream = app.stream("in", schema="m map<string,int>")
    stream.map_values(lambda row: {"a": row["m"]["x"]}, schema="a int").to("rows")
    stream.select(a=F.udf(lambda m: float(m["x"]), "int")("m")).to("values")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"m": {"x": 5}})
        assert driver.read("rows", "a") == driver.read("values", "a") == [{"a": 5}]


def test_a_dict_that_is_no_table_is_refused(log, app, stream):
    """Arrays of different lengths are an error with the record."""
    stream.map_values(lambda batch: {"b": [1], "c": [1, 2]}, schema="b int, c int", by="batch").to("out")
    with pytest.raises(EvaluationError, match=r"topic in, (.|\n)*gave a dict that is no table"):
        results(log, app)


def test_functions_are_known_by_what_they_do():
    """The same code with the same captured values has one digest, wherever it stands; other values or code have another."""

    def adding(n):
        return lambda a: a + n

    assert digest_of(adding(1)) == digest_of(adding(1)) != digest_of(adding(2))
    assert digest_of(lambda a: a + 1) != digest_of(lambda a: a - 1)


class Model:
    """Data whose text says nothing of them, as that of a fitted model."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, place):
        return self.values[place]

    def __repr__(self):
        return "Model()"


@pytest.mark.parametrize(
    "captured",
    [np.asarray, pd.Series, Model, lambda values: {"values": pd.DataFrame({"v": values})}, lambda values: [Model(values)]],
)
def test_functions_that_captured_other_data_are_others(app, stream, captured):
    """Also where the texts of the data are alike, since they leave out the middle of large ones."""
    several = [captured([0] * 1_000 + [middle] + [0] * 1_000) for middle in (1, 2)]

    def middle_of(data):
        values = data["values"]["v"] if isinstance(data, dict) else data[0] if len(data) == 1 else data
        return F.udf(lambda k: int(values[1_000]), "int")

    stream.select(x=middle_of(several[0])("k"), y=middle_of(several[1])("k")).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", ROWS[:1])
        assert driver.read("out", "x", "y") == [{"x": 1, "y": 2}]


def test_a_function_may_use_what_is_assigned_later(app, stream):
    """As Python's own functions may: names of the function around it are read when it runs."""
    count = F.udf(lambda k: later, "int")  # type: ignore[has-type]
    later = 5
    stream.select(n=count("k")).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", ROWS[:1])
        assert driver.read("out", "n") == [{"n": 5}]


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


def test_a_function_is_known_by_what_it_uses_of_its_module():
    """Another helper, or another constant beside it, makes another function of it."""

    def made(source):
        names: dict[str, Any] = {"__name__": "mine"}
        exec(source, names)
        return names["f"]

    one = made("def h(a): return a + 1\ndef f(a): return h(a)")
    assert digest_of(one) == digest_of(made("def h(a): return a + 1\ndef f(a): return h(a)"))
    assert digest_of(one) != digest_of(made("def h(a): return a + 2\ndef f(a): return h(a)"))
    assert digest_of(made("N = 1\ndef f(a): return a + N")) != digest_of(made("N = 2\ndef f(a): return a + N"))
