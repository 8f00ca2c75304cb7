"""Which values of VALUES a column of the ksql dialect accepts, by their types."""

from __future__ import annotations

import datetime as dt

import pytest

import streamkit as sk
from streamkit.errors import SqlError


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("BOOLEAN", "'true'"),
        ("BOOLEAN", "'x'"),
        ("BOOLEAN", "1"),
        ("INT", "'5'"),
        ("INT", "CAST(5 AS BIGINT)"),
        ("STRING", "5"),
        ("TIMESTAMP", "FROM_DAYS(5)"),
        ("DATE", "PARSE_TIMESTAMP('2020', 'yyyy')"),
        ("ARRAY<INT>", "ARRAY[1.5]"),
        ("ARRAY<STRING>", "ARRAY[1, 2]"),
        ("ARRAY<BOOLEAN>", "ARRAY['true']"),
        ("MAP<STRING, INT>", "MAP('a' := '1')"),
        ("STRUCT<F INT>", "STRUCT(F := '1')"),
        ("ARRAY<STRUCT<F BOOLEAN>>", "ARRAY[STRUCT(F := 'yes')]"),
        ("INT", "ARRAY[1]"),
    ],
)
def test_a_value_of_another_type_is_refused(type: str, value: str) -> None:
    """Nothing is inserted of what ksqlDB would want a CAST for, however deep it lies, and the error names both types."""
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute(f"CREATE STREAM s (k INT KEY, v {type}) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', PARTITIONS = 1);")
        with pytest.raises(SqlError, match=r"V is .*, and the value .*; expected one that becomes it, or a CAST"):
            sql.execute(f"INSERT INTO s VALUES (1, {value});")
        assert log.end_offsets("s") == {0: 0}


@pytest.mark.parametrize(
    ("type", "value", "found"),
    [
        ("BIGINT", "5", 5),
        ("DOUBLE", "1.5", 1.5),
        ("BOOLEAN", "NULL", None),
        ("BOOLEAN", "CAST('true' AS BOOLEAN)", True),
        ("DATE", "'2020-01-02'", dt.date(2020, 1, 2)),
        ("BYTES", "'AQ=='", b"\1"),
        ("ARRAY<DOUBLE>", "ARRAY[1, NULL]", [1.0, None]),
        ("ARRAY<DATE>", "ARRAY['2020-01-02']", [dt.date(2020, 1, 2)]),
        ("MAP<STRING, BIGINT>", "MAP('a' := 1)", [("a", 1)]),
        ("STRUCT<F BIGINT, G STRING>", "STRUCT(F := 1)", {"F": 1, "G": None}),
    ],
)
def test_a_value_that_becomes_the_type_is_kept(type: str, value: str, found: object) -> None:
    """Numbers widen, texts are read as times and as bytes, and a field that is not there is null."""
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute(f"CREATE STREAM s (k INT KEY, v {type}) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', PARTITIONS = 1);")
        sql.execute(f"INSERT INTO s VALUES (1, {value});")
        assert sql.query("SELECT v FROM s;").column(0).to_pylist() == [found]
