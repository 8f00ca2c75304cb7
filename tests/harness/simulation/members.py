"""Members of groups: they poll, and commit what they were given, plainly or in one transaction with copies of it."""

from __future__ import annotations

from collections.abc import Callable

from streamkit.errors import FencedError
from streamkit.log.consume.consumer import Consumer
from streamkit.log.consume.membership import Membership, Subscription
from streamkit.log.log import Log
from tests.harness.history.members import COPIERS, COUNTERS, commit_copies, commit_plainly
from tests.harness.simulation.topics import TOPICS
from tests.harness.simulation.world import World
from tests.kit.history import Committed, Took, taken

SESSION_MS = 3_000
POLLS = 25
POLL_RECORDS_MAX = 7


Settle = Callable[[Log, Consumer, list[Took]], dict[tuple[str, int], int]]


class Member:
    """A member of a group; another life of it is another member. `settle` commits what it was given, and says which offsets."""

    def __init__(self, group: str, number: int, polls: int, settle: Settle) -> None:
        self.name = f"{group}-{number}"
        self._group, self._left, self._settle = group, polls, settle

    def live(self, log: Log, world: World) -> None:
        """Poll, and commit what came, a number of times; then leave."""
        wish = Subscription(self._group, tuple(TOPICS), session_timeout_ms=SESSION_MS)
        membership = Membership(log.catalog, world.heartbeats, wish, world.clock)
        consumer = Consumer(log.storage, log.catalog, membership, group=self._group, max_poll_records=POLL_RECORDS_MAX)
        while self._left > 0:
            self._left -= 1
            self._step(log, world, consumer)
        consumer.close()

    def _step(self, log: Log, world: World, consumer: Consumer) -> None:
        begun = world.now
        table = consumer.poll(timeout=0)
        if table is None:
            return
        rows = taken(self._group, self.name, table, begun)
        world.history.took += rows
        world.events[f"rows given to {self._group}"] += table.num_rows
        try:
            committed = self._settle(log, consumer, rows)
        except FencedError:
            world.events["memberships lost"] += 1
            return
        world.history.committed += [
            Committed(self._group, self.name, topic, partition, offset, world.now)
            for (topic, partition), offset in committed.items()
        ]


def counter(number: int) -> Member:
    """A member that commits what it was given."""
    return Member(COUNTERS, number, POLLS, lambda log, consumer, rows: commit_plainly(consumer))


def copier(number: int) -> Member:
    """A member that copies what it was given, in one transaction with its positions."""
    return Member(COPIERS, number, POLLS, lambda log, consumer, rows: commit_copies(consumer, log.producer(), rows))
