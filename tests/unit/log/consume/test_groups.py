"""Promises of consumer groups: one owner a partition, who alone commits; members come, go and die without stopping the others."""

from __future__ import annotations

from contextlib import nullcontext

import pyarrow as pa
import pytest

from streamkit.errors import (
    ConfigError,
    FencedError,
    MembershipLostError,
    TopicNotFoundError,
)
from streamkit.log.consume.consumer import TopicPartition
from tests.unit.log.consume.group_members import SESSION_MS, numbers_of, owners


@pytest.fixture
def log(group_log):
    return group_log


def test_members_share_the_work(log, members):
    """A work queue: the members of a group have each row once between them."""
    first, second = members.join(), members.join()
    members.settle(first, second)

    assert (len(first.assignment()), len(second.assignment())) == (2, 2)
    assert sorted([*numbers_of(first), *numbers_of(second)]) == list(range(40))


def test_groups_see_everything_each(members):
    """Publish and subscribe: every group has all rows."""
    assert [sorted(numbers_of(members.join(group=group))) for group in ("g", "h")] == [list(range(40))] * 2


def test_the_first_poll_has_partitions(members):
    """The only member owns everything within its first poll, without waiting."""
    assert members.join("t", "u").poll(0) is not None


def test_more_members_than_partitions(log, members):
    """Members without a partition idle, and step in when another leaves."""
    consumers = [members.join() for _ in range(6)]
    members.settle(*consumers)
    assert sorted(len(consumer.assignment()) for consumer in consumers) == [0, 0, 1, 1, 1, 1]

    for consumer in consumers[:3]:
        consumer.close()
    members.settle(*consumers[3:])
    assert sorted(len(consumer.assignment()) for consumer in consumers[3:]) == [1, 1, 2]


def test_a_newcomer_does_not_stop_the_world(log, members):
    """Of the partitions only those that move are revoked, and not before their owner has polled."""
    revoked: list[TopicPartition] = []
    first = members.join(on_revoked=revoked.extend)
    members.settle(first)
    kept = first.assignment()
    second = members.join()
    second.poll(0)
    assert (second.assignment(), first.assignment()) == ([], kept)
    assert log.groups.describe("g").state == "Rebalancing"

    first.poll(0)
    second.poll(0)
    assert sorted([*first.assignment(), *second.assignment()]) == kept
    assert revoked == second.assignment()
    assert log.groups.describe("g").state == "Stable"


def test_a_new_owner_begins_where_the_old_one_committed(members):
    """What was committed on the way out is not read again, what was not is."""

    def commit_one(partitions):
        first.commit(partitions=partitions[:1])

    first = members.join(on_revoked=commit_one)
    while first.poll(0) is not None:
        pass
    second = members.join()
    members.settle(second, first, second)

    committed = second.committed()
    assert second.position() == {partition: offset or 0 for partition, offset in committed.items()}
    assert sorted(map(bool, committed.values())) == [False, True]


