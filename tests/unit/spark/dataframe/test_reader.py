"""Reading a topic as a batch: the rows that `log.read` gives, planned by the driver, read by tasks without the catalog."""

from __future__ import annotations

import datetime as dt
import operator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import ConfigError, CorruptionError, OffsetOutOfRangeError, SchemaError
from streamkit.log.consume.reader import read_placed
from streamkit.log.log import Log
from streamkit.log.topic.topic import Topic
from streamkit.spark.dataframe import scan
from streamkit.spark.dataframe.options import ReadOptions
from streamkit.spark.dataframe.source import TopicSource
from streamkit.spark.dataframe.table import table_schema
from tests.kit.engine_run import fresh_log
from tests.kit.sampling import examples
from tests.unit.spark.dataframe.conftest import COLUMNS, ROW, T0, order, read, rows_of, scatter, spark_schema


def expected(log, **bounds):
    """What the log itself gives."""
    table = pa.concat_tables([pa.Table.from_batches([one]) for one in log.scan("orders", **bounds)])
    return table.select(COLUMNS).to_pylist()


def pieces(partitions):
    """How many frames each task reads."""
    return [len(partition.pieces) for partition in partitions]


def test_schema(source):
    """The topic's columns, then time and place of each row; headers on request; all may be null, as in a tombstone."""
    places = "`_timestamp` timestamp, `_partition` int, `_offset` bigint, `_deleted` boolean"
    assert source().schema() == f"`user` string, `amount` double, {places}"
    headers = "`_headers` array<struct<key:string,value:binary>>"
    assert source(includeHeaders="true").schema() == f"`user` string, `amount` double, {places}, {headers}"
    assert source(columns="_offset, user").schema() == "`_offset` bigint, `user` string"
    with pytest.raises(SchemaError, match="has no column 'price'; it has user, amount, _timestamp"):
        source(columns="price").schema()


def test_all_rows(log, source):
    """All rows, tombstones too, in the order of the log."""
    with log.producer() as producer:
        producer.delete("orders", {"user": "u3"}, timestamp_ms=1_772_323_200_000)
    assert read(source()) == expected(log)


def test_tasks_read_without_the_catalog(log, source, monkeypatch):
    """What the driver planned is all that tasks need; a task has frames of one partition, not too many bytes."""
    monkeypatch.setattr(scan, "PARTITION_BYTES", 1)
    reader = source().reader(ROW)
    partitions = reader.partitions()
    wanted = expected(log)
    monkeypatch.setattr(Log, "__init__", None)
    assert pieces(partitions) == [1] * 12
    assert rows_of(reader, partitions) == wanted


def test_offsets(log, source):
    """Offsets by partition bound what is read; a partition that is not named is read whole."""
    found = read(source(startingOffsets='{"0": 5}', endingOffsets='{"0": 9, "2": 3}'))
    assert found == expected(log, start={0: 5}, end={0: 9, 2: 3})


def test_times(log, source):
    """Rows of other times are left out, and frames of other times are not planned."""
    start, end = T0 + dt.timedelta(seconds=12), T0 + dt.timedelta(seconds=15)
    reader = source(startingTimestamp=start.isoformat(), endingTimestamp=end.isoformat()).reader(ROW)
    partitions = reader.partitions()
    assert rows_of(reader, partitions) == expected(log, start_time=start, end_time=end)
    assert sum(pieces(partitions)) == 3


def test_where_chooses_what_is_read(log, source):
    """Comparisons of time, partition and offset choose frames; the rows are those for which the whole condition is true."""
    condition = (
        "_timestamp >= timestamp'2026-03-01 00:00:25' and _partition in (0, 2, 7) and _offset < 12 and upper(user) != 'U1'"
    )
    reader = source(where=condition).reader(ROW)
    wanted = expected(log, partitions=[0, 2], end=12, start_time=T0 + dt.timedelta(seconds=25))
    wanted = [row for row in wanted if row["user"] != "u1"]
    partitions = reader.partitions()
    assert rows_of(reader, partitions) == wanted
    assert len(wanted) > 3
    assert sum(pieces(partitions)) < 8


