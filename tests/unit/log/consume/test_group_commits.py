"""Promises of what a group has committed: by its owner alone, done or an error, described, reset and forgotten."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streamkit.errors import ConfigError, FencedError, MembershipLostError, OffsetOutOfRangeError, StreamKitError
from streamkit.log.catalog.groups import GroupCommit
from streamkit.log.opening import open_log
from tests.kit.faults import FaultyVfs
from tests.unit.log.consume.group_members import SESSION_MS, numbers_of, owners


@pytest.fixture
def log(group_log):
    return group_log


@pytest.mark.every_catalog
def test_the_owner_alone_commits(log, members):
    """An offset of a partition that another member owns is refused, and the others of the same commit with it."""
    first, second = members.join(), members.join()
    members.settle(first, second)
    topic_id = log.topic("t").id
    owner_of = owners(log)
    offsets = {topic_id: {0: 1, 1: 1, 2: 1, 3: 1}}

    with pytest.raises(MembershipLostError, match="of t is owned by another member; nothing was committed"):
        log.catalog.groups.commit_offsets(GroupCommit("g", owner_of["t", 0], offsets))
    assert log.catalog.groups.committed_offsets("g") == {}
    own = {partition: 1 for (_, partition), owner in owner_of.items() if owner == owner_of["t", 0]}
    log.catalog.groups.commit_offsets(GroupCommit("g", owner_of["t", 0], {topic_id: own}))
    assert log.catalog.groups.committed_offsets("g") == {topic_id: own}


def test_commits_are_of_what_was_chosen(log, members):
    """Positions of all or some partitions, or offsets that are given; each is returned, and stands."""
    consumer = members.join()
    numbers_of(consumer)
    ends = {("t", p): end for p, end in log.end_offsets("t").items()}

    assert consumer.commit({("t", 0): 2}) == {("t", 0): 2}
    assert consumer.commit(partitions=[("t", 1)]) == {("t", 1): ends["t", 1]}
    assert consumer.committed() == {("t", 0): 2, ("t", 1): ends["t", 1], ("t", 2): None, ("t", 3): None}
    assert consumer.commit() == consumer.committed() == ends
    with pytest.raises(OffsetOutOfRangeError, match="offset 999 cannot be committed for partition 0 of topic t; expected 0 to"):
        consumer.commit({("t", 0): 999})
    with pytest.raises(ConfigError, match="is not assigned to this consumer"):
        consumer.commit({("u", 0): 1})
    with pytest.raises(ConfigError, match="either offsets or partitions"):
        consumer.commit({}, partitions=[])


def test_without_membership_commits_need_an_empty_group(log, members):
    """A consumer that assigns by hand commits for a group as long as nobody is in it."""
    alone = log.consumer(group="g")
    alone.assign([("t", 0)])
    alone.poll(0)
    alone.commit()
    member = members.join()
    member.poll(0)

    with pytest.raises(FencedError, match=r"consumer group g has 1 member .*, and only its members may commit"):
        alone.commit()


def test_a_group_is_described(log, members):
    """A description has members, owners, committed offsets, ends and lag, which is all of a partition until the first commit there."""
    consumer = members.join(instance_id="one")
    consumer.poll(0)
    consumer.commit({("t", 1): 3})
    found = log.groups.describe("g")

    assert (found.state, found.assignor, [member.topics for member in found.members]) == (
        "Stable",
        "cooperative-sticky",
        [("t",)],
    )
    ends = log.end_offsets("t")
    assert [(p.topic, p.partition, p.committed, p.end_offset, p.lag) for p in found.partitions] == [
        ("t", p, 3 if p == 1 else None, ends[p], ends[p] - (3 if p == 1 else 0)) for p in range(4)
    ]
    assert (found.lag, found.members[0].partitions) == (sum(ends.values()) - 3, 4)
    assert log.groups.names() == ["g"]
    with pytest.raises(ConfigError, match="consumer group 'x' does not exist; there are g"):
        log.groups.describe("x")


def test_partitions_that_a_topic_gets_while_nobody_is_a_member_have_a_lag(log, members):
    """They are the group's to read from where it would begin, so their records wait; the next member reads as many."""
    first = members.join()
    numbers_of(first)
    first.commit()
    first.close()
    assert log.groups.describe("g").lag == 0
    log.alter_topic("t", partitions=7)
    with log.producer() as producer:
        producer.send_batch("t", [{"user": f"u{number}", "n": number} for number in range(50)])
    found = log.groups.describe("g")
    assert [(row.partition, row.owner) for row in found.partitions] == [(partition, None) for partition in range(7)]
    new = {row.partition: (row.committed, row.lag) for row in found.partitions[4:]}
    ends = log.end_offsets("t")
    assert new == {partition: (None, ends[partition]) for partition in (4, 5, 6)} and sum(lag for _, lag in new.values()) > 0
    assert (found.lag, found.state) == (50, "Empty")


