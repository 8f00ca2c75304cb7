"""Reading a topic as a batch: the rows that `log.read` gives, planned by the driver, read by tasks without the catalog."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from pyspark.sql.datasource import GreaterThanOrEqual, In, LessThan

from streamkit.errors import CorruptionError, OffsetOutOfRangeError, SchemaError
from streamkit.log.consume.reader import read_placed
from streamkit.log.log import Log
from streamkit.log.topic.topic import Topic
from streamkit.spark.dataframe import scan
from streamkit.spark.dataframe.batch_reader import FilteringReader
from streamkit.spark.dataframe.options import ReadOptions, read_options
from streamkit.spark.dataframe.table import table_schema
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


def test_filters_are_pushed_into_the_plan(log, source):
    """Comparisons of time, partition and offset choose frames and rows; the others come back to Spark."""
    reader = FilteringReader(read_options(source().options), ROW)
    other = In(("user",), ("u1",))
    left = reader.pushFilters(
        [GreaterThanOrEqual(("_timestamp",), T0 + dt.timedelta(seconds=25)), In(("_partition",), (0, 2, 7)), LessThan(("_offset",), 12), other]
    )  # fmt: skip
    wanted = expected(log, partitions=[0, 2], end=12, start_time=T0 + dt.timedelta(seconds=25))
    partitions = reader.partitions()
    assert left == [other]
    assert rows_of(reader, partitions) == wanted
    assert len(wanted) > 3
    assert sum(pieces(partitions)) < 8


def test_filter_below_what_retention_has_left(log, source):
    """A filter that lets deleted offsets through is no error; an offset of the options is."""
    log.delete_records("orders", {0: 4})
    reader = FilteringReader(read_options(source().options), ROW)
    reader.pushFilters([GreaterThanOrEqual(("_offset",), 1)])
    assert rows_of(reader, reader.partitions()) == [row for row in expected(log) if row["_offset"] >= 1]
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