MOMENT = st.integers(-1_500, 41_500).map(lambda ms: T0 + dt.timedelta(milliseconds=ms))
CONSTANTS = {
    "_timestamp": MOMENT.map(lambda time: (f"timestamp'{time:%Y-%m-%d %H:%M:%S.%f}'", time)),
    "_partition": (st.integers(-1, 4) | st.sampled_from([-(1 << 31), (1 << 31) - 1])).map(lambda number: (str(number), number)),
    "_offset": (st.integers(-2, 20) | st.sampled_from([-(1 << 63) + 1, (1 << 63) - 1])).map(
        lambda number: (f"{number}L", number)
    ),
    "user": st.integers(0, 8).map(lambda number: (f"'u{number}'", f"u{number}")),
    "amount": st.integers(-4, 90).map(lambda number: (f"{number / 2}D", number / 2)),
}
SIGNS = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@st.composite
def comparison(draw):
    """A comparison as SQL, and what Python says of a row; null passes none."""
    name, sign = draw(st.sampled_from([*CONSTANTS])), draw(st.sampled_from([*SIGNS, "in"]))
    if sign == "in":
        texts, values = zip(*draw(st.lists(CONSTANTS[name], min_size=1, max_size=3)), strict=True)
        return f"{name} in ({', '.join(texts)})", lambda row: row[name] is not None and row[name] in values
    text, value = draw(CONSTANTS[name])
    sql = draw(st.sampled_from([f"{name} {sign} {text}", f"{text} {TURNED.get(sign, sign)} {name}"]))
    return sql, lambda row: row[name] is not None and SIGNS[sign](row[name], value)


@st.composite
def condition(draw):
    """Comparisons joined by and, some of them by or."""
    texts, checks = [], []
    for _ in range(draw(st.integers(1, 4))):
        (left, is_left), (right, is_right) = draw(comparison()), draw(comparison())
        text, check = draw(
            st.sampled_from([(left, is_left), (f"({left} or {right})", lambda row, a=is_left, b=is_right: a(row) or b(row))])
        )
        texts.append(text)
        checks.append(check)
    return " and ".join(texts), lambda row: all(check(row) for check in checks)


@examples(400)
@given(condition())
def test_where_of_all_kinds(read_only, some):
    """Whatever is compared, a row is read if and only if the condition is true of it, and deletions have null in their columns."""
    text, is_wanted = some
    log, make = read_only
    assert read(make(where=text)) == [row for row in expected(log) if is_wanted(row)], text


@pytest.mark.parametrize(
    ("text", "is_wanted"),
    [
        ("_offset = -2", False),
        ("_offset >= -2", True),
        ("_offset < 0", False),
        ("_offset > 1000", False),
        ("_offset <= 9223372036854775807", True),
        ("_offset > 9223372036854775807", False),
        ("_partition = -1", False),
        ("_partition > 2147483647L", False),
        ("_partition between -2147483648 and 2147483647", True),
    ],
)
def test_where_with_numbers_that_no_row_has(read_only, text, is_wanted):
    """A condition compares with any number: an offset or partition that the topic does not have is no error."""
    log, make = read_only
    assert read(make(where=text)) == (expected(log) if is_wanted else [])


@pytest.fixture(scope="module")
def read_only():
    """A log that no test changes: orders, and some deletions."""
    with fresh_log(on_disk=True) as opened:
        opened.create_topic("orders", "user string, amount double", key="user", partitions=3, config={"retention.ms": -1})
        for first in range(0, 40, 10):
            with opened.producer() as producer:
                producer.send_batch("orders", [order(number) for number in range(first, first + 10)])
                producer.delete("orders", {"user": f"u{first // 10}"}, timestamp_ms=int(T0.timestamp() * 1000) + first * 1000)
        yield opened, lambda **options: TopicSource({"topic": "orders", "log": opened.root, **options})


def test_where_needs_columns_that_are_not_asked_for(log, source):
    """A condition may name columns that are not among those read, headers too."""
    log.alter_topic("copy", schema="user string, amount double, note string")
    with log.producer() as producer:
        producer.send_batch(
            "copy",
            [{"user": f"u{n}", "amount": None, "note": None, "_headers": [("h", b"1")] if n % 2 else None} for n in range(6)],
        )
    users = spark_schema(pa.schema([("user", pa.string())]))
    text = "size(_headers) = 1 and note is null and not _deleted and user > 'u1'"
    found = read(source("copy", columns="user", where=text), users)
    assert sorted(row["user"] for row in found) == ["u3", "u5"]
    assert len(read(source("copy", columns="user", where="true"), users)) == 6
    assert read(source("copy", columns="user", where="null"), users) == []


