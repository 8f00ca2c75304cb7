"""Trees as text: what the reader makes of the text is the same tree, in either dialect."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import SqlError
from streamkit.plan.expression import Cast, Literal
from streamkit.sql.printer.statements import statement_text
from streamkit.sql.reader.script import read_script
from streamkit.sql.tree.query import Query, SelectColumn
from streamkit.sql.tree.span import Written
from streamkit.sql.tree.statements import SelectStatement
from tests.kit.sampling import examples
from tests.kit.sql_trees import TREES

DIALECTS = ("spark", "ksql")


def check_reading(statement, dialect):
    """A statement is read as it is written, from the catalog and from a text; in a text the ksql dialect refuses operators that are called."""
    text = statement_text(statement, dialect)
    assert read_script(text, dialect, is_stored=True) == [statement], text
    try:
        read = read_script(text, dialect)
    except SqlError as error:
        assert dialect == "ksql" and all("ksqlDB has no function" in fault.message for fault in error.faults), text
    else:
        assert read == [statement], text


@pytest.mark.parametrize("dialect", DIALECTS)
@examples(100)
@given(data=st.data())
def test_expressions_are_read_as_they_are_written(dialect, data):
    """Any expression that a dialect can say."""
    check_reading(SelectStatement(Query((SelectColumn(data.draw(TREES[dialect].written)),))), dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
@examples(100)
@given(data=st.data())
def test_statements_are_read_as_they_are_written(dialect, data):
    """Any statement, with names that need quotes and texts with anything in them."""
    check_reading(data.draw(TREES[dialect].statements()), dialect)


@pytest.mark.parametrize(
    ("text", "ksql"),
    [
        (
            (
                "CREATE OR REPLACE SOURCE TABLE IF NOT EXISTS users (id STRING PRIMARY KEY, name STRING, tags ARRAY<STRUCT<a INT, `b c` BINARY>>) "
                "WITH (KAFKA_TOPIC = 'users', PARTITIONS = 3)"
            ),
            (
                "CREATE OR REPLACE SOURCE TABLE IF NOT EXISTS `users` (`id` VARCHAR PRIMARY KEY, `name` VARCHAR, "
                "`tags` ARRAY<STRUCT<`a` INT, `b c` BYTES>>) WITH (KAFKA_TOPIC = 'users', PARTITIONS = 3)"
            ),
        ),
        (
            (
                "SELECT A, upper(B) AS C FROM D AS E LEFT JOIN F WITHIN 1 HOUR GRACE PERIOD 90 SECONDS ON A = G WINDOW TUMBLING (SIZE 7 DAYS) "
                "WHERE NOT (A OR B) AND (C + 1) * 2 NOT IN (1, 2.5) GROUP BY A HAVING count(*) > 1 EMIT FINAL LIMIT 3"
            ),
            (
                "SELECT A, UPPER(B) AS C FROM D AS E LEFT JOIN F WITHIN 1 HOUR GRACE PERIOD 90 SECONDS ON A = G WINDOW TUMBLING (SIZE 7 DAYS) "
                "WHERE NOT (A OR B) AND (C + 1) * 2 NOT IN (1, 2.5) GROUP BY A HAVING COUNT(*) > 1 EMIT FINAL LIMIT 3"
            ),
        ),
        (
            "SELECT CASE WHEN A IS NULL THEN -1 ELSE 2.5D END, 'it\\'s\\n', `a b`.`from`, CAST(A AS DECIMAL(4, 2)), f(A, X -> X || 'x')[0]",
            "SELECT CASE WHEN A IS NULL THEN -1 ELSE 2.5E0 END, 'it''s\n', `a b`.`from`, CAST(A AS DECIMAL(4, 2)), F(A, X => X || 'x')[0]",
        ),
        ("INSERT INTO A (B) VALUES (DATE '2026-01-01')", "INSERT INTO A (B) VALUES (CAST('2026-01-01' AS DATE))"),
        ("ALTER STREAM A ADD COLUMN B INT, ADD COLUMN C STRING", "ALTER STREAM A ADD COLUMN B INT, ADD COLUMN C VARCHAR"),
        ("PRINT 'a' FROM BEGINNING LIMIT 3", "PRINT 'a' FROM BEGINNING LIMIT 3"),
        ("SELECT '$${a}', (A).*, B.* FROM C PARTITION BY NULL", "SELECT '$${a}', A->*, B.* FROM C PARTITION BY NULL"),
    ],
)
def test_texts_are_as_people_write_them(text, ksql):
    """No parentheses and backticks but those that are needed; one dialect's statements can be had in the other."""
    (statement,) = read_script(text)
    spark = text.replace("DATE '2026-01-01'", "CAST('2026-01-01' AS DATE)")

    assert statement_text(statement) == spark
    assert statement_text(statement, "ksql") == ksql


def test_what_a_dialect_cannot_say_is_an_error():
    """Bytes have no literal in ksqlDB."""
    (statement,) = read_script("SELECT X'00'")

    with pytest.raises(TypeError, match="ksql has no literal of b"):
        statement_text(statement, "ksql")


def test_expressions_made_in_python_can_be_written():
    """A user's function is written by its name, a value that is no number stays what it is."""
    not_a_number = Query(
        (SelectColumn(Written(Literal(float("nan")))), SelectColumn(Written(Cast(Literal(float("-inf")), "string"))))
    )

    assert statement_text(SelectStatement(not_a_number)) == "SELECT CAST('nan' AS DOUBLE), CAST(CAST('-inf' AS DOUBLE) AS STRING)"
