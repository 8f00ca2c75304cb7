"""Rows that wait for a flush, spread over topic partitions."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamkit.chunks import few_batches
from streamkit.errors import SchemaError
from streamkit.log.produce.receipt import RowsByPartition
from streamkit.log.slab.frame import LOG_TYPES
from streamkit.log.topic.topic import Topic, TopicIdPartition
from streamkit.log.values.keys import partitions_of_rows
from streamkit.names import DELETED


@dataclass(frozen=True)
class PartitionedRows:
    """Rows of a topic by partition; `chosen` has the partition of each row, None if all go to one."""

    parts: tuple[tuple[int, pa.RecordBatch], ...]
    chosen: npt.NDArray[np.int32] | None = None


def split(topic: Topic, batch: pa.RecordBatch, keyless: int) -> PartitionedRows:
    """Spread rows over the partitions of their keys, in their order; those without a key go to the partition `keyless` leads to."""
    if not batch.num_rows:
        return PartitionedRows(())
    if not topic.partition_by or topic.partitions == 1:
        return PartitionedRows(((keyless % topic.partitions, batch),))
    chosen = partitions_of_rows(batch, topic.key, topic.partition_by, topic.partitions)
    chosen[chosen < 0] = keyless % topic.partitions
    return split_as(topic, batch, chosen)


def split_as(topic: Topic, batch: pa.RecordBatch, chosen: npt.NDArray[np.int32]) -> PartitionedRows:
    """Spread rows over the partitions chosen for them, in their order."""
    counts = np.bincount(chosen, minlength=topic.partitions)
    if counts.max() == batch.num_rows:
        return PartitionedRows(((int(counts.argmax()), batch),))
    ordered = batch.take(pa.array(_by_partition(chosen)))
    ends = np.cumsum(counts)
    found = [int(partition) for partition in np.flatnonzero(counts)]
    return PartitionedRows(tuple((at, ordered.slice(int(ends[at] - counts[at]), int(counts[at]))) for at in found), chosen)


def chosen_partitions(topic: Topic, partitions: Any, rows: int) -> npt.NDArray[np.int32]:
    """The partition of each row, as a caller names them; SchemaError if one does not exist, or if they are not as many as the rows."""
    found = np.asarray(partitions.to_numpy() if isinstance(partitions, pa.Array | pa.ChunkedArray) else partitions)
    if len(found) != rows or (rows and found.dtype.kind not in "iu"):
        raise SchemaError(
            f"topic {topic.name}: found {len(found)} partitions of type {found.dtype} for {rows} rows; expected an integer for each"
        )
    wrong = np.flatnonzero((found < 0) | (found >= topic.partitions))
    if len(wrong):
        row = int(wrong[0])
        raise SchemaError(
            f"topic {topic.name}, row {row}: there is no partition {found[row]}; it has 0 to {topic.partitions - 1}",
            tuple(int(one) for one in wrong[:100]),
        )
    return found.astype(np.int32)


class Buffer:
    """Batches by topic partition, in the order they came; frames of at most `frame_rows` rows when they leave."""

    def __init__(self, frame_rows: int) -> None:
        self._frame_rows = frame_rows
        self._batches: dict[TopicIdPartition, list[pa.RecordBatch]] = {}
        self._rows_before: Counter[TopicIdPartition] = Counter()

    def add(self, topic_id: int, splits: Sequence[PartitionedRows]) -> RowsByPartition:
        """Take rows in; returns, by partition, how many rows of this commit come before them, and how many they are."""
        rows: Counter[int] = Counter()
        for one in splits:
            for partition, part in one.parts:
                self._batches.setdefault((topic_id, partition), []).append(part)
                rows[partition] += part.num_rows
        places = {partition: (self._rows_before[topic_id, partition], count) for partition, count in sorted(rows.items())}
        self._rows_before.update({(topic_id, partition): count for partition, count in rows.items()})
        return places

    def frames(self) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        """Everything buffered, as (topic id, partition, rows of a frame); a frame has rows of one version of the topic's schema."""
        for (topic_id, partition), batches in self._batches.items():
            if len(batches) == 1 and batches[0].num_rows <= self._frame_rows:
                yield topic_id, partition, batches[0]
                continue
            for alike in _by_version(batches):
                table = pa.Table.from_batches(_aligned(alike))
                for start in range(0, table.num_rows, self._frame_rows):
                    yield from ((topic_id, partition, rows) for rows in few_batches(table.slice(start, self._frame_rows)))

    def clear(self) -> None:
        """Forget the rows, and only them: those that come later still count those before them in their commit."""
        self._batches.clear()


def _by_partition(chosen: npt.NDArray[np.int32]) -> npt.NDArray[np.intp]:
    # 16 bits are sorted by radix, in a third of the time.
    return np.argsort(chosen.astype(np.uint16), kind="stable")


def _by_version(batches: Sequence[pa.RecordBatch]) -> Iterator[Sequence[pa.RecordBatch]]:
    """The batches cut where the topic's own columns change."""
    schemas = [batch.schema for batch in batches]
    cuts = [at for at, (one, other) in enumerate(itertools.pairwise(schemas), 1) if not _are_alike(one, other)]
    for start, end in itertools.pairwise([0, *cuts, len(batches)]):
        yield batches[start:end]


def _are_alike(one: pa.Schema, other: pa.Schema) -> bool:
    return one.equals(other) or _own_columns(one) == _own_columns(other)


def _own_columns(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """The names and types of the topic's own columns, without those of the log."""
    return [(name, kind) for name, kind in zip(schema.names, schema.types, strict=True) if name not in LOG_TYPES]


def _aligned(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The batches with the same columns each: those of the log that only some have are filled in."""
    names = list(dict.fromkeys(name for batch in batches for name in batch.schema.names))
    return [batch if batch.schema.names == names else _with_columns(batch, names) for batch in batches]


def _with_columns(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_column(batch, name) for name in names], names=list(names))


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name in batch.schema.names:
        return batch.column(name)
    return pa.repeat(False, batch.num_rows) if name == DELETED else pa.nulls(batch.num_rows, LOG_TYPES[name])