def test_where_that_cannot_be_said(source):
    """What is wrong is named, with the columns that there are; it is said when the DataFrame is made."""
    with pytest.raises(
        ConfigError, match="where is 'price > 3': there is no column 'price'; the columns are user, amount, _time"
    ):
        source(where="price > 3").schema()
    with pytest.raises(ConfigError, match="a condition must be boolean; 'amount' is double"):
        source(where="amount").schema()
    with pytest.raises(ConfigError, match="where is 'amount >': syntax error"):
        source(where="amount >").schema()
    with pytest.raises(ConfigError, match="where is 'nofunction"):
        source(where="nofunction(user)").reader(ROW).partitions()
    with pytest.raises(ConfigError, match="the option where is unknown; a stream"):
        source(where="amount > 1").streamReader(ROW)


def test_filter_below_what_retention_has_left(log, source):
    """A condition that lets deleted offsets through is no error; an offset of the options is."""
    log.delete_records("orders", {0: 4})
    assert read(source(where="_offset >= 1")) == [row for row in expected(log) if row["_offset"] >= 1]
    with pytest.raises(OffsetOutOfRangeError, match="topic orders, partition 0: offset 1 was deleted"):
        source(startingOffsets='{"0": 1}').reader(ROW).partitions()


def test_columns_are_pruned(log, source, monkeypatch):
    """Of a frame only the columns asked for are decoded, in the order asked for, by option or by a schema of the user."""
    seen = []

    def noted(storage, topic, columns, *place):
        seen.append(columns)
        return read_placed(storage, topic, columns, *place)

    monkeypatch.setattr(scan, "read_placed", noted)
    schema = spark_schema(pa.schema([("_offset", pa.int64()), ("user", pa.string())]))
    partitions = source(columns="_offset,user").reader(schema).partitions()
    rows = [row for task in partitions for part in scan.read_scan(task) for row in part.to_pylist()]
    assert rows == [{"_offset": row["_offset"], "user": row["user"]} for row in expected(log)]
    assert {tuple(names) for names in seen} == {("user",)}


def test_schema_of_the_user(source):
    """A schema that names another type, or a column that there is not, is refused with both."""
    with pytest.raises(SchemaError, match="asks for amount float, expected double"):
        source().reader(spark_schema(pa.schema([("amount", pa.float32())]))).partitions()
    with pytest.raises(SchemaError, match="no column 'price'"):
        source().reader(spark_schema(pa.schema([("price", pa.float32())]))).partitions()


def test_every_type(log, source):
    """Each type of a column comes as Spark expects it, nested ones and headers too."""
    types = [
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "string",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
        "decimal(9,2)",
    ]
    nested = ["array<string>", "map<string,int>", "struct<a:int,b:array<timestamp>>", "array<map<string,struct<c:decimal(4,1)>>>"]
    ddl = ", ".join(f"c{number} {name}" for number, name in enumerate([*types, *nested]))
    topic = log.create_topic("types", ddl)
    row = dict.fromkeys(topic.schema.names) | {"c13": ["a", None], "c14": {"k": 1}, "c15": {"a": 1, "b": [T0]}, "c4": 1}
    with log.producer() as producer:
        producer.send_batch("types", [row | {"_headers": [("h", b"1")], "_timestamp": T0}, row])
    schema = spark_schema(table_schema(topic, ReadOptions("types", has_headers=True)).arrow)
    first, second = sorted(read(source("types", includeHeaders="true"), schema), key=lambda found: found["_offset"])
    assert first["c15"] == {"a": 1, "b": [T0]} and first["c14"] == [("k", 1)] and first["_timestamp"] == T0
    assert first["_headers"] == [{"key": "h", "value": b"1"}] and second["_headers"] is None


def test_snapshot(log, source, slabs_in_files):
    """What is committed after the plan is not read; what was merged since is, while its old file waits in the trash."""
    scatter(log)
    reader = source().reader(ROW)
    partitions, wanted = reader.partitions(), expected(log)
    with log.producer() as producer:
        producer.send_batch("orders", [order(99)])
    assert log.merge("orders").swaps
    assert rows_of(reader, partitions) == wanted
    for path in log.catalog.manifest.trash(1 << 62):
        log.storage.delete(path)
    with pytest.raises(CorruptionError, match="make the DataFrame again"):
        rows_of(reader, partitions)


def test_topic_that_grew(log, source):
    """Rows from before a column was added have null there."""
    log.alter_topic("orders", schema="user string, amount double, note string")
    topic: Topic = log.topic("orders")
    rows = read(source(), spark_schema(table_schema(topic, ReadOptions("orders")).arrow))
    assert [row.pop("note") for row in rows] == [None] * 40 and rows == expected(log)


def test_empty_topic(source):
    """A topic without rows has no tasks; Spark makes one of its own, which gives nothing."""
    reader = source("copy").reader(ROW)
    assert reader.partitions() == []
    assert list(reader.read(None)) == []
