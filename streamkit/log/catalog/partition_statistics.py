"""What the partitions of a topic hold and how fast they grow: sizes, files, times and rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamkit.log.database.database import Row, Transaction

RATE_WINDOW_MS = 60_000


@dataclass(frozen=True)
class PartitionStatistics:
    """
    A partition: its offsets, what it holds, event times of its oldest and newest row and when it was last written to, ms.

    `records_per_second` are the records that were appended in the last minute and are still there, over 60, by the clocks of
    their writers. Where a merge or compaction has joined records of several commits, they count as if they had
    come evenly between the first of these and the last.
    """

    partition: int
    start_offset: int
    end_offset: int
    records: int
    bytes: int
    extents: int
    files: int
    oldest_ms: int | None
    newest_ms: int | None
    appended_ms: int | None
    records_per_second: float


def of_partitions(transaction: Transaction, now_ms: int, topic_id: int) -> tuple[PartitionStatistics, ...]:
    """The figures of each partition of a topic."""
    rates = _rates(transaction, topic_id, now_ms - RATE_WINDOW_MS)
    rows = transaction.execute(
        """
        SELECT p.partition, p.start_offset, p.next_offset, coalesce(sum(e.rows), 0), coalesce(sum(e.length), 0),
               count(e.base_offset), count(DISTINCT e.slab_id), min(e.min_timestamp), max(e.max_timestamp), max(s.appended_ms)
        FROM topic_partition p
        LEFT JOIN extent e ON e.topic_id = p.topic_id AND e.partition = p.partition
        LEFT JOIN slab s ON s.id = e.slab_id
        WHERE p.topic_id = ? GROUP BY p.partition, p.start_offset, p.next_offset ORDER BY p.partition
        """,
        (topic_id,),
    )
    return tuple(_figures(row, rates.get(row[0], 0.0)) for row in rows)


def _figures(row: Row, records_per_second: float) -> PartitionStatistics:
    numbers: list[Any] = [None if value is None else int(value) for value in row]  # sums are decimals in PostgreSQL
    return PartitionStatistics(*[*numbers, records_per_second])


def _rates(transaction: Transaction, topic_id: int, since_ms: int) -> dict[int, float]:
    """Records a second since a time, by partition."""
    rows = transaction.execute(
        """
        SELECT e.partition, s.first_appended_ms, s.appended_ms, sum(e.rows)
        FROM extent e JOIN slab s ON s.id = e.slab_id
        WHERE e.topic_id = ? AND s.appended_ms > ? GROUP BY e.partition, s.first_appended_ms, s.appended_ms
        """,
        (topic_id, since_ms),
    )
    rates: dict[int, float] = {}
    for partition, first_ms, last_ms, count in rows:
        share = 1.0 if first_ms > since_ms else (last_ms - since_ms) / (last_ms - first_ms)
        rates[partition] = rates.get(partition, 0.0) + float(count) * share * 1000 / RATE_WINDOW_MS
    return rates
