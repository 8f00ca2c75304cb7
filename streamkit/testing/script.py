"""The script of a test: what was done to a topology, so that it can be done again elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from streamkit.clock import HandClock
from streamkit.log.log import Log
from streamkit.log.produce.producer import Producer
from streamkit.log.produce.receipt import Receipt
from streamkit.log.topic.topic import Topic
from streamkit.testing.placed_rows import PlacedRows

ProcessWaiting: TypeAlias = Callable[[int, bool], None]  # so many tasks, and whether to drain


@dataclass(frozen=True)
class Piped:
    """Rows that were sent to a topic when the clock showed `now_ms`; or a tombstone, whose `rows` are its key."""

    topic: str
    rows: Any
    timestamp_ms: int | None
    now_ms: int
    receipt: Receipt
    is_deletion: bool = False
    placed: PlacedRows | None = None

    def send(self, log: Log, producer: Producer) -> None:
        """Send them."""
        if self.placed is not None:
            self.placed.send(log, producer, self.topic, self.timestamp_ms)
        elif self.is_deletion:
            producer.delete(self.topic, self.rows, timestamp_ms=self.timestamp_ms)
        else:
            producer.send_batch(self.topic, self.rows, timestamp_ms=self.timestamp_ms)


@dataclass(frozen=True)
class ProcessedAll:
    """All that waited was processed."""


@dataclass(frozen=True)
class Drained:
    """All windows were closed."""


@dataclass(frozen=True)
class Restarted:
    """The application was started with so many tasks."""

    tasks: int


Action: TypeAlias = Piped | ProcessedAll | Drained | Restarted
TimeBounds: TypeAlias = Callable[[Piped], tuple[int, int]]  # the least and the greatest event time of rows, in ms


@dataclass
class Script:
    """What was done, in order."""

    topics: tuple[Topic, ...]
    actions: list[Action] = field(default_factory=list)

    def play(self, log: Log, clock: HandClock, time_bounds: TimeBounds, process: ProcessWaiting) -> None:
        """
        Do the same to an empty log; `process` runs the application on what is there.

        It is called as seldom as results allow. Rows that come behind all times before them can wait for the next ones: they
        take the same place in the order of records, whether those before them were processed or not.
        """
        for topic in self.topics:
            log.catalog.topics.create(topic.declaration)
        playing = _Playing(process)
        with log.producer() as producer:
            for action in self.actions:
                match action:
                    case Piped():
                        playing.meet(*time_bounds(action))
                        clock.time_ms = action.now_ms
                        action.send(log, producer)
                        producer.flush()
                    case ProcessedAll():
                        playing.is_barrier = True
                    case Drained():
                        playing.process(drain=True)
                    case Restarted():
                        playing.restart(action.tasks)
        playing.process()


@dataclass
class _Playing:
    """What waits to be processed, and behind which time rows may join it."""

    run: ProcessWaiting
    tasks: int = 1
    waits: bool = True  # the first run makes topics and stores, even without a record
    is_barrier: bool = False
    last_ms: int | None = None

    def meet(self, first_ms: int, last_ms: int) -> None:
        """Process what came before rows that could be taken for older than it."""
        if self.is_barrier and self.last_ms is not None and first_ms <= self.last_ms:
            self.process()
        self.waits, self.is_barrier = True, False
        self.last_ms = last_ms if self.last_ms is None else max(self.last_ms, last_ms)

    def restart(self, tasks: int) -> None:
        """Go on with so many tasks."""
        if tasks != self.tasks and self.last_ms is not None:
            self.process()
        self.tasks = tasks

    def process(self, *, drain: bool = False) -> None:
        """Run the application on what is there."""
        if self.waits or drain:
            self.run(self.tasks, drain)
        self.waits, self.is_barrier = False, False
