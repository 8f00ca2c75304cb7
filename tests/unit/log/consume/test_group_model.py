"""
Promises of groups under anything: members that join, leave, stall and die, partitions that come, topics that are created again.

A state machine plays members of one group on a clock moved by hand, beside a model of what they may do. Seeded defects show
that it would notice: see `test_a_defect_is_found`.
"""

from __future__ import annotations

import os
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule, run_state_machine_as_test

from streamkit.clock import HandClock
from streamkit.errors import MembershipLostError, TopicNotFoundError
from streamkit.log.catalog import groups
from streamkit.log.consume import membership
from streamkit.log.consume.fetcher import Fetched, Fetcher
from streamkit.log.opening import open_log
from streamkit.log.produce.producer import Producer
from tests.unit.log.consume.group_members import SESSION_MS, Members

IS_TORTURE = bool(os.environ.get("STREAMKIT_TORTURE"))
TOPICS = ("t", "u")
QUICK = settings(max_examples=14, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))
SETTINGS = settings(QUICK, max_examples=2_000, stateful_step_count=80) if IS_TORTURE else QUICK


class Played:
    """A consumer, and what the model knows of it: the last time it can be sure to have been seen alive."""

    def __init__(self, consumer, clock):
        self.consumer = consumer
        self.clock = clock
        self.seen_ms = clock.now_ms()
        self.paused_in = None  # a commit: its checks are made, its transaction is not

    @property
    def is_alive(self):
        """Nobody may take it for dead yet."""
        return self.clock.now_ms() - self.seen_ms <= SESSION_MS


