"""Analysis: every name and type is judged by Spark before anything runs, and errors say what to fix and where."""

from __future__ import annotations

import datetime as dt
import decimal
import logging

import pytest

from streamkit import functions as F
from streamkit.dsl.column import to_predicate
from streamkit.errors import Location, TopologyError, UnsupportedExpressionError
from streamkit.expressions.aggregates import AGGREGATES
from streamkit.expressions.arrow import function_names
from streamkit.expressions.catalyst import CatalystAnalyzer
from streamkit.expressions.operation import TRANSLATIONS
from streamkit.plan.expression import SqlText, TypedAggregate, TypedExpression
from streamkit.plan.expression_text import typed_text
from streamkit.plan.function_names import AGGREGATE_NAMES, CONTEXT_NAMES, FUNCTION_NAMES, PYTHON_FUNCTIONS
from streamkit.schema import Schema

pytestmark = pytest.mark.spark
SCHEMA = Schema.parse(
    "a int, b bigint NOT NULL, c string, d double, ts timestamp, day date, m decimal(10,2), f boolean, x binary, `odd.name` int, `back``tick` int"
)
LINE = Location("flight_delays.py", 12)


@pytest.fixture(scope="module")
def analyzer(spark):
    return CatalystAnalyzer(spark)


@pytest.fixture
def typed(analyzer):
    return lambda column: analyzer.project(SCHEMA, [("r", column.expression)], LINE)[0][1]


@pytest.mark.parametrize(
    ("column", "text", "type"),
    [
        (F.col("a") > 15, "a > 15", "boolean"),
        (F.col("d") > 15, "d > 15.0", "boolean"),
        (F.col("a") + F.col("b"), "CAST(a AS BIGINT) + b", "bigint"),
        (F.col("a") / 2, "CAST(a AS DOUBLE) / 2.0", "double"),
        (F.col("m") * 2, "m * 2", "decimal(12,2)"),
        (F.col("A"), "a", "int"),
        (F.col("odd.name") + F.col("back`tick"), "odd.name + back`tick", "int"),
        (F.col("a").between(1, F.col("b")), "(a >= 1) AND (CAST(a AS BIGINT) <= b)", "boolean"),
        (F.nvl("c", F.lit("x")), "coalesce(c, 'x')", "string"),
        (F.nullif("a", F.lit(1)), "CASE WHEN a = 1 THEN NULL ELSE a END", "int"),
        (F.when(F.col("f"), 1).when(F.col("a") == 2, 2), "CASE WHEN f THEN 1 WHEN a = 2 THEN 2 END", "int"),
        (F.col("day") > "2013-01-01", "day > DATE '2013-01-01'", "boolean"),
        (F.col("ts") + dt.timedelta(hours=1), "add_microseconds(ts, 3600000000)", "timestamp"),
        (F.col("ts") - dt.timedelta(days=1), "add_microseconds(ts, -86400000000)", "timestamp"),
        (F.lit(1) + 2, "3", "int"),
        (F.trim("c", F.lit("xy")), "trim(c, 'xy')", "string"),
        (F.expr("a + 1 AS q"), "a + 1", "int"),
        (F.lit(None), "NULL", "void"),
    ],
)
def test_trees_are_typed_and_every_coercion_is_explicit(typed, column, text, type):
    """Names are the schema's, constants are folded, casts stand where Spark puts them."""
    found = typed(column)
    assert (typed_text(found), found.type) == (text, type)


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (dt.datetime(2013, 1, 1, 2), "2013-01-01T02:00:00.000000"),
        (dt.datetime(13, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))), "0012-12-31T22:00:00.000000"),
    ],
)
def test_times_without_zone_are_utc(typed, value, literal):
    """A datetime of Python means UTC unless it says otherwise, whatever zone the machine is in."""
    assert typed(F.col("ts") > value).arguments[1] == TypedExpression("literal", "timestamp", (), literal)


