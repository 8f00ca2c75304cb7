"""
What the threads of a producer send, and how it leaves: one commit at a time, while the next one gathers.

docs/producers.md has the protocol.
"""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamkit.errors import (
    BufferFullError,
    ConfigError,
    EpochFailedError,
    FencedError,
    OffsetOutOfRangeError,
    SchemaError,
    StreamKitError,
    TopicNotFoundError,
)
from streamkit.log.catalog.groups import GroupCommit
from streamkit.log.produce.draft import Draft
from streamkit.log.produce.offset_source import OffsetSource
from streamkit.log.produce.producer_session import ProducerSession
from streamkit.log.produce.producer_settings import ProducerSettings
from streamkit.log.produce.receipt import Receipt, ReceiptCallback, Settlement
from streamkit.log.produce.sender import Sender
from streamkit.log.rows.generated_reader import RowValues
from streamkit.log.rows.python_rows import RowReader

METADATA_MAX_AGE_SECONDS = 300  # Kafka's metadata.max.age.ms: how long the declaration of a topic is taken from memory
RETRY_SECONDS = 0.1  # Kafka's retry.backoff.ms: between attempts of the background thread

_FINAL = (FencedError, EpochFailedError, TopicNotFoundError, SchemaError, OffsetOutOfRangeError, ConfigError)
_log = logging.getLogger(__name__)
_outboxes: weakref.WeakSet[Outbox] = weakref.WeakSet()


def _leave_to_parent() -> None:
    for outbox in list(_outboxes):
        outbox._abandon()


os.register_at_fork(after_in_child=_leave_to_parent)


