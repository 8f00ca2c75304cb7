"""Members of groups: they poll, and commit what they were given, plainly or in one transaction with copies of it."""

from __future__ import annotations

from streamkit.errors import FencedError
from streamkit.log.consumer import Consumer
from streamkit.log.log import Log
from streamkit.log.membership import Membership, Subscription
from tests.history.history import Committed, Took, copies_of, taken
from tests.simulation.topics import COPIES, TOPICS
from tests.simulation.world import World

COUNTERS, COPIERS = "counters", "copiers"
SESSION_MS = 3_000
POLLS = 25
POLL_RECORDS_MAX = 7


class _Member:
    """A member of a group; another life of it is another member."""

    group: str

    def __init__(self, number: int, polls: int) -> None:
        self.name = f"{self.group}-{number}"
        self._left = polls

    def live(self, log: Log, world: World) -> None:
        """Poll, and commit what came, a number of times; then leave."""
        wish = Subscription(self.group, tuple(TOPICS), session_timeout_ms=SESSION_MS)
        membership = Membership(log.catalog, world.heartbeats, wish, world.clock)
        consumer = Consumer(log.storage, log.catalog, membership, group=self.group, max_poll_records=POLL_RECORDS_MAX)
        while self._left > 0:
            self._left -= 1
            self._step(log, world, consumer)
        consumer.close()

    def _step(self, log: Log, world: World, consumer: Consumer) -> None:
        begun = world.now
        table = consumer.poll(timeout=0)
        if table is None:
            return
        rows = taken(self.group, self.name, table, begun)
        world.history.took += rows
        world.events[f"rows given to {self.group}"] += table.num_rows
        try:
            committed = self._commit(log, consumer, rows)
        except FencedError:
            world.events["memberships lost"] += 1
            return
        world.history.committed += [
            Committed(self.group, self.name, topic, partition, offset, world.now)
            for (topic, partition), offset in committed.items()
        ]

    def _commit(self, log: Log, consumer: Consumer, rows: list[Took]) -> dict[tuple[str, int], int]:
        raise NotImplementedError


class Counter(_Member):
    """A member that commits what it was given."""

    group = COUNTERS

    def _commit(self, log: Log, consumer: Consumer, rows: list[Took]) -> dict[tuple[str, int], int]:
        return {(name.topic, name.partition): offset for name, offset in consumer.commit().items()}


class Copier(_Member):
    """A member that copies what it was given, in one transaction with its positions."""

    group = COPIERS

    def _commit(self, log: Log, consumer: Consumer, rows: list[Took]) -> dict[tuple[str, int], int]:
        positions = {(name.topic, name.partition): offset for name, offset in consumer.position().items()}
        producer = log.producer()
        with producer.transaction():
            producer.send_batch(COPIES, copies_of(rows))
            producer.send_offsets(consumer)
        return positions
