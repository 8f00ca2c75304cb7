"""Columns of types that ksqlDB lacks, in topics of Python and of Spark's dialect: passed on they keep their type, elsewhere they are of the nearest one."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

import streamkit as sk
from streamkit.errors import SqlError

NOON = dt.datetime(2026, 1, 1, 12)
COLUMNS = "id int, f float, t tinyint, s smallint, n timestamp_ntz, st struct<a:float>, ar array<smallint>"


@pytest.fixture
def sql():
    """A session in ksqlDB's dialect on a log with a topic of these columns."""
    log = sk.open_log(":memory:")
    log.create_topic("topic", COLUMNS, key="id", partitions=1)
    with log.producer() as producer:
        producer.send("topic", {"id": 1, "f": 1.5, "t": 2, "s": 3, "n": NOON, "st": {"a": 0.5}, "ar": [4, 5]})
    with sk.SqlSession(log, engine="local", settings={"streamkit.sql.dialect": "ksql"}) as found:
        yield found


CASES = [
    ("`f` + 1", "DOUBLE", 2.5),
    ("`t` + `s`", "INTEGER", 5),
    ("CAST(`f` AS DOUBLE)", "DOUBLE", 1.5),
    ("CAST(`f` AS STRING)", "STRING", "1.5"),
    ("CAST(`t` AS INT)", "INTEGER", 2),
    ("CAST(`s` AS BIGINT)", "BIGINT", 3),
    ("CAST(`s` AS DECIMAL(5, 1))", "DECIMAL(5, 1)", Decimal("3.0")),
    ("CAST(`n` AS STRING)", "STRING", "2026-01-01T12:00:00.000"),
    ("FORMAT_TIMESTAMP(`n`, 'yyyy')", "STRING", "2026"),
    ("`n` > '2025-12-31T00:00:00'", "BOOLEAN", True),
    ("`f` > `t`", "BOOLEAN", False),
    ("ABS(`s`)", "INTEGER", 3),
    ("`st`->`a` * 2", "DOUBLE", 1.0),
    ("TRANSFORM(`ar`, X => X + `t`)", "ARRAY<INTEGER>", [6, 7]),
    ("CASE WHEN `t` IN (1, 2) THEN `f` ELSE CAST(0 AS DOUBLE) END", "DOUBLE", 1.5),
    ("TO_JSON_STRING(`f`)", "STRING", "1.5"),
    ("TO_JSON_STRING(ARRAY[`t`, `s`])", "STRING", "[2,3]"),
    ("TO_JSON_STRING(`st`)", "STRING", '{"a":0.5}'),
    ("ARRAY_JOIN(`ar`, '+')", "STRING", "4+5"),
    ("JSON_ARRAY_CONTAINS('[1, 2]', `t`)", "BOOLEAN", True),
    ("JSON_ARRAY_CONTAINS('[1.5]', `f`)", "BOOLEAN", True),
    ("JSON_ARRAY_CONTAINS('[[2]]', ARRAY[`t`])", "BOOLEAN", False),
    ("`f`", "FLOAT", 1.5),
    ("`st`->`a`", "FLOAT", 0.5),
    ("`ar`[1]", "SMALLINT", 4),
    ("`n`", "TIMESTAMP_NTZ", NOON),
]


@pytest.mark.parametrize(("written", "type", "value"), CASES)
def test_an_expression_counts_them_as_the_nearest_type(sql, written, type, value):
    """An expression has its type and its value, run once and in the result of a query that runs."""
    assert sql.execute(f"SELECT {written} AS V FROM `topic`")[0].table.to_pylist() == [{"V": value}]
    sql.execute(f"CREATE STREAM R AS SELECT `id`, {written} AS V FROM `topic`")
    assert sql.catch_up(60)
    assert sql.execute("SELECT V FROM R")[0].table.to_pylist() == [{"V": value}]
    (shown,) = (one for one in sql.execute("SHOW STREAMS")[0].table.to_pylist() if one["stream"] == "R")
    assert shown["columns"] == f"`id` INTEGER, V {type}"


def test_aggregates_and_conditions_take_them(sql):
    """Sums, WHERE, GROUP BY and HAVING compute with them, once and going on."""
    query = "SELECT `t`, SUM(`f`) AS F, SUM(`s`) AS S, MAX(`s`) AS M FROM `topic` WHERE `f` > 1 GROUP BY `t` HAVING SUM(`s`) < 10"
    assert sql.execute(query)[0].table.to_pylist() == [{"t": 2, "F": 1.5, "S": 3, "M": 3}]
    sql.execute(f"CREATE TABLE R AS {query}")
    assert sql.catch_up(60)
    assert sql.execute("SELECT * FROM R")[0].table.to_pylist() == [{"t": 2, "F": 1.5, "S": 3, "M": 3}]


def test_values_are_inserted_where_they_fit(sql):
    """INSERT gives such columns what the nearest type has, and refuses a value that they do not hold."""
    sql.execute(
        "INSERT INTO `topic` (`id`, `f`, `t`, `s`, `n`, `st`, `ar`) VALUES (2, 2.5, 3, -4, '2026-01-01T12:00:00', STRUCT(`a` := 0.5), ARRAY[6])"
    )
    expected = {"id": 2, "f": 2.5, "t": 3, "s": -4, "n": NOON, "st": {"a": 0.5}, "ar": [6]}
    assert sql.execute("SELECT * FROM `topic` WHERE `id` = 2")[0].table.to_pylist() == [expected]
    for column, value in (("t", "128"), ("s", "ABS(-32769)"), ("f", "1e39"), ("ar", "ARRAY[1, 70000]")):
        with pytest.raises(SqlError, match=f"{column} is .*, which does not hold the value"):
            sql.execute(f"INSERT INTO `topic` (`id`, `{column}`) VALUES (3, {value})")


def test_what_they_cannot_do_is_told_in_the_nearest_type(sql):
    """A text beside such a number is refused as beside a number of ksqlDB."""
    with pytest.raises(SqlError, match=r"\+ does not go with DOUBLE and STRING"):
        sql.execute("SELECT `f` + 'a' FROM `topic`")
