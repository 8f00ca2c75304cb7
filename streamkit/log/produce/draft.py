"""A commit of a producer in the making: the rows that wait for it, spread over topic partitions."""

from __future__ import annotations

import itertools
import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamkit.chunks import few_batches
from streamkit.errors import EpochFailedError, MembershipLostError, SchemaError
from streamkit.log.catalog.groups import GroupCommit
from streamkit.log.catalog.producers import ProducerCommit, SequencedBatch
from streamkit.log.produce.offset_source import OffsetSource
from streamkit.log.produce.receipt import Placement, Receipt, ReceiptCallback, RowsByPartition, Settlement
from streamkit.log.rows.generated_reader import RowValues
from streamkit.log.rows.python_rows import RowReader
from streamkit.log.rows.records import stamped
from streamkit.log.slab.frame import LOG_TYPES
from streamkit.log.slab.reference import SlabReference
from streamkit.log.topic.topic import Topic, TopicIdPartition
from streamkit.log.values.keys import partitions_of_rows
from streamkit.names import DELETED

_log = logging.getLogger(__name__)


class RowRun:
    """Python rows of one topic that were sent one after the other, and become one batch."""

    __slots__ = ("keyless", "placement", "reader", "rows")

    def __init__(self, reader: RowReader, placement: Placement, keyless: int) -> None:
        self.reader = reader
        self.placement = placement
        self.keyless = keyless
        self.rows: list[RowValues] = []


