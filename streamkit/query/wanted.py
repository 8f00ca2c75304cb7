"""The records that somebody asks for: those that are there, read without touching frames outside, or those that come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from streamkit.chunks import one_batch
from streamkit.errors import ConfigError, CorruptionError, OffsetOutOfRangeError
from streamkit.log.consume.consumer import Consumer, TopicPartition
from streamkit.log.consume.reader import check_partition
from streamkit.log.log import Log
from streamkit.log.slab.frame import TIMESTAMP_TYPE
from streamkit.log.topic.topic import Topic
from streamkit.names import DELETED, OFFSET, PARTITION, TIMESTAMP
from streamkit.query.condition import EVERYTHING, Interval, QueryCondition
from streamkit.query.position import EARLIEST, LATEST, StartPosition, bounds_of, offsets_at

RECORD_COLUMNS = (TIMESTAMP, PARTITION, OFFSET, DELETED)
_RECORD_FIELDS = tuple(zip(RECORD_COLUMNS, (TIMESTAMP_TYPE, pa.int32(), pa.int64(), pa.bool_()), strict=True))
FOLLOWED_ROWS = 1_000  # in one poll: what is read is printed and committed before more is read


@dataclass(frozen=True)
class Wanted:
    """
    Records of a topic: these columns, of these partitions (all for None), from a position on, as far as a condition holds.

    ConfigError if the topic lacks one of the partitions.
    """

    topic: Topic
    columns: tuple[str, ...]
    partitions: tuple[int, ...] | None
    position: StartPosition
    condition: QueryCondition | None

    def __post_init__(self) -> None:
        for partition in self.partitions or ():
            check_partition(self.topic, partition)

    def matching(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The records of a batch for which the condition holds."""
        return batch if self.condition is None else _rows_where(self.condition, batch)

    def interval(self, column: str) -> Interval:
        """Where a column's values must lie for the condition to hold."""
        return EVERYTHING if self.condition is None else self.condition.interval(column)


def _rows_where(condition: QueryCondition, batch: pa.RecordBatch) -> pa.RecordBatch:
    """
    The rows for which a condition holds, in their order.

    No other thread takes part, unlike in RecordBatch.filter: one that still holds a row of Python's when the program ends aborts
    it (apache/arrow#45017).
    """
    from pyarrow.acero import Declaration, FilterNodeOptions, TableSourceNodeOptions  # 0.2 s, for a condition alone

    source = Declaration("table_source", TableSourceNodeOptions(pa.Table.from_batches([batch])))
    found = Declaration.from_sequence([source, Declaration("filter", FilterNodeOptions(condition.expression))])
    kept = found.to_table(use_threads=False)
    return one_batch(kept) if kept.num_rows else batch.slice(0, 0)


def condition_schema(topic: Topic) -> pa.Schema:
    """What a condition may speak of: the topic's columns, and the record's own."""
    fields = [column.arrow for column in topic.schema]
    return pa.schema([*fields, *(pa.field(name, kind) for name, kind in _RECORD_FIELDS)])


def check_offset(log: Log, wanted: Wanted) -> None:
    """
    Check that each of the partitions has the offset from which records are wanted, if it is a number.

    ConfigError if the partitions were not named and there are several; OffsetOutOfRangeError says which offsets there are.
    """
    offset, name = wanted.position, wanted.topic.name
    if not isinstance(offset, int):
        return
    bounds = bounds_of(log, name)
    if wanted.partitions is None and len(bounds) > 1:
        raise ConfigError(
            f"offset {offset}: offsets count within a partition, and topic {name} has {len(bounds)}; name the partition too"
        )
    for partition in bounds.keys() & (bounds if wanted.partitions is None else wanted.partitions):
        start, end = bounds[partition]
        if not start <= offset <= end:
            message = f"topic {name}, partition {partition}: offset {offset} is not there; the earliest is {start}, the next one to come {end}"
            raise OffsetOutOfRangeError(message, name, partition, offset, start, end)


def standing_records(log: Log, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """
    What is there, a frame at a time; frames in which the condition cannot hold are not read.

    The CorruptionError of a frame is raised last: the rows before it come first, and those of all other partitions.
    """
    chosen = range(wanted.topic.partitions) if wanted.partitions is None else wanted.partitions
    times = wanted.interval(TIMESTAMP)
    start, end = _starts(log, wanted), _ends(log, wanted)

    def scan(partitions: Sequence[int]) -> Iterator[pa.RecordBatch]:
        return log.scan(wanted.topic.name, wanted.columns, partitions, start, end, times.start, times.end)

    batches = _each_as_far_as_sound(scan, [partition for partition in chosen if partition in wanted.interval(PARTITION)])
    return (wanted.matching(batch) for batch in batches)


def _each_as_far_as_sound(
    scan: Callable[[Sequence[int]], Iterator[pa.RecordBatch]], partitions: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """The rows of each partition in a scan, up to its first frame that cannot be read; then the first such error, if there was one."""
    failure = None
    while True:
        try:
            yield from scan(partitions)
            break
        except CorruptionError as error:
            if error.partition is None:
                raise
            failure, reached = failure or error, error.partition
            partitions = [partition for partition in partitions if partition > reached]
    if failure is not None:
        raise failure


def consumer_of(log: Log, wanted: Wanted, group: str | None) -> Consumer:
    """
    A consumer that begins at the position in every partition, also in later ones; in a group, at the committed offsets.

    In a group, where a partition begins is committed at once, so that the group goes on there even if nothing came.
    """
    name, position = wanted.topic.name, wanted.position

    def seek(partitions: list[TopicPartition]) -> None:
        offsets = offsets_at(log, name, position)
        for place in partitions:
            consumer.seek(*place, offsets[place.partition])

    def hold(partitions: list[TopicPartition]) -> None:
        consumer.position()  # decides where partitions begin at which the group has committed nothing
        consumer.commit(partitions=partitions)

    reset = LATEST if position == LATEST else EARLIEST
    consumer = log.consumer(
        name if wanted.partitions is None else None,
        group,
        auto_offset_reset=reset,
        columns=wanted.columns,
        max_poll_records=FOLLOWED_ROWS,
        on_assigned=hold if group is not None else None if position == reset else seek,
    )
    if wanted.partitions is not None:
        consumer.assign([(name, partition) for partition in wanted.partitions])
    return consumer


def _ends(log: Log, wanted: Wanted) -> dict[int, int]:
    """The offset before which each partition is read, so that several scans are of one moment."""
    most = wanted.interval(OFFSET).end
    ends = log.end_offsets(wanted.topic.name)
    return ends if most is None else {partition: max(min(end, most), 0) for partition, end in ends.items()}


def _starts(log: Log, wanted: Wanted) -> Mapping[int, int] | None:
    """The first offset by partition, none below the earliest nor behind the next to come; None if all is wanted."""
    least = wanted.interval(OFFSET).start
    if wanted.position == EARLIEST and least is None:
        return None
    found, ends = offsets_at(log, wanted.topic.name, wanted.position), log.end_offsets(wanted.topic.name)
    return {partition: max(offset, min(least or 0, ends[partition])) for partition, offset in found.items()}
