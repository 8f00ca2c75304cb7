"""Reading a topic: committed rows of one snapshot, by partition and offset."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamkit.errors import ConfigError, OffsetOutOfRangeError, SchemaError
from streamkit.formats import single_object
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.frame import HEADERS_TYPE, TIMESTAMP_TYPE
from streamkit.log.slab.slab import GONE, read_rows
from streamkit.log.storage.replicated_storage import current_storage
from streamkit.log.storage.storage import Storage
from streamkit.log.topic.topic import Topic
from streamkit.log.values.whole_number import LEAST, MOST, as_whole_number, whole_number
from streamkit.names import DELETED, HEADERS, OFFSET, PARTITION, TIMESTAMP

OffsetBounds = int | Mapping[int, int] | None
TimeBound = int | dt.datetime | None  # ms since 1970, or a time with a zone
_LOGGER = logging.getLogger(__name__)
_PLACE = (TIMESTAMP, PARTITION, OFFSET)


@dataclass(frozen=True)
class TimeRange:
    """Event times from `start_ms` to before `end_ms`."""

    start_ms: int = -(1 << 63)
    end_ms: int = (1 << 63) - 1

    @classmethod
    def of(cls, start: TimeBound, end: TimeBound) -> TimeRange:
        """The times between two moments, None for no bound; ConfigError for a time without a zone."""
        return cls(cls.start_ms if start is None else milliseconds(start), cls.end_ms if end is None else milliseconds(end))


EVER = TimeRange()


def milliseconds(moment: int | dt.datetime) -> int:
    """The moment in milliseconds since 1970, UTC; ConfigError if it is not a time, or has no zone."""
    if not isinstance(moment, dt.datetime):
        number = as_whole_number(moment)
        if number is None or not LEAST <= number <= MOST:
            raise ConfigError(
                f"found the time {moment!r}, expected whole milliseconds since 1970, UTC (63 bits), or a datetime with a zone"
            )
        return number
    if moment.tzinfo is None:
        raise ConfigError(f"the time {moment} has no zone; give one, such as {moment}+00:00")
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(milliseconds=1)


class Reader:
    """
    A part of a topic as it stood when the reader was made: columns, partitions, and offsets from `start` to before `end`.

    `start_offsets` and `end_offsets` are those of the partitions, whole, at that moment. `extents` are the frames that hold
    the part, by partition and offset.
    """

    def __init__(
        self,
        storage: Storage,
        catalog: Catalog,
        topic: Topic,
        columns: Sequence[str] | None = None,
        partitions: Iterable[int] | None = None,
        start: OffsetBounds = None,
        end: OffsetBounds = None,
        times: TimeRange = EVER,
    ) -> None:
        self._times = times
        self._storage = storage
        self._catalog = catalog
        self._topic = topic
        self._columns = check_columns(topic, columns)
        chosen = _check_partitions(topic, partitions)
        self._start = check_bounds(topic, "start", start)
        self._end = check_bounds(topic, "end", end)
        until = {partition: 0 for partition in range(topic.partitions) if partition not in chosen}
        snapshot = catalog.manifest.cut([topic.id], {topic.id: self._start}, {topic.id: self._end | until})
        is_avro = topic.format is not None and topic.format.name == "avro"
        if is_avro or not snapshot.end_offsets[topic.id]:
            now = catalog.topics.get_by_id(topic.id, topic.name)  # raises if it was deleted since it was looked up
            single_object.remember(now.format)  # after the snapshot, so that it has the schemas of all records in that
        self.start_offsets, self.end_offsets = snapshot.start_offsets[topic.id], snapshot.end_offsets[topic.id]
        for partition, offset in self._start.items():
            if partition not in chosen:
                continue
            start_offset = self.start_offsets[partition]
            check_offset(topic, partition, offset, start_offset, self.end_offsets[partition])
            warn_of_purge(topic, partition, offset, start_offset, snapshot.purged_below[topic.id].get(partition, 0))
        self.extents = [extent for extent in snapshot.extents if extent.partition in chosen and self._is_wanted(extent)]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, a frame at a time: the columns, then `_timestamp`, `_partition`, `_offset` and `_deleted`."""
        for extent in self.extents:
            try:
                yield rows_within(self._times, extent, self._batch(extent))
            except GONE:
                yield from self._moved(extent)

    def table(self) -> pa.Table:
        """All rows at once; `_deleted` is left out when no row is."""
        batches = list(self.batches())
        table = pa.Table.from_batches(batches, schema=placed_schema(self._topic, self._columns))
        if DELETED in self._columns or any(batch.column(DELETED).true_count for batch in batches):
            return table
        return table.drop_columns([DELETED])

    def bounds_of(self, extent: Extent) -> tuple[int, int]:
        """The offsets of a frame that are asked for: the first, and the one behind the last."""
        first = max(self._start.get(extent.partition, 0), extent.base_offset)
        return first, min(self._end.get(extent.partition, extent.next_offset), extent.next_offset)

    def _is_wanted(self, extent: Extent) -> bool:
        if self._end or self._start:
            first, following = self.bounds_of(extent)
            if first >= following:
                return False
        return extent.max_timestamp >= self._times.start_ms and extent.min_timestamp < self._times.end_ms

    def _moved(self, extent: Extent) -> Iterator[pa.RecordBatch]:
        """The rows of an extent whose file is not found: merged or compacted into others since the snapshot, dropped, or on a new root."""
        self._storage = current_storage(self._storage, self._catalog.replication())
        first, following = self.bounds_of(extent)
        bounds = self._catalog.manifest.offset_bounds([self._topic.id])
        check_offset(self._topic, extent.partition, first, *bounds.get((self._topic.id, extent.partition), (first, following)))
        successors = self._catalog.manifest.extents(self._topic.id, extent.partition, first, following)
        self._catalog.topics.get_by_id(
            self._topic.id, self._topic.name
        )  # a topic that was deleted meanwhile has no successors either
        for successor in successors:
            yield rows_within(self._times, successor, self._batch(successor, (first, following)))

    def _batch(self, extent: Extent, bounds: tuple[int, int] | None = None) -> pa.RecordBatch:
        return read_placed(self._storage, self._topic, self._columns, extent, *(bounds or self.bounds_of(extent)))