class Draft:
    """
    What becomes visible in one commit: rows that wait, slabs that hold those before them, and who gets the outcome.

    Not safe for several threads by itself. An interrupt (Ctrl-C) may strike between any two of its lines: what takes long changes
    nothing, and a draft that was interrupted in one of its short changes is torn, and fails as a whole.
    """

    def __init__(self, settlement: Settlement, frame_rows: int) -> None:
        self.settlement = settlement
        self.bytes = 0  # of rows that are in no slab yet
        self.since: float | None = None  # monotonic seconds of the first row
        self.slabs: list[SlabReference] = []
        self.sequenced: list[tuple[Topic, Receipt]] = []
        self.callbacks: list[tuple[ReceiptCallback, Receipt]] = []
        self.group_commits: dict[str, GroupCommit] = {}
        self.topics: dict[int, Topic] = {}  # those that it has rows for, by id
        self.commit: ProducerCommit | None = None
        self.is_uncertain = False  # its commit was tried and may have taken effect
        self._tenures: list[tuple[OffsetSource, int]] = []
        self._is_torn = False
        self._frame_rows = frame_rows
        self._buffer = Buffer(frame_rows)
        self._stamped: set[int] = set()  # the ids of topics whose event time is that of staging
        self._runs: dict[int, RowRun] = {}
        self._latest: RowRun | None = None  # of them

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return self.since is None and not self.group_commits

    def add_row(self, reader: RowReader, values: RowValues, size: int, keyless: Iterator[int]) -> Receipt:
        """Take one Python row in."""
        self.bytes += size
        run = self._latest
        if run is None or run.reader is not reader:
            run = self._run_of(reader, values[-1], keyless)
        rows = run.rows
        receipt = Receipt(run.placement, len(rows))
        rows.append(values)
        if len(rows) >= self._frame_rows:
            self._close_run(reader.topic.id, values[-1])
        return receipt

    def add(self, topic: Topic, splits: Sequence[PartitionedRows], size: int, sequence: int | None, now_ms: int) -> Receipt:
        """Take the rows of a batch in, after the Python rows of its topic."""
        self._close_run(topic.id, now_ms)
        placement = Placement(self.settlement, topic.name, topic.id, sequence)
        receipt = Receipt(placement)
        with self._change():
            placement.places = self._buffer.add(topic.id, splits)
            self.bytes += size
            self._began(topic)
            if sequence is not None:
                self.sequenced.append((topic, receipt))
        return receipt

    def add_offsets(self, commit: GroupCommit) -> None:
        """Have offsets of a group committed too; later ones of a partition take the place of earlier ones."""
        if not commit.offsets:
            return
        before = self.group_commits.get(commit.group)
        topics = {**(before.offsets if before else {}), **commit.offsets}
        merged = {
            topic: {**(before.offsets.get(topic, {}) if before else {}), **commit.offsets.get(topic, {})} for topic in topics
        }
        self.group_commits[commit.group] = GroupCommit(commit.group, commit.member_id, merged)

    def add_offsets_of(self, source: OffsetSource) -> None:
        """Have the offsets of a consumer committed too, if it holds all its partitions until then."""
        tenure = source.tenure
        self.add_offsets(source.group_commit())
        self._tenures.append((source, tenure))

    def check_tenures(self) -> None:
        """MembershipLostError if a consumer has let a partition go since its offsets were taken: another may have read on from there."""
        for source, tenure in self._tenures:
            if source.tenure != tenure:
                raise MembershipLostError(
                    f"{source!r} has given up partitions since its offsets were sent with this transaction, so that others may have "
                    "processed the same records; nothing of the transaction becomes visible, poll again"
                )

    def waiting(self, topic_id: int) -> dict[int, Receipt]:
        """The receipts of a topic's sequenced batches, by sequence."""
        return {
            receipt.sequence: receipt
            for topic, receipt in self.sequenced
            if topic.id == topic_id and receipt.sequence is not None
        }

    def frames(self, now_ms: int) -> list[tuple[int, int, pa.RecordBatch]]:
        """
        The rows that are in no slab yet, as (topic id, partition, rows of a frame); they are about to be staged, now.

        Under `message.timestamp.type=LogAppendTime` that is their event time, however they were sent. EpochFailedError if the
        draft is torn.
        """
        self._check_whole()
        for topic_id in list(self._runs):
            self._close_run(topic_id, now_ms)
        return [
            (topic_id, partition, stamped(rows, now_ms) if topic_id in self._stamped else rows)
            for topic_id, partition, rows in self._buffer.frames()
        ]

    def staged(self, slab: SlabReference) -> None:
        """The rows of `frames` lie in a slab now."""
        with self._change():
            self.slabs.append(slab)
            self._buffer.clear()
            self.bytes = 0

    def sequences(self) -> tuple[SequencedBatch, ...]:
        """The sequenced batches, as the catalog remembers them."""
        return tuple(
            SequencedBatch(topic.id, receipt.sequence, receipt.placement.places)
            for topic, receipt in self.sequenced
            if receipt.sequence is not None
        )

    @contextmanager
    def _change(self) -> Iterator[None]:
        """What happens in the block happens whole, or the draft is torn."""
        self._check_whole()
        self._is_torn = True
        yield
        self._is_torn = False

    def _check_whole(self) -> None:
        if self._is_torn:
            raise EpochFailedError(
                "the producer was interrupted while it added rows, so it may have only some of them; nothing of "
                "what was sent since the last commit becomes visible; send it again"
            )

    def call_back(self) -> None:
        """Call the callbacks with the outcome, if it is settled."""
        if not self.settlement.is_done.is_set():
            return
        callbacks, self.callbacks = self.callbacks, []
        for callback, receipt in callbacks:
            try:
                callback(receipt)
            except Exception:  # noqa: BLE001  a caller's own error is not the producer's
                _log.exception("a callback of %r raised", receipt)

    def _began(self, topic: Topic) -> None:
        known = self.topics.get(topic.id)
        if known is None or known.version <= topic.version:  # a thread may still send by an older declaration than another
            self.topics[topic.id] = topic
        if topic.is_stamped_on_append:
            self._stamped.add(topic.id)
        if self.since is None:
            self.since = time.monotonic()

    def _run_of(self, reader: RowReader, now_ms: int, keyless: Iterator[int]) -> RowRun:
        run = self._runs.get(reader.topic.id)
        if run is None or run.reader is not reader:
            self._close_run(reader.topic.id, now_ms)
            run = self._open_run(reader, next(keyless))
        self._latest = run
        return run

    def _open_run(self, reader: RowReader, keyless: int) -> RowRun:
        self._began(reader.topic)
        run = RowRun(reader, Placement(self.settlement, reader.topic.name, reader.topic.id), keyless)
        self._runs[reader.topic.id] = run
        return run

    def _close_run(self, topic_id: int, now_ms: int) -> None:
        run = self._runs.get(topic_id)
        if run is None:
            return
        batch = run.reader.batch(run.rows, now_ms)
        found = split(run.reader.topic, batch, run.keyless)
        with self._change():
            run.placement.places = self._buffer.add(topic_id, [found])
            run.placement.chosen = found.chosen
            del self._runs[topic_id]
            self._latest = None


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
    order = np.argsort(chosen.astype(np.uint16), kind="stable")  # 16 bits are sorted by radix, in a third of the time
    ordered = batch.take(pa.array(order))
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
                # Only some may have the log's own columns of deletions and headers.
                names = list(dict.fromkeys(name for batch in alike for name in batch.schema.names))
                table = pa.Table.from_batches([_with_columns(batch, names) for batch in alike])
                for start in range(0, table.num_rows, self._frame_rows):
                    yield from ((topic_id, partition, rows) for rows in few_batches(table.slice(start, self._frame_rows)))

    def clear(self) -> None:
        """Forget the rows, and only them: those that come later still count those before them in their commit."""
        self._batches.clear()


def _by_version(batches: Sequence[pa.RecordBatch]) -> Iterator[Sequence[pa.RecordBatch]]:
    """The batches cut where the topic's own columns change."""
    schemas = [batch.schema for batch in batches]
    cuts = [
        at
        for at, (one, other) in enumerate(itertools.pairwise(schemas), 1)
        if not one.equals(other) and _own_columns(one) != _own_columns(other)
    ]
    for start, end in itertools.pairwise([0, *cuts, len(batches)]):
        yield batches[start:end]


def _own_columns(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """The names and types of the topic's own columns, without those of the log."""
    return [(name, kind) for name, kind in zip(schema.names, schema.types, strict=True) if name not in LOG_TYPES]


def _with_columns(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    """The batch with these columns: of the log's own that it lacks, no row is deleted, and none has headers."""
    if batch.schema.names == names:
        return batch
    return pa.RecordBatch.from_arrays(
        [
            batch.column(name)
            if name in batch.schema.names
            else (pa.repeat(False, batch.num_rows) if name == DELETED else pa.nulls(batch.num_rows, LOG_TYPES[name]))
            for name in names
        ],
        names=names,
    )
