"""
Which partitions a consumer reads: those it names, all of some topics, or (`membership.py`) what a group gives it.

An assignment is asked for what has changed at each poll. Partitions are (topic id, partition).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from streamkit.clock import Clock, MonotonicClock
from streamkit.errors import ConfigError
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.topic.topic import TopicIdPartition

WATCH_INTERVAL_MS = 1_000


@dataclass(frozen=True)
class AssignmentChange:
    """
    What has changed in an assignment since it was last asked.

    `lost` can be committed no more; `revoked` can until it is released; `assigned` has what is committed there, if anything.
    """

    lost: frozenset[TopicIdPartition] = frozenset()
    revoked: frozenset[TopicIdPartition] = frozenset()
    assigned: Mapping[TopicIdPartition, int | None] = field(default_factory=dict)


class Assignment(Protocol):
    """The source of a consumer's partitions."""

    @property
    def member_id(self) -> str | None:
        """Who commits; None for a consumer without membership."""

    @property
    def interval_ms(self) -> int:
        """How often `next_change` is to be called at least, though nothing was committed."""

    def next_change(self) -> AssignmentChange:
        """What has changed since the last call."""

    def look_again(self) -> None:
        """Make the next call look at everything: a partition was not there."""

    def check_alive(self) -> None:
        """MembershipLostError if it is certain that nothing can be committed."""

    def release(self, places: Iterable[TopicIdPartition]) -> None:
        """Give up partitions that were revoked."""

    def leave(self) -> None:
        """Give up everything."""


class FixedAssignment:
    """The partitions that a consumer was told to read, until it is told otherwise."""

    member_id = None
    interval_ms = WATCH_INTERVAL_MS

    def __init__(self, catalog: Catalog, topics: Mapping[TopicIdPartition, str], group: str | None) -> None:
        self._catalog = catalog
        self._group = group
        self._names = {topic_id: name for (topic_id, _), name in topics.items()}  # of those that are deleted meanwhile too
        self._places = frozenset(topics)
        self._is_new = True

    def next_change(self) -> AssignmentChange:
        """The partitions, at the first call."""
        if self._is_new:
            self._is_new = False
            return AssignmentChange(assigned=committed_at(self._catalog, self._group, self._places))
        return AssignmentChange()

    def look_again(self) -> None:
        """TopicNotFoundError if a topic was deleted; one that was created again since is another topic."""
        for topic_id, name in self._names.items():
            self._catalog.topics.get_by_id(topic_id, name)

    def check_alive(self) -> None:
        """Nothing: there is no membership."""

    def release(self, places: Iterable[TopicIdPartition]) -> None:
        """Nothing is revoked."""

    def leave(self) -> None:
        """Nothing to give up."""


class WholeTopics:
    """All partitions of some topics, future ones too; a topic that is created again is read from its start."""

    member_id = None
    interval_ms = WATCH_INTERVAL_MS

    def __init__(self, catalog: Catalog, topics: Iterable[str], clock: Clock | None = None) -> None:
        self._catalog = catalog
        self._topics = tuple(topics)
        self._clock = clock or MonotonicClock()
        self._places: frozenset[TopicIdPartition] = frozenset()
        self._due_ms: int | None = None

    def next_change(self) -> AssignmentChange:
        """Partitions that have come or gone; looks once a second."""
        now = self._clock.now_ms()
        if self._due_ms is not None and now < self._due_ms:
            return AssignmentChange()
        self._due_ms = now + WATCH_INTERVAL_MS
        topics = [self._catalog.topics.find(name) for name in self._topics]
        found = frozenset(self._catalog.manifest.offset_bounds([topic.id for topic in topics if topic is not None]))
        change = AssignmentChange(lost=self._places - found, assigned=dict.fromkeys(found - self._places))
        self._places = found
        return change

    def look_again(self) -> None:
        """Look at the next call."""
        self._due_ms = None

    def check_alive(self) -> None:
        """Nothing: there is no membership."""

    def release(self, places: Iterable[TopicIdPartition]) -> None:
        """Nothing is revoked."""

    def leave(self) -> None:
        """Nothing to give up."""


def topic_names(topics: object) -> tuple[str, ...]:
    """The names of the topics that are asked for, each once, none for None; ConfigError for anything but a name or several."""
    names = [topics] if isinstance(topics, str) else list(topics) if isinstance(topics, Iterable) else [topics]
    if topics is None:
        return ()
    for name in names:
        if not isinstance(name, str):
            raise ConfigError(f"topics={topics!r}; expected the name of a topic, or several in a list")
    return tuple(dict.fromkeys(names))


def committed_at(catalog: Catalog, group: str | None, places: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, int | None]:
    """What a group has committed at each of the partitions."""
    committed = {} if group is None else catalog.groups.committed_offsets(group)
    return {(topic_id, partition): committed.get(topic_id, {}).get(partition) for topic_id, partition in places}
