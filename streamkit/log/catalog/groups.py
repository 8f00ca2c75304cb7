"""
Consumer groups in the catalog: members, which of them owns which partition, and what the group has committed.

Ownership is a row, so that a partition has one owner at most, and only that one can commit. docs/groups.md has the protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streamkit.errors import ConfigError, FencedError, MembershipLostError, OffsetOutOfRangeError
from streamkit.log.catalog import manifest, topics
from streamkit.log.catalog.assignors import ASSIGNORS
from streamkit.log.catalog.manifest import OffsetsByTopicId
from streamkit.log.database.database import Transaction
from streamkit.log.topic.topic import TopicIdPartition
from streamkit.names import check_name

_EMPTY = ""  # the assignor of a group without members


@dataclass(frozen=True)
class Member:
    """A consumer that joins a group: its topics by name, who it is to people (`client`), and by which id it stays after a restart."""

    member_id: str
    client: str
    topics: tuple[str, ...]
    session_timeout_ms: int
    assignor: str
    instance_id: str | None = None


@dataclass(frozen=True)
class GroupCommit:
    """
    Offsets to commit for a group, by topic id and partition.

    `member_id` None means a consumer without membership, which may commit only while the group has no members.
    """

    group: str
    member_id: str | None
    offsets: Mapping[int, Mapping[int, int]]


@dataclass(frozen=True)
class Ownership:
    """A partition that a member owns: what is committed there, if anything, and whether it is the member's for good."""

    topic_id: int
    partition: int
    committed: int | None
    is_leaving: bool


@dataclass(frozen=True)
class MemberStanding:
    """What the catalog has of a member at one generation of its group."""

    generation: int
    ownerships: tuple[Ownership, ...]


def join(transaction: Transaction, group: str, member: Member, dead: Iterable[str] = (), *, former_id: str | None = None) -> None:
    """
    Add a member to a group, which is made if it is missing; first remove those that are dead.

    A member with the instance id of another takes over what that one has, and fences it. A consumer that returns, which was
    `former_id` before, takes over from that one alone: FencedError if another has its instance id now. ConfigError if the
    members agreed on another assignor.
    """
    group_id = _made(transaction, group)
    _remove(transaction, group_id, dead)
    _agree(transaction, group_id, group, member.assignor)
    joined = _take_over(transaction, group_id, group, member, former_id)
    transaction.execute(
        "INSERT INTO group_member (group_id, member_id, instance_id, client, session_timeout_ms, joined) VALUES (?, ?, ?, ?, ?, ?)",
        (group_id, member.member_id, member.instance_id, member.client, member.session_timeout_ms, joined),
    )
    rows = [(group_id, member.member_id, topic) for topic in member.topics]
    transaction.execute_many("INSERT INTO group_subscription (group_id, member_id, topic) VALUES (?, ?, ?)", rows)
    _rebalance(transaction, group_id)


def rebalance(transaction: Transaction, group: str, gone: Iterable[str] = ()) -> None:
    """Remove members that leave or are dead, and assign the partitions of the topics again. Unknown members are not an error."""
    group_id = id_of(transaction, group)
    if group_id is not None:
        _remove(transaction, group_id, gone)
        _rebalance(transaction, group_id)


def release(transaction: Transaction, group: str, member_id: str, places: Iterable[TopicIdPartition]) -> None:
    """Hand partitions of a member to those that are to have them; those that are to stay, or are not the member's, stay."""
    group_id = id_of(transaction, group)
    rows = [(group_id, topic_id, partition, member_id) for topic_id, partition in places]
    condition = "group_id = ? AND topic_id = ? AND partition = ? AND owner = ?"
    transaction.execute_many(f"DELETE FROM group_assignment WHERE {condition} AND target IS NULL", rows)
    transaction.execute_many(f"UPDATE group_assignment SET owner = target WHERE {condition} AND target IS NOT NULL", rows)
    transaction.execute("UPDATE consumer_group SET generation = generation + 1 WHERE id = ?", (group_id,))


def standing(transaction: Transaction, group: str, member_id: str, seen: int | None = None) -> MemberStanding | None:
    """What a member owns, unless the group is still at the generation `seen`; None if it is not, or no longer, a member."""
    rows = transaction.execute(
        "SELECT g.id, g.generation FROM consumer_group g JOIN group_member m ON m.group_id = g.id WHERE g.name = ? AND m.member_id = ?",
        (group, member_id),
    )
    if not rows:
        return None
    ((group_id, generation),) = rows
    return MemberStanding(generation, () if generation == seen else _ownerships(transaction, group_id, member_id))


