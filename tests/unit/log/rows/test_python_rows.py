"""Promises about single Python rows: the quick way takes what the long way takes, and refuses what that refuses."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from streamkit.clock import HandClock
from streamkit.errors import RecordTooLargeError, SchemaError
from streamkit.log.opening import open_log
from streamkit.log.rows.python_rows import RowReader
from streamkit.log.rows.record_size import fixed_bytes, record_bytes
from streamkit.log.rows.records import records_of
from streamkit.log.topic.topic import declare_topic

NOW_MS = 1_800_000_000_000
UTC = dt.timezone.utc
BERLIN = dt.timezone(dt.timedelta(hours=1))
TYPES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp", "timestamp_ntz",
    "decimal(5,2)", "decimal(38,0)", "decimal(38,18)", "decimal(38,38)",
)  # fmt: skip
FLOAT_MAX = float(np.finfo(np.float32).max)
VALUES: list[Any] = [
    None, True, 0, 1, -1, 127, 128, -129, 2**15, 2**31, -(2**31), 2**53, 2**53 + 1, 2**63 - 1, 2**63, 1.0, 0.1, 1.5, 1e300, float("nan"), float("inf"),
    FLOAT_MAX, FLOAT_MAX * (1 + 1e-9), 2.0**128 - 2.0**103, -(2.0**128), pd.Timestamp(1, unit="ns"), pd.Timestamp(1, unit="us"),
    "", "a", "é", "\ud800", "x" * 100, b"", b"ab", bytearray(b"c"), dt.date(2013, 1, 1), dt.datetime(2013, 1, 1),
    dt.datetime(2013, 1, 1, tzinfo=UTC), dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(9999, 12, 31, 23, tzinfo=BERLIN),
    decimal.Decimal("1.25"), decimal.Decimal("1.257"), decimal.Decimal(1000), decimal.Decimal("NaN"),
    *map(decimal.Decimal, ("1e-41", "1e-61", "0e-99", "0e-200000000", "1e-10000000", "1e-400000000", "1e400000000", "9.6e21", "0.1", "5e-12725")),
    decimal.Decimal("0.000" + "9" * 38), decimal.Decimal((0, (5, *(0,) * 37), -12725)), np.int64(5), np.float32(0.5), [1], {},
]  # fmt: skip


@pytest.mark.parametrize("type_name", TYPES)
def test_both_ways_agree_on_every_value(type_name):
    """For each type and value: what the quick way takes is what the long way makes of it, of the same size; what the long way refuses, it leaves."""
    topic = declare_topic("t", f"v {type_name}, w string")
    reader = RowReader(topic, NOW_MS)
    taken = []
    for value in VALUES:
        row = {"v": value, "w": "é"}
        found = reader.read(row, 7)
        try:
            (expected,) = records_of(topic, [row], 7)
        except SchemaError:
            assert found is None, value
            continue
        if found is not None:
            batch = reader.batch([found[0]], 0)
            assert batch.equals(expected) or (batch.to_pylist()[0]["v"] != value and str(batch) == str(expected)), value
            assert record_bytes(topic, expected).tolist() == [found[1]], value
            taken.append(found)
    assert len(taken) > 1
    together = reader.batch([values for values, _ in taken], 0)
    assert together.num_rows == len(taken)


@pytest.mark.parametrize(
    "row",
    [
        {"user": "a", "n": 1, "x": None},
        {"user": None, "n": 1, "x": 1.0},
        {"user": "a", "n": 1},
        {"user": "a", "n": 1, "y": 1.0},
        {"user": "a", "n": 1, "x": 1.0, "_timestamp": 5},
        {"user": "a", "n": 1, "x": 1.0, "z": 1},
    ],
    ids=str,
)
def test_unusual_rows_go_the_long_way(row):
    """Missing, further and null columns where there must be a value are left to the way that can say what is wrong."""
    topic = declare_topic("t", "user string, n int, x double not null", key="user", config={"cleanup.policy": "compact"})
    assert RowReader(topic, NOW_MS).read({"user": "a", "n": 1, "x": 1.0}, 0) is not None
    assert RowReader(topic, NOW_MS).read(row, 0) is None


def test_columns_may_have_any_names():
    """Names that mean something in Python are names of columns, no code."""
    names = ("None", "row", "v0", "a'b", 'a"b', "{row}", "x\\", "é", "x]; raise SystemExit #")
    columns = [(name, pa.int32()) for name in names] + [("{v0}", pa.string())]
    topic = declare_topic("t", pa.schema(columns), config={"max.message.bytes": 100})
    row = {name: number for number, name in enumerate(names)} | {"{v0}": "text"}
    reader = RowReader(topic, NOW_MS)
    assert reader.read(row, 7) == ((*range(len(names)), "text", 7), 8 + 4 * len(names) + 4)
    assert reader.read(row | {"x\\": "1"}, 7) is None and reader.read(row | {"{v0}": "x" * 100}, 7) is None


def test_rows_with_nulls_are_plain():
    """A null where there may be one, and a whole number for a double, are no reason to look again; a null elsewhere is."""
    topic = declare_topic("t", "a string, b binary, c int not null, d double, e boolean, f date, g decimal(5,2)")
    reader = RowReader(topic, NOW_MS)
    row: dict[str, Any] = {"a": "é", "b": b"123", "c": 1, "d": 1, "e": True, "f": None, "g": decimal.Decimal("1.25")}
    fixed = fixed_bytes(topic.schema)
    assert reader.read(row, 7) == ((*row.values(), 7), fixed + 5)
    assert reader.read(dict.fromkeys(row) | {"c": 2}, 7) == ((None, None, 2, None, None, None, None, 7), fixed)
    assert reader.read(row | {"c": None}, 7) is None
    assert reader.read(row | {"d": 2**53 + 1}, 7) is None


def test_a_row_without_its_event_time_goes_the_long_way():
    """The column that has the event time may be nullable; a row in which it is null has none, which the long way says."""
    reader = RowReader(declare_topic("t", "ts timestamp, n int", timestamp="ts"), NOW_MS)
    assert reader.read({"ts": dt.datetime(2013, 1, 1, tzinfo=UTC), "n": None}, 0) is not None
    assert reader.read({"ts": None, "n": 1}, 0) is None


def test_one_part_of_a_key_may_be_null():
    """A compacted topic needs a key in each row, of which a part may be null; a topic that is not compacted needs none."""
    for policy, expected in (("compact", None), ("delete", ((None, None, 1, 7), 12))):
        topic = declare_topic("t", "a string, b string, n int", key=["a", "b"], config={"cleanup.policy": policy})
        reader = RowReader(topic, NOW_MS)
        assert reader.read({"a": None, "b": "x", "n": 1}, 7) == ((None, "x", 1, 7), 13)
        assert reader.read({"a": None, "b": None, "n": 1}, 7) == expected


def test_rows_may_have_thousands_of_columns():
    """What is written out for each column does not nest."""
    names = [f"c{number}" for number in range(4_000)]
    topic = declare_topic("t", pa.schema([(name, pa.binary()) for name in names]))
    values = [b"ab"] * len(names)
    row = dict(zip(names, values, strict=True))
    assert RowReader(topic, NOW_MS).read(row, 7) == ((*values, 7), 8 + 2 * len(names))


def test_rows_are_taken_as_they_are_when_sent():
    """What the caller does to a row afterwards changes nothing; a bad row is refused at send, and those around it arrive."""
    log = open_log(":memory:", HandClock(5))
    log.create_topic("t", "user string, n int", key="user", partitions=2)
    row = {"user": "a", "n": 1}
    with log.producer() as producer:
        producer.send("t", row)
        row["n"] = 2
        producer.send("t", row)
        with pytest.raises(SchemaError, match="topic t: row 0, column 'n': found 2147483648"):
            producer.send("t", {"user": "a", "n": 2**31})
        with pytest.raises(SchemaError, match="no column 'n'"):
            producer.send("t", {"user": "a"})
        producer.send("t", {"n": 3, "user": "a"}, timestamp_ms=9)
        producer.send("t", {"n": 4, "user": "a", "_headers": [("trace", b"1")]})
        producer.delete("t", {"user": "a"})
        producer.send("t", {"n": 5, "user": "a"})
    table = log.read("t", columns=["n", "_headers"])
    assert table["n"].to_pylist() == [1, 2, 3, 4, None, 5]
    assert table["_timestamp"].cast(pa.int64()).to_pylist() == [5, 5, 9, 5, 5, 5]
    assert table["_headers"].to_pylist()[3] == [{"key": "trace", "value": b"1"}]


def test_event_times_come_from_the_topic():
    """Quick rows have the time of the topic's column, of the append, or of the send, as batches have."""
    at = dt.datetime(2013, 1, 1, tzinfo=UTC)
    clock = HandClock(NOW_MS)
    log = open_log(":memory:", clock)
    log.create_topic("timed", "ts timestamp", timestamp="ts", partitions=1)
    log.create_topic("appended", "ts timestamp", partitions=1, config={"message.timestamp.type": "LogAppendTime"})
    with log.producer() as producer:
        producer.send("timed", {"ts": at})
        producer.send("appended", {"ts": at}, timestamp_ms=3)
        clock.advance(10)
    assert log.read("timed")["_timestamp"].to_pylist() == [at]
    assert log.read("appended")["_timestamp"].cast(pa.int64()).to_pylist() == [NOW_MS + 10]


