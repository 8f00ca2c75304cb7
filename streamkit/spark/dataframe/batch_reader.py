"""Reading a topic as a batch: the driver plans tasks, as the log stands at that moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from streamkit.log.consume.reader import TimeRange
from streamkit.log.opening import open_existing_log
from streamkit.query.topic_filters import FilterBounds
from streamkit.spark.dataframe.options import ReadOptions
from streamkit.spark.dataframe.scan import partition_bounds, plan_scan, read_scan
from streamkit.spark.dataframe.table import topic_condition


class TopicReader(DataSourceReader):
    """A topic, or the part of it that the options name."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with open_existing_log(options.log) as log:
            topic = log.catalog.topics.get(options.topic)
            condition = topic_condition(topic, options.where)
            bounds = FilterBounds() if condition is None else FilterBounds.of(condition)
            standing = partition_bounds(log, topic)
            starts, ends = options.start.offsets(topic, standing), options.end.offsets(topic, standing)
            # A condition may compare with any number; readers take only offsets that the partition has.
            starts = {at: max(offset, min(bounds.offsets.start, standing[at][1])) for at, offset in starts.items()}
            ends = {at: min(offset, max(bounds.offsets.end, standing[at][0])) for at, offset in ends.items()}
            wanted = standing.keys() if bounds.partitions is None else bounds.partitions & standing.keys()
            times = TimeRange.of(options.start_ms, options.end_ms)
            times = TimeRange(max(times.start_ms, bounds.times.start), min(times.end_ms, bounds.times.end))
            later = {at: start for at, start in starts.items() if start > standing[at][0]}  # retention may move the others
            return list(plan_scan(log, topic, self._schema, later, ends, sorted(wanted), times, condition))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_scan(partition)