class GroupMachine(RuleBasedStateMachine):
    """No two owners; everything owned once members are left alone; committed offsets do not go back; no row is missed."""

    consumers = Bundle("consumers")

    def __init__(self):
        super().__init__()
        self.log = open_log(":memory:", HandClock(0))
        self.members = Members(self.log)
        self.playing = []  # those that are called
        self.ever = []
        self.delivered = {}  # (topic id, partition) → offsets that anybody was given
        self.partitions = {}
        for topic in TOPICS:
            self.create(topic, 2)

    def create(self, topic, partitions):
        self.log.create_topic(topic, "n bigint", partitions=partitions)
        self.partitions[topic] = partitions

    @initialize(assignor=st.sampled_from(["cooperative-sticky", "range"]))
    def choose_assignor(self, assignor):
        self.assignor = assignor

    # What members do

    @rule(
        target=consumers,
        topics=st.sampled_from([("t",), ("u",), ("t", "u")]),
        instance=st.sampled_from([None, None, "one", "two"]),
    )
    def join(self, topics, instance):
        """A consumer comes; an older one of its instance id is out."""
        played = Played(
            self.members.join(*topics, assignor=self.assignor, instance_id=instance, max_poll_records=3), self.members.clock
        )
        played.consumer._follow()
        for other in list(self.playing):
            if instance is not None and other.consumer._assignment.subscription.instance_id == instance:
                self.playing.remove(other)
        self.playing.append(played)
        self.ever.append(played)
        return played

    @rule(played=consumers)
    def poll(self, played):
        """The rows of a partition that a consumer is given are all those between where it stood and where it stands then."""
        if played not in self.playing or played.paused_in is not None:
            return
        played.consumer._follow()
        played.consumer._assignment.beat()
        if played.consumer._assignment.member_id is not None:
            played.seen_ms = self.members.clock.now_ms()
        before = dict(played.consumer._positions)
        given = self.given(played.consumer._fetch())
        for place, offsets in given.items():
            self.delivered.setdefault(place, set()).update(offsets)
        for place, offset in played.consumer._positions.items():
            passed = list(range(before[place] or 0, offset or 0))
            assert given.get(place, []) == passed, f"{place}: from {before[place]} to {offset} with {given.get(place)}"

    def given(self, table):
        """The offsets of a table's rows in their order, by (topic id, partition)."""
        found: dict[tuple[int, int], list[int]] = {}
        if table is not None:
            topic = self.log.topic(table["_topic"][0].as_py())
            for partition, offset in zip(table["_partition"].to_pylist(), table["_offset"].to_pylist()):
                found.setdefault((topic.id, partition), []).append(offset)
        return found

    @rule(played=consumes(consumers))
    def leave(self, played):
        """A consumer closes; one that is not static is out at once."""
        if played in self.playing and played.paused_in is None:
            self.playing.remove(played)
            played.consumer.close()

    @rule(played=consumes(consumers))
    def die(self, played):
        """A consumer is never heard of again."""
        if played in self.playing:
            self.playing.remove(played)

    @rule(played=consumers)
    def commit(self, played):
        """Refused are only members that may be dead, and topics that are gone."""
        if played.paused_in is None and not played.consumer._is_closed:
            is_known = played in self.playing and played.is_alive and played.consumer._assignment.member_id is not None
            is_refused = self.committing(played.consumer.commit)
            assert not (is_known and is_refused)

    @rule(played=consumers)
    def pause_in_commit(self, played):
        """The process stops after its own checks, just before the transaction."""
        if played.paused_in is None and not played.consumer._is_closed:
            with suppress(MembershipLostError):
                played.paused_in = played.consumer.group_commit()

    @rule(played=consumers)
    def resume_in_commit(self, played):
        commit, played.paused_in = played.paused_in, None
        if commit is not None and commit.offsets:
            self.committing(lambda: self.log.catalog.groups.commit_offsets(commit))

    def committing(self, commit):
        """Whether a commit is refused for want of membership; it must not lead back, and change nothing if it is refused."""
        before = groups.places_of(self.log.catalog.groups.committed_offsets("g"))
        try:
            commit()
            error = None
        except (MembershipLostError, TopicNotFoundError) as found:
            error = found
        after = groups.places_of(self.log.catalog.groups.committed_offsets("g"))
        assert error is None or after == before
        assert all(after[place] >= offset for place, offset in before.items()), f"committed {before}, then {after}"
        return isinstance(error, MembershipLostError)

    @rule(played=consumers)
    def beat(self, played):
        if played in self.playing and not played.consumer._is_closed:
            was_alive = played.is_alive
            played.consumer._assignment.beat()
            if was_alive and played.consumer._assignment.member_id is not None:
                played.seen_ms = self.members.clock.now_ms()

    # What happens to them

    @rule(milliseconds=st.sampled_from([1, SESSION_MS // 3, SESSION_MS - 1, SESSION_MS + 1, 5 * SESSION_MS]))
    def pass_time(self, milliseconds):
        self.members.clock.advance(milliseconds)

    @rule(topic=st.sampled_from(TOPICS), rows=st.integers(1, 9))
    def produce(self, topic, rows):
        """Batches without keys go to one partition after the other."""
        producer = Producer(self.log.storage, self.log.catalog, self.log.clock, frame_rows=4)
        for _ in range(self.partitions[topic]):
            producer.send_batch(topic, pa.table({"n": pa.array(range(rows), pa.int64())}))
        producer.flush()

    @rule(topic=st.sampled_from(TOPICS))
    def add_partition(self, topic):
        if self.partitions[topic] < 6:
            self.partitions[topic] += 1
            self.log.alter_topic(topic, partitions=self.partitions[topic])

    @rule(topic=st.sampled_from(TOPICS), partitions=st.integers(1, 4))
    def recreate(self, topic, partitions):
        self.log.delete_topic(topic)
        self.create(topic, partitions)

    # What always holds

    @invariant()
    def exactly_the_owner_can_commit(self):
        """Of all consumers that ever were, at most one can commit at a partition; and who is alive can, wherever it reads."""
        able = set()
        for played in self.ever:
            topic_ids = {topic_id for topic_id, _ in played.consumer._positions}
            there = {found.id for found in self.log.catalog.topics.every()}
            for place in played.consumer.assignment() if topic_ids <= there else ():
                can_commit = self.members.can_commit(played.consumer, place)
                assert not (can_commit and place in able), f"two can commit at {place}"
                assert can_commit or not played.is_alive or played not in self.playing, f"the owner cannot commit at {place}"
                able |= {place} if can_commit else set()

    @invariant()
    def committed_is_within_what_was_delivered(self):
        """Nothing is committed that nobody was given: an offset below a committed one was delivered at least once."""
        for place, offset in groups.places_of(self.log.catalog.groups.committed_offsets("g")).items():
            assert set(range(offset)) <= self.delivered.get(place, set())

    def teardown(self):
        """Left alone, the living members own every partition they want, once, and between them have read every row."""
        for played in self.playing:
            self.resume_in_commit(played)
        if not self.playing:
            return
        for _ in range(12):
            for played in self.playing:
                self.poll(played)
            self.members.clock.advance(SESSION_MS // 4)
        self.check_stable()
        for played in self.playing:
            self.read_to_end(played)
        self.check_delivered()

    def read_to_end(self, played):
        """However many polls that takes: each has to come nearer to the end, so that a consumer that reads in circles fails."""
        while lag := sum(played.consumer.lag().values()):
            self.poll(played)
            assert sum(played.consumer.lag().values()) < lag, f"{lag} rows are left, and a poll brought none"

    def check_stable(self):
        wanted = {topic for played in self.playing for topic in played.consumer._assignment.subscription.topics}
        owned = sorted(place for played in self.playing for place in played.consumer.assignment())
        assert owned == sorted((topic, partition) for topic in wanted for partition in range(self.partitions[topic]))
        assert self.log.groups.describe("g").state == "Stable"
        for played in self.playing:
            played.consumer.commit()

    def check_delivered(self):
        for played in self.playing:
            for topic, partition in played.consumer.assignment():
                found = self.log.topic(topic)
                end = self.log.end_offsets(topic)[partition]
                assert set(range(end)) <= self.delivered.get((found.id, partition), set()), (topic, partition)


@pytest.mark.timeout(3_600)
def test_any_sequence_of_members(record_property):
    """Whoever joins, polls, commits, sleeps, leaves or dies in whatever order: one owner a partition, and no row is passed over."""
    run_state_machine_as_test(GroupMachine, settings=SETTINGS)
    record_property("tried", {"histories of groups": SETTINGS.max_examples, "steps of each": SETTINGS.stateful_step_count})


def test_a_long_backlog_is_read_to_its_end():
    """A member that is left alone is given every row, also if that takes hundreds of polls."""
    machine = GroupMachine()
    machine.choose_assignor(assignor="cooperative-sticky")
    machine.join(topics=("t",), instance=None)
    for _ in range(40):
        machine.produce(topic="t", rows=9)
    machine.teardown()

    (played,) = machine.playing
    assert played.consumer.position() == {("t", 0): 360, ("t", 1): 360}


def skip_the_owner_check(patch):
    patch(groups, "_check_owner", lambda *arguments: None)


def take_before_release(patch):
    """A rebalance gives a partition to its target while the owner still has it."""
    real = groups._assigned
    patch(
        groups,
        "_assigned",
        lambda *arguments: {place: (target or owner, target) for place, (owner, target) in real(*arguments).items()},
    )


def begin_at_the_end(patch):
    """A new owner passes over what the old one had not committed."""
    real = membership.Membership._compared

    def compared(self, found):
        change = real(self, found)
        ends = self._catalog.manifest.offset_bounds({topic_id for topic_id, _ in change.assigned})
        return type(change)(change.lost, change.revoked, {place: ends[place][1] for place in change.assigned})

    patch(membership.Membership, "_compared", compared)


def never_bury(patch):
    """Nobody is ever taken for dead."""
    patch(membership, "dead_members", lambda *arguments: [])


def pass_over_a_row(patch):
    """A fetch ends one row further than the rows that it returns, if there are more."""
    real = Fetcher.fetch

    def fetch(self, positions, ends):
        found = real(self, positions, ends)
        return found and Fetched(found.table, {place: min(offset + 1, ends[place]) for place, offset in found.positions.items()})

    patch(Fetcher, "fetch", fetch)


def stop_before_the_end(patch):
    """The last row of a partition is left until another comes after it."""
    real = Fetcher.fetch
    patch(Fetcher, "fetch", lambda self, positions, ends: real(self, positions, {place: end - 1 for place, end in ends.items()}))


PHASES = [Phase.generate]  # a failure is enough, its smallest example is not asked for
BUGS = {
    "a commit does not ask for the owner": skip_the_owner_check,
    "a partition is given before it is released": take_before_release,
    "a new owner begins at the end": begin_at_the_end,
    "nobody is ever taken for dead": never_bury,
    "a fetch passes over a row": pass_over_a_row,
    "the last row of a partition is not read": stop_before_the_end,
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_group_is_caught(bug, monkeypatch):
    """With the ownership check taken out of the commit, or another part of the protocol broken, the machine above fails."""
    BUGS[bug](monkeypatch.setattr)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            GroupMachine, settings=settings(QUICK, max_examples=200, derandomize=True, report_multiple_bugs=False, phases=PHASES)
        )
