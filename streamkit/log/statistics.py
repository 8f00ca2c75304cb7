"""What a log holds and how it moves: sizes, files and times of topics, lag and rate of applications."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from streamkit.log.applications import ApplicationState
from streamkit.log.database import Transaction
from streamkit.log.epochs import EpochRecord
from streamkit.log.topic import Topic

if TYPE_CHECKING:
    from streamkit.log.log import Log

RATE_EPOCHS = 20


@dataclass(frozen=True)
class PartitionStatistics:
    """A partition: its offsets, what it holds, event times of its oldest and newest row and when it was last written to, ms."""

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


@dataclass(frozen=True)
class TopicStatistics:
    """A topic and its partitions."""

    topic: str
    internal: bool
    partitions: tuple[PartitionStatistics, ...]

    def total(self, field: str) -> int:
        """The sum of a number over the partitions."""
        return sum(getattr(partition, field) for partition in self.partitions)

    def least(self, field: str) -> int | None:
        """The smallest of a time over the partitions that have one."""
        return min(self._known(field), default=None)

    def greatest(self, field: str) -> int | None:
        """The largest of a time over the partitions that have one."""
        return max(self._known(field), default=None)

    def _known(self, field: str) -> list[int]:
        return [value for partition in self.partitions if (value := getattr(partition, field)) is not None]


@dataclass(frozen=True)
class ApplicationStatistics:
    """An application: the records that wait for it by topic, those it took a second in its last epochs, its last commit, ms."""

    application: str
    epoch: int
    lag: dict[str, int]
    records_per_second: float | None
    committed_ms: int | None


@dataclass(frozen=True)
class LogStatistics:
    """The topics of a log, its applications, and how many files wait to be deleted."""

    topics: tuple[TopicStatistics, ...]
    applications: tuple[ApplicationStatistics, ...]
    trash_files: int


def statistics_of(log: Log, topic: str | None = None) -> LogStatistics:
    """The figures of a topic and the applications that read it, or of all; TopicNotFoundError if there is none of that name."""
    every = {found.id: found for found in log.catalog.topics()}
    chosen = list(every.values()) if topic is None else [log.topic(topic)]
    applications = [state for state in log.catalog.applications() if topic is None or chosen[0].id in state.positions]
    return LogStatistics(
        topics=tuple(TopicStatistics(found.name, found.internal, log.catalog.statistics(found.id)) for found in chosen),
        applications=tuple(_application(log, state, every) for state in applications),
        trash_files=len(log.catalog.trash((1 << 63) - 1)),
    )


def of_partitions(transaction: Transaction, topic_id: int) -> tuple[PartitionStatistics, ...]:
    """The figures of each partition of a topic."""
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
    return tuple(PartitionStatistics(*(None if value is None else int(value) for value in row)) for row in rows)  # type: ignore[arg-type]


def _application(log: Log, state: ApplicationState, topics: dict[int, Topic]) -> ApplicationStatistics:
    epochs = log.catalog.epochs(state.id, RATE_EPOCHS)
    lag = {
        topics[topic_id].name: sum(log.catalog.end_offsets(topic_id)[partition] - offset for partition, offset in offsets.items())
        for topic_id, offsets in state.positions.items()
        if topic_id in topics
    }
    return ApplicationStatistics(state.name, state.epoch, lag, _rate(epochs), epochs[-1].timestamp_ms if epochs else None)


def _rate(epochs: list[EpochRecord]) -> float | None:
    """Records a second from the first of the epochs to the last; those of the first came before."""
    took_ms = epochs[-1].timestamp_ms - epochs[0].timestamp_ms if epochs else 0
    if took_ms <= 0:
        return None
    return sum(int(epoch.metrics.get("records", 0)) for _, epoch in pairwise(epochs)) * 1000 / took_ms
