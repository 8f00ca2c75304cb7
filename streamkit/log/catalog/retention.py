"""
Retention: which rows of a partition are old enough to go, and who still needs them.

As in Kafka, under the policy `delete` (or `compact,delete`): what is older than `retention.ms` goes, all of a partition if
all of it is; of what lies beyond `retention.bytes`, as much goes as leaves at least so many bytes. Whole extents go, from the
oldest on. The age of an extent counts from its largest event time or from its commit, whichever was earlier: a row from
the future does not hold back what lies behind it. One pass takes at most `EXTENTS_PER_PASS` of a partition, so that a clock
that jumped does not empty the log before somebody reads the warning.

No clock says when rows of a changelog are old: its application does, in the commit of an epoch (`expired_ms`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from streamkit.log.catalog import cleaning, manifest, pins
from streamkit.log.catalog.applications import EXPIRED_TIME, TIMES_METRIC
from streamkit.log.database.database import Transaction
from streamkit.log.topic.settings import RETENTION_BYTES, RETENTION_MS
from streamkit.log.topic.topic import Topic
from streamkit.names import application_heartbeat, pin_heartbeat

EXTENTS_PER_PASS = 1_000
UNLOGGED_EPOCHS = 100  # so many of the last ones are kept of a store without a log, whatever the clock says


@dataclass(frozen=True)
class AgedExtent:
    """An extent as retention sees it: the offset behind it, its bytes, and since when it can be called old, in ms."""

    next_offset: int
    bytes: int
    time_ms: int


@dataclass(frozen=True)
class Head:
    """The oldest extents of a partition, at most `EXTENTS_PER_PASS`, the bytes of all, and the youngest of all."""

    extents: tuple[AgedExtent, ...]
    bytes: int
    newest_ms: int


@dataclass(frozen=True)
class Trim:
    """
    A request to drop what a partition holds before an offset; `is_forced` drops what somebody needs too.

    With `purges` deletions of keys are among it, as in a changelog: a store that has not applied them yet is not trusted any more.
    """

    topic_id: int
    partition: int
    before_offset: int
    is_forced: bool = False
    purges: bool = False


@dataclass(frozen=True)
class Trimmed:
    """What was dropped, and who kept more from being dropped."""

    extents: int = 0
    bytes: int = 0
    held_by: tuple[str, ...] = ()

    def __add__(self, other: Trimmed) -> Trimmed:
        held_by = tuple(sorted({*self.held_by, *other.held_by}))
        return Trimmed(self.extents + other.extents, self.bytes + other.bytes, held_by)


def head(transaction: Transaction, topic_id: int, partition: int) -> Head:
    """The oldest extents of a partition."""
    place = (topic_id, partition)
    rows = transaction.execute(
        "SELECT e.next_offset, e.length, e.max_timestamp, s.appended_ms FROM extent e JOIN slab s ON s.id = e.slab_id "
        "WHERE e.topic_id = ? AND e.partition = ? ORDER BY e.base_offset LIMIT ?",
        (*place, EXTENTS_PER_PASS),
    )
    ((size,),) = transaction.execute("SELECT coalesce(sum(length), 0) FROM extent WHERE topic_id = ? AND partition = ?", place)
    newest = transaction.execute(
        "SELECT e.next_offset, e.length, e.max_timestamp, s.appended_ms FROM extent e JOIN slab s ON s.id = e.slab_id "
        "WHERE e.topic_id = ? AND e.partition = ? ORDER BY e.base_offset DESC LIMIT 1",
        place,
    )
    return Head(tuple(_aged(*row) for row in rows), int(size), max((_aged(*row).time_ms for row in newest), default=0))


def _aged(next_offset: int, size: int, max_timestamp: int, appended_ms: int) -> AgedExtent:
    return AgedExtent(next_offset, size, min(max_timestamp, appended_ms) if appended_ms else max_timestamp)


def expired_ms(transaction: Transaction, changelog_id: int) -> int | None:
    """
    The event time up to which the records of a changelog are of windows that have expired; None if its application has said none.

    An epoch says it in its commit, and by that commit each of these windows was deleted in the changelog. So a restore needs none of
    these records, whatever clock anybody has.
    """
    rows = transaction.execute(
        "SELECT a.metrics FROM application_store s JOIN application a ON a.id = s.application_id WHERE s.changelog_topic_id = ?",
        (changelog_id,),
    )
    for (metrics,) in rows:
        times = dict(json.loads(metrics).get(TIMES_METRIC) or ())
        if (time := times.get(f"{EXPIRED_TIME}{changelog_id}")) is not None:
            return int(time)
    return None


def begin_of_newer(transaction: Transaction, topic_id: int, partition: int, time_ms: int) -> int:
    """The offset before which a partition holds records up to this event time alone; 0 if it holds none."""
    place = (topic_id, partition)
    newer = transaction.execute(
        "SELECT base_offset FROM extent WHERE topic_id = ? AND partition = ? AND max_timestamp > ? ORDER BY base_offset LIMIT 1",
        (*place, time_ms),
    )
    ends = "SELECT coalesce(max(next_offset), 0) FROM extent WHERE topic_id = ? AND partition = ?"
    return int(newer[0][0]) if newer else int(transaction.execute(ends, place)[0][0])


def begin_of_kept(transaction: Transaction, changelog_id: int, partition: int, kept_ms: int) -> int:
    """
    The offset before which a changelog holds only what no task of its application needs that has run lately; 0 if there is none.

    What was appended within `kept_ms` before the application's newest epoch is kept, and what the last epochs wrote, so that neither an
    application that stands still nor a clock that jumps loses what a store has yet to apply.
    """
    epochs = transaction.execute(
        "SELECT e.timestamp_ms FROM epoch e JOIN application_store s ON s.application_id = e.application_id "
        "WHERE s.changelog_topic_id = ? ORDER BY e.epoch DESC LIMIT ?",
        (changelog_id, UNLOGGED_EPOCHS),
    )
    if len(epochs) < UNLOGGED_EPOCHS:
        return 0
    until_ms = min(epochs[0][0] - kept_ms, *(time_ms for (time_ms,) in epochs))
    place = (changelog_id, partition)
    newer = transaction.execute(
        "SELECT e.base_offset FROM extent e JOIN slab s ON s.id = e.slab_id WHERE e.topic_id = ? AND e.partition = ? "
        "AND (s.appended_ms >= ? OR s.appended_ms = 0) ORDER BY e.base_offset LIMIT 1",
        (*place, until_ms),
    )
    ends = "SELECT coalesce(max(next_offset), 0) FROM extent WHERE topic_id = ? AND partition = ?"
    return int(newer[0][0]) if newer else int(transaction.execute(ends, place)[0][0])


def expired_before(topic: Topic, found: Head, now_ms: int) -> int:
    """The offset before which a partition holds nothing that its topic's settings want kept; 0 if all of it is."""
    if not topic.has_retention:
        return 0
    retention_ms, retention_bytes = (int(topic.setting(name)) for name in (RETENTION_MS, RETENTION_BYTES))
    before, left = 0, found.bytes
    for extent in found.extents:
        left -= extent.bytes
        is_old = 0 <= retention_ms < now_ms - extent.time_ms
        is_beyond = 0 <= retention_bytes <= left
        if not is_old and not is_beyond:
            break
        before = extent.next_offset
    return before


