"""Members of a group on a clock that is moved by hand: they beat when they are polled, or told to."""

from __future__ import annotations

from streamkit.clock import HandClock
from streamkit.log.catalog.groups import commit_offsets
from streamkit.log.consume.consumer import Consumer
from streamkit.log.consume.membership import Membership, Subscription
from streamkit.log.database.heartbeats import MemoryHeartbeats

SESSION_MS = 1_000


def numbers_of(consumer):
    """What is left for a consumer to read of the column n."""
    return [n for table in iter(lambda: consumer.poll(0), None) for n in table["n"].to_pylist()]


class RehearsalError(Exception):
    """Ends a transaction that was only to be tried."""


class Members:
    """The members of the group g of a log."""

    def __init__(self, log):
        self.log = log
        self.clock = HandClock(1_000_000)
        self.heartbeats = MemoryHeartbeats(self.clock)

    def join(self, *topics, group="g", assignor="cooperative-sticky", instance_id=None, session_ms=SESSION_MS, **arguments):
        """A consumer that joins with its first poll."""
        wish = Subscription(group, topics or ("t",), assignor, session_ms, instance_id=instance_id)
        membership = Membership(self.log.catalog, self.heartbeats, wish, self.clock)
        return Consumer(self.log.storage, self.log.catalog, membership, group=group, **arguments)

    def settle(self, *consumers, rounds=4):
        """Poll all of them a few times, as time goes by, without reading on."""
        for _ in range(rounds):
            for consumer in consumers:
                consumer._follow()
            self.clock.advance(SESSION_MS // 3)

    def can_commit(self, consumer, place):
        """Whether the consumer, as it stands, could commit at this partition; nothing is committed."""
        try:
            consumer._assignment.check_alive()
            commit = consumer.group_commit({place: consumer.position()[place]})
            with self.log.catalog.database.write() as transaction:
                commit_offsets(transaction, 0, commit)
                raise RehearsalError
        except RehearsalError:
            return True
        except Exception:
            return False


def owners(log, group="g"):
    """The owner of each partition, by (topic, partition)."""
    return {(found.topic, found.partition): found.owner for found in log.groups.describe(group).partitions if found.owner}
