"""Topics that a topology adds: a start creates those that do not exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from streamkit.log.topic.topic import Topic, declare_topic
from streamkit.plan.inputs import KnownTopics, TopicDescription, known_topic, planned_topics
from streamkit.plan.program import Output, Program

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

    @property
    def planned(self) -> tuple[str, ...]:
        """The names of those added topics that do not exist."""
        below = planned_topics(self.known)
        new = (one.name for one in self.added if known_topic(self.known, one.name) is None)
        return tuple(dict.fromkeys((*below, *new)))

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


def declared_output(output: Output, inputs: Sequence[Topic]) -> Topic:
    """The topic that a start creates for an output that has none."""
    partitions = output.partitions or max((topic.partitions for topic in inputs), default=1)
    # Event times may lie far in the past: with a retention, a backlog's results would be deleted at once.
    config = {"cleanup.policy": output.cleanup_policy, "retention.ms": "-1"}
    if output.format is not None:
        return declare_topic(output.topic, partitions=partitions, config=config, format=output.format)
    return declare_topic(output.topic, output.schema, output.key, None, partitions, config, output.partition_by or None)


def declared_outputs_read(program: Program, find: Callable[[str], Topic | None]) -> list[Topic]:
    """
    The topics that a program both writes and reads, and that are not there, as a start creates them before it reads anything.

    Where an output does not say how many partitions, it has as many as the widest input that is there or says so.
    """
    inputs = {source.topic: find(source.topic) for source in program.inputs}
    new = [output for output in program.outputs if output.topic in inputs and inputs[output.topic] is None]
    there = [topic for topic in inputs.values() if topic is not None]
    said = [declared_output(output, ()) for output in new if output.partitions is not None]
    return [declared_output(output, (*there, *said)) for output in new]
