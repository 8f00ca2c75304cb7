"""
A consumer's membership in a group: it joins, beats, notices changes, and knows when it may no longer be a member.

docs/groups.md has the protocol. What a member may do is decided by the catalog; here is only when it looks.
"""

from __future__ import annotations

import os
import socket
import threading
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from streamkit.clock import Clock, MonotonicClock
from streamkit.errors import ConfigError, StreamKitError
from streamkit.log.catalog.assignors import ASSIGNORS
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.groups import Member, MemberStanding, lost
from streamkit.log.consume.assignment import AssignmentChange
from streamkit.log.database.heartbeats import Heartbeats
from streamkit.log.topic.topic import TopicIdPartition
from streamkit.log.values.whole_number import whole_number
from streamkit.names import check_name, fresh_token, heartbeat_name

SESSION_TIMEOUT_MS = 45_000
MAX_POLL_INTERVAL_MS = 300_000
HEARTBEAT_INTERVAL_MS = 3_000
_BEATS_PER_SESSION = 3


@dataclass(frozen=True)
class Subscription:
    """What a consumer asks of a group, with Kafka's names and defaults; ConfigError for values that cannot be."""

    group: str
    topics: tuple[str, ...]
    assignor: str = "cooperative-sticky"
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    max_poll_interval_ms: int = MAX_POLL_INTERVAL_MS
    instance_id: str | None = None

    def __post_init__(self) -> None:
        check_name(self.group, "group")
        if self.instance_id is not None:
            check_name(self.instance_id, "instance")
        if self.assignor not in ASSIGNORS:
            raise ConfigError(f"assignor={self.assignor!r}; expected one of {', '.join(ASSIGNORS)}")
        for name in ("session_timeout_ms", "max_poll_interval_ms"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), _BEATS_PER_SESSION))

    @property
    def heartbeat_interval_ms(self) -> int:
        return min(HEARTBEAT_INTERVAL_MS, self.session_timeout_ms // _BEATS_PER_SESSION)


class Membership:
    """
    One consumer's part in a group, over all the times it joins. It beats when polled, and when a `Heart` says so.

    `clock` is monotonic, in milliseconds.
    """

    def __init__(self, catalog: Catalog, heartbeats: Heartbeats, subscription: Subscription, clock: Clock | None = None) -> None:
        self.subscription = subscription
        self._catalog = catalog
        self._heartbeats = heartbeats
        self._clock = clock or MonotonicClock()
        self._member_id: str | None = None
        self._former_id: str | None = None  # the id under which it joined last
        self._owned: frozenset[TopicIdPartition] = frozenset()
        self._seen: int | None = None
        self._lock = threading.Lock()
        self._beaten_ms = self._polled_ms = self._watched_ms = self._clock.now_ms()

    @property
    def member_id(self) -> str | None:
        return self._member_id

    @property
    def interval_ms(self) -> int:
        return self.subscription.heartbeat_interval_ms

    def next_change(self) -> AssignmentChange:
        """Join if it has to; returns what has changed since the last call. FencedError if the instance id was taken by another."""
        self._polled_ms = self._clock.now_ms()
        if self._member_id is None:
            self._join()
        elif self._has_lapsed():
            return self._lose()
        self._keep_watch()
        assert self._member_id is not None
        found = self._catalog.groups.standing(self.subscription.group, self._member_id, self._seen)
        if found is None:
            return self._lose()
        return AssignmentChange() if found.generation == self._seen else self._compared(found)

    def look_again(self) -> None:
        """Make the next call look at everything."""
        self._seen = None

    def check_alive(self) -> None:
        """MembershipLostError if the consumer is not a member, or has been silent for longer than its session."""
        if self._member_id is None or self._has_lapsed():
            raise lost(self.subscription.group)

    def release(self, places: Iterable[TopicIdPartition]) -> None:
        """Hand partitions over to those that are to have them."""
        given = frozenset(places)
        if self._member_id is not None and given:
            self._catalog.groups.release(self.subscription.group, self._member_id, given)
        self._owned -= given

    def leave(self) -> None:
        """Leave the group at once; a static member only falls silent, so that it finds its partitions when it is back in time."""
        with self._lock:
            member_id, self._member_id = self._member_id, None
        self._owned = frozenset()
        if member_id is not None and self.subscription.instance_id is None:
            self._catalog.groups.rebalance(self.subscription.group, [member_id])
            self._heartbeats.forget(heartbeat_name(self.subscription.group, member_id))

    def beat(self) -> None:
        """Say that the consumer is alive, unless it has been silent for longer than its session, or not polled for too long."""
        with self._lock:
            now = self._clock.now_ms()
            is_idle = now - self._polled_ms > self.subscription.max_poll_interval_ms
            if self._member_id is None or self._has_lapsed() or is_idle:
                return
            self._heartbeats.beat(heartbeat_name(self.subscription.group, self._member_id))
            # The time before the beat: others may see us alive for longer than we believe it, never the other way round.
            self._beaten_ms = now

    def _has_lapsed(self) -> bool:
        return self._clock.now_ms() - self._beaten_ms > self.subscription.session_timeout_ms

    def _join(self) -> None:
        subscription = self.subscription
        dead = dead_members(self._catalog, self._heartbeats, subscription.group)
        member = Member(
            fresh_token(), f"{socket.gethostname()}:{os.getpid()}", subscription.topics, subscription.session_timeout_ms,
            subscription.assignor, subscription.instance_id,
        )  # fmt: skip
        now = self._clock.now_ms()
        self._heartbeats.beat(heartbeat_name(subscription.group, member.member_id))
        self._catalog.groups.join(subscription.group, member, dead, former_id=self._former_id)
        with self._lock:
            self._member_id, self._former_id, self._seen = member.member_id, member.member_id, None
            self._beaten_ms = self._watched_ms = now
        self._bury(dead)

    def _lose(self) -> AssignmentChange:
        with self._lock:
            self._member_id = None
        change = AssignmentChange(lost=self._owned)
        self._owned = frozenset()
        return change

    def _keep_watch(self) -> None:
        """Beat, and rebalance if a member has died or partitions have come, at the interval of heartbeats."""
        now = self._clock.now_ms()
        if now - self._watched_ms < self.subscription.heartbeat_interval_ms:
            return
        self._watched_ms = now
        self.beat()
        group = self.subscription.group
        dead = dead_members(self._catalog, self._heartbeats, group)
        if dead or self._catalog.groups.lacks_partitions(group):
            self._catalog.groups.rebalance(group, dead)
            self._bury(dead)

    def _bury(self, dead: Sequence[str]) -> None:
        if dead:
            self._heartbeats.forget(*(heartbeat_name(self.subscription.group, member_id) for member_id in dead))

    def _compared(self, found: MemberStanding) -> AssignmentChange:
        rows = {(row.topic_id, row.partition): row for row in found.ownerships}
        leaving = frozenset(place for place, row in rows.items() if row.is_leaving)
        change = AssignmentChange(
            lost=self._owned - rows.keys(),
            revoked=self._owned & leaving,
            assigned={place: row.committed for place, row in rows.items() if place not in self._owned | leaving},
        )
        self._owned = (self._owned & rows.keys()) | change.assigned.keys()
        self._seen = found.generation
        if unused := leaving - change.revoked:
            self.release(unused)  # given and taken between two polls
        return change


def dead_members(catalog: Catalog, heartbeats: Heartbeats, group: str) -> list[str]:
    """The members of a group that have been silent for longer than their session; one never heard of counts from now on."""
    ages = heartbeats.ages_ms(heartbeat_name(group))
    sessions = catalog.groups.sessions(group)
    unheard = [name for member_id in sessions if (name := heartbeat_name(group, member_id)) not in ages]
    if unheard:
        heartbeats.beat(*unheard)
    return [member_id for member_id, timeout_ms in sessions.items() if ages.get(heartbeat_name(group, member_id), 0) > timeout_ms]


class Heart:
    """A daemon thread that beats for a membership until it is stopped, or nobody holds the membership any more."""

    def __init__(self, membership: Membership) -> None:
        self._stopped = threading.Event()
        interval_s = membership.subscription.heartbeat_interval_ms / 1000
        name = f"streamkit heartbeats of {membership.subscription.group}"
        arguments = (weakref.ref(membership), self._stopped, interval_s)
        threading.Thread(target=_keep_beating, args=arguments, name=name, daemon=True).start()

    def stop(self) -> None:
        """Let the thread end."""
        self._stopped.set()


def _keep_beating(reference: weakref.ref[Membership], stopped: threading.Event, interval_s: float) -> None:
    while not stopped.wait(interval_s):
        membership = reference()
        if membership is None:
            return
        # A beat that cannot be written is as good as none: the member lapses by its own clock if that lasts.
        with suppress(StreamKitError, OSError):
            membership.beat()
        del membership
