"""How far compaction has come in each topic partition: its checkpoint, its horizon, and who still needs deletions."""

from __future__ import annotations

from dataclasses import dataclass

from streamkit.log.catalog import topics
from streamkit.log.database.database import Transaction
from streamkit.log.topic.settings import MAX_COMPACTION_LAG_MS, SEGMENT_MS
from streamkit.log.topic.topic import Topic

OFFSETS_RETENTION_MS = 7 * 24 * 3_600_000  # Kafka's offsets.retention.minutes
_UNREAD = (1 << 63) - 1


@dataclass(frozen=True)
class Cleaning:
    """
    How far a topic partition has been compacted.

    Below `cleaned_offset` each key had one record when that was reached. The deletions below `horizon_offset` had nothing
    older left under them at `horizon_ms`; 0 and 0 before the first time. `read_offset` is how far all of its `readers` have
    come; the largest number there is if there is none. What lies before `closed_offset` was appended so long ago, or is in one
    frame with what was, that its segment is not written to any more, and what lies before `overdue_offset` must be cleaned.
    """

    topic_id: int
    partition: int
    start_offset: int
    next_offset: int
    cleaned_offset: int
    horizon_offset: int
    horizon_ms: int
    read_offset: int
    closed_offset: int
    overdue_offset: int

    def is_over(self, now_ms: int, delete_retention_ms: int) -> bool:
        """Whether deletions below the horizon have been kept long enough; true also where there is no horizon yet."""
        return self.horizon_offset == 0 or now_ms >= self.horizon_ms + delete_retention_ms

    def droppable_below(self, now_ms: int, delete_retention_ms: int) -> int:
        """The offset below which deletions may go: nobody can need them any more."""
        return min(self.horizon_offset, self.read_offset) if self.is_over(now_ms, delete_retention_ms) else 0


def of(transaction: Transaction, now_ms: int, topic: Topic, partition: int) -> Cleaning:
    """How far a partition has come; TopicNotFoundError if there is none, since the topic was deleted."""
    place = (topic.id, partition)
    rows = transaction.execute(
        "SELECT start_offset, next_offset, cleaned_offset, horizon_offset, horizon_ms FROM topic_partition WHERE topic_id = ? AND partition = ?",
        place,
    )
    if not rows:
        topics.get_by_id(transaction, topic.id, topic.name)  # raises
    positions = [position for _, position in readers(transaction, *place, now_ms)]
    overdue_ms = int(topic.setting(MAX_COMPACTION_LAG_MS))
    closed_ms = min(overdue_ms, int(topic.setting(SEGMENT_MS)))
    counters: list[int] = [
        *rows[0],
        min(positions, default=_UNREAD),
        _appended_until(transaction, *place, now_ms - closed_ms),
        _appended_until(transaction, *place, now_ms - overdue_ms),
    ]
    return Cleaning(*place, *counters)


def _appended_until(transaction: Transaction, topic_id: int, partition: int, time_ms: int) -> int:
    """The offset behind the newest extent of which a row was appended by then; 0 if there is none."""
    ((offset,),) = transaction.execute(
        "SELECT coalesce(max(e.next_offset), 0) FROM extent e JOIN slab s ON s.id = e.slab_id "
        "WHERE e.topic_id = ? AND e.partition = ? AND s.first_appended_ms <= ?",
        (topic_id, partition, time_ms),
    )
    return int(offset)


def readers(transaction: Transaction, topic_id: int, partition: int, now_ms: int) -> list[tuple[str, int]]:
    """
    Who has begun to read a partition and is to see every deletion in it, and where each stands.

    Applications, running or not, and the consumer groups that have committed there, as long as they committed something,
    anywhere, within the last seven days. Members do not count by themselves: one that was killed stays in the catalog until
    another comes, so it would keep deletions for ever, and whether it lives is not written where a transaction could see it.
    """
    place = (topic_id, partition)
    applications = """
        SELECT a.name, p.next_offset FROM application_position p JOIN application a ON a.id = p.application_id
        WHERE p.topic_id = ? AND p.partition = ? AND p.next_offset > 0 ORDER BY a.name
    """
    groups = """
        SELECT g.name, o.next_offset FROM consumer_group g JOIN group_offset o ON o.group_id = g.id
        WHERE o.topic_id = ? AND o.partition = ? AND o.next_offset > 0
        AND EXISTS (SELECT 1 FROM group_offset c WHERE c.group_id = g.id AND c.committed_ms > ?) ORDER BY g.name
    """
    return [
        *((f"application {name}", offset) for name, offset in transaction.execute(applications, place)),
        *(
            (f"consumer group {name}", offset)
            for name, offset in transaction.execute(groups, (*place, now_ms - OFFSETS_RETENTION_MS))
        ),
    ]


def record(transaction: Transaction, before: Cleaning, cleaned_offset: int, horizon: tuple[int, int] | None) -> None:
    """Note the end of a pass: everything below `cleaned_offset` is clean. The horizon moves unless another pass has moved it."""
    place = (before.topic_id, before.partition)
    transaction.execute(
        "UPDATE topic_partition SET cleaned_offset = ? WHERE topic_id = ? AND partition = ? AND cleaned_offset < ?",
        (cleaned_offset, *place, cleaned_offset),
    )
    if horizon is not None:
        transaction.execute(
            "UPDATE topic_partition SET horizon_offset = ?, horizon_ms = ? "
            "WHERE topic_id = ? AND partition = ? AND horizon_offset = ? AND horizon_ms = ?",
            (*horizon, *place, before.horizon_offset, before.horizon_ms),
        )
