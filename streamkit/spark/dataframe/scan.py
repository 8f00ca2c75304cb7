"""A scan: what each task of a read gets by plan, since tasks never open the catalog (law 2), and how it reads that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from streamkit.errors import CorruptionError
from streamkit.log.consume.reader import EVER, Reader, TimeRange, read_placed, rows_within
from streamkit.log.log import Log
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.slab import GONE
from streamkit.log.storage.inline_storage import storage_with
from streamkit.log.topic.topic import Topic
from streamkit.recast import recast
from streamkit.spark.dataframe.table import arrow_schema, log_columns
from streamkit.spark.task_storage import StoragePlace, place_of, task_storage

if TYPE_CHECKING:
    from streamkit.expressions.analysis.row_condition import RowCondition

ATTEMPTS = 5
PARTITION_BYTES = 128 << 20  # of frames; what spark.sql.files.maxPartitionBytes gives a task


@dataclass(frozen=True)
class FramePiece:
    """A frame, and which of its offsets are read: from `start` to before `end`."""

    extent: Extent
    start: int
    end: int


@dataclass(frozen=True)
class Scan:
    """A topic, and what of it is read in which form."""

    place: StoragePlace
    topic: Topic
    schema: pa.Schema
    times: TimeRange
    condition: RowCondition | None

    @property
    def columns(self) -> list[str]:
        """What is read of frames: the columns that are asked for, and those of the condition."""
        others = () if self.condition is None else self.condition.columns.names
        return log_columns(tuple(dict.fromkeys((*self.schema.names, *others))))


class ScanPartition(InputPartition):
    """What one task reads: frames of one partition of the topic, one behind the other, and the bytes of the slabs that are no files."""

    def __init__(self, scan: Scan, pieces: Sequence[FramePiece], inline: Mapping[str, bytes]) -> None:
        super().__init__(None)
        self.scan = scan
        self.pieces = tuple(pieces)
        self.inline = inline

    def __repr__(self) -> str:
        if not self.pieces:
            return f"ScanPartition({self.scan.topic.name}: nothing)"
        first, last = self.pieces[0], self.pieces[-1]
        return f"ScanPartition({self.scan.topic.name}, partition {first.extent.partition}, offsets {first.start} to {last.end})"


def partition_bounds(log: Log, topic: Topic) -> dict[int, tuple[int, int]]:
    """The earliest and the next offset of each partition."""
    return {partition: bounds for (_, partition), bounds in log.catalog.manifest.offset_bounds([topic.id]).items()}


def plan_scan(
    log: Log,
    topic: Topic,
    schema: StructType,
    start: Mapping[int, int],
    end: Mapping[int, int],
    partitions: Sequence[int] | None = None,
    times: TimeRange = EVER,
    condition: RowCondition | None = None,
) -> list[ScanPartition]:
    """The tasks that read what lies between these offsets as the log stands now; none if that is nothing."""
    scan = Scan(place_of(log), topic, arrow_schema(topic, schema), times, condition)
    for left in reversed(range(ATTEMPTS)):
        storage = log.storage_now()
        reader = Reader(storage, log.catalog, topic, scan.columns, partitions, start, end, times)
        pieces = [FramePiece(extent, *reader.bounds_of(extent)) for extent in reader.extents]
        try:
            return [ScanPartition(scan, group, storage.bytes_of(one.extent.path for one in group)) for group in _groups(pieces)]
        except FileNotFoundError:  # maintenance has moved what was found a moment ago into a file
            if not left:
                raise
    raise AssertionError("a loop that returns or raises")


def read_scan(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of one task, a frame at a time, in the form that Spark expects."""
    if not isinstance(partition, ScanPartition):  # Spark's own, where the scan has no tasks
        return
    scan = partition.scan
    storage = storage_with(task_storage(scan.place), partition.inline)
    columns = scan.columns
    for piece in partition.pieces:
        try:
            rows = read_placed(storage, scan.topic, columns, piece.extent, piece.start, piece.end)
        except GONE as error:
            raise CorruptionError(
                f"{error}; if maintenance has merged or deleted it since the read was planned (file_delete_delay_ms ago or longer), "
                "make the DataFrame again"
            ) from error
        rows = rows_within(scan.times, piece.extent, rows)
        if scan.condition is not None:
            rows = scan.condition.kept(rows)
        if rows.num_rows:
            yield _cast(rows, scan.schema)


def _groups(pieces: Sequence[FramePiece]) -> Iterator[list[FramePiece]]:
    """Frames of one partition together, until they are as many bytes as a task should read."""
    group: list[FramePiece] = []
    size = 0
    for piece in pieces:
        if group and (piece.extent.partition != group[-1].extent.partition or size >= PARTITION_BYTES):
            yield group
            group, size = [], 0
        group.append(piece)
        size += piece.extent.length
    if group:
        yield group


def _cast(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [rows.column(field.name) for field in schema]
    cast = [recast(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(cast, schema=schema)
