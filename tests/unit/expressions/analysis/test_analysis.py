"""Analysis: every name and type is judged by Spark's rules before anything runs, and errors say what to fix and where."""

from __future__ import annotations

import datetime as dt
import decimal
import subprocess
import sys

import pytest

from streamkit import functions as F
from streamkit.dsl.condition import to_predicate
from streamkit.errors import Location, TopologyError, UnsupportedExpressionError
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.catalyst import function_names
from streamkit.expressions.analysis.refused_functions import OF_PYTHON_ALONE, is_aggregate
from streamkit.expressions.core.operation import FUNCTIONS
from streamkit.plan.expression import Call, SqlText, TypedExpression
from streamkit.plan.expression_text import shown_text, typed_text
from streamkit.schema import Schema

SCHEMA = Schema.parse(
    "a int, b bigint NOT NULL, c string, d double, ts timestamp, day date, m decimal(10,2), f boolean, x binary, `odd.name` int, `back``tick` int"
)
LINE = Location("flight_delays.py", 12)


ANALYZER = ExpressionAnalyzer()


def typed(value, analyzer=ANALYZER):
    """The typed expression of a column, or of SQL text."""
    return analyzer.project(SCHEMA, [("r", expression_of(value))], LINE)[0][1]


def aggregated(**named):
    return ANALYZER.aggregates(SCHEMA, [(name, expression_of(value)) for name, value in named.items()], LINE)


def expression_of(value):
    return SqlText(value) if isinstance(value, str) else value.expression


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
        ("a + 1 AS q", "a + 1", "int"),
        ("c || a", "concat(c, CAST(a AS STRING))", "string"),
        (F.col("c") > 1, "CAST(c AS BIGINT) > 1", "boolean"),
        (F.try_add("a", "b"), "try(CAST(a AS BIGINT) + b)", "bigint"),
        ("transform(array(a, b), x -> x + 1)", "transform(array(CAST(a AS BIGINT), b), xλ0 -> (xλ0 + 1))", "array<bigint>"),
        (F.lit(None), "NULL", "void"),
    ],
)
def test_trees_are_typed_and_every_coercion_is_explicit(column, text, type):
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
def test_times_without_zone_are_utc(value, literal):
    """A datetime of Python means UTC unless it says otherwise, whatever zone the machine is in."""
    assert typed(F.col("ts") > value).arguments[1] == TypedExpression("literal", "timestamp", (), literal)


