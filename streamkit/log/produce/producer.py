"""
The producer: rows into topics, gathered by any number of threads, durable and visible at once per commit.

Rows gather in a draft. A flush takes the draft, stages its rows as one slab and commits it in one catalog transaction, while
the next draft gathers: many small sends share a slab and a commit. One commit is on its way at a time, so order is kept. A commit
whose outcome got lost is settled by its token and never made twice; a batch with a sequence number is never written twice,
whatever process sends it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, final

import numpy as np
import numpy.typing as npt

from streamkit.clock import Clock
from streamkit.errors import ConfigError, StreamKitError
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.groups import GroupCommit
from streamkit.log.produce.draft import chosen_partitions, split, split_as
from streamkit.log.produce.offset_source import OffsetSource
from streamkit.log.produce.outbox import Outbox
from streamkit.log.produce.producer_session import ProducerSession
from streamkit.log.produce.producer_settings import ProducerSettings
from streamkit.log.produce.receipt import Placement, Receipt, ReceiptCallback, Settlement
from streamkit.log.rows.python_rows import RowReader
from streamkit.log.rows.records import event_time_ms, records_of, tombstone_of
from streamkit.log.storage.storage import Storage
from streamkit.log.topic.topic import check_writable
from streamkit.log.values.whole_number import offsets_by_topic, whole_number

ROW_OVERHEAD_BYTES = 160  # of a Python row that waits, beside its values
FRAME_ROWS = 65_536
DEFAULTS = ProducerSettings()


@final
class Producer:
    """
    Appends rows to topics. Rows are visible to others after `flush`, which leaving the `with` block does too.

    A producer with a name (`id`) fences every older instance of that name when it is opened, and its sequence numbers are remembered. Any
    number of threads may share a producer: their rows are committed together. ProducerSettings says when.
    """

    def __init__(
        self,
        storage: Storage,
        catalog: Catalog,
        clock: Clock,
        name: str | None = None,
        frame_rows: int = FRAME_ROWS,
        settings: ProducerSettings = DEFAULTS,
        inline_slab_bytes: int = 0,
    ) -> None:
        self._catalog = catalog
        self._clock = clock
        self._session = ProducerSession(storage, catalog, clock, name, inline_slab_bytes)
        self._readers: dict[str, RowReader] = {}
        self._is_closed = False
        self._outbox = Outbox(self._session, settings, frame_rows, self._readers.clear)
        if name is not None:
            self._session.open()

    def __repr__(self) -> str:
        return f"Producer(id={self._session.name!r}, buffered_bytes={self._outbox.bytes})"

    def __enter__(self) -> Producer:
        self._check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self._outbox.discard()
            self._end()

    def send(
        self, topic: str, row: Mapping[str, Any], timestamp_ms: int | None = None, callback: ReceiptCallback | None = None
    ) -> Receipt:
        """
        Buffer one row, given as column names and values; SchemaError if it does not fit the topic, at once.

        It may have `_timestamp`, `_deleted` and `_headers` beside the topic's columns. `callback` is called with the receipt
        when the row is committed or has failed for good, in the thread that finds this out.
        """
        reader = self._readers.get(topic) or self._reader(topic)
        if reader.is_limited_in_the_past:  # it moves with the clock
            reader.renew(self._clock.now_ms())
        is_timely = True
        if timestamp_ms is None:
            time_ms = 0 if reader.has_times else self._clock.now_ms()
        else:
            time_ms = timestamp_ms if type(timestamp_ms) is int else event_time_ms(reader.topic, timestamp_ms)
            is_timely = reader.earliest_ms <= time_ms <= reader.latest_ms
        found = reader.read(row, time_ms) if is_timely and type(row) is dict else None
        if found is None:
            reader.renew(self._clock.now_ms())
            return self.send_batch(topic, [row], timestamp_ms=timestamp_ms, callback=callback)
        values, size = found
        return self._outbox.add_row(reader, values, size + ROW_OVERHEAD_BYTES, callback)

    def send_batch(
        self,
        topic: str,
        data: Any,
        sequence: int | None = None,
        timestamp_ms: int | None = None,
        callback: ReceiptCallback | None = None,
        partitions: Any = None,
    ) -> Receipt:
        """
        Buffer all rows of a RecordBatch, Table, DataFrame or list of dicts, or none of them.

        Objects with Arrow's stream interface (a DataFrame of polars, a relation of DuckDB, a RecordBatchReader) and generators of dicts or
        RecordBatches are accepted, too; they are read to the end.

        Columns are those of the topic, in any order, and maybe `_timestamp`, `_deleted`, `_headers`; see `records_of` for
        event times. A `sequence` must grow from batch to batch of a topic; one that was committed before writes nothing, one that was left
        out is a ConfigError. `partitions` names the partition of each row, in place of the one of its key.
        SchemaError names the row and the column that do not fit, RecordTooLargeError the row and the limit; both list the rows
        in `rows`. A full buffer is flushed first; in a transaction its rows are staged. With `linger_ms`, if the buffer stays full
        for `max_block_ms`, BufferFullError is raised, and no row was buffered.
        """
        reader = self._readers.get(topic) or self._reader(topic)
        if sequence is not None:
            sequence = whole_number("sequence", sequence)
        known = self._known(reader, sequence)
        if known is not None:
            return known
        if timestamp_ms is not None:
            timestamp_ms = event_time_ms(reader.topic, timestamp_ms)
        batches = records_of(reader.topic, data, self._clock.now_ms(), timestamp_ms)
        chosen = None if partitions is None else chosen_partitions(reader.topic, partitions, sum(map(len, batches)))
        return self._append(reader, batches, sequence, callback, chosen)

    def delete(
        self, topic: str, key: Mapping[str, Any], timestamp_ms: int | None = None, callback: ReceiptCallback | None = None
    ) -> Receipt:
        """Buffer a tombstone: the row that deletes a key, given as key columns and values."""
        reader = self._readers.get(topic) or self._reader(topic)
        now_ms = self._clock.now_ms()
        stamp = now_ms if timestamp_ms is None else event_time_ms(reader.topic, timestamp_ms)
        return self._append(reader, [tombstone_of(reader.topic, key, stamp, now_ms)], None, callback)

    def refresh(self, topic: str) -> None:
        """Flush, and then read the declaration of the topic again, with columns that were added since the first row."""
        self._check_open()
        self._outbox.flush()
        self._readers.pop(topic, None)

    def flush(self) -> None:
        """
        Make everything sent so far durable and visible, in one commit.

        There are three outcomes. If it returns, the commit is done. After FencedError (the producer was opened again elsewhere),
        TopicNotFoundError and EpochFailedError the commit has failed: none of its rows becomes visible, the producer forgets them, also
        those for other topics than the one that was deleted, and their receipts have the error. After any other error the producer keeps
        the rows, and a later flush completes this very commit: after OutcomeUnknownError it may have taken effect already, which that
        flush finds out; after StorageFullError and other errors of disk or catalog it has not. If another instance opened the producer
        before that flush, and it cannot be found out any more, the FencedError says so.
        """
        self._check_open()
        self._outbox.flush()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """
        Make everything sent in the block visible in one commit when it ends, or nothing if it raises.

        Rows that were sent before are flushed first. There is one transaction at a time, and rows that other threads send in the meantime
        belong to it. If the commit at the end raises OutcomeUnknownError, it may have taken effect or not: `flush` finds out, and
        completes it. After any other error no row of it is visible, and no slab is left.
        """
        self._check_open()
        self._outbox.begin()
        try:
            yield
        except BaseException:
            self._outbox.discard()
            raise
        self._outbox.end()

    def send_offsets(self, group: str | OffsetSource, offsets: Mapping[str, Mapping[int, int]] | None = None) -> None:
        """
        Commit consumer offsets together with the transaction: read, process and write exactly once.

        `group` is a consumer, whose positions and membership count; or the name of a group without members, and `offsets` are
        its next offsets by topic and partition. If the consumer gives up a partition before the transaction ends, the
        transaction fails with MembershipLostError, also if the consumer has got the partition back. ConfigError outside a transaction, and
        for an offset that is not an integer; then none of the offsets is committed. If a transaction fails, the positions of its consumer
        stay where they are, as in Kafka: `seek` to the `committed()` offsets to process the records again.
        """
        if isinstance(group, str):
            self._outbox.add_offsets(self._group_commit(group, offsets))
        elif isinstance(group, OffsetSource):
            self._outbox.add_offsets_of(group)
        else:
            raise ConfigError(f"send_offsets({group!r}); expected a consumer, or the name of a group and offsets")

    def close(self) -> None:
        """
        Flush, and end the background thread; a second call does nothing. All other calls of a closed producer raise StreamKitError.

        If the flush raises, the producer stays open, so that a later flush can complete the commit.
        """
        if self._is_closed:
            return
        try:
            self._outbox.flush()
        except BaseException:
            self._outbox.rest()
            raise
        self._end()

    def _end(self) -> None:
        self._is_closed = True
        self._readers.clear()  # so that the next row asks for its topic, and is refused
        self._outbox.rest()

    def _check_open(self) -> None:
        if self._is_closed:
            raise StreamKitError(f"{self!r} is closed, and accepts no more rows; make another one")

    # Taking rows in

    def _reader(self, name: str) -> RowReader:
        """The declaration of a topic, from the catalog."""
        self._check_open()
        if name not in self._readers:
            self._readers[name] = RowReader(check_writable(self._catalog.topics.get(name)), self._clock.now_ms())
        return self._readers[name]

    def _known(self, reader: RowReader, sequence: int | None) -> Receipt | None:
        """The receipt of a batch that was sent before."""
        if sequence is None:
            return None
        topic = reader.topic
        with self._outbox.turn():
            waiting = self._outbox.waiting(topic.id)
            if sequence in waiting:
                return waiting[sequence]
            if sequence <= self._session.last_sequence(topic):
                return self._duplicate(reader, sequence)
        if waiting and sequence < max(waiting):
            raise ConfigError(
                f"sequence {sequence} of topic {topic.name} comes after {max(waiting)}; expected sequences that grow"
            )
        return None

    def _duplicate(self, reader: RowReader, sequence: int) -> Receipt:
        settlement = Settlement()
        settlement.succeed({})
        placement = Placement(settlement, reader.topic.name, reader.topic.id, sequence)
        placement.is_duplicate = True
        placement.known = self._session.sequence_offsets(reader.topic, sequence)
        return Receipt(placement)

    def _append(
        self,
        reader: RowReader,
        batches: list[Any],
        sequence: int | None,
        callback: ReceiptCallback | None,
        chosen: npt.NDArray[np.int32] | None = None,
    ) -> Receipt:
        topic = reader.topic
        keyless = next(self._outbox.keyless)
        if chosen is None:
            splits = [split(topic, batch, keyless) for batch in batches]
        else:
            ends = np.cumsum([0, *map(len, batches)])
            splits = [split_as(topic, batch, chosen[start:end]) for batch, start, end in zip(batches, ends, ends[1:])]
        size = sum(batch.nbytes for batch in batches)
        now_ms = self._clock.now_ms()
        return self._outbox.add(size, lambda draft: draft.add(topic, splits, size, sequence, now_ms), callback)

    def _group_commit(self, group: str, offsets: Mapping[str, Mapping[int, int]] | None) -> GroupCommit:
        if not offsets:
            raise ConfigError(f"send_offsets({group!r}) has no offsets; expected {{topic: {{partition: next offset}}}}")
        return GroupCommit(
            group, None, {self._catalog.topics.get(topic).id: ends for topic, ends in offsets_by_topic(offsets).items()}
        )
