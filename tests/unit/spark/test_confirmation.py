"""At a start on Spark, Catalyst confirms the types of the whole program before anything runs."""

from __future__ import annotations

import datetime as dt
import decimal
from dataclasses import replace

import pytest

import streamkit.spark.spark_run as run_module
from streamkit import Topology, open_log, run
from streamkit import functions as F
from streamkit.errors import Location, TopologyError
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.catalyst import Recorder, confirm
from streamkit.schema import Schema
from tests.unit.expressions.any_call import NAMES, calls_of

pytestmark = pytest.mark.spark
SCHEMA = Schema.parse(
    "a int, b bigint NOT NULL, c string, d double, f boolean, m decimal(10,2), ts timestamp, `odd name` int, ints array<int>, nothing void"
)
OTHER = Schema.parse("a string, n int")
LINE = Location("flights.py", 12)
COLUMNS = (
    F.col("a") + F.col("b") * 2, F.col("odd name") % 7, F.col("m") * decimal.Decimal("1.50"), F.expr("a || c || 'x' -- a comment"), -F.col("d"),
    F.when(F.col("f"), 1).otherwise(F.col("b")), F.col("c").isin("x", "it's", "\\"), ~F.col("f"), F.col("c").like("a%"), F.col("a").cast("string"),
    F.col("ts") > dt.datetime(2013, 1, 1), F.col("ts") + dt.timedelta(hours=1), F.lit(None), F.lit(2**40), F.lit(float("nan")), F.trim("c"),
    F.coalesce("a", F.lit(-5)), F.col("a").between(1, 3), F.col("c").isNull(), F.expr("CASE a WHEN 1 THEN 'x' END"), F.upper("c"),
)  # fmt: skip


def recorded():
    recorder = Recorder(ExpressionAnalyzer())
    recorder.project(SCHEMA, [(str(place), column.expression) for place, column in enumerate(COLUMNS)], LINE)
    recorder.predicate(SCHEMA, F.expr("a > 1 AND f").expression, LINE)
    recorder.predicate(OTHER, (F.col("a") == "x").expression, LINE)
    recorder.aggregates(
        SCHEMA, [("n", F.count("*").expression), ("mean", F.avg("m").expression), ("sum", F.expr("sum(a)").expression)], LINE
    )
    return recorder.analysed


def test_spark_confirms_all_expressions(spark):
    """Operators, functions, constants, SQL text, conditions and aggregates over several schemas are seen by one analysis, and agree."""
    analysed = recorded()

    assert confirm(analysed, spark) == len(analysed)


def test_a_difference_names_both_types_and_the_line(spark):
    """A type that is not Spark's is an error of ours: it says so, names the expression and both types, and points at the user's line."""
    analysed = recorded()
    analysed[0] = replace(analysed[0], type="int")

    with pytest.raises(
        TopologyError, match=r"disagree on a \+ \(b \* 2\).* StreamKit's type is int, Spark's is bigint .* please report"
    ) as caught:
        confirm(analysed, spark)
    assert caught.value.at == LINE


def test_what_spark_refuses_is_named(spark):
    """If Spark cannot analyse the program at all, the one expression at fault is named with Spark's reason."""
    analysed = recorded()
    analysed[1] = replace(analysed[1], expression=(F.col("a") + F.col("f")).expression)

    with pytest.raises(TopologyError, match=r"disagree on a \+ f.*refused: \[DATATYPE_MISMATCH"):
        confirm(analysed, spark)


def test_the_users_session_is_left_as_it_is(spark):
    """The settings of the analysis are those of a session of its own."""
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        confirm(recorded(), spark)
        assert spark.conf.get("spark.sql.ansi.enabled") == "false"
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def test_functions_of_users_are_left_out(spark):
    """Spark cannot see a Python function; all else of the program is confirmed."""
    twice = F.udf(lambda value: value * 2, "int")
    recorder = Recorder(ExpressionAnalyzer())
    recorder.project(SCHEMA, [("x", twice(F.col("a")).expression), ("y", F.col("a").expression)], LINE)

    assert confirm(recorder.analysed, spark) == 1


def test_a_start_asks_spark_once(spark, tmp_path, monkeypatch):
    """A first start is confirmed and starts nothing if it fails; a start of a program that the catalog knows asks no more."""
    asked = []

    def ask(analysed, session, zone="UTC"):
        asked.append(len(analysed))
        return confirm(analysed, session, zone)

    monkeypatch.setattr(run_module, "confirm", ask)
    with open_log(tmp_path / "log") as log:
        log.create_topic("numbers", "a int", partitions=1)
        with log.producer() as producer:
            producer.send("numbers", {"a": 1})
        for _ in range(2):
            topology = Topology("app")
            topology.stream("numbers").filter("a > 0").select((F.col("a") * 2).alias("b")).to("doubles")
            run(topology, spark, log).stop()

    assert asked == [2]


def refused(analysed, spark):
    """Those that Spark does not confirm."""
    try:
        confirm(analysed, spark)
    except TopologyError:
        half = len(analysed) // 2
        return refused(analysed[:half], spark) + refused(analysed[half:], spark) if half else analysed
    return []


def test_spark_knows_every_function(spark):
    """A program may call any function that `dir(F)` lists, aggregates too: of a few calls that our analysis takes, Spark confirms one."""
    calls = {name: calls_of(name, 3) for name in NAMES}
    assert {name for name, found in calls.items() if not found} == set()
    waiting = set(calls)
    for place in range(3):
        turn = {id(found[place]): name for name in waiting if len(found := calls[name]) > place}
        asked = [calls[name][place] for name in turn.values()]
        parts = [asked[start : start + 40] for start in range(0, len(asked), 40)]
        waiting &= {turn[id(one)] for part in parts for one in refused(part, spark)} | (waiting - set(turn.values()))

    assert waiting == set()


@pytest.mark.parametrize("function", ["top_k", "bottom_k"])
@pytest.mark.parametrize("by", [None, "d"])
def test_rankings_have_the_type_of_sparks_with_a_number(spark, function, by):
    """Spark has no ranking of that name: it is asked for `max_by` or `min_by` with a number, by the value itself without another."""
    recorder = Recorder(ExpressionAnalyzer())
    best = getattr(F, function)(F.struct("c", F.col("a").alias("odd name")), 3, by=by)
    recorder.aggregates(SCHEMA, [("best", best.expression)], LINE)

    assert confirm(recorder.analysed, spark) == 1
    with pytest.raises(TopologyError, match=r"Spark's is array<struct<c:string,`odd name`:int>> \(of m.._by\("):
        confirm([replace(recorder.analysed[0], type="array<string>")], spark)
