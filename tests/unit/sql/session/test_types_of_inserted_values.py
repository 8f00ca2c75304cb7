"""Which values of VALUES a column accepts, by their types."""

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


@pytest.mark.parametrize(
    ("type", "value", "advice"),
    [
        ("TIMESTAMP", "1767225600000", "TIMESTAMP_MILLIS"),
        ("TIMESTAMP", "1767225600", "TIMESTAMP_SECONDS"),
        ("TIMESTAMP", "-1.5", "'2026-01-31 12:00:00'"),
        ("TIMESTAMP", "1e9", "TIMESTAMP_MILLIS"),
        ("TIMESTAMP", "1 + 1", "TIMESTAMP_MILLIS"),
        ("DATE", "20000", "DATE_FROM_UNIX_DATE"),
        ("TIMESTAMP_NTZ", "5", "'2026-01-31 12:00:00'"),
        ("ARRAY<TIMESTAMP>", "ARRAY(5)", "TIMESTAMP_MILLIS"),
        ("MAP<STRING, TIMESTAMP>", "MAP('x', 5)", "TIMESTAMP_MILLIS"),
        ("MAP<TIMESTAMP, STRING>", "MAP(5, 'x')", "TIMESTAMP_MILLIS"),
        ("STRUCT<a INT, at TIMESTAMP>", "STRUCT(1, 5)", "TIMESTAMP_MILLIS"),
        ("ARRAY<STRUCT<at DATE>>", "ARRAY(NAMED_STRUCT('at', 5))", "DATE_FROM_UNIX_DATE"),
        ("BIGINT", "TIMESTAMP '2026-01-31 12:00:00'", "UNIX_MILLIS"),
        ("DOUBLE", "TIMESTAMP '2026-01-31 12:00:00'", "UNIX_SECONDS"),
        ("DECIMAL(20, 3)", "TIMESTAMP '2026-01-31 12:00:00'", "UNIX_SECONDS"),
        ("INT", "DATE '2026-01-31'", "UNIX_DATE"),
        ("ARRAY<BIGINT>", "ARRAY(TIMESTAMP '2026-01-31 12:00:00')", "UNIX_MILLIS"),
    ],
)
@pytest.mark.parametrize("count", [1, 2])
def test_numbers_and_times_of_the_spark_dialect_become_each_other_by_functions_alone(
    type: str, value: str, advice: str, count: int
) -> None:
    """A number says no unit: ksqlDB means milliseconds, and a CAST of Spark seconds; Spark's own INSERT refuses it, too."""
    with sk.open_log(":memory:") as log, sk.SqlSession(log) as sql:
        sql.execute(f"CREATE STREAM s (k INT KEY, v {type}) WITH (PARTITIONS = 1)")
        with pytest.raises(SqlError, match=r"v is .*, and the value .*; expected ") as caught:
            sql.execute(f"INSERT INTO s VALUES {', '.join([f'(1, {value})'] * count)}")
        assert advice in str(caught.value) and caught.value.faults[0].at.column == 26
        assert log.end_offsets("s") == {0: 0}


NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.timezone.utc)


@pytest.mark.parametrize(
    ("type", "value", "found"),
    [
        ("TIMESTAMP", "'2026-01-31 12:00:00'", NOON),
        ("TIMESTAMP", "TIMESTAMP_MILLIS(1769860800000)", NOON),
        ("TIMESTAMP", "TIMESTAMP_SECONDS(1769860800)", NOON),
        ("TIMESTAMP", "CAST(1769860800 AS TIMESTAMP)", NOON),
        ("TIMESTAMP", "DATE '1970-01-01'", dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)),
        ("TIMESTAMP", "NULL", None),
        ("TIMESTAMP_NTZ", "'2026-01-31 12:00:00'", NOON.replace(tzinfo=None)),
        ("DATE", "DATE_FROM_UNIX_DATE(1)", dt.date(1970, 1, 2)),
        ("ARRAY<TIMESTAMP>", "ARRAY('2026-01-31 12:00:00', NULL)", [NOON, None]),
        ("ARRAY<TIMESTAMP>", "ARRAY()", []),
        ("BIGINT", "UNIX_MILLIS(TIMESTAMP '2026-01-31 12:00:00')", 1769860800000),
        ("BIGINT", "UNIX_SECONDS(TIMESTAMP '2026-01-31 12:00:00')", 1769860800),
        ("INT", "UNIX_DATE(DATE '1970-01-02')", 1),
        ("BIGINT", "TRUE", 1),
    ],
)
def test_what_becomes_a_time_in_the_spark_dialect(type: str, value: str, found: object) -> None:
    """The functions and texts that errors name do, and so does a CAST that is written."""
    with sk.open_log(":memory:") as log, sk.SqlSession(log) as sql:
        sql.execute(f"CREATE STREAM s (k INT KEY, v {type}) WITH (PARTITIONS = 1); INSERT INTO s VALUES (1, {value})")
        assert sql.query("SELECT v FROM s").column(0).to_pylist() == [found]
