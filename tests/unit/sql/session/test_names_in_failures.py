"""What fails is told by the function of the ksql dialect that the text has, and not by what that function is made of."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streamkit.errors import SqlError
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.plan.expression import Call, Literal, Reference, TypedExpression
from streamkit.plan.expression_text import shown_text, typed_text
from streamkit.plan.plain import from_plain, to_plain
from streamkit.schema import Schema
from streamkit.sql.session import SqlSession

KSQL = {"streamkit.sql.dialect": "ksql"}
MADE = "CREATE STREAM S (K STRING KEY, I INT, A BIGINT, TS TIMESTAMP, DT DATE, TI TIME, X STRING, B BYTES, L ARRAY<STRING>, O BOOLEAN);"
FAILING = [
    ("TS", "PARSE_TIMESTAMP({}, 'yyyy')", "x", "parse_timestamp('x', 'yyyy') failed: 'x' is not of the format 'yyyy'"),
    ("A", "STRINGTOTIMESTAMP({}, 'yyyy', 'UTC')", "x", "stringtotimestamp('x', 'yyyy', 'UTC') failed: 'x' is not of the format 'yyyy'"),
    ("DT", "PARSE_DATE({}, 'yyyy')", "x", "parse_date('x', 'yyyy') failed"),
    ("I", "STRINGTODATE({}, 'yyyy-MM-dd')", "x", "stringtodate('x', 'yyyy-MM-dd') failed"),
    ("TI", "PARSE_TIME({}, 'HH')", "x", "parse_time('x', 'HH') failed"),
    ("X", "URL_DECODE_PARAM({})", "%zz", "url_decode_param('%zz') failed: a % is not followed by two hexadecimal digits"),
    ("X", "UCASE(URL_DECODE_PARAM({}))", "%zz", "url_decode_param('%zz') failed"),
    ("A", "STRINGTOTIMESTAMP(URL_DECODE_PARAM({}), 'yyyy')", "%zz", "url_decode_param('%zz') failed"),
]  # fmt: skip


@pytest.fixture
def sql(log):
    with SqlSession(log, settings=KSQL) as session:
        session.execute(MADE.replace(";", " WITH (VALUE_FORMAT = 'JSON');"))
        yield session


@pytest.mark.parametrize(("column", "expression", "text", "message"), FAILING)
def test_values_that_are_inserted(sql, column, expression, text, message):
    """The error of a constant has the function as it is written, with its arguments."""
    with pytest.raises(SqlError) as caught:
        sql.execute(f"INSERT INTO S (K, {column}) VALUES ('k', {expression.format(repr(text))});")
    assert caught.value.faults[0].message.startswith(f"{column}: {message}")


@pytest.mark.parametrize(("column", "expression", "text", "message"), FAILING)
def test_the_processing_log(log, sql, column, expression, text, message):
    """So does the entry of a record in a query that goes on, where the argument is a column."""
    sql.execute(f"INSERT INTO S (K, X) VALUES ('k', '{text}');")
    sql.execute(
        "SET 'ksql.logging.processing.topic.auto.create' = 'true';"
        f"CREATE STREAM R AS SELECT K, {expression.format('X')} AS Y FROM S;"
    )
    with SqlSession(log, engine="local") as running:
        assert running.catch_up(60)
    (entry,) = log.read("KSQL_PROCESSING_LOG").to_pylist()
    own = message.partition("(")[0]
    assert f"{own}(X" in entry["message"] and "_by_format" not in entry["message"] and "url_decode(" not in entry["message"]


def test_bytes_are_base_64(sql):
    """A text in a column of bytes is no function that failed, alone and among others."""
    for values in ("('k', 'AQID'), ('k', 'ab!')", "('k', 'ab!')"):
        with pytest.raises(SqlError) as caught:
            sql.execute(f"INSERT INTO S (K, B) VALUES {values};")
        assert caught.value.faults[0].message.startswith(
            "B is BYTES, and 'ab!' is no base 64; expected bytes as base 64, as in 'AQID'"
        )
    sql.execute("INSERT INTO S (K, B) VALUES ('k', 'AQID'), ('k', '');")


def test_like_of_null(sql):
    """Neither is a pattern that is null."""
    with pytest.raises(SqlError, match="LIKE compares two texts, and this one is null"):
        sql.execute("INSERT INTO S (K, O) VALUES ('k', 'a' LIKE NULL);")


def test_states_are_compared_by_what_functions_are_made_of():
    """The name is for people: what a start compares is the text that it was before there were such names."""
    call = Call("ksql_stringtotimestamp", (Reference("x"), Literal("yyyy")))
    ((_, typed),) = ExpressionAnalyzer().project(Schema.parse("x string"), [("y", call)])
    assert typed_text(typed) == "unix_millis(time_by_format(x, 'yyyy'))"
    assert shown_text(typed) == "unix_millis(stringtotimestamp(x, 'yyyy'))"
    (again,) = to_plain([typed])
    assert evaluate(from_plain(TypedExpression, again), pa.record_batch({"x": ["1971"]})).to_pylist() == [31_536_000_000]
