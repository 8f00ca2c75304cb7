"""Topics that a topology adds: a start creates those that do not exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from streamkit.log.topic.topic import Topic
from streamkit.plan.inputs import KnownTopics, TopicDescription, known_topic

AS_THE_LOG_SAYS = 0  # the partitions of a topic that does not say how many


@dataclass
class WithAddedTopics:
    """What the compiler asks of a log, in which the added topics exist already."""

    known: KnownTopics
    added: tuple[Topic, ...]
    location: str

    @classmethod
    def of(cls, known: KnownTopics, added: tuple[Topic, ...]) -> KnownTopics:
        """A log with these topics; the log itself if there are none."""
        return cls(known, added, known.location) if added else known

    def topics(self, internal: bool = False) -> Sequence[str]:
        """The names of the topics, those that will be created among them."""
        return tuple(dict.fromkeys((*self.known.topics(internal), *(topic.name for topic in self.added))))

    def topic(self, name: str) -> TopicDescription:
        """The topic of that name, as it is, or else as it will be."""
        new = next((topic for topic in self.added if topic.name == name), None)
        return self.known.topic(name) if new is None else known_topic(self.known, name) or new

    def program_before(self, application: str) -> str:
        """The program of the newest start of an application."""
        return self.known.program_before(application)


def created(topic: Topic, partitions: int) -> Topic:
    """An added topic as it is created in a log whose topics have so many partitions unless they say how many."""
    return replace(topic, partitions=partitions) if topic.partitions == AS_THE_LOG_SAYS else topic
