"""
The producer: rows into topics, buffered, durable and visible at once per flush.

A flush stages one slab and commits it in one catalog transaction. A commit whose outcome got lost is settled by its token
and never made twice; a batch with a sequence number is never written twice, whatever process sends it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, final

import pyarrow as pa

from streamkit.clock import Clock
from streamkit.errors import ConfigError, EpochFailedError, FencedError, TopicNotFoundError
from streamkit.log.buffer import Buffer
from streamkit.log.catalog import Catalog
from streamkit.log.extent import Extent
from streamkit.log.orphans import collect_orphans
from streamkit.log.producers import ProducerCommit, ProducerState, Ranges, SequencedBatch, first_offsets, ranges_of
from streamkit.log.records import records_of, tombstone_of
from streamkit.log.reference import SlabReference
from streamkit.log.slab import write_slab
from streamkit.log.storage import Storage
from streamkit.log.topic import Topic
from streamkit.names import SlabName, fresh_token, producer_writer

BUFFER_BYTES = 64 * 1024 * 1024
_FINAL = (FencedError, EpochFailedError, TopicNotFoundError)


@dataclass
class Receipt:
    """
    What became of a batch: `offsets` has, by partition, its first offset and the one after its last, once it is committed.

    `is_duplicate`: its sequence had been committed before, nothing was written; `offsets` are those of the first time, or
    None if that is too long ago.
    """

    topic: str
    sequence: int | None = None
    is_duplicate: bool = False
    offsets: Ranges | None = None
    parts: dict[int, tuple[int, int]] = field(default_factory=dict, repr=False)
    topic_id: int = field(default=0, repr=False)


@final
class Producer:
    """
    Appends rows to topics. Rows are visible to others after `flush`, which leaving the `with` block does too.

    With a name (`id`), opening it fences every older instance of that name, and sequence numbers are remembered.
    One thread at a time.
    """

    def __init__(
        self,
        storage: Storage,
        catalog: Catalog,
        clock: Clock,
        name: str | None = None,
        frame_rows: int = 65_536,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self._storage = storage
        self._catalog = catalog
        self._clock = clock
        self._name = name
        self._buffer_bytes = buffer_bytes
        self._buffer = Buffer(frame_rows)
        self._receipts: list[Receipt] = []
        self._slabs: list[SlabReference] = []
        self._pending: ProducerCommit | None = None
        self._topics: dict[str, Topic] = {}
        self._sequences: dict[int, int] = {}
        self._in_transaction = False
        self._state: ProducerState | None = None
        if name is not None:
            self._opened()

    def __repr__(self) -> str:
        return f"Producer(id={self._name!r}, buffered_rows={self._buffer.rows})"

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.flush()
        else:
            self._discard()

    def send_batch(self, topic: str, data: Any, sequence: int | None = None, timestamp_ms: int | None = None) -> Receipt:
        """
        Buffer all rows of a RecordBatch, Table, DataFrame or list of dicts, or none of them.

        Columns are those of the topic, in any order, and maybe `_timestamp`, `_deleted`, `_headers`; see `records_of` for
        event times. A `sequence` must grow from batch to batch of a topic; one that was committed before writes nothing.
        SchemaError names the row and the column that do not fit. A full buffer is flushed, except in a transaction.
        """
        target = self._topic(topic)
        known = self._known(target, sequence)
        if known is not None:
            return known
        return self._append(target, records_of(target, data, self._clock.now_ms(), timestamp_ms), sequence)

    def send(self, topic: str, row: Mapping[str, Any], timestamp_ms: int | None = None) -> Receipt:
        """Buffer one row, given as column names and values."""
        return self.send_batch(topic, [row], timestamp_ms=timestamp_ms)

    def delete(self, topic: str, key: Mapping[str, Any], timestamp_ms: int | None = None) -> Receipt:
        """Buffer a tombstone: the row that deletes a key, given as key columns and values."""
        target = self._topic(topic)
        stamp = self._clock.now_ms() if timestamp_ms is None else timestamp_ms
        return self._append(target, [tombstone_of(target, key, stamp)], None)

    def flush(self) -> None:
        """
        Make everything buffered durable and visible, in one commit.

        FencedError if the producer was opened anew elsewhere: nothing becomes visible. After StorageFullError and other
        errors of disk or catalog the rows are still buffered, and a later flush completes this very commit.
        """
        if self._in_transaction:
            raise ConfigError("a transaction is flushed by its end; leave the `with producer.transaction()` block instead")
        self._flush()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make everything sent in the block visible in one commit when it ends, or nothing if it raises."""
        self.flush()
        self._in_transaction = True
        try:
            yield
            self._flush()
        except BaseException:
            self._discard()
            raise
        finally:
            self._in_transaction = False

    def close(self) -> None:
        """Flush; the producer can be used again afterwards."""
        self.flush()

    def _topic(self, name: str) -> Topic:
        if name not in self._topics:
            self._topics[name] = self._catalog.topic(name)
        return self._topics[name]

    def _opened(self) -> ProducerState:
        if self._state is None:
            self._state = self._catalog.open_producer(self._name)
            if self._name is not None:
                collect_orphans(
                    self._storage, self._catalog, producer_writer(self._state.id), self._state.epoch, self._state.step
                )
        return self._state

    def _known(self, topic: Topic, sequence: int | None) -> Receipt | None:
        """The receipt of a batch that was sent before."""
        if sequence is None:
            return None
        if type(sequence) is not int or sequence < 0:
            raise ConfigError(f"sequence={sequence!r}; expected a whole number from 0")
        if sequence <= self._last_sequence(topic):
            offsets = self._catalog.sequence_offsets(self._opened().id, topic.id, sequence)
            return Receipt(topic.name, sequence, is_duplicate=True, offsets=offsets, topic_id=topic.id)
        waiting = {
            receipt.sequence: receipt
            for receipt in self._receipts
            if receipt.topic_id == topic.id and receipt.sequence is not None
        }
        if sequence not in waiting and waiting and sequence < max(waiting):
            raise ConfigError(
                f"sequence {sequence} of topic {topic.name} comes after {max(waiting)}; expected sequences that grow"
            )
        return waiting.get(sequence)

    def _last_sequence(self, topic: Topic) -> int:
        """The newest sequence committed to a topic; -1 if there is none."""
        if topic.id not in self._sequences:
            committed = self._catalog.last_sequence(self._opened().id, topic.id)
            self._sequences[topic.id] = -1 if committed is None else committed
        return self._sequences[topic.id]

    def _append(self, topic: Topic, batches: list[pa.RecordBatch], sequence: int | None) -> Receipt:
        if self._pending is not None:
            # A commit that failed goes first: its rows came before these.
            self._commit(self._pending)
        parts = self._buffer.add(topic, batches)
        receipt = Receipt(topic.name, sequence, parts=parts, topic_id=topic.id)
        self._receipts.append(receipt)
        if self._buffer.bytes >= self._buffer_bytes:
            self._stage() if self._in_transaction else self._flush()
        return receipt

    def _flush(self) -> None:
        if self._pending is None:
            self._stage()
            self._pending = self._prepare()
        if self._pending is not None:
            self._commit(self._pending)

    def _stage(self) -> None:
        """Write what is buffered to a slab."""
        if not self._buffer.rows:
            return
        state = self._opened()
        name = SlabName(producer_writer(state.id), state.epoch, state.step + 1, fresh_token())
        compressions = {topic.id: topic.compression for topic in self._topics.values()}
        self._slabs.append(write_slab(self._storage, name, self._buffer.frames(), compressions))
        self._buffer.clear()

    def _prepare(self) -> ProducerCommit | None:
        if not self._slabs and not any(receipt.sequence is not None for receipt in self._receipts):
            return None
        state = self._opened()
        sequences = [SequencedBatch(r.topic_id, r.sequence, r.parts) for r in self._receipts if r.sequence is not None]
        return ProducerCommit(state.id, state.epoch, state.step + 1, fresh_token(), tuple(self._slabs), tuple(sequences))

    def _commit(self, pending: ProducerCommit) -> None:
        try:
            extents = self._catalog.commit_batches(pending)
        except _FINAL:
            self._pending = None
            self._discard()
            raise
        self._acknowledge(extents)
        state = self._opened()
        self._state = ProducerState(state.id, state.name, state.epoch, pending.step)
        self._forget()

    def _acknowledge(self, extents: tuple[Extent, ...]) -> None:
        bases = first_offsets(extents)
        for receipt in self._receipts:
            receipt.offsets = ranges_of(receipt.topic_id, receipt.parts, bases)
            if receipt.sequence is not None:
                self._sequences[receipt.topic_id] = receipt.sequence

    def _discard(self) -> None:
        """Forget what is not committed. Slabs of a commit whose outcome is unknown stay, and the producer is opened anew."""
        if self._pending is not None:
            self._state = None
        else:
            for slab in self._slabs:
                self._storage.delete(slab.path)
        self._topics.clear()
        self._sequences.clear()
        self._forget()

    def _forget(self) -> None:
        self._buffer.clear()
        self._buffer.start_commit()
        self._receipts.clear()
        self._slabs.clear()
        self._pending = None