@pytest.mark.parametrize(
    ("column", "value", "type"),
    [
        (F.col("x") == b"\x00a", "0061", "binary"),
        (F.col("m") > decimal.Decimal("1.50"), "1.50", "decimal(10,2)"),
        (F.col("d") == float("nan"), "nan", "double"),
        (F.col("d") == -0.0, "-0.0", "double"),
        (F.col("c") == "it's `q` \\ \n", "it's `q` \\ \n", "string"),
        (F.col("day") == dt.date(1, 1, 1), "0001-01-01", "date"),
    ],
)
def test_constants_arrive_whole(typed, column, value, type):
    """A Python value is the same constant after its way through Spark."""
    assert typed(column).arguments[1] == TypedExpression("literal", type, (), value)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (F.col("nope") + 1, r"there is no column 'nope'; the columns are a, b, c, d, ts"),
        (F.col("a").alias("r") + F.col("f"), r"the types of .*a \+ f.* do not go together: int and boolean; cast one of them"),
        (F.expr("a + > 1"), r"(?i)syntax error.* in a \+ > 1"),
        (F.expr("upper(c, c)"), r"upper.*requires 1 parameter.*in upper\(c, c\)"),
        (F.expr(" "), "not empty"),
        (F.sum("a"), r"sum\(a\) has an aggregate; expected aggregates only in group_by"),
        (F.sum("a") + F.col("b"), "has an aggregate"),
    ],
)
def test_what_cannot_mean_anything_says_why(typed, column, message):
    """The message says what was found and what exists, and ends with the user's line."""
    with pytest.raises(TopologyError, match=message) as caught:
        typed(column)
    assert str(caught.value).endswith("at flight_delays.py:12")
    assert "[" not in caught.value.message.split(";")[0].split("'")[0]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (F.expr("sinh(d)"), "sinh cannot be used"),
        (F.expr("uper(c)"), "Spark has no function 'uper'; did you mean upper"),
        (F.expr("rand()"), "rand cannot be used .* depends on when or where it runs"),
        (F.expr("current_timestamp()"), "current_timestamp cannot be used .* depends on when"),
        (F.unix_timestamp(), "depends on when"),
        (F.expr("uuid()"), "uuid cannot be used .* depends on when"),
        (F.expr("try_cast(c AS int)"), "try_cast cannot be used .* TRY"),
        (F.expr("try_add(a, 1)"), "try_add cannot be used"),
        (F.expr("try_divide(a, 1)"), "try_divide cannot be used"),
        (F.expr("try_to_timestamp(c)"), "gives null where ANSI rules would fail"),
        (F.expr("array(a)"), "array cannot be used"),
        (F.expr("(SELECT 1)"), "join with a table instead"),
        (F.expr("explode(array(1, 2))"), "expected one value per row"),
        (F.expr("row_number() OVER (ORDER BY a)"), "window over other rows"),
        (F.expr("window(ts, '1 hour')"), "expected one value per row"),
        (F.rlike("c", F.lit(r"\bx")), r"\\b in the regular expression"),
        (F.rlike("c", F.col("c")), "argument 2 must be a constant"),
        (F.substring("c", F.col("a"), 1), "argument 2 must be a constant"),
        (F.to_date("c", "dd. MMM yyyy"), "MMM"),
        (F.col("m") % 2, "decimals"),
        (F.expr("ts - ts"), "no Arrow translation"),
        (F.expr("ts + make_interval(0, a)"), "interval is not constant"),
        (F.expr("cast(a AS binary)"), "cannot"),
        (F.expr("named_struct('v', a)"), "struct<v:int>|no Arrow translation"),
    ],
)
def test_what_has_no_translation_is_refused_by_name(typed, column, message):
    """Sound in Spark, but not computable here: refused before anything runs, with the function and the line."""
    with pytest.raises(TopologyError, match=message) as caught:
        typed(column)
    assert caught.value.at == LINE
    if "cast(a AS binary)" not in repr(column):
        assert isinstance(caught.value, UnsupportedExpressionError)


def test_a_constant_that_fails_waits_for_its_rows(typed):
    """`1 / 0` stays as written: it is an error of the rows that reach it, as in Spark."""
    assert typed_text(typed(F.when(F.col("f"), F.expr("1 / 0")))) == "CASE WHEN f THEN 1.0 / 0.0 END"


def test_a_predicate_must_be_boolean(analyzer):
    """Anything else is named with its type; NULL counts as a condition that never holds."""
    assert analyzer.predicate(SCHEMA, to_predicate("a > 1 AND f"), LINE).type == "boolean"
    assert analyzer.predicate(SCHEMA, to_predicate("NULL"), LINE).type == "boolean"
    with pytest.raises(TopologyError, match=r"a condition must be boolean; 'a \+ 1' is int"):
        analyzer.predicate(SCHEMA, to_predicate("a + 1"), LINE)