class Outbox:
    """
    Drafts of one producer: one that gathers what any thread sends, and at most one that is leaving.

    `forget_topics` is called when what the producer knows of topics may be wrong.
    """

    def __init__(
        self, session: ProducerSession, settings: ProducerSettings, frame_rows: int, forget_topics: Callable[[], None]
    ) -> None:
        self.session = session
        self.settings = settings
        self.keyless = itertools.count(_anywhere())  # leads rows without a key to the next partition, batch by batch
        self._turn = threading.RLock()  # whoever has it commits
        self._frame_rows = frame_rows
        self._forget_topics = forget_topics
        self._topics_until = time.monotonic() + METADATA_MAX_AGE_SECONDS
        self._lock = threading.Lock()  # guards all below
        self._changed = threading.Condition(self._lock)
        self._draft = self._new_draft()
        self._leaving: Draft | None = None  # on its way, or left there by an error that a later attempt may overcome
        self._in_transaction = False
        self._is_busy = False
        self._is_short = False
        self._sender: Sender | None = None
        self._trouble: Exception | None = None  # of the background thread, to be raised in the next call
        self._hindrance: Exception | None = None  # why the last commit failed, if it did
        self._departure: StreamKitError | None = None
        self._easy_bytes = self._bytes_before_a_look()
        _outboxes.add(self)

    @property
    def bytes(self) -> int:
        """What waits and is on its way."""
        return self._held()

    def waiting(self, topic_id: int) -> dict[int, Receipt]:
        """The receipts of a topic's sequenced batches that are not committed, by sequence."""
        leaving = {} if self._leaving is None else self._leaving.waiting(topic_id)
        return leaving | self._draft.waiting(topic_id)

    # Taking rows in

    def add_row(self, reader: RowReader, values: RowValues, size: int, callback: ReceiptCallback | None) -> Receipt:
        """Take one Python row in, as soon as there is room."""
        with self._lock:
            # The common case in as few steps as there can be: this is most of what a row costs.
            draft = self._draft
            if callback is None and draft.since is not None and draft.bytes + size < self._easy_bytes:
                return draft.add_row(reader, values, size, self.keyless)
        row = (reader, values, size, self.keyless)  # no closure over the arguments: every call would pay for their cells
        return self.add(size, lambda draft: draft.add_row(*row), callback)

    def add(self, size: int, add: Callable[[Draft], Receipt], callback: ReceiptCallback | None) -> Receipt:
        """Take rows of that size in as soon as there is room; BufferFullError after `max_block_ms`."""
        deadline: float | None = None
        while True:
            with self._lock:
                if not self._lacks_room(size):
                    is_first = self._draft.since is None
                    receipt = add(self._draft)
                    if callback is not None:
                        self._draft.callbacks.append((callback, receipt))
                    if self.settings.linger_ms is not None and (is_first or self._draft.bytes >= self.settings.batch_size):
                        self._wake_sender()
                    return receipt
            self._raise_trouble()
            deadline = deadline or time.monotonic() + self.settings.max_block_ms / 1000
            self._make_room(size, deadline)

    # Room

    def _held(self) -> int:
        return self._draft.bytes + (self._leaving.bytes if self._leaving is not None else 0)

    def _lacks_room(self, size: int) -> bool:
        """Whether something must happen before rows of that size are taken: a commit, or an error to be raised."""
        if self._trouble is not None or self._departure is not None:
            return True
        held = self._held()
        if held and held + size > self.settings.buffer_memory:
            return True
        return self._draft.bytes >= self.settings.batch_size and self._is_driven_here() and not self._is_busy

    def _report_change(self) -> None:
        """Let threads that wait for room look again."""
        self._easy_bytes = self._bytes_before_a_look()
        self._changed.notify_all()

    def _bytes_before_a_look(self) -> int:
        """How large the draft may become before room is looked for."""
        if self._trouble is not None or self._departure is not None:
            return 0
        leaving = self._leaving.bytes if self._leaving is not None else 0
        return min(self.settings.batch_size, self.settings.buffer_memory - leaving)

    def _is_driven_here(self) -> bool:
        """Whether the threads that send also commit."""
        return self.settings.linger_ms is None or self._in_transaction

    def _make_room(self, size: int, deadline: float) -> None:
        if self._is_driven_here() and self._turn.acquire(blocking=False):
            try:
                self._relieve()
            finally:
                self._release_turn()
            return
        with self._lock:
            if not self._lacks_room(size):
                return
            if self._leaving is None and not self._is_driven_here():
                self._is_short = True  # what gathers must leave now, however long it may linger
                self._wake_sender()
            if not self._changed.wait(deadline - time.monotonic()) and self._lacks_room(size):
                reason = f"; the last commit failed: {self._hindrance}" if self._hindrance else ""
                raise BufferFullError(
                    f"the producer has no room for {size} bytes after {self.settings.max_block_ms} ms: {self._held()} of "
                    f"buffer_memory={self.settings.buffer_memory} are waiting to be committed{reason}; send again later"
                ) from self._hindrance

    def _relieve(self) -> None:
        """Stage what waits if it belongs to a transaction, else flush."""
        with self._lock:
            if self._in_transaction:
                self._stage(self._draft)
                self._report_change()
                return
            settlement = self._draft.settlement
        self._flush_until(settlement, None)

    # Committing

    def flush(self) -> None:
        """Commit what was sent so far; raises what ended it, or what keeps it from being committed now."""
        self._raise_trouble()
        with self._lock:
            if self._in_transaction:
                raise ConfigError("a transaction is flushed by its end; leave the `with producer.transaction()` block instead")
            settlement = self._draft.settlement
        self._flush_until(settlement, None)

    def rest(self) -> None:
        """End the background thread; it starts again with the next rows."""
        with self._lock:
            sender, self._sender = self._sender, None
        if sender is not None:
            sender.stop()

    def _new_draft(self) -> Draft:
        return Draft(Settlement(self._settle), self._frame_rows)

    def _settle(self, settlement: Settlement, timeout: float | None) -> None:
        """Bring the outcome of a draft about, or wait until the background thread has."""
        with self._lock:
            if self._in_transaction and settlement is self._draft.settlement:
                raise ConfigError("a receipt is settled at the end of its transaction; wait for it behind the block")
        if self.settings.linger_ms is None:
            self._flush_until(settlement, timeout)
        else:
            settlement.is_done.wait(timeout)

    def _flush_until(self, settlement: Settlement, timeout: float | None) -> None:
        """Commit until a draft is settled, by this thread or by the one whose turn it is; raises what ended the draft."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._take_turn(settlement, deadline):
            draft = None
            try:
                draft = self._next_draft()
                if draft is None:
                    return
                self._deliver(draft)
            finally:
                self._release_turn()
                if draft is not None:
                    draft.call_back()
        if settlement.error is not None:
            raise settlement.error

    def _take_turn(self, settlement: Settlement, deadline: float | None) -> bool:
        """Wait for the turn; False if the draft is settled meanwhile, so that all who waited for one commit go on at once, or it is too late."""
        with self._lock:
            while not settlement.is_done.is_set():
                if self._turn.acquire(blocking=False):
                    return True
                if not self._changed.wait(None if deadline is None else deadline - time.monotonic()):
                    return False
        return False

    def _release_turn(self) -> None:
        self._turn.release()
        with self._lock:
            self._changed.notify_all()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """While in the block, nobody else commits."""
        self._turn.acquire()
        try:
            yield
        finally:
            self._release_turn()

    def _next_draft(self) -> Draft | None:
        """What is to be committed now: what an error left, else what has gathered, if anything."""
        with self._lock:
            if self._leaving is not None and self._leaving.settlement.is_done.is_set():
                self._leaving = None  # an interrupt has kept it here
            if self._leaving is None and not self._draft.is_empty and not self._in_transaction:
                self._leaving, self._draft = self._draft, self._new_draft()
                self._is_short = False
                self._report_change()
            return self._leaving

    def _deliver(self, draft: Draft) -> None:
        """Stage and commit a draft that is leaving. Errors that a later attempt cannot overcome end it."""
        try:
            self._set_busy(True)
            if time.monotonic() > self._topics_until:
                self._forget_topics()
                self._topics_until = time.monotonic() + METADATA_MAX_AGE_SECONDS
            self._stage(draft)
            self._set_busy(True)  # its rows are out of memory
            bases = self.session.commit(draft)
        except Exception as error:
            # An error of our own making is not overcome by waiting: another attempt would meet it again.
            is_known = draft.is_uncertain or isinstance(error, StreamKitError | OSError | MemoryError)
            if isinstance(error, _FINAL) or not is_known:
                self._end_draft(draft, error)
            else:
                self._hindrance = error
            raise
        else:
            self._hindrance = None
            draft.settlement.succeed(bases)
            self._leave(draft)
        finally:
            self._set_busy(False)

    def _stage(self, draft: Draft) -> None:
        """Write the rows of a draft that are in no slab yet to one, durably; an error leaves them in the draft."""
        session = self.session
        if not draft.slabs:
            session.open_again_if_idle()
        frames = draft.frames(session.clock.now_ms())
        if frames:
            compressions = {topic.id: topic.compression for topic in draft.topics.values()}
            draft.staged(session.slab_of(frames, compressions, draft.topics))

    def _set_busy(self, is_busy: bool) -> None:
        with self._lock:
            self._is_busy = is_busy
            self._report_change()

    def _leave(self, draft: Draft) -> None:
        with self._lock:
            if self._leaving is draft:
                self._leaving = None
            self._report_change()

    def _end_draft(self, draft: Draft, error: Exception) -> None:
        """Forget a draft that does not become visible; first of all, so that nothing tries to commit what is dropped."""
        draft.settlement.fail(error)
        self.session.drop(draft)
        self._forget_topics()
        self._leave(draft)

    # Transactions

    def begin(self) -> None:
        """Flush, and let what is sent from now on be a transaction."""
        with self.turn():
            with self._lock:
                if self._in_transaction:
                    raise ConfigError("a transaction of this producer is open already; it has one at a time")
            self.flush()
            with self._lock:
                self._in_transaction = True

    def end(self) -> None:
        """Commit the transaction. Unless that raises OutcomeUnknownError, an error means that nothing of it is left."""
        with self.turn():
            with self._lock:
                self._in_transaction = False
                draft, self._draft = self._draft, self._new_draft()
                self._leaving = None if draft.is_empty else draft
                self._report_change()
            try:
                if not draft.is_empty:
                    draft.check_tenures()
                    self._deliver(draft)
            except BaseException as error:
                # After a commit that may have taken effect it stays, for a flush to settle it.
                if not draft.is_uncertain and not draft.settlement.is_done.is_set():
                    interrupted = StreamKitError(
                        f"the transaction was interrupted by {type(error).__name__} before its commit; nothing of it becomes visible"
                    )
                    self._end_draft(draft, error if isinstance(error, Exception) else interrupted)
                raise
            finally:
                draft.call_back()

    def add_offsets(self, commit: GroupCommit) -> None:
        """Have offsets of a group committed with the transaction; ConfigError if there is none."""
        with self._lock:
            self._check_in_transaction()
            self._draft.add_offsets(commit)

    def add_offsets_of(self, source: OffsetSource) -> None:
        """Have the offsets of a consumer committed with the transaction; ConfigError if there is none."""
        with self._lock:
            self._check_in_transaction()
            self._draft.add_offsets_of(source)

    def _check_in_transaction(self) -> None:
        if not self._in_transaction:
            raise ConfigError(
                "offsets are sent inside a transaction; use `with producer.transaction()`, or commit() of the consumer"
            )

    def discard(self) -> None:
        """Forget whatever is not committed. Slabs of a commit whose outcome is unknown stay, and the producer is opened again."""
        discarded = StreamKitError("the rows were discarded: the block in which they were sent raised")
        with self.turn():
            with self._lock:
                drafts = [draft for draft in (self._leaving, self._draft) if draft is not None]
                self._draft = self._new_draft()
                self._in_transaction = False
                self._trouble = None
            for draft in drafts:
                unknown = self._hindrance if draft.is_uncertain else None
                self._end_draft(draft, unknown or discarded)
        for draft in drafts:
            draft.call_back()

    # The background thread

    def _wake_sender(self) -> None:
        if self._sender is None:
            self._sender = Sender(self._send_due)
        self._sender.wake()

    def _send_due(self) -> float | None:
        """Commit what has waited for `linger_ms` or is full; returns in how many seconds to look again."""
        with self._lock:
            seconds = self._seconds_left()
            settlement = self._draft.settlement if self._leaving is None else self._leaving.settlement
        if seconds is None or seconds > 0:
            return seconds
        try:
            self._flush_until(settlement, None)
        except Exception as error:  # noqa: BLE001  whatever it is, the next call raises it, or the rows wait for the next attempt
            if not settlement.is_done.is_set():
                _log.warning("rows wait for a commit that failed and is tried again: %s", error)
                return RETRY_SECONDS
            with self._lock:
                self._trouble = error
                self._report_change()
        return 0.0

    def _seconds_left(self) -> float | None:
        """How long what waits may go on waiting; None if nothing does."""
        if self._leaving is not None:
            return 0.0
        if self._draft.since is None or self._in_transaction:
            return None
        if self._draft.bytes >= self.settings.batch_size or self._is_short:
            return 0.0
        return max(0.0, self._draft.since + (self.settings.linger_ms or 0) / 1000 - time.monotonic())

    def _raise_trouble(self) -> None:
        if self._departure is not None:
            raise self._departure
        with self._lock:
            trouble, self._trouble = self._trouble, None
            self._report_change()
        if trouble is not None:
            raise trouble

    def _abandon(self) -> None:
        # In a child of a fork: the thread is not here, and locks may be held by threads that are not here either.
        self._turn = threading.RLock()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._sender = None
        self._easy_bytes = 0
        self._departure = StreamKitError(
            "the producer was opened by the process that forked this one; open the log and a producer again in a spawned process"
        )


def _anywhere() -> int:
    """Where to begin: producers that live for one batch each would else all fill the same partition."""
    return secrets.randbelow(1 << 32)
