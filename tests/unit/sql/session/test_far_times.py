"""Dates and times outside the years 1 to 9999, which Python does not have: formats hold them, or say that they do not."""

from __future__ import annotations

import pytest

from streamkit.errors import SqlError

KSQL = "SET 'streamkit.sql.dialect' = 'ksql'; SET 'ksql.logging.processing.topic.auto.create' = 'true'; "
NUMBERS = "CREATE STREAM n (k STRING KEY, v INT) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 1); "
DAYS = (0, 2932896, 2932897, -719162, -719163, 100_000_000, -100_000_000)  # 9999-12-31 is day 2932896, 0001-01-01 day -719162
HELD = [day for day in DAYS if -719162 <= day <= 2932896]
VALUES = {
    "plain": ("FROM_DAYS(v) AS d, TIMESTAMPADD(DAYS, v, FROM_UNIXTIME(0)) AS t", "UNIX_DATE(d)", "UNIX_TIMESTAMP(t)"),
    "nested": (
        "STRUCT(x := ARRAY[FROM_DAYS(v)]) AS d, MAP('a' := TIMESTAMPADD(DAYS, v, FROM_UNIXTIME(0))) AS t",
        "UNIX_DATE(d->x[1])",
        "UNIX_TIMESTAMP(t['a'])",
    ),
}  # fmt: skip


def filled(sql, process, format, values):
    """What persistent queries have written in a format of the days, and read again by another one."""
    made, day, time = values
    sql.execute(f"{KSQL}{NUMBERS}CREATE STREAM d WITH (VALUE_FORMAT = '{format}') AS SELECT k, v, {made} FROM n")
    sql.execute(f"CREATE STREAM again AS SELECT k, v, {day} AS day, {time} AS ms FROM d")
    sql.execute("".join(f"INSERT INTO n VALUES ('{day}', {day});" for day in DAYS))
    process()
    return day, time


@pytest.mark.parametrize("values", VALUES.values(), ids=list(VALUES))
@pytest.mark.parametrize("format", ["JSON", "JSON_SR", "AVRO", "NATIVE"])
def test_far_times_are_written_and_read(sql, rows, process, format, values):
    """By queries that go on, by those that are run once, and by INSERT; nothing is left out."""
    day, time = filled(sql, process, format, values)
    expected = sorted((number, number, number * 86_400_000) for number in DAYS)

    assert sorted(rows(f"SELECT v, {day}, {time} FROM d")) == sorted(rows("SELECT v, day, ms FROM again")) == expected
    far = values[0].replace(" AS d", "").replace(" AS t", "").replace("(v)", "(2932897)").replace(" v,", " 2932897,")
    sql.execute(f"INSERT INTO d (k, v, d, t) VALUES ('x', -1, {far})")
    assert rows(f"SELECT {day}, {time} FROM d WHERE v = -1") == [(2932897, 2932897 * 86_400_000)]


@pytest.mark.parametrize("values", VALUES.values(), ids=list(VALUES))
def test_protobuf_has_the_years_1_to_9999(sql, rows, process, values):
    """As its messages of Google have; a row beyond them is left out, with an entry that says so, and INSERT is refused in the same words."""
    day, time = filled(sql, process, "PROTOBUF", values)
    words = r"google.type.Date, of the years 1 to 9999; found {} days from 1970"
    assert sorted(rows(f"SELECT v, {day}, {time} FROM d")) == sorted((number, number, number * 86_400_000) for number in HELD)
    told = [message for (message,) in rows("SELECT message FROM KSQL_PROCESSING_LOG")]
    assert len(told) == len(DAYS) - len(HELD)
    for number in set(DAYS) - set(HELD):
        assert any(words.format(number) in one for one in told)
    far = values[0].replace(" AS d", "").replace(" AS t", "").replace("(v)", "(2932897)").replace(" v,", " 0,")
    with pytest.raises(SqlError, match=words.format(2932897)):
        sql.execute(f"INSERT INTO d (k, v, d, t) VALUES ('x', -1, {far})")


@pytest.mark.parametrize(
    ("moment", "fits"), [(253402300799999, True), (253402300800000, False), (-62135596800000, True), (-62135596800001, False)]
)
def test_the_bound_of_times_in_protobuf(sql, rows, moment, fits):
    """A time fits up to the last millisecond of 9999, and from the first of the year 1 on."""
    sql.execute(f"{KSQL}CREATE STREAM s (k STRING KEY, t TIMESTAMP) WITH (VALUE_FORMAT = 'PROTOBUF', PARTITIONS = 1)")
    insert = f"INSERT INTO s VALUES ('a', FROM_UNIXTIME({moment}))"
    if fits:
        sql.execute(insert)
        assert rows("SELECT UNIX_TIMESTAMP(t) FROM s") == [(moment,)]
    else:
        with pytest.raises(SqlError, match=f"google.protobuf.Timestamp, of the years 1 to 9999; found {moment}000 µs from 1970"):
            sql.execute(insert)


@pytest.mark.parametrize("format", ["JSON", "CSV", "NATIVE"])
def test_the_spark_dialect_has_them_too(sql, rows, process, format):
    """There times are spelled, with a sign in front of such a year."""
    declared = ", VALUE_SCHEMA = 'v int, d date, t timestamp'" if format == "CSV" else ""
    sql.execute(
        "CREATE STREAM n (k STRING KEY, v INT) WITH (PARTITIONS = 1);"
        f"CREATE STREAM d WITH (VALUE_FORMAT = '{format}'{declared}) AS "
        "SELECT k, v, date_from_unix_date(v) AS d, timestamp_seconds(CAST(v AS BIGINT) * 86400) AS t FROM n"
    )
    sql.execute("".join(f"INSERT INTO n VALUES ('{day}', {day});" for day in DAYS))
    process()

    assert sorted(rows("SELECT v, unix_date(d), unix_seconds(t) FROM d")) == sorted((day, day, day * 86_400) for day in DAYS)


@pytest.mark.parametrize("format", ["JSON", "AVRO", "DELIMITED", "NATIVE"])
def test_print_shows_them(sql, format):
    """PRINT gives the record, and goes on to the next one."""
    sql.execute(f"{KSQL}CREATE STREAM s (k STRING KEY, d DATE, t TIMESTAMP) WITH (VALUE_FORMAT = '{format}', PARTITIONS = 1)")
    sql.execute(
        "INSERT INTO s VALUES ('a', FROM_DAYS(2932897), FROM_UNIXTIME(253402300800000)), ('b', FROM_DAYS(1), FROM_UNIXTIME(0))"
    )
    (result,) = sql.execute("PRINT S FROM BEGINNING LIMIT 2")
    assert sum(batch.num_rows for batch in result.subscription) == 2