@pytest.mark.every_catalog
def test_a_member_that_dies_is_replaced(log, members):
    """When its session is over, and not before, the partitions of a silent member go to the others."""
    first, second = members.join(), members.join()
    members.settle(first, second)
    for _ in range(2):
        second.poll(0)
        assert len(second.assignment()) == 2
        members.clock.advance(SESSION_MS // 3)
    members.settle(second)

    assert len(second.assignment()) == 4
    assert [member.member_id for member in log.groups.describe("g").members] == [second._assignment.member_id]


def test_a_paused_member_cannot_commit(log, members):
    """A member that was silent for longer than its session is refused, joins again with its next poll, and is told what it lost."""
    lost: list[TopicPartition] = []
    assigned: list[TopicPartition] = []
    first = members.join(on_lost=lost.extend, on_assigned=assigned.extend)
    second = members.join()
    members.settle(first, second)
    held = first.assignment()
    first.poll(0)
    members.clock.advance(SESSION_MS + 1)
    second._assignment.beat()
    members.settle(second)

    with pytest.raises(MembershipLostError, match="no longer a member"):
        first.commit()
    assert log.catalog.groups.committed_offsets("g") == {}
    assigned.clear()
    members.settle(first, second, first)
    assert (lost, assigned) == (held, first.assignment())
    assert len(first.assignment()) == len(second.assignment()) == 2
    first.commit()


def test_the_transaction_decides_even_if_the_clock_does_not(log, members):
    """A member that was removed while it believes itself alive, whatever its clock says, is refused by the catalog."""
    first = members.join()
    first.poll(0)
    log.catalog.groups.rebalance("g", [first._assignment.member_id])

    with pytest.raises(MembershipLostError):
        first.commit()


def test_a_lone_member_notices_its_own_pause(log, members):
    """Nobody else is there to take it for dead, yet it does not count on being a member after its session."""
    first = members.join()
    first.poll(0)
    members.clock.advance(SESSION_MS + 1)
    first._assignment.beat()

    with pytest.raises(MembershipLostError):
        first.commit()
    members.settle(first)
    assert len(first.assignment()) == 4
    first.commit()


def test_the_calendar_does_not_matter(log, members):
    """The wall clock may jump by years, forth and back, or stand still: sessions and commits go on as if nothing had happened."""
    first, second = members.join(), members.join()
    members.settle(first, second)
    held, generation = first.assignment(), log.groups.describe("g").generation
    year_ms = 365 * 24 * 3_600_000
    for time_ms in (0, 140 * year_ms, 1, 68 * year_ms + 1, -year_ms, -year_ms):
        log.clock.time_ms = time_ms
        members.settle(first, second, rounds=1)
        first.commit()

    assert (first.assignment(), log.groups.describe("g").generation) == (held, generation)


def test_beats_keep_a_busy_member(log, members):
    """A member that is not polled stays as long as its heart beats, but not for longer than max_poll_interval_ms."""
    first, second = members.join(), members.join()
    object.__setattr__(first._assignment.subscription, "max_poll_interval_ms", 3 * SESSION_MS)
    members.settle(first, second)

    def work(milliseconds):
        for _ in range(0, milliseconds, SESSION_MS // 4):
            members.clock.advance(SESSION_MS // 4)
            first._assignment.beat()
            second.poll(0)
        return len(second.assignment())

    assert [work(2 * SESSION_MS), work(3 * SESSION_MS)] == [2, 4]
    with pytest.raises(MembershipLostError):
        first.commit()


def test_a_heart_that_cannot_beat_gives_up(members, monkeypatch):
    """If heartbeats cannot be written, nobody sees the member alive, and it does not believe to be either."""
    first = members.join()
    first.poll(0)
    members.clock.advance(SESSION_MS // 2)
    monkeypatch.setattr(members.heartbeats, "beat", lambda *names: (_ for _ in ()).throw(OSError("no room")))
    with pytest.raises(OSError, match="no room"):
        first._assignment.beat()
    members.clock.advance(SESSION_MS // 2 + 1)

    with pytest.raises(MembershipLostError):
        first.commit()


def test_lost_heartbeats_cost_nothing(log, members):
    """When the file of heartbeats is gone, everybody counts from then on: the living stay, the dead go a session later."""
    first, second = members.join(), members.join()
    members.settle(first, second)
    held = first.assignment()
    members.heartbeats._beaten.clear()
    members.settle(first)
    assert first.assignment() == held
    members.settle(first)
    assert len(first.assignment()) == 4


def test_new_partitions_are_given_out(log, members):
    """Partitions that are added are read by somebody soon, and what each has stays."""
    first, second = members.join(), members.join()
    members.settle(first, second)
    held = first.assignment()
    log.alter_topic("t", partitions=6)
    members.settle(first, second)

    assert len(first.assignment()) == len(second.assignment()) == 3
    assert set(held) < set(first.assignment())


def test_a_topic_that_is_created_anew_begins_anew(log, members):
    """Deleted: its partitions are lost and cannot be committed. Created again: offsets of the old one mean nothing."""
    lost: list[TopicPartition] = []
    consumer = members.join("t", "u", on_lost=lost.extend)
    numbers_of(consumer)
    consumer.commit()
    log.delete_topic("t")
    with pytest.raises(TopicNotFoundError, match="deleted"):
        consumer.commit()
    members.settle(consumer)
    assert consumer.poll(0) is None
    members.settle(consumer)
    assert lost == [("t", partition) for partition in range(4)]
    consumer.commit()

    log.create_topic("t", "user string, n bigint", key="user", partitions=2)
    with log.producer() as producer:
        producer.send_batch("t", pa.table({"user": ["a"], "n": [77]}))
    members.settle(consumer)
    assert numbers_of(consumer) == [77]
    assert {partition.topic for partition in consumer.assignment()} == {"t", "u"}


def test_members_may_want_different_topics(log, members):
    """A partition goes to a member that subscribes to its topic, and a topic nobody wants any more is let go."""
    both, one = members.join("t", "u"), members.join("u")
    members.settle(both, one)
    assert {topic for topic, _ in one.assignment()} == {"u"}
    assert (len(both.assignment()), len(one.assignment())) == (4, 4)

    both.close()
    members.settle(one)
    assert one.assignment() == [("u", partition) for partition in range(4)]
    assert set(owners(log)) == set(one.assignment())


def test_range_keeps_equal_topics_together(members):
    """With the range assignor a member has the same partitions of topics of equal size."""
    consumers = [members.join("t", "u", assignor="range") for _ in range(3)]
    members.settle(*consumers)

    for consumer in consumers:
        partitions = {topic: [p for name, p in consumer.assignment() if name == topic] for topic in ("t", "u")}
        assert partitions["t"] == partitions["u"] != []


def test_members_agree_on_the_assignor(members):
    """A member with another assignor is refused while the group has members."""
    first = members.join()
    first.poll(0)
    other = members.join(assignor="range")
    with pytest.raises(
        ConfigError,
        match="members of consumer group g, 1 by now, are assigned partitions by 'cooperative-sticky'; found assignor='range'",
    ):
        other.poll(0)
    first.close()
    assert other.poll(0) is not None


def test_a_static_member_comes_back_to_its_partitions(log, members):
    """Within its session a static member that left or died finds what it had, and nobody else was disturbed."""
    first, second = members.join(instance_id="one"), members.join(instance_id="two")
    members.settle(first, second)
    first.poll(0)
    first.commit()
    held, positions, generation = first.assignment(), first.position(), log.groups.describe("g").generation
    first.close()
    members.settle(second, rounds=2)
    again = members.join(instance_id="one")
    again._follow()

    assert (again.assignment(), again.position(), log.groups.describe("g").generation) == (held, positions, generation)
    assert [member.instance_id for member in log.groups.describe("g").members] == ["one", "two"]


def test_a_static_member_that_stays_away_is_replaced(members):
    """After its session its partitions go to others, as those of any other."""
    first, second = members.join(instance_id="one"), members.join()
    members.settle(first, second)
    first.close()
    members.settle(second, rounds=5)

    assert len(second.assignment()) == 4


def test_an_instance_fences_the_older_one(members):
    """Of two consumers with one instance id the older one can neither commit nor come back."""
    older = members.join(instance_id="one")
    older.poll(0)
    newer = members.join(instance_id="one")
    newer.poll(0)

    with pytest.raises(
        FencedError, match="if another took its instance id, stop one of the two, or give each an instance_id of its own"
    ):
        older.commit()
    older._follow()
    for _ in range(2):
        with pytest.raises(FencedError, match="another consumer has joined as instance 'one' since; this one must stop"):
            older.poll(0)
    newer.commit()


def test_a_static_member_is_not_fenced_by_itself(log, members, monkeypatch):
    """One that believes itself lapsed while others see it alive, as its heartbeat took time to write, comes back to what it had."""
    real = members.heartbeats.beat

    def beat_slowly(*names):
        members.clock.advance(10)
        real(*names)

    monkeypatch.setattr(members.heartbeats, "beat", beat_slowly)
    consumer = members.join(instance_id="one")
    consumer.poll(0)
    consumer.commit()
    held, positions = consumer.assignment(), consumer.position()
    members.clock.advance(SESSION_MS - 5)
    with pytest.raises(MembershipLostError):
        consumer.commit()
    consumer._follow()
    assert (consumer.assignment(), len(log.groups.describe("g").members)) == ([], 1)
    consumer._follow()

    assert (consumer.assignment(), consumer.position()) == (held, positions)
    consumer.commit()


@pytest.mark.parametrize("which", ["on_assigned", "on_revoked", "on_lost"])
def test_a_callback_that_raises_breaks_nothing(log, members, which):
    """What a callback raises comes out of the poll, after the change was made; the next poll goes on."""

    def fail(partitions):
        raise RuntimeError(f"{which} of {len(partitions)}")

    first = members.join(**{which: fail})
    failures = 0
    seen = []
    second = members.join()
    for number in range(12):
        if number == 8:
            members.clock.advance(SESSION_MS + 1)
            second._assignment._beaten_ms = members.clock.now_ms()
        for consumer in (first, second) if number > 2 else (first,):
            try:
                consumer._follow()
            except RuntimeError as error:
                seen.append(str(error))
                failures += 1
        members.clock.advance(SESSION_MS // 4)

    assert seen[0].startswith(which)
    assert failures <= 3
    assert sorted([*first.assignment(), *second.assignment()]) == [("t", partition) for partition in range(4)]
    assert len(first.assignment()) == 2


def test_leaving_tells_the_owner(log, members):
    """Closing calls on_revoked while a commit is possible, also if that raises; a member that was lost is told so instead."""
    told: list[str] = []

    def revoke(partitions):
        told.append(f"revoked, committed {len(consumer.commit())}")
        raise RuntimeError(told[-1])

    for silence in (0, SESSION_MS + 1):
        consumer = members.join(on_revoked=revoke, on_lost=lambda partitions: told.append(f"lost {len(partitions)}"))
        consumer.poll(0)
        members.clock.advance(silence)
        with pytest.raises(RuntimeError) if not silence else nullcontext():
            consumer.close()
        assert log.groups.describe("g").members == ()

    assert told == ["revoked, committed 4", "lost 4"]