def _ownerships(transaction: Transaction, group_id: int, member_id: str) -> tuple[Ownership, ...]:
    statement = """
        SELECT a.topic_id, a.partition, o.next_offset, a.target FROM group_assignment a LEFT JOIN group_offset o
        ON o.group_id = a.group_id AND o.topic_id = a.topic_id AND o.partition = a.partition
        WHERE a.group_id = ? AND a.owner = ? ORDER BY a.topic_id, a.partition
    """
    rows = transaction.execute(statement, (group_id, member_id))
    return tuple(Ownership(topic_id, partition, offset, target != member_id) for topic_id, partition, offset, target in rows)


def sessions(transaction: Transaction, group: str) -> dict[str, int]:
    """The session time-out of each member, by its id."""
    statement = (
        "SELECT m.member_id, m.session_timeout_ms FROM group_member m JOIN consumer_group g ON g.id = m.group_id WHERE g.name = ?"
    )
    return dict(transaction.execute(statement, (group,)))


def lacks_partitions(transaction: Transaction, group: str) -> bool:
    """Whether a topic that a member subscribes to has partitions without an owner: new ones, or those of a topic that was created again."""
    statement = """
        SELECT 1 FROM consumer_group g JOIN group_subscription s ON s.group_id = g.id JOIN topic t ON t.name = s.topic
        JOIN topic_partition p ON p.topic_id = t.id
        LEFT JOIN group_assignment a ON a.group_id = g.id AND a.topic_id = p.topic_id AND a.partition = p.partition
        WHERE g.name = ? AND a.group_id IS NULL LIMIT 1
    """
    return bool(transaction.execute(statement, (group,)))


def commit_offsets(transaction: Transaction, now_ms: int, commit: GroupCommit) -> None:
    """
    Commit offsets for a group, all or none of them.

    MembershipLostError unless the member is in the group and owns every partition; FencedError if there is no member id and
    the group has members; TopicNotFoundError, OffsetOutOfRangeError for offsets of what does not exist.
    """
    group_id = _made(transaction, commit.group)
    _check_offsets(transaction, commit.offsets)
    if commit.member_id is None:
        _check_unattended(transaction, group_id, commit.group)
    else:
        _check_owner(transaction, group_id, commit, commit.member_id)
    rows = [(group_id, *place, offset, now_ms) for place, offset in places_of(commit.offsets).items()]
    transaction.execute_many(
        "INSERT INTO group_offset (group_id, topic_id, partition, next_offset, committed_ms) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (group_id, topic_id, partition) DO UPDATE SET next_offset = excluded.next_offset, committed_ms = excluded.committed_ms",
        rows,
    )


def is_committed(transaction: Transaction, commit: GroupCommit) -> bool:
    """Whether these offsets are what the group has committed."""
    found = places_of(committed_offsets(transaction, commit.group))
    return places_of(commit.offsets).items() <= found.items()


def committed_offsets(transaction: Transaction, group: str) -> OffsetsByTopicId:
    """What a group has committed, by topic id and partition; empty for an unknown group."""
    statement = """
        SELECT o.topic_id, o.partition, o.next_offset FROM group_offset o JOIN consumer_group g ON g.id = o.group_id
        WHERE g.name = ? ORDER BY o.topic_id, o.partition
    """
    found: OffsetsByTopicId = {}
    for topic_id, partition, offset in transaction.execute(statement, (group,)):
        found.setdefault(topic_id, {})[partition] = offset
    return found


def reset(transaction: Transaction, now_ms: int, group: str, offsets: OffsetsByTopicId, dead: Iterable[str] = ()) -> None:
    """Commit offsets for a group that nobody is in; members that are dead are removed first, living ones are a FencedError."""
    rebalance(transaction, group, dead)
    commit_offsets(transaction, now_ms, GroupCommit(group, None, offsets))


def delete(transaction: Transaction, group: str, dead: Iterable[str] = ()) -> None:
    """Forget a group and what it has committed; FencedError while a member is alive, ConfigError if there is no such group."""
    group_id = get_id(transaction, group)
    rebalance(transaction, group, dead)
    _check_unattended(transaction, group_id, group)
    transaction.execute("DELETE FROM consumer_group WHERE id = ?", (group_id,))