def test_times_without_zone_are_in_the_zone_of_the_topology():
    """Where a topology has a zone, a datetime without one is in it; one with a zone is not moved."""
    new_york = ExpressionAnalyzer("America/New_York")
    local, whole = dt.datetime(2013, 1, 1, 2), dt.datetime(2013, 1, 1, 2, tzinfo=dt.timezone.utc)
    assert typed(F.lit(local), new_york).value == "2013-01-01T07:00:00.000000"
    assert typed(F.lit(whole), new_york).value == "2013-01-01T02:00:00.000000"


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
def test_constants_arrive_whole(column, value, type):
    """A Python value is the constant that it is, in the type of what it is compared with."""
    assert typed(column).arguments[1] == TypedExpression("literal", type, (), value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (F.col("nope") + 1, r"there is no column 'nope'; the columns are a, b, c, d, ts"),
        (F.col("c") + "x", r"string and string; F.concat\(…\) puts texts together, .*, in c \+ 'x'"),
        (F.col("a").alias("r") + F.col("f"), r"the types of the operands do not go together: int and boolean; cast one of them, in .*a AS r \+ f"),
        ("a + > 1", r"syntax error: found > at character 5; expected a value, in a \+ > 1"),
        ("upper(c, c)", r"upper\(\) takes 1 argument; found 2, in upper\(c, c\)"),
        ("if(f, 1)", r"if\(\) takes .* found 2 arguments, in if\(f, 1\)"),
        ("exists(array(a), (x, y, z) -> true)", "the lambda has 3 parameters; expected at most 1"),
        ("transform(array(a), x -> nope)", "there is no column 'nope'"),
        ("transform(array(a), y -> y) = y", "there is no column 'y'"),
        ("cast(c AS foo)", "the type 'foo' cannot be a column's; expected one of boolean, tinyint"),
        ("cast(a AS binary)", r"cannot cast int to binary: .*, in cast\(a AS binary\)"),
        (F.lit(decimal.Decimal("NaN")), "the number NaN cannot be a decimal; write it as float"),
        (F.sum("a"), r"sum\(a\) has an aggregate; expected aggregates in agg\(…\) of groups"),
        (F.sum("a") + F.col("b"), "has an aggregate"),
    ],
)  # fmt: skip
def test_what_cannot_mean_anything_says_why(value, message):
    """The message says what was found and what exists, and ends with the user's line."""
    with pytest.raises(TopologyError, match=message) as caught:
        typed(value)
    assert str(caught.value).endswith("at flight_delays.py:12")
    assert not isinstance(caught.value, UnsupportedExpressionError)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("uper(c)", r"Spark has no function 'uper'; did you mean upper"),
        ("rand()", r"rand cannot be used in rand\(\): its value depends on when or where it runs"),
        ("current_timestamp()", "current_timestamp cannot be used .* depends on when"),
        ("current_date", "current_date cannot be used .* depends on when"),
        (F.unix_timestamp(), "unix_timestamp cannot be used .* depends on when"),
        ("uuid()", "uuid cannot be used .* depends on when"),
        ("1 + xpath_int(c, c)", r"xpath_int cannot be used in 1 \+ xpath_int\(c, c\): StreamKit cannot evaluate it yet"),
        ("to_csv(struct(a))", "to_csv cannot be used"),
        ("(SELECT 1)", "not a subquery; join with a table instead"),
        ("a IN (SELECT 1)", "not a subquery; join with a table instead"),
        ("explode(array(1, 2))", r"explode\(array\(1, 2\)\) gives more or fewer rows than it is given; expected one value per row, or flat_map"),
        ("row_number() OVER (ORDER BY a)", r"window over other rows \(OVER\); use windowed_by"),
        ("window(ts, '1 hour')", r"window cannot be used .* use windowed_by\(\)"),
        ("ts - ts", "ts - ts is an interval day to second, and no column holds intervals"),
        ("INTERVAL '1' YEAR", "is an interval year to month, and no column holds intervals"),
    ],
)  # fmt: skip
def test_what_is_not_evaluated_is_refused_by_name(value, message):
    """Sound in Spark, but not computable here: refused before anything runs, with the function and the line."""
    with pytest.raises(UnsupportedExpressionError, match=message) as caught:
        typed(value)
    assert caught.value.at == LINE


def test_every_function_of_spark_is_known_or_refused_by_its_own_name():
    """No name of Spark's is called unknown: what is not evaluated says so, or why."""
    names = {name.lower() for name in function_names() - OF_PYTHON_ALONE if not is_aggregate(name)}
    refused = names - {*FUNCTIONS, "struct"}
    assert {"from_xml", "rand", "explode"} <= refused
    for name in sorted(refused):
        with pytest.raises(UnsupportedExpressionError, match=rf"^{name}(\(| cannot be used)"):
            ANALYZER.project(SCHEMA, [("r", Call(name, ()))], LINE)


def test_a_constant_that_fails_waits_for_its_rows():
    """`1 / 0` stays as written: it is an error of the rows that reach it, as in Spark."""
    assert typed_text(typed(F.when(F.col("f"), F.expr("1 / 0")))) == "CASE WHEN f THEN 1.0 / 0.0 END"
    assert typed_text(typed("cast('x' AS int)")) == "CAST('x' AS INT)"
    assert typed_text(typed("try_divide(1, 0)")) == "NULL"


def test_a_predicate_must_be_boolean():
    """Anything else is named with its type; NULL counts as a condition that never holds."""
    assert ANALYZER.predicate(SCHEMA, to_predicate("a > 1 AND f"), LINE).type == "boolean"
    assert ANALYZER.predicate(SCHEMA, to_predicate("NULL"), LINE).type == "boolean"
    with pytest.raises(TopologyError, match=r"a condition must be boolean; 'a \+ 1' is int") as caught:
        ANALYZER.predicate(SCHEMA, to_predicate("a + 1"), LINE)
    assert caught.value.at == LINE