def rows_within(times: TimeRange, extent: Extent, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a frame whose times are asked for; those of a frame that lies within them are left as they are."""
    start, end = times.start_ms, times.end_ms
    if start <= extent.min_timestamp and extent.max_timestamp < end:
        return batch
    found = batch.column(TIMESTAMP).view(pa.int64()).to_numpy()
    wanted = (found >= start) & (found < end)
    count = int(np.count_nonzero(wanted))
    first = int(wanted.argmax()) if count else 0
    if wanted[first : first + count].all():
        return batch.slice(first, count)  # no copy: most often times ascend
    return batch.filter(pa.array(wanted))


def read_placed(storage: Storage, topic: Topic, columns: Sequence[str], extent: Extent, start: int, end: int) -> pa.RecordBatch:
    """The rows of an extent from `start` to before `end`: the columns, then `_timestamp`, `_partition`, `_offset` and `_deleted`."""
    names = [name for name in columns if name != DELETED]
    frame, offsets = read_rows(storage, extent, start, end, [*names, TIMESTAMP, DELETED], topic)
    *values, deleted = frame.columns
    partition = np.full(len(offsets), extent.partition, np.int32)
    plain = [array.dictionary_decode() if pa.types.is_dictionary(array.type) else array for array in values]
    return pa.RecordBatch.from_arrays(
        [*plain, pa.array(partition), pa.array(offsets), deleted], schema=placed_schema(topic, columns)
    )


def placed_schema(topic: Topic, columns: Sequence[str]) -> pa.Schema:
    """The schema of what `read_placed` gives."""
    fields = [
        pa.field(name, HEADERS_TYPE if name == HEADERS else topic.schema[name].arrow.type) for name in columns if name != DELETED
    ]
    places = [(TIMESTAMP, TIMESTAMP_TYPE), (PARTITION, pa.int32()), (OFFSET, pa.int64()), (DELETED, pa.bool_())]
    return pa.schema([*fields, *places])


def check_offset(topic: Topic, partition: int, offset: int, start_offset: int, end_offset: int) -> None:
    """OffsetOutOfRangeError if retention has deleted what was at this offset."""
    if offset < start_offset:
        message = (
            f"topic {topic.name}, partition {partition}: offset {offset} was deleted by retention; the earliest one left is "
            f"{start_offset}, the end {end_offset}"
        )
        raise OffsetOutOfRangeError(message, topic.name, partition, offset, start_offset, end_offset)


def warn_of_purge(topic: Topic, partition: int, offset: int, start_offset: int, purged_below: int) -> None:
    """
    Warn a reader that goes on at an offset below which deletions have left for good, as in Kafka after `delete.retention.ms`.

    A reader that begins at the start of the partition has nothing older, and misses nothing.
    """
    if start_offset < offset < purged_below:
        _LOGGER.warning(
            "topic %s, partition %d: reading goes on at offset %d, and compaction has removed deletions before offset %d for good; keys that "
            "were read before may have been deleted without a sign of it here: if that matters, read the topic from its beginning",
            topic.name,
            partition,
            offset,
            purged_below,
        )


def check_columns(topic: Topic, columns: Sequence[str] | None) -> tuple[str, ...]:
    """The columns that are to be read, all of them for None; SchemaError for one that the topic has not."""
    if columns is None:
        return topic.schema.names
    chosen = (columns,) if isinstance(columns, str) else tuple(columns)
    for name in chosen:
        if name not in topic.schema and name not in (*_PLACE, DELETED, HEADERS):
            raise SchemaError(f"topic {topic.name} has no column {name!r}; it has {topic.schema}")
    return tuple(dict.fromkeys(name for name in chosen if name not in _PLACE))


def _check_partitions(topic: Topic, partitions: Iterable[int] | int | None) -> frozenset[int]:
    if partitions is None:
        return frozenset(range(topic.partitions))
    several = partitions if isinstance(partitions, Iterable) and not isinstance(partitions, str) else [partitions]
    return frozenset(check_partition(topic, partition) for partition in several)


def check_partition(topic: Topic, partition: object) -> int:
    """The number of a topic's partition; ConfigError if the topic does not have it."""
    number = as_whole_number(partition)
    if number is None or number not in range(topic.partitions):
        raise ConfigError(f"topic {topic.name} has no partition {partition!r}; it has 0 to {topic.partitions - 1}")
    return number


def check_bounds(topic: Topic, what: str, bounds: OffsetBounds) -> dict[int, int]:
    """Offsets by partition, of all partitions if one was given for all; ConfigError if one is not an offset of the topic."""
    if bounds is None:
        return {}
    given = bounds if isinstance(bounds, Mapping) else dict.fromkeys(range(topic.partitions), bounds)
    return {
        check_partition(topic, partition): whole_number(f"topic {topic.name}, partition {partition}: {what}", offset)
        for partition, offset in given.items()
    }