def test_reset_and_delete_want_an_empty_group(log):
    """Offsets are reset, and groups forgotten, when nobody is in them."""
    consumer = log.consumer("t", "g")
    consumer.poll(0)
    assert list(log.heartbeats.ages_ms("group/g/")) == [
        f"group/g/{member.member_id}" for member in log.groups.describe("g").members
    ]
    for refused in (lambda: log.groups.reset("g", {"t": {0: 1}}), lambda: log.groups.delete("g")):
        with pytest.raises(FencedError, match="group g has 1 member "):
            refused()
    consumer.close()
    log.groups.reset("g", {"t": {0: 1, 3: 2}})
    assert log.catalog.groups.committed_offsets("g") == {log.topic("t").id: {0: 1, 3: 2}}
    log.groups.delete("g")

    assert (log.groups.names(), log.catalog.groups.committed_offsets("g")) == ([], {})


def test_a_group_of_dead_members_counts_as_empty(log, members):
    """Members that have died do not stand in the way of a reset."""
    log.heartbeats = members.heartbeats
    members.join().poll(0)
    members.clock.advance(SESSION_MS + 1)

    log.groups.reset("g", {"t": {0: 1}})
    assert log.groups.describe("g").state == "Empty"


@pytest.mark.parametrize("kind", ["io", "late", "full"])
def test_a_commit_is_done_or_an_error_whatever_fails(tmp_path, kind):
    """With a fault at each write and sync of a commit in turn: if it returns, it stands; if it raises, it does not; both for good."""
    vfs = FaultyVfs("streamkit-groups")
    with open_log(tmp_path, vfs="streamkit-groups") as log:
        log.create_topic("t", "n bigint", partitions=1)
        with log.producer() as producer:
            producer.send_batch("t", pa.table({"n": range(99)}))
        with log.consumer("t", "g") as consumer:
            consumer.poll(0)
            consumer.commit({("t", 0): 0})
            outcomes: list[bool] = []
            while (outcome := committed_or_not(consumer, len(outcomes) + 1, vfs.fault, kind)) is not None:
                outcomes.append(outcome)
                assert consumer.commit({("t", 0): 0}) == consumer.committed()
    vfs.unregister()
    assert len(outcomes) > 3
    assert False in outcomes


def committed_or_not(consumer, at, fault, kind):
    """Whether a commit with a fault at this call says that it was made, which must be true; None if there are fewer calls."""
    fault.arm(kind, at)
    try:
        consumer.commit({("t", 0): at})
        is_done = True
    except StreamKitError:
        is_done = False
    calls = len(fault.calls)
    fault.arm(None)
    assert consumer.committed() == {("t", 0): at if is_done else 0}
    return is_done if at <= calls else None


def copy(consumer, producer):
    """Read to the end, write what was read, and have the positions committed with it."""
    producer.send_batch("u", pa.table({"user": ["a"], "n": [0]}))
    numbers = numbers_of(consumer)
    producer.send_offsets(consumer)
    return numbers


def test_a_transaction_of_a_consumer_that_let_a_partition_go_fails(log, members):
    """Also if the partition came back before it ended: another has read and committed the same records meanwhile."""
    first, second = members.join(), members.join()
    slow, quick = log.producer(), log.producer()
    with pytest.raises(MembershipLostError, match="has given up partitions since its offsets were sent"), slow.transaction():
        assert len(copy(first, slow)) == 40
        members.settle(second, first, second, first)
        with quick.transaction():
            taken = copy(second, quick)
        second.close()
        members.settle(first)
        assert len(first.assignment()) == 4 and taken

    assert log.read("u").num_rows == 41
    for (topic, partition), offset in first.committed().items():
        first.seek(topic, partition, offset or 0)
    with slow.transaction():
        assert len(copy(first, slow)) == 40 - len(taken)
    assert log.read("u").num_rows == 42


def test_a_transaction_goes_on_while_others_come_and_go(log, members):
    """A rebalance that takes nothing from a consumer does not end its transaction."""
    first = members.join("t")
    producer = log.producer()
    with producer.transaction():
        copy(first, producer)
        other = members.join("u")
        members.settle(other, first)
        other.close()
        members.settle(first)

    assert log.read("u").num_rows == 41


def test_offsets_come_from_a_consumer_or_by_name(log):
    """Anything else is refused, and the transaction goes on."""
    producer = log.producer()
    with producer.transaction():
        with pytest.raises(ConfigError, match=r"send_offsets\(5\); expected a consumer, or the name of a group"):
            producer.send_offsets(5)
        producer.send_offsets("h", {"t": {0: 1}})
