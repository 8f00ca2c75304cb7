"""The description of a consumer group: its members, who owns what, how far it has come, its lag."""

from __future__ import annotations

from dataclasses import dataclass

from streamkit.log.catalog import groups, manifest, topics
from streamkit.log.database.database import Transaction


@dataclass(frozen=True)
class MemberDescription:
    """A member: who it is, what it subscribes to, and how many partitions it owns."""

    member_id: str
    client: str
    instance_id: str | None
    topics: tuple[str, ...]
    session_timeout_ms: int
    partitions: int


@dataclass(frozen=True)
class PartitionDescription:
    """
    A partition of a topic that the group reads or has read; `owner` is a member id, `committed` is null before the first commit.

    Those that the topic got while nobody was a member are among them: the group will begin there.
    """

    topic: str
    partition: int
    owner: str | None
    target: str | None
    committed: int | None
    start_offset: int
    end_offset: int

    @property
    def lag(self) -> int:
        """
        The offsets from the committed one to the end; from the earliest if retention has passed that one, or if none is committed yet.

        So a group counts all records of a partition until it first commits there, also one that will begin at the end (`latest`).
        """
        return self.end_offset - max(self.committed or 0, self.start_offset) if self.end_offset > (self.committed or 0) else 0


@dataclass(frozen=True)
class GroupDescription:
    """A group in one snapshot."""

    name: str
    generation: int
    assignor: str | None
    members: tuple[MemberDescription, ...]
    partitions: tuple[PartitionDescription, ...]

    @property
    def state(self) -> str:
        """`Empty`, `Rebalancing` while a partition is not yet where it is to be, else `Stable`."""
        if not self.members:
            return "Empty"
        return "Rebalancing" if any(found.owner != found.target for found in self.partitions) else "Stable"

    @property
    def lag(self) -> int:
        """The lag of all partitions."""
        return sum(found.lag for found in self.partitions)


def describe(transaction: Transaction, group: str) -> GroupDescription:
    """The description of a group; ConfigError, which lists those that exist, if there is none of that name."""
    group_id = groups.get_id(transaction, group)
    ((generation, assignor),) = transaction.execute("SELECT generation, assignor FROM consumer_group WHERE id = ?", (group_id,))
    partitions = _partitions(transaction, group_id, group)
    return GroupDescription(group, generation, assignor or None, _members(transaction, group_id, partitions), partitions)


def _members(
    transaction: Transaction, group_id: int, partitions: tuple[PartitionDescription, ...]
) -> tuple[MemberDescription, ...]:
    statement = "SELECT member_id, client, instance_id, session_timeout_ms FROM group_member WHERE group_id = ? ORDER BY joined, member_id"
    owners = [found.owner for found in partitions]
    return tuple(
        MemberDescription(
            member_id, client, instance_id, _topics(transaction, group_id, member_id), timeout_ms, owners.count(member_id)
        )
        for member_id, client, instance_id, timeout_ms in transaction.execute(statement, (group_id,))
    )


def _topics(transaction: Transaction, group_id: int, member_id: str) -> tuple[str, ...]:
    statement = "SELECT topic FROM group_subscription WHERE group_id = ? AND member_id = ? ORDER BY topic"
    return tuple(topic for (topic,) in transaction.execute(statement, (group_id, member_id)))


def _partitions(transaction: Transaction, group_id: int, group: str) -> tuple[PartitionDescription, ...]:
    rows = transaction.execute("SELECT topic_id, partition, owner, target FROM group_assignment WHERE group_id = ?", (group_id,))
    owned = {(topic_id, partition): (owner, target) for topic_id, partition, owner, target in rows}
    committed = groups.places_of(groups.committed_offsets(transaction, group))
    found = []
    for topic_id in sorted({topic_id for topic_id, _ in owned.keys() | committed.keys()}):
        name = topics.get_by_id(transaction, topic_id).name
        starts, ends = manifest.start_offsets(transaction, topic_id), manifest.end_offsets(transaction, topic_id)
        found += [
            PartitionDescription(name, partition, *owned.get((topic_id, partition), (None, None)), committed.get((topic_id, partition)), start, ends[partition])
            for partition, start in starts.items()
        ]  # fmt: skip
    return tuple(sorted(found, key=lambda partition: (partition.topic, partition.partition)))