def test_aggregates_have_types_and_arguments(analyzer):
    """Each aggregate says its function, the type of its result and what it folds; of count(*) there is nothing to fold."""
    named = {
        "n": F.count("*"), "present": F.count("c"), "late": F.count_if(F.col("a") > 15), "total": F.sum(F.col("a") * 2), "mean": F.avg("m"),
        "first": F.min("ts"), "last": F.max("c").alias("ignored"), "sql": F.expr("mean(d)"),
    }  # fmt: skip
    found = analyzer.aggregates(SCHEMA, [(name, column.expression) for name, column in named.items()], LINE)
    assert [(each.name, each.function, each.type, each.argument and typed_text(each.argument)) for each in found] == [
        ("n", "count", "bigint", None), ("present", "count", "bigint", "c"), ("late", "count_if", "bigint", "a > 15"), ("total", "sum", "bigint", "a * 2"),
        ("mean", "avg", "decimal(14,6)", "m"), ("first", "min", "timestamp", "ts"), ("last", "max", "string", "c"), ("sql", "avg", "double", "d"),
    ]  # fmt: skip
    assert isinstance(found[0], TypedAggregate)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (F.col("a"), "expected one aggregate .* found a"),
        (F.lit(1), "expected one aggregate"),
        (F.sum("a") + 1, r"found sum\(a\) \+ 1"),
        (F.expr("stddev(a)"), "no incremental state"),
        (F.expr("count(DISTINCT a)"), "DISTINCT"),
        (F.expr("sum(a) FILTER (WHERE f)"), "FILTER"),
        (F.expr("try_sum(a)"), "no Arrow translation"),
        (F.expr("count(a, b)"), "has 2 arguments; expected 1"),
        (F.sum(F.expr("sinh(d)")), "sinh cannot be used"),
        (F.sum("nope"), "there is no column 'nope'"),
    ],
)
def test_other_aggregates_are_refused(analyzer, column, message):
    """Anything but a single supported aggregate is refused with the user's line."""
    with pytest.raises(TopologyError, match=message) as caught:
        analyzer.aggregates(SCHEMA, [("r", column.expression)], LINE)
    assert caught.value.at == LINE


def test_function_names_are_those_of_translated_classes(spark):
    """streamkit.functions lets through exactly the names whose class in Spark's own registry has a translation, and those exist."""
    registry = spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()
    names = sorted(FUNCTION_NAMES - AGGREGATE_NAMES - CONTEXT_NAMES - PYTHON_FUNCTIONS)
    identifier = spark._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    found = {name: registry.lookupFunction(identifier(name)) for name in names}
    translated = {
        name for name, info in found.items() if info.isDefined() and info.get().getClassName().split(".")[-1] in TRANSLATIONS
    }
    assert translated == function_names() & set(names)
    assert {"left", "repeat", "date_diff"} <= translated
    package = "org.apache.spark.sql.catalyst.expressions."
    for name in TRANSLATIONS:
        spark._jvm.java.lang.Class.forName(package + name)
    for one in AGGREGATES.values():
        spark._jvm.java.lang.Class.forName(f"{package}aggregate.{one.catalyst}")


def test_the_users_session_settings_do_not_matter(spark):
    """A session without ANSI rules and in another zone analyses to the same trees, and keeps its settings."""
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "false")
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    columns = [("r", SqlText("CAST(c AS int) + a / 2")), ("t", SqlText("ts > TIMESTAMP '2013-01-01 00:00:00'"))]
    assert CatalystAnalyzer(session).project(SCHEMA, columns, None) == CatalystAnalyzer(spark).project(SCHEMA, columns, None)
    assert session.conf.get("spark.sql.ansi.enabled") == "false"
    assert session.conf.get("spark.sql.session.timeZone") == "America/New_York"


def test_refusals_print_nothing(typed, capfd):
    """PySpark's own log of failed queries stays silent, and works again afterwards."""
    with pytest.raises(TopologyError):
        typed(F.col("a") + F.col("f"))
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""
    assert not logging.getLogger("DataFrameQueryContextLogger").disabled


def test_nothing_to_analyse_needs_no_session():
    """No expressions, no Spark."""
    analyzer = CatalystAnalyzer()
    assert analyzer.project(SCHEMA, [], None) == ()
    assert analyzer._session is None
