"""A log with orders, and what Spark does with a source of data, done here without a JVM."""

from __future__ import annotations

import datetime as dt
import pickle
from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.pandas.types import from_arrow_schema

from streamkit.log.opening import open_log
from streamkit.spark.dataframe.source import TopicSource

T0 = dt.datetime(2026, 3, 1, tzinfo=dt.timezone.utc)
COLUMNS = ("user", "amount", "_timestamp", "_partition", "_offset", "_deleted")


def order(number):
    """An order, one a second."""
    return {"user": f"u{number % 7}", "amount": float(number), "_timestamp": T0 + dt.timedelta(seconds=number)}


@pytest.fixture
def log(tmp_path):
    """A log with the topic `orders` of three partitions, 40 orders in four commits, and the empty topic `copy`."""
    with open_log(tmp_path / "log") as opened:
        for name, partitions in (("orders", 3), ("copy", 2)):
            opened.create_topic(
                name, "user string, amount double", key="user", partitions=partitions, config={"retention.ms": -1}
            )
        for first in range(0, 40, 10):
            with opened.producer() as producer:
                producer.send_batch("orders", [order(number) for number in range(first, first + 10)])
        yield opened


def scatter(log):
    """Append orders in so many commits that a merge of the topic has something to do."""
    for number in range(100, 130):
        with log.producer() as producer:
            producer.send_batch("orders", [order(number + step) for step in range(3)])


@pytest.fixture
def source(log):
    """Makes the source of a topic with some options."""

    def make(topic="orders", **options):
        return TopicSource({"topic": topic, "log": log.root, **options})

    return make


def spark_schema(ddl_schema):
    """The type of rows as Spark has it, of an Arrow schema."""
    return from_arrow_schema(ddl_schema)


ROW = spark_schema(
    pa.schema(
        [
            ("user", pa.string()), ("amount", pa.float64()), ("_timestamp", pa.timestamp("us", "UTC")), ("_partition", pa.int32()),
            ("_offset", pa.int64()), ("_deleted", pa.bool_()),
        ]
    )
)  # fmt: skip
WRITTEN = spark_schema(pa.schema([("user", pa.string()), ("amount", pa.float64())]))


def rows_of(reader, partitions):
    """What the tasks of a read give, as Spark runs them: reader and partitions have travelled."""
    reader = pickle.loads(pickle.dumps(reader))
    tasks = pickle.loads(pickle.dumps(list(partitions)))
    return [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]


def read(source, schema=ROW):
    """The rows of a batch read."""
    reader = source.reader(schema)
    return rows_of(reader, reader.partitions())


def batch(*numbers):
    """Rows as Spark gives them to a task of a write."""
    rows = [order(number) for number in numbers]
    return pa.RecordBatch.from_pylist([{"user": row["user"], "amount": row["amount"]} for row in rows], WRITTEN_ARROW)


WRITTEN_ARROW = pa.schema([("user", pa.string()), ("amount", pa.float64())])


def staged(writer, *tasks):
    """The writer as it is at the commit, and the messages of its tasks."""
    writer = pickle.loads(pickle.dumps(writer))
    return writer, [pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(writer)).write(iter(rows)))) for rows in tasks]


def write(source, *tasks):
    """Write the rows of some tasks as one job."""
    writer, messages = staged(source.writer(WRITTEN, False), *tasks)
    writer.commit(messages)


@dataclass
class Query:
    """A streaming query that writes to the topic `copy`: its checkpoint has the query's id and the batches."""

    source: TopicSource
    query_id: str = "a1"

    def planned(self):
        """The writer of the tasks of a batch, as it arrives there."""
        return pickle.loads(pickle.dumps(self.source.streamWriter(WRITTEN, False)))

    def staged(self, batch_id, tasks, writer=None):
        """The messages of the tasks of a batch, of which each is given its rows."""
        writer = writer or self.planned()
        return [self._run(writer, batch_id, number, rows) for number, rows in enumerate(tasks)]

    def commit(self, batch_id, messages):
        pickle.loads(pickle.dumps(self.source)).streamWriter(WRITTEN, False).commit(messages, batch_id)

    def run(self, batch_id, *tasks):
        self.commit(batch_id, self.staged(batch_id, tasks))

    def _run(self, writer, batch_id, number, rows):
        context = TaskContext._getOrCreate()
        context._partitionId = number
        context._localProperties = {"sql.streaming.queryId": self.query_id, "streaming.sql.batchId": str(batch_id)}
        try:
            return pickle.loads(pickle.dumps(writer.write(iter(rows))))
        finally:
            TaskContext._taskContext = None


def amounts(log, topic="copy"):
    """The amounts of a topic, in order."""
    return sorted(log.read(topic)["amount"].to_pylist())
