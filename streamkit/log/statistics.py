"""What a log holds and how it moves: sizes, files, times and rates of topics, lag and rate of applications, lag of groups."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.catalog.epochs import EpochRecord
from streamkit.log.catalog.group_description import GroupDescription
from streamkit.log.catalog.partition_statistics import PartitionStatistics
from streamkit.log.input_lag import input_partitions, lag_by_topic
from streamkit.log.log import Log

RATE_EPOCHS = 20


@dataclass(frozen=True)
class TopicStatistics:
    """A topic and its partitions."""

    topic: str
    internal: bool
    partitions: tuple[PartitionStatistics, ...]

    @property
    def records_per_second(self) -> float:
        """The rate of all partitions together."""
        return sum(partition.records_per_second for partition in self.partitions)

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
    """An application: the records that wait for it by topic, its records per second in the last epochs, its last commit in ms."""

    application: str
    epoch: int
    lag: dict[str, int]
    records_per_second: float | None
    committed_ms: int | None


@dataclass(frozen=True)
class GroupStatistics:
    """A consumer group: its state, how many members it has, and by topic how many records wait for it, where it has committed."""

    group: str
    state: str
    members: int
    lag: dict[str, int]


@dataclass(frozen=True)
class LogStatistics:
    """The topics of a log, its applications and consumer groups, and how many files wait to be deleted."""

    topics: tuple[TopicStatistics, ...]
    applications: tuple[ApplicationStatistics, ...]
    groups: tuple[GroupStatistics, ...]
    trash_files: int


def statistics_of(log: Log, topic: str | None = None) -> LogStatistics:
    """The figures of a topic and of who reads it, or of all; TopicNotFoundError if there is none of that name."""
    chosen = log.catalog.topics.every() if topic is None else [log.topic(topic)]
    applications = [_application(log, state) for state in log.catalog.applications.every()]
    groups = [_group(log.groups.describe(name)) for name in log.groups.names()]
    return LogStatistics(
        topics=tuple(TopicStatistics(found.name, found.internal, log.catalog.manifest.statistics(found.id)) for found in chosen),
        applications=tuple(found for found in applications if topic is None or topic in found.lag),
        groups=tuple(found for found in groups if topic is None or topic in found.lag),
        trash_files=len(log.catalog.manifest.trash((1 << 63) - 1)),
    )


def _group(found: GroupDescription) -> GroupStatistics:
    lag: dict[str, int] = {topic: 0 for member in found.members for topic in member.topics}
    for row in found.partitions:
        lag[row.topic] = lag.get(row.topic, 0) + row.lag
    return GroupStatistics(found.name, found.state, len(found.members), lag)


def _application(log: Log, state: ApplicationState) -> ApplicationStatistics:
    epochs = log.catalog.epochs.last(state.id, RATE_EPOCHS)
    lag = lag_by_topic(input_partitions(log, state))
    return ApplicationStatistics(state.name, state.epoch, lag, _rate(epochs), epochs[-1].timestamp_ms if epochs else None)


def _rate(epochs: list[EpochRecord]) -> float | None:
    """Records a second from the first of the epochs to the last, without those of the first."""
    took_ms = epochs[-1].timestamp_ms - epochs[0].timestamp_ms if epochs else 0
    if took_ms <= 0:
        return None
    return sum(int(epoch.metrics.get("records", 0)) for _, epoch in pairwise(epochs)) * 1000 / took_ms