def names(transaction: Transaction) -> list[str]:
    """The names of all groups, sorted."""
    return [name for (name,) in transaction.execute("SELECT name FROM consumer_group ORDER BY name")]


def id_of(transaction: Transaction, group: str) -> int | None:
    """The id of a group, if there is one of that name."""
    rows = transaction.execute("SELECT id FROM consumer_group WHERE name = ?", (group,))
    return int(rows[0][0]) if rows else None


def get_id(transaction: Transaction, group: str) -> int:
    """The id of a group; ConfigError, which lists those that exist, if there is none of that name."""
    found = id_of(transaction, group)
    if found is None:
        existing = names(transaction)
        raise ConfigError(
            f"consumer group {group!r} does not exist; there {'are ' + ', '.join(existing) if existing else 'is none'}: "
            "a group appears with its first consumer or commit"
        )
    return found


def places_of(offsets: Mapping[int, Mapping[int, int]]) -> dict[TopicIdPartition, int]:
    """Offsets by (topic id, partition)."""
    return {(topic_id, partition): offset for topic_id, found in offsets.items() for partition, offset in found.items()}


def _made(transaction: Transaction, group: str) -> int:
    transaction.execute(
        "INSERT INTO consumer_group (name, generation, assignor) VALUES (?, 0, ?) ON CONFLICT (name) DO NOTHING",
        (check_name(group, "group"), _EMPTY),
    )
    return get_id(transaction, group)


def _agree(transaction: Transaction, group_id: int, group: str, assignor: str) -> None:
    ((agreed, members),) = transaction.execute(
        "SELECT g.assignor, (SELECT count(*) FROM group_member m WHERE m.group_id = g.id) FROM consumer_group g WHERE g.id = ?",
        (group_id,),
    )
    if members and agreed != assignor:
        raise ConfigError(
            f"the members of consumer group {group}, {members} by now, are assigned partitions by {agreed!r}; found assignor={assignor!r}, "
            "expected the same: change it when the group is empty"
        )
    transaction.execute("UPDATE consumer_group SET assignor = ? WHERE id = ?", (assignor, group_id))


def _take_over(transaction: Transaction, group_id: int, group: str, member: Member, former_id: str | None) -> int:
    """Make room for a static member, giving it what its predecessor has; returns the generation in which the two joined."""
    found = transaction.execute(
        "SELECT member_id, joined FROM group_member WHERE group_id = ? AND instance_id = ?", (group_id, member.instance_id)
    )
    if not found:
        ((generation,),) = transaction.execute("SELECT generation FROM consumer_group WHERE id = ?", (group_id,))
        return int(generation)
    ((predecessor, joined),) = found
    if former_id not in (None, predecessor):
        raise FencedError(
            f"consumer group {group}: another consumer has joined as instance {member.instance_id!r} since; this one must stop, "
            "or the two need different values of instance_id"
        )
    transaction.execute("DELETE FROM group_member WHERE group_id = ? AND member_id = ?", (group_id, predecessor))
    for column in ("owner", "target"):
        transaction.execute(
            f"UPDATE group_assignment SET {column} = ? WHERE group_id = ? AND {column} = ?",
            (member.member_id, group_id, predecessor),
        )
    return int(joined)


def _remove(transaction: Transaction, group_id: int, member_ids: Iterable[str]) -> None:
    rows = [(group_id, member_id) for member_id in member_ids]
    transaction.execute_many("DELETE FROM group_member WHERE group_id = ? AND member_id = ?", rows)


def _rebalance(transaction: Transaction, group_id: int) -> None:
    """Name the targets again, give partitions without a living owner to their target, and raise the generation if a row changed."""
    rows = transaction.execute("SELECT topic_id, partition, owner, target FROM group_assignment WHERE group_id = ?", (group_id,))
    before = {(topic_id, partition): (owner, target) for topic_id, partition, owner, target in rows}
    after = _assigned(transaction, group_id, before)
    changed = [(group_id, *place, *row) for place, row in after.items() if before.get(place) != row]
    dropped = [(group_id, *place) for place in before.keys() - after.keys()]
    if not changed and not dropped:
        return
    transaction.execute_many("DELETE FROM group_assignment WHERE group_id = ? AND topic_id = ? AND partition = ?", dropped)
    transaction.execute_many(
        "INSERT INTO group_assignment (group_id, topic_id, partition, owner, target) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (group_id, topic_id, partition) DO UPDATE SET owner = excluded.owner, target = excluded.target",
        changed,
    )
    transaction.execute("UPDATE consumer_group SET generation = generation + 1 WHERE id = ?", (group_id,))


