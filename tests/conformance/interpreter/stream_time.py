"""How far event time has come: for each input, and for an operator."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.conformance.interpreter.rules import Rules


@dataclass(frozen=True)
class Inputs:
    """The topics that feed a node, as streams and as tables."""

    streams: frozenset[str] = frozenset()
    tables: frozenset[str] = frozenset()

    def __or__(self, other: Inputs) -> Inputs:
        return Inputs(self.streams | other.streams, self.tables | other.tables)

    @property
    def moving(self) -> frozenset[str]:
        """The topics whose records move the stream time. A table that a stream looks up does not feed the join."""
        return self.streams | self.tables


@dataclass
class InputTimes:
    """The largest timestamp so far of each topic; there is one partition."""

    rules: Rules
    by_topic: dict[str, int] = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)

    def observe(self, topic: str, timestamp: int) -> None:
        """A record comes in."""
        self.before = dict(self.by_topic)
        self.by_topic[topic] = max(self.by_topic.get(topic, -1), timestamp)

    def of(self, inputs: Inputs) -> StreamTime:
        """The stream time of an operator that these inputs feed."""
        return StreamTime(self, inputs)


class StreamTime:
    """The stream time of an operator."""

    def __init__(self, times: InputTimes, inputs: Inputs) -> None:
        self.times = times
        self.inputs = inputs
        self.observed = self.observed_before = -1

    def observe(self, timestamp: int) -> None:
        """A record has reached the operator."""
        self.observed_before = self.observed
        self.observed = max(self.observed, timestamp)

    @property
    def now(self) -> int:
        """The stream time; -1 before the first record."""
        return self._of(self.times.by_topic) if self.times.rules.time_of_inputs else self.observed

    @property
    def before(self) -> int:
        """The stream time before the last record."""
        return self._of(self.times.before) if self.times.rules.time_of_inputs else self.observed_before

    def _of(self, by_topic: dict[str, int]) -> int:
        return max((by_topic.get(topic, -1) for topic in self.inputs.moving), default=-1)
