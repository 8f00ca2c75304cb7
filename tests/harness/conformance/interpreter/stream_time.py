"""How far event time has come: for each input, and for an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tests.harness.conformance.interpreter.rules import Rules


@dataclass(frozen=True)
class Delay:
    """
    How far records may be behind stream time.

    Final results of tumbling windows are at most `covered_ms` behind the end of a window that has all of theirs in it.
    """

    longest_ms: int
    covered_ms: int = 0
    tumbling_ms: int = 0

    def of(self, tumbling_ms: int) -> int:
        """That for tumbling windows over the records; other windows have the length 0."""
        is_covered = self.tumbling_ms and tumbling_ms and tumbling_ms % self.tumbling_ms == 0
        return self.covered_ms if is_covered else self.longest_ms


@dataclass(frozen=True)
class Inputs:
    """The topics that feed a node, as streams and as tables."""

    streams: frozenset[str] = frozenset()
    tables: frozenset[str] = frozenset()
    delays: frozenset[Delay] = frozenset()

    def __or__(self, other: Inputs) -> Inputs:
        return Inputs(self.streams | other.streams, self.tables | other.tables, self.delays | other.delays)

    def behind(self, delay_ms: int) -> Inputs:
        """The same for records that are so far behind stream time."""
        return replace(self, delays=self.delays | {Delay(delay_ms)})

    def final(self, wait_ms: int, length_ms: int, tumbling_ms: int = 0) -> Inputs:
        """The same for final results of windows, which come `wait_ms` past their end and may be as old as their begin."""
        return replace(self, delays=frozenset({Delay(wait_ms + length_ms, wait_ms + 1, tumbling_ms)}))

    def delay_ms(self, tumbling_ms: int = 0) -> int:
        """How far records may be behind stream time, for windows of this length over them if they stand side by side."""
        return max((delay.of(tumbling_ms) for delay in self.delays), default=0)

    @property
    def moving(self) -> frozenset[str]:
        """The topics whose records move the stream time. A table that a stream looks up does not feed the join."""
        return self.streams | self.tables


@dataclass
class InputTimes:
    """
    The largest timestamp so far of each topic; there is one partition.

    `moment`: when the result that is on its way was due, if time brought it. `is_ahead`: whether it stands before the record that moved
    the time, as final results do.
    """

    rules: Rules
    by_topic: dict[str, int] = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)
    moment: int | None = None
    is_ahead: bool = False
    settle: Callable[[], None] = lambda: None

    def observe(self, topic: str, timestamp: int) -> None:
        """A record comes in."""
        self.before = dict(self.by_topic)
        self.by_topic[topic] = max(self.by_topic.get(topic, -1), timestamp)

    @contextmanager
    def at(self, moment: int, is_ahead: bool = True) -> Iterator[None]:
        """What is handed on within was due at this moment, and so is all that comes of it."""
        if not self.rules.time_of_inputs:
            yield
            return
        before = self.moment, self.is_ahead
        self.moment, self.is_ahead = moment, is_ahead
        yield
        self.settle()
        self.moment, self.is_ahead = before

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
        """The stream time; -1 before the first record. At a result that time brought it is that of the moment at which this was due."""
        if not self.times.rules.time_of_inputs:
            return self.observed
        if self.times.moment is not None:
            return max(self.times.moment, self._of(self.times.before))
        return self._of(self.times.by_topic)

    @property
    def reached(self) -> int:
        """The stream time with the last record, also at a result that time brought."""
        return self._of(self.times.by_topic) if self.times.rules.time_of_inputs else self.observed

    @property
    def before(self) -> int:
        """The stream time before the last record."""
        if not self.times.rules.time_of_inputs:
            return self.observed_before
        return self.now if self.times.moment is not None else self._of(self.times.before)

    def _of(self, by_topic: dict[str, int]) -> int:
        return max((by_topic.get(topic, -1) for topic in self.inputs.moving), default=-1)
