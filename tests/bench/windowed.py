"""`windowed`: a filtered one-minute count and sum per user, in StreamKit and in Spark's own aggregation on the same rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.streaming.query import StreamingQuery

import streamkit as sk
from streamkit import functions as sf
from streamkit.log.opening import open_log
from streamkit.log.slab.slab import read_frame
from streamkit.log.storage.storage import FileStorage
from tests.bench.rows import BATCH_ROWS, SCHEMA, TOPIC, Rows, log_of, parquet_of

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def topology(name: str, emission: str = "latest") -> sk.Topology:
    app = sk.Topology(name)
    (
        app.stream(TOPIC)
        .filter("amount > 10")
        .group_by("user")
        .windowed_by(sk.tumbling("1 minute", grace="0 seconds"))
        .agg(payments=sf.count("*"), total=sf.sum("amount"))
        .emit(emission)
        .to(f"{name}-totals")
    )
    return app


def streamkit_seconds(session: SparkSession, rows: Rows, folder: Path, epoch_records: int, name: str) -> list[float]:
    """Seconds of each epoch, the first one left out."""
    with open_log(str(log_of(rows, folder))) as log:
        running = sk.run(topology(name), session, log, tasks=2, trigger="available_now", max_records_per_epoch=epoch_records)
        running.wait()
        return steady_seconds(running.query)


def spark_seconds(rows: DataFrame, folder: Path, name: str) -> list[float]:
    """Seconds of each micro-batch of Spark's own aggregation, the first one left out."""
    checkpoint = folder / f"checkpoint-{name}"
    shutil.rmtree(checkpoint, ignore_errors=True)
    totals = rows.where("amount > 10").groupBy("user", F.date_trunc("minute", "ts")).agg(F.count("*"), F.sum("amount"))
    writer = totals.writeStream.outputMode("update").format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    shutil.rmtree(checkpoint, ignore_errors=True)
    return steady_seconds(query)


def parquet_stream(session: SparkSession, rows: Rows, folder: Path, batch_records: int) -> DataFrame:
    reader = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", batch_records // BATCH_ROWS)
    return reader.parquet(str(parquet_of(rows, folder)))


def topic_stream(session: SparkSession, rows: Rows, folder: Path, batch_records: int) -> DataFrame:
    """The log's topic as rows, through a plain Python source: what Spark would do without StreamKit's engine."""
    session.dataSource.register(TopicSource)
    return session.readStream.format("topic").option("root", str(log_of(rows, folder))).option("records", batch_records).load()


class TopicSource(DataSource):
    """A topic's frames as Arrow batches."""

    @classmethod
    def name(cls) -> str:
        return "topic"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: object) -> DataSourceStreamReader:
        return TopicReader(self.options["root"], int(self.options["records"]))


class FramePartition(InputPartition):
    def __init__(self, extents: list[list[object]]) -> None:
        super().__init__(None)
        self.extents = extents


class TopicReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets count frames, half of a batch's from either partition."""

    def __init__(self, root: str, records: int) -> None:
        self.root, self.records = root, records

    def _frames(self) -> list[list[object]]:
        with open_log(self.root) as log:
            topic = log.catalog.topics.get(TOPIC)
            partitions = [log.catalog.manifest.extents(topic.id, partition) for partition in range(topic.partitions)]
        return [extent.to_json() for pair in zip(*partitions, strict=False) for extent in pair]

    def prepareForTriggerAvailableNow(self) -> None:
        """The topic does not grow meanwhile."""

    def initialOffset(self) -> dict[str, int]:
        return {"frame": 0}

    def latestOffset(self, start: dict[str, int], limit: object) -> dict[str, int]:
        frames, taken, end = self._frames(), 0, start["frame"]
        while end < len(frames) and taken < self.records:
            taken += int(frames[end][3]) - int(frames[end][2])  # type: ignore[call-overload]
            end += 1
        return {"frame": end}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        frames = self._frames()[start["frame"] : end["frame"]]
        return [FramePartition(frames[0::2]), FramePartition(frames[1::2])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from streamkit.log.slab.extent import Extent

        assert isinstance(partition, FramePartition)
        pa.set_cpu_count(1)
        storage = FileStorage(self.root)
        for extent in partition.extents:
            yield read_frame(storage, Extent.from_json(extent), ["user", "amount", "ts"])


def steady_seconds(query: StreamingQuery) -> list[float]:
    """Durations of the batches that did something, without the first."""
    durations: list[dict[str, float]] = [progress["durationMs"] for progress in query.recentProgress]
    return [duration["triggerExecution"] / 1000 for duration in durations if duration.get("addBatch")][1:]
