"""Reading a topic as a stream: offsets are those of the topic, so that a batch that Spark repeats has the same rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from streamkit.log.consume.reader import TimeRange
from streamkit.log.consume.time_lookup import offsets_for_times
from streamkit.log.log import Log
from streamkit.log.opening import open_existing_log
from streamkit.log.topic.topic import Topic
from streamkit.spark.dataframe.admission import admitted
from streamkit.spark.dataframe.options import ReadOptions
from streamkit.spark.dataframe.scan import partition_bounds, plan_scan, read_scan

SparkOffsets = dict[str, int]  # as JSON has it: partition as text → next offset


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A topic from where the options say, in batches of at most `maxRecordsPerTrigger` records."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._until: dict[int, int] | None = None

    def initialOffset(self) -> SparkOffsets:  # noqa: N802 (Spark's name)
        with self._log() as log:
            topic = self._topic(log)
            standing = partition_bounds(log, topic)
            start = self._options.start.offsets(topic, standing)
            if self._options.start_ms is not None:
                found = offsets_for_times(log.storage_now(), log.catalog, topic, self._options.start_ms)
                first = {at: standing[at][1] if offset is None else offset for at, offset in found.items() if at in standing}
                start = {at: max(offset, first.get(at, offset)) for at, offset in start.items()}
        return _texts(start)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        records_max = self._options.records_max
        return ReadAllAvailable() if records_max is None else ReadMaxRows(records_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._until = self._ends()

    def latestOffset(self, start: SparkOffsets, limit: ReadLimit) -> SparkOffsets:  # noqa: N802
        ends = self._ends() if self._until is None else self._until
        begins = {at: start.get(str(at), 0) for at in ends}
        ends = {at: max(end, begins[at]) for at, end in ends.items()}
        return _texts(admitted(begins, ends, limit.max_rows if isinstance(limit, ReadMaxRows) else None))

    def reportLatestOffset(self) -> SparkOffsets:  # noqa: N802
        return _texts(self._ends())

    def partitions(self, start: SparkOffsets, end: SparkOffsets) -> Sequence[InputPartition]:
        with self._log() as log:
            topic = self._topic(log)
            begins = {at: start.get(str(at), 0) for at in _numbers(end)}
            chosen = [at for at, stop in _numbers(end).items() if stop > begins[at]]
            later = {at: begins[at] for at in chosen}
            times = TimeRange.of(self._options.start_ms, None)
            return list(plan_scan(log, topic, self._schema, later, _numbers(end), chosen, times))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_scan(partition)

    def _log(self) -> Log:
        return open_existing_log(self._options.log)

    def _topic(self, log: Log) -> Topic:
        return log.catalog.topics.get(self._options.topic)

    def _ends(self) -> dict[int, int]:
        with self._log() as log:
            return log.catalog.manifest.end_offsets(self._topic(log).id)


def _texts(offsets: Mapping[int, int]) -> SparkOffsets:
    return {str(partition): offset for partition, offset in offsets.items()}


def _numbers(offsets: SparkOffsets) -> dict[int, int]:
    return {int(partition): offset for partition, offset in offsets.items()}