def is_all_expired(topic: Topic, found: Head, now_ms: int) -> bool:
    """Whether even the newest rows are too old: nobody has written for long, or a clock is wrong."""
    retention_ms = int(topic.setting(RETENTION_MS))
    return bool(found.extents) and 0 <= retention_ms < now_ms - found.newest_ms


def trim(transaction: Transaction, now_ms: int, request: Trim, lapsed: Collection[str] = frozenset()) -> Trimmed:
    """
    Drop the oldest extents of a partition that lie before an offset, as far as nobody needs them.

    Needed is what a pin says, and of its inputs what a running application has not read yet, or has read in its last two
    epochs, or reads whole in each, as global tables. Holders
    named in `lapsed` do not count; a holder that the caller does not know does. Of a changelog it is also what anybody has not
    read who has begun to, as compaction keeps deletions for them.
    """
    place = (request.topic_id, request.partition)
    needs = {} if request.is_forced else floors(transaction, *place, lapsed)
    if request.purges:
        needs |= dict(cleaning.readers(transaction, *place, now_ms))
    before = min([request.before_offset, *needs.values()])
    held_by = tuple(sorted(holder for holder, offset in needs.items() if offset < request.before_offset))
    gone = manifest.trim(transaction, *place, before, now_ms, EXTENTS_PER_PASS)
    if request.purges and gone:
        manifest.purge(transaction, *place, gone[-1].next_offset)
    return Trimmed(len(gone), sum(extent.length for extent in gone), held_by)


def floors(transaction: Transaction, topic_id: int, partition: int, lapsed: Collection[str]) -> dict[str, int]:
    """Who needs a partition, by the name of its heartbeat, and from which offset on."""
    needs = {pin_heartbeat(token): offset for token, offset in pins.of(transaction, topic_id, partition)}
    readers = transaction.execute(
        "SELECT a.id, a.generation, CASE i.is_whole WHEN 0 THEN coalesce(p.replay_offset, 0) ELSE 0 END "
        "FROM application_input i JOIN application a ON a.id = i.application_id LEFT JOIN application_position p "
        "ON p.application_id = i.application_id AND p.topic_id = i.topic_id AND p.partition = ? WHERE i.topic_id = ?",
        (partition, topic_id),
    )
    needs |= {application_heartbeat(application_id, generation): offset for application_id, generation, offset in readers}
    return {holder: offset for holder, offset in needs.items() if holder not in lapsed}


def holders(transaction: Transaction) -> frozenset[str]:
    """The names under which pins and applications beat, alive or not."""
    applications: Sequence[tuple[int, int]] = [
        (row[0], row[1]) for row in transaction.execute("SELECT id, generation FROM application")
    ]
    return frozenset(
        [
            *(pin_heartbeat(token) for token in pins.tokens(transaction)),
            *(application_heartbeat(application_id, generation) for application_id, generation in applications),
        ]
    )