def test_aggregates_have_types_and_arguments():
    """Each aggregate says its function, the type of its result and what it folds; of count(*) there is nothing to fold."""
    found = aggregated(
        n=F.count("*"), present=F.count("c"), late=F.count_if(F.col("a") > 15), total=F.sum(F.col("a") * 2), mean=F.avg("m"),
        first=F.min("ts"), last=F.max("c").alias("ignored"), sql="mean(d)", curved=F.sum(F.sinh("d")),
    )  # fmt: skip
    assert [(each.name, each.function, each.type, each.argument and typed_text(each.argument)) for each in found] == [
        ("n", "count", "bigint", None), ("present", "count", "bigint", "c"), ("late", "count_if", "bigint", "a > 15"), ("total", "sum", "bigint", "a * 2"),
        ("mean", "avg", "decimal(14,6)", "m"), ("first", "min", "timestamp", "ts"), ("last", "max", "string", "c"), ("sql", "avg", "double", "d"),
        ("curved", "sum", "double", "sinh(d)"),
    ]  # fmt: skip
    assert [each.name for each in found if not each.nullable] == ["n", "present", "late"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (F.col("a"), "expected one aggregate .* found a"),
        (F.lit(1), "expected one aggregate"),
        (F.sum("a") + 1, r"found sum\(a\) \+ 1"),
        ("skewness(a)", "no incremental state; expected one of .*count, count_if, sum"),
        ("try_sum(a)", "no incremental state"),
        ("count(DISTINCT a)", r"DISTINCT .* in count\(DISTINCT a\)"),
        ("sum(a) FILTER (WHERE f)", r"write the condition inside of the aggregate"),
        ("count(a, b)", "has 2 arguments; expected 1"),
        ("sum(c || 'x') + max(a)", "expected one aggregate"),
        ("sum(f)", r"sum.* in sum\(f\)"),
        ("sum(rand())", "rand cannot be used"),
        ("sum(max(a))", "has an aggregate"),
        (F.sum("nope"), "there is no column 'nope'"),
    ],
)
def test_other_aggregates_are_refused(value, message):
    """Anything but a single supported aggregate is refused with the user's line."""
    with pytest.raises(TopologyError, match=message) as caught:
        aggregated(r=value)
    assert caught.value.at == LINE


def test_the_parser_is_loaded_for_sql_text_only():
    """A topology without SQL text does not wait for the SQL parser."""
    code = (
        "import sys; reader = 'streamkit.expressions.sql.words'; from streamkit import functions as F; from streamkit.schema import Schema;"
        "from streamkit.expressions.analysis.analysis import ExpressionAnalyzer as A;"
        "A().project(Schema.parse('a int'), [('r', (F.col('a') + 1).expression)]); assert reader not in sys.modules, 'loaded';"
        "A().project(Schema.parse('a int'), [('r', F.expr('a + 1').expression)]); assert reader in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("transform(array(a), x -> x + 1)", "transform(array(a), x -> (x + 1))"),
        (
            "transform(array(a), X -> transform(array(X), x -> x + X))",
            "transform(array(a), X -> transform(array(X), x -> (x + x)))",
        ),
        ("aggregate(array(a), 0, (total, x) -> total + x)", "aggregate(array(a), 0, (total, x) -> (total + x))"),
        ("transform(array(c), x -> concat(x, 'yλ0', c))", "transform(array(c), x -> concat(x, 'yλ0', c))"),
    ],
)
def test_people_read_the_names_of_parameters_that_they_wrote(expression, text):
    """Without the marks that tell parameters of one name from another, which the text of an expression keeps; a constant is as it is."""
    found = typed(expression)
    assert shown_text(found) == text
    assert typed_text(found) != text


def test_people_read_the_names_of_parameters_of_functions_in_python():
    """Also of functions within functions."""
    nested = F.transform(F.array("a"), lambda x: F.aggregate(F.array(x), F.lit(0), lambda total, y: total + x * y))
    assert shown_text(typed(nested)) == "transform(array(a), x -> aggregate(array(x), 0, (total, y) -> (total + (x * y))))"
