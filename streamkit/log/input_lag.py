"""How far an application has read its inputs, and how many records wait for it behind that: the one count that all figures show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.log import Log


@dataclass(frozen=True)
class InputPartition:
    """
    A partition that an application reads, and the offset of the record that it reads next.

    That is the earliest one if retention has deleted what it stood at, or if no epoch has read the partition yet.
    """

    topic_id: int
    topic: str
    partition: int
    next_offset: int
    end_offset: int

    @property
    def lag(self) -> int:
        """How many offsets come after the last one that it has read."""
        return self.end_offset - self.next_offset


def input_partitions(log: Log, state: ApplicationState) -> list[InputPartition]:
    """
    The partitions that an application reads on, by topic and partition; none of one that was taken over.

    A topic that was deleted and made again is read from its beginning; one that is gone is left out.
    """
    topic_ids = log.catalog.applications.current_inputs(state).topic_ids
    names = {topic.id: topic.name for topic in log.catalog.topics.every() if topic.id in topic_ids}
    bounds = log.catalog.manifest.offset_bounds(sorted(names)) if names else {}
    found = [
        InputPartition(topic_id, names[topic_id], partition, max(start, state.positions.get(topic_id, {}).get(partition, 0)), end)
        for (topic_id, partition), (start, end) in bounds.items()
    ]
    return sorted(found, key=lambda one: (one.topic, one.partition))


def lag_by_topic(partitions: Iterable[InputPartition]) -> dict[str, int]:
    """How many records wait, by topic."""
    found: dict[str, int] = {}
    for one in partitions:
        found[one.topic] = found.get(one.topic, 0) + one.lag
    return found