def _assigned(
    transaction: Transaction, group_id: int, before: Mapping[TopicIdPartition, tuple[str, str | None]]
) -> dict[TopicIdPartition, tuple[str, str | None]]:
    subscriptions = _subscriptions(transaction, group_id)
    places = [
        (topic_id, partition)
        for topic_id in sorted(frozenset().union(*subscriptions.values()))
        for partition in manifest.end_offsets(transaction, topic_id)
    ]
    previous = {place: target if target in subscriptions else owner for place, (owner, target) in before.items()}
    ((assignor,),) = transaction.execute("SELECT assignor FROM consumer_group WHERE id = ?", (group_id,))
    targets = ASSIGNORS[assignor](subscriptions, places, previous) if subscriptions else {}
    after: dict[TopicIdPartition, tuple[str, str | None]] = {place: (target, target) for place, target in targets.items()}
    kept = {place: (owner, targets.get(place)) for place, (owner, _) in before.items() if owner in subscriptions}
    return after | kept


def _subscriptions(transaction: Transaction, group_id: int) -> dict[str, frozenset[int]]:
    """The ids of the topics that each member subscribes to and that exist, in the order of joining."""
    statement = """
        SELECT m.member_id, t.id FROM group_member m
        LEFT JOIN group_subscription s ON s.group_id = m.group_id AND s.member_id = m.member_id LEFT JOIN topic t ON t.name = s.topic
        WHERE m.group_id = ? ORDER BY m.joined, m.member_id
    """
    found: dict[str, set[int]] = {}
    for member_id, topic_id in transaction.execute(statement, (group_id,)):
        found.setdefault(member_id, set()).update([] if topic_id is None else [topic_id])
    return {member_id: frozenset(topic_ids) for member_id, topic_ids in found.items()}


def _check_unattended(transaction: Transaction, group_id: int, group: str) -> None:
    clients = transaction.execute("SELECT client FROM group_member WHERE group_id = ? ORDER BY client", (group_id,))
    if clients:
        raise FencedError(
            f"consumer group {group} has {len(clients)} {'member' if len(clients) == 1 else 'members'} "
            f"({', '.join(client for (client,) in clients[:5])}), and only its members may commit; stop them first, or use another group"
        )


def _check_owner(transaction: Transaction, group_id: int, commit: GroupCommit, member_id: str) -> None:
    if not transaction.execute("SELECT 1 FROM group_member WHERE group_id = ? AND member_id = ?", (group_id, member_id)):
        raise lost(commit.group)
    owned = {(row.topic_id, row.partition) for row in _ownerships(transaction, group_id, member_id)}
    strange = sorted(places_of(commit.offsets).keys() - owned)
    if strange:
        found = ", ".join(
            f"partition {partition} of {topics.get_by_id(transaction, topic_id).name}" for topic_id, partition in strange
        )
        raise MembershipLostError(
            f"consumer group {commit.group}: {found} is owned by another member; nothing was committed, poll again"
        )


def lost(group: str) -> MembershipLostError:
    """The error of a consumer that is no longer a member of its group."""
    return MembershipLostError(
        f"consumer group {group}: this consumer is no longer a member, because it was silent for longer than its session time-out or "
        "another took its instance id; nothing was committed, and others read on from the last commit. If it was only busy, poll again "
        "to join again, and raise session_timeout_ms or max_poll_interval_ms; if another took its instance id, stop one of the two, or "
        "give each an instance_id of its own"
    )


def _check_offsets(transaction: Transaction, offsets: Mapping[int, Mapping[int, int]]) -> None:
    for topic_id, found in offsets.items():
        topic = topics.get_by_id(transaction, topic_id)
        bounds = manifest.offset_bounds(transaction, [topic_id])
        for partition, offset in found.items():
            if (topic_id, partition) not in bounds:
                raise ConfigError(f"topic {topic.name} has no partition {partition!r}; it has 0 to {topic.partitions - 1}")
            start, end = bounds[topic_id, partition]
            if not 0 <= offset <= end:
                message = (
                    f"offset {offset} cannot be committed for partition {partition} of topic {topic.name}; expected 0 to {end}"
                )
                raise OffsetOutOfRangeError(message, topic.name, partition, offset, start, end)
