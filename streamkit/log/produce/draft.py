"""A commit of a producer in the making."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from streamkit.errors import EpochFailedError, MembershipLostError
from streamkit.log.catalog.groups import GroupCommit
from streamkit.log.catalog.producers import ProducerCommit, SequencedBatch
from streamkit.log.produce.buffer import Buffer, PartitionedRows, split
from streamkit.log.produce.offset_source import OffsetSource
from streamkit.log.produce.receipt import Placement, Receipt, ReceiptCallback, Settlement
from streamkit.log.rows.generated_reader import RowValues
from streamkit.log.rows.python_rows import RowReader
from streamkit.log.rows.records import stamped
from streamkit.log.slab.reference import SlabReference
from streamkit.log.topic.topic import Topic

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
                    f"{source!r} has let partitions go since its offsets were sent with this transaction, so that others may have "
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

    def topics_by_id(self) -> dict[int, Topic]:
        """The topics of the rows."""
        return {topic.id: topic for topic in self.topics.values()}

    def compressions(self) -> dict[int, str]:
        """How the frames of each topic are compressed."""
        return {topic.id: topic.compression for topic in self.topics.values()}

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
                "the producer was interrupted while it took rows in, so that it is not known which of them it has; nothing of "
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