def test_a_topic_that_changes_changes_the_rows():
    """After the producer looks at the topic again, rows are read by its new declaration, also when older ones still wait."""
    log = open_log(":memory:", HandClock(5))
    log.create_topic("t", "a int", partitions=1)
    producer = log.producer()
    producer.send("t", {"a": 1})
    producer._readers.clear()
    producer.send("t", {"a": 2})
    producer.flush()
    assert log.read("t")["a"].to_pylist() == [1, 2]


LIMIT = 8 + 8 + 100  # event time, n, text


@pytest.mark.parametrize("way", ["quick", "rows", "arrow"])
def test_records_beyond_the_limit_are_refused(way):
    """max.message.bytes is the size of a record: one of that size is taken, one byte more is refused, with row, size and limit."""
    log = open_log(":memory:", HandClock(5))
    log.create_topic("t", "n bigint, text string", partitions=1, config={"max.message.bytes": LIMIT})
    rows = [{"n": number, "text": "é" * 50 + ("!" if number in (3, 5) else "")} for number in range(7)]
    producer = log.producer()
    if way == "quick":
        for row in rows[:3]:
            producer.send("t", row)
        with pytest.raises(
            RecordTooLargeError, match=f"row 0 takes {LIMIT + 1} bytes, the topic allows max.message.bytes={LIMIT}"
        ):
            producer.send("t", rows[3])
    else:
        data = pa.Table.from_pylist(rows) if way == "arrow" else rows
        producer.send_batch("t", data[:3])
        with pytest.raises(
            RecordTooLargeError, match=f"topic t: row 3 takes {LIMIT + 1} bytes.*rows that do not fit are 3, 5"
        ) as refused:
            producer.send_batch("t", data)
        assert refused.value.rows == (3, 5) and isinstance(refused.value, SchemaError)
    producer.flush()
    assert log.read("t")["n"].to_pylist() == [0, 1, 2]


