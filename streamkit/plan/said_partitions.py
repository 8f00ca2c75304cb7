"""How many partitions a topology says that a topic has, where that is no mere wish for a topic that is created."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamkit.errors import Location, TopologyError
from streamkit.plan.inputs import KnownTopics, known_topic
from streamkit.plan.refusal import Refuse, RefusedTopic


@dataclass(frozen=True)
class SaidPartitions:
    """A topic's number of partitions, as a statement says it there; `is_read` says whether the statement reads the topic."""

    topic: str
    count: int
    is_read: bool
    at: Location | None


def check_said_partitions(said: Iterable[SaidPartitions], topics: KnownTopics, refuse: Refuse) -> None:
    """TopologyError, unless `refuse` goes on, for a topic that exists with another number of partitions than the topology says."""
    for one in said:
        has = getattr(known_topic(topics, one.topic), "partitions", one.count)
        if has != one.count:
            message = (
                f"the topic {one.topic} is there already, and its number of partitions is {has}; found PARTITIONS = {one.count}, expected {has}, "
                "or none"
            )
            refuse(RefusedTopic(one.topic, one.is_read, TopologyError(message, one.at)))
