"""Rows that wait for a flush, spread over topic partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamkit.log.frame import LOG_TYPES
from streamkit.log.keys import partitions
from streamkit.log.topic import Topic
from streamkit.names import DELETED

Place = tuple[int, int]  # topic id, partition


class Buffer:
    """Batches by topic partition, in the order they came; frames of at most `frame_rows` rows when they leave."""

    def __init__(self, frame_rows: int) -> None:
        self._frame_rows = frame_rows
        self._batches: dict[Place, list[pa.RecordBatch]] = {}
        self._committing: Counter[Place] = Counter()
        self._next_partition = 0
        self.rows = 0
        self.bytes = 0

    def add(self, topic: Topic, batches: Sequence[pa.RecordBatch]) -> dict[int, tuple[int, int]]:
        """Take the rows in; returns, by partition, how many rows of this commit come before them, and how many they are."""
        keyless = self._next_partition % topic.partitions
        self._next_partition += 1
        rows: Counter[int] = Counter()
        for batch in batches:
            for partition, part in _split(topic, batch, keyless):
                self._batches.setdefault((topic.id, partition), []).append(part)
                rows[partition] += part.num_rows
            self.rows += batch.num_rows
            self.bytes += batch.nbytes
        parts = {partition: (self._committing[topic.id, partition], count) for partition, count in sorted(rows.items())}
        self._committing.update({(topic.id, partition): count for partition, count in rows.items()})
        return parts

    def frames(self) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        """Everything buffered, as (topic id, partition, rows of a frame)."""
        for (topic_id, partition), batches in self._batches.items():
            table = pa.Table.from_batches(_aligned(batches))
            for start in range(0, table.num_rows, self._frame_rows):
                yield topic_id, partition, _one_batch(table.slice(start, self._frame_rows))

    def clear(self) -> None:
        """Forget what is buffered."""
        self._batches.clear()
        self.rows = self.bytes = 0

    def start_commit(self) -> None:
        """Count the rows of the next commit from zero."""
        self._committing.clear()


def _split(topic: Topic, batch: pa.RecordBatch, keyless: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    if not batch.num_rows:
        return
    if not topic.partition_by or topic.partitions == 1:
        yield (0 if topic.partitions == 1 else keyless), batch
        return
    chosen = partitions([batch.column(name) for name in topic.partition_by], topic.partitions)
    chosen[chosen < 0] = keyless
    counts = np.bincount(chosen, minlength=topic.partitions)
    if counts.max() == batch.num_rows:
        yield int(chosen[0]), batch
        return
    ordered = batch.take(pa.array(_by_partition(chosen)))
    start = 0
    for partition in np.flatnonzero(counts):
        yield int(partition), ordered.slice(start, int(counts[partition]))
        start += int(counts[partition])


def _by_partition(chosen: npt.NDArray[np.int32]) -> npt.NDArray[np.intp]:
    # 16 bits are sorted by radix, in a third of the time.
    return np.argsort(chosen.astype(np.uint16), kind="stable")


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


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().to_batches()[0]