def test_headers_count():
    """Names and values of headers are part of the size of a record, each record's own."""
    topic = declare_topic("t", "n bigint, b binary", config={"max.message.bytes": 30})
    headers = [None, [{"key": "a", "value": b"12"}, {"key": "b", "value": None}], [], [{"key": "abc", "value": b"x" * 12}]]
    data = pa.table({"n": [1, 2, 3, 4], "b": [b"12345", None, b"", b""], "_headers": pa.array(headers)})

    assert record_bytes(topic, records_of(topic, data.slice(0, 3), 0)[0]).tolist() == [21, 20, 16]
    with pytest.raises(RecordTooLargeError, match="row 3 takes 31 bytes"):
        records_of(topic, data, 0)


@pytest.mark.parametrize("bad", [0, 1, 49, 98, 99])
@pytest.mark.parametrize("shape", ["rows", "arrow", "pandas"])
def test_a_bad_record_is_named_wherever_it_is(bad, shape):
    """One bad record at any position of a batch: the batch is refused whole, and the error has its index."""
    topic = declare_topic("t", "a string, n int")
    rows = [{"a": "x", "n": 2**40 if number == bad else number} for number in range(100)]
    data = {"rows": rows, "arrow": pa.Table.from_pylist(rows), "pandas": pa.Table.from_pylist(rows).to_pandas()}[shape]
    with pytest.raises(SchemaError, match=f"row {bad}, column 'n'") as refused:
        records_of(topic, data, 0)
    assert refused.value.rows == (bad,)


def test_many_bad_records_are_listed():
    """The first ten rows that do not fit are listed, whatever is wrong with each, also over chunks."""
    topic = declare_topic("t", "a string not null, n int")
    rows = [{"a": None if number % 10 == 3 else "x", "n": 2**40 if number % 10 == 7 else 1} for number in range(200)]
    table = pa.concat_tables([pa.Table.from_pylist(rows[:50]), pa.Table.from_pylist(rows[50:])])
    for data in (rows, table):
        with pytest.raises(
            SchemaError, match="the first 10 rows that do not fit are 3, 7, 13, 17, 23, 27, 33, 37, 43, 47"
        ) as refused:
            records_of(topic, data, 0)
        assert len(refused.value.rows) == 10
