"""How far compaction has come in each topic partition: its checkpoint, its horizon, and who still needs deletions."""

from __future__ import annotations

from dataclasses import dataclass

from streamkit.log.database import Transaction

_UNREAD = (1 << 63) - 1


@dataclass(frozen=True)
class Cleaning:
    """
    How far a topic partition has been compacted.

    Below `cleaned_offset` each key had one record when that was reached. The deletions below `horizon_offset` had nothing
    older left under them at `horizon_ms`; 0 and 0 before the first time. `read_offset` is how far every application that
    has begun to read the partition has come; the largest number there is if there is none.
    """

    topic_id: int
    partition: int
    start_offset: int
    next_offset: int
    cleaned_offset: int
    horizon_offset: int
    horizon_ms: int
    read_offset: int

    def is_over(self, now_ms: int, delete_retention_ms: int) -> bool:
        """Whether the time for which deletions below the horizon are kept is over; so it is where there is no horizon yet."""
        return self.horizon_offset == 0 or now_ms >= self.horizon_ms + delete_retention_ms

    def droppable_below(self, now_ms: int, delete_retention_ms: int) -> int:
        """The offset below which deletions may go: nobody can need them any more."""
        return min(self.horizon_offset, self.read_offset) if self.is_over(now_ms, delete_retention_ms) else 0


def of(transaction: Transaction, topic_id: int) -> list[Cleaning]:
    """How far each partition of a topic has come; none if it does not exist."""
    statement = """
        SELECT p.topic_id, p.partition, p.start_offset, p.next_offset, p.cleaned_offset, p.horizon_offset, p.horizon_ms, coalesce(
            (SELECT min(a.next_offset) FROM application_position a
             WHERE a.topic_id = p.topic_id AND a.partition = p.partition AND a.next_offset > 0), ?)
        FROM topic_partition p WHERE p.topic_id = ? ORDER BY p.partition
    """
    return [Cleaning(*row) for row in transaction.execute(statement, (_UNREAD, topic_id))]


def readers_below(transaction: Transaction, topic_id: int, partition: int, offset: int) -> list[tuple[str, int]]:
    """The applications that have begun to read a partition and stand below an offset, and where."""
    statement = """
        SELECT a.name, p.next_offset FROM application_position p JOIN application a ON a.id = p.application_id
        WHERE p.topic_id = ? AND p.partition = ? AND p.next_offset > 0 AND p.next_offset < ? ORDER BY a.name
    """
    return [(name, position) for name, position in transaction.execute(statement, (topic_id, partition, offset))]


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
