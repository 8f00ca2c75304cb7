"""
The consumer: rows of topics in Arrow, from positions that move forward, alone or as a member of a group.

Changes of a group, a topic or retention take effect in `poll` and nowhere else.
"""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from numbers import Real
from threading import TIMEOUT_MAX
from types import TracebackType
from typing import NamedTuple, TypeAlias, final

import pyarrow as pa

from streamkit.errors import ConfigError, MembershipLostError, OffsetOutOfRangeError, StreamKitError, TopicNotFoundError
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.groups import GroupCommit
from streamkit.log.catalog.manifest import OffsetsByTopicId
from streamkit.log.consume.assignment import Assignment, FixedAssignment
from streamkit.log.consume.fetcher import Fetcher
from streamkit.log.consume.membership import Heart, Membership
from streamkit.log.consume.reader import check_partition, milliseconds
from streamkit.log.consume.time_lookup import offsets_for_times
from streamkit.log.storage.storage import Storage
from streamkit.log.topic.topic import TopicIdPartition
from streamkit.log.values.whole_number import offset_of, whole_number

MAX_POLL_RECORDS = 65_536
RESETS = ("earliest", "latest", "none")
LOOK_SECONDS = 0.25  # the most between two looks at the catalog while nothing is heard of commits
_LOGGER = logging.getLogger(__name__)


class TopicPartition(NamedTuple):
    """A partition of a topic, by the topic's name."""

    topic: str
    partition: int


def names_of(partitions: object) -> list[TopicPartition]:
    """The partitions by name; ConfigError for anything but pairs of a topic and a whole number."""
    if isinstance(partitions, str) or not isinstance(partitions, Iterable):
        raise ConfigError(f"partitions={partitions!r}; expected pairs of a topic and a partition, such as [('orders', 0)]")
    return [_name_of(partition) for partition in partitions]


def _name_of(partition: object) -> TopicPartition:
    match partition:
        case (str(topic), number):
            return TopicPartition(topic, whole_number(f"topic {topic}: partition", number))
    raise ConfigError(f"found the partition {partition!r}; expected a pair of a topic and a partition, such as ('orders', 0)")


def _seconds(timeout: float) -> float:
    """The timeout, bounded by what a clock can add; ConfigError if it is not a number from 0 on, as in Kafka."""
    if isinstance(timeout, bool) or not isinstance(timeout, Real) or not timeout >= 0:  # NaN neither
        raise ConfigError(f"timeout={timeout!r}; expected seconds from 0, such as 1.0")
    return float(min(timeout, TIMEOUT_MAX))


Partitions: TypeAlias = Iterable[tuple[str, int]]
PartitionsCallback: TypeAlias = Callable[[list[TopicPartition]], object]


@final
class Consumer:
    """
    Reads committed rows forward. One thread at a time; it belongs to the process that made it.

    In a group, `poll` also keeps the membership: call it at least every `max_poll_interval_ms`.
    """

    def __init__(
        self,
        storage: Storage,
        catalog: Catalog,
        assignment: Assignment,
        *,
        group: str | None = None,
        heart: Heart | None = None,
        auto_offset_reset: str = "earliest",
        columns: Sequence[str] | None = None,
        max_poll_records: int = MAX_POLL_RECORDS,
        on_assigned: PartitionsCallback | None = None,
        on_revoked: PartitionsCallback | None = None,
        on_lost: PartitionsCallback | None = None,
    ) -> None:
        if auto_offset_reset not in RESETS:
            raise ConfigError(f"auto_offset_reset={auto_offset_reset!r}; expected one of {', '.join(RESETS)}")
        self._storage = storage
        self._catalog = catalog
        self._assignment = assignment
        self._group = group
        self._reset = auto_offset_reset
        self._fetcher = Fetcher(storage, catalog, columns, whole_number("max_poll_records", max_poll_records, 1))
        self._on_assigned, self._on_revoked, self._on_lost = on_assigned, on_revoked, on_lost
        self._names: dict[int, str] = {}
        self._positions: dict[TopicIdPartition, int | None] = {}  # None: where to begin is not decided yet
        self._paused: set[TopicIdPartition] = set()
        self.tenure = 0  # see OffsetSource
        self._is_closed = False
        self._heart = heart

    def __repr__(self) -> str:
        return f"Consumer(group={self._group!r}, assignment={self.assignment()!r})"

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __iter__(self) -> Iterator[pa.Table]:
        """Every next table, for ever; ends when the consumer is closed."""
        while not self._is_closed:
            table = self.poll()
            if table is not None:
                yield table

    # Reading

    def poll(self, timeout: float = 1.0) -> pa.Table | None:
        """
        The next rows; waits up to `timeout` seconds for them, and returns None if there are none by then.

        All rows are of one topic: its columns (those asked for), then `_timestamp`, `_topic`, `_partition`, `_offset` and
        `_deleted`; each partition's rows are in the order of their offsets. At most `max_poll_records` rows, of one snapshot.
        Callbacks run in here; if one raises an error, this is raised after the change of partitions is made. OffsetOutOfRangeError where
        `auto_offset_reset` is `none` and there is nowhere to begin; FencedError if another has taken the instance id.
        CorruptionError for a frame that cannot be read, once the rows before it were returned: it names the partition, and where
        the next frame begins, so that a program can `seek` there or `pause` the partition. Polls go on with the other partitions.
        """
        self._check_open()
        deadline = time.monotonic() + _seconds(timeout)
        watch = self._catalog.watch()  # before the look: what is committed after it ends the wait
        while True:
            self._follow()
            table = self._fetch()
            left_s = deadline - time.monotonic()
            if table is not None or left_s <= 0 or self._is_closed:
                return table
            watch.wait(min(left_s, LOOK_SECONDS, self._assignment.interval_ms / 1000))

    def assign(self, partitions: Partitions) -> None:
        """
        Read only these partitions from now on, without membership: other consumers may read them, too.

        Reading begins where the group has committed, if there is a group, else where `auto_offset_reset` says. ConfigError for a
        consumer that was given topics; TopicNotFoundError or ConfigError if something does not exist.
        """
        self._check_open()
        if not isinstance(self._assignment, FixedAssignment):
            raise ConfigError("this consumer was given topics; leave them out of log.consumer(…) to assign partitions by hand")
        topics = {self._existing(name): name.topic for name in names_of(partitions)}
        self._drop(frozenset(self._positions))
        self._assignment = FixedAssignment(self._catalog, topics, self._group)
        self._follow()

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read now."""
        return self._shown(self._positions)

    def pause(self, partitions: Partitions | None = None) -> None:
        """Return no rows of these partitions (all, unless given) until they are resumed, or another member gets them."""
        self._paused |= self._chosen(partitions)

    def resume(self, partitions: Partitions | None = None) -> None:
        """Return rows of these partitions (all, unless given) again."""
        self._paused -= self._chosen(partitions)

    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused."""
        return self._shown(self._paused)

    # Positions

    def position(self) -> dict[TopicPartition, int]:
        """The offset that is read next, by partition."""
        self._check_open()
        self._decide()
        return {self._name(place): offset for place, offset in sorted(self._positions.items()) if offset is not None}

    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets lie between the position and the end, by partition."""
        self._check_open()
        bounds = self._decide()
        return {
            self._name(place): bounds[place][1] - offset
            for place, offset in sorted(self._positions.items())
            if offset is not None
        }

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Read on from this offset. If there is no such offset, the next poll begins where `auto_offset_reset` says."""
        (place,) = self._chosen([(topic, partition)])
        self._positions[place] = offset_of(topic, partition, offset)

    def seek_to_beginning(self, partitions: Partitions | None = None) -> None:
        """Read on from the earliest offset of these partitions (all, unless given)."""
        self._seek_to_bound(partitions, 0)

    def seek_to_end(self, partitions: Partitions | None = None) -> None:
        """Read on from the end, as it is now, of these partitions (all, unless given)."""
        self._seek_to_bound(partitions, 1)

    def seek_to_time(self, moment: int | dt.datetime, partitions: Partitions | None = None) -> None:
        """
        Read on from the first row whose event time is this (ms since 1970, or a datetime with a zone) or later.

        A partition without such a row is read from its end, as it is now.
        """
        chosen, moment = self._chosen(partitions), milliseconds(moment)
        for topic_id in sorted({topic_id for topic_id, _ in chosen}):
            topic = self._catalog.topics.get_by_id(topic_id, self._names[topic_id])
            found = offsets_for_times(self._storage, self._catalog, topic, moment)
            ends = self._catalog.manifest.end_offsets(topic_id)
            for place in chosen:
                if place[0] == topic_id:
                    offset = found[place[1]]
                    self._positions[place] = ends[place[1]] if offset is None else offset

    # Committing

    def commit(
        self, offsets: Mapping[tuple[str, int], int] | None = None, partitions: Partitions | None = None
    ) -> dict[TopicPartition, int]:
        """
        Commit the positions, so that the group reads on from there; returns what was committed, when it is durable.

        `partitions` commits only the positions of these partitions, and `offsets` commits these offsets (of the next row to read) instead.
        After a seek an offset may be lower than the one that was committed before.
        All or none: MembershipLostError if one of the partitions is no longer this consumer's in the group.
        """
        commit = self.group_commit(offsets, partitions)
        if commit.offsets:
            self._catalog.groups.commit_offsets(commit)
        found = {(topic_id, number): offset for topic_id, at in commit.offsets.items() for number, offset in at.items()}
        return {self._name(place): offset for place, offset in found.items()}

    def group_commit(
        self, offsets: Mapping[tuple[str, int], int] | None = None, partitions: Partitions | None = None
    ) -> GroupCommit:
        """What `commit` would commit, as a value that a producer's transaction can carry; raises as `commit` does."""
        self._check_open()
        if self._group is None:
            raise ConfigError("this consumer has no group to commit for; give log.consumer(…) a group")
        if offsets is not None and not isinstance(offsets, Mapping):
            raise ConfigError(f"offsets={offsets!r}; expected next offsets by topic and partition, such as {{('orders', 0): 17}}")
        if offsets is not None and partitions is not None:
            raise ConfigError("commit takes either offsets or partitions; offsets name their partitions themselves")
        self._assignment.check_alive()
        return GroupCommit(self._group, self._assignment.member_id, self._committable(offsets, partitions))

    def committed(self, partitions: Partitions | None = None) -> dict[TopicPartition, int | None]:
        """What the group has committed for these partitions (all that are read now, unless given); None if it has not committed yet."""
        if self._group is None:
            raise ConfigError("this consumer has no group that could have committed; give log.consumer(…) a group")
        places = self._positions if partitions is None else [self._existing(name) for name in names_of(partitions)]
        found = self._catalog.groups.committed_offsets(self._group)
        return {self._name(place): found.get(place[0], {}).get(place[1]) for place in sorted(places)}

    def close(self) -> None:
        """
        Stop reading and leave the group, without a commit; a second call does nothing.

        `on_revoked` runs first, while it can still commit. A static member stays in the group until its session ends.
        """
        if self._is_closed:
            return
        try:
            self._take_leave()
        finally:
            self._is_closed = True
            self._positions.clear()
            if self._heart is not None:
                self._heart.stop()
            self._assignment.leave()

    # What a poll does

    def _follow(self) -> None:
        """Let all changes take effect, whatever callbacks raise."""
        change = self._assignment.next_change()
        try:
            self._lose(change.lost)
        finally:
            try:
                self._revoke(change.revoked)
            finally:
                self._take(change.assigned)

    def _lose(self, places: frozenset[TopicIdPartition]) -> None:
        known = places & self._positions.keys()
        self._drop(places)
        self._call(self._on_lost, known)

    def _revoke(self, places: frozenset[TopicIdPartition]) -> None:
        try:
            self._call(self._on_revoked, places & self._positions.keys())
        finally:
            self._drop(places)
            if places:
                self._assignment.release(places)

    def _take(self, assigned: Mapping[TopicIdPartition, int | None]) -> None:
        for topic_id in {topic_id for topic_id, _ in assigned} - self._names.keys():
            with suppress(TopicNotFoundError):  # deleted since: the next change says so
                self._names[topic_id] = self._catalog.topics.get_by_id(topic_id).name
        known = {place: offset for place, offset in assigned.items() if place[0] in self._names}
        self._positions |= known
        self._call(self._on_assigned, known)

    def _take_leave(self) -> None:
        if not isinstance(self._assignment, Membership):
            return
        try:
            self._assignment.check_alive()
        except MembershipLostError:
            callback = self._on_lost
        else:
            callback = self._on_revoked
        self._on_lost = self._on_revoked = None  # a callback that closes the consumer is not called again
        self._call(callback, self._positions)

    def _drop(self, places: frozenset[TopicIdPartition]) -> None:
        self.tenure += bool(places & self._positions.keys())
        self._paused -= places
        for place in places:
            self._positions.pop(place, None)

    def _call(self, callback: PartitionsCallback | None, places: Iterable[TopicIdPartition]) -> None:
        shown = self._shown(places)
        if callback is not None and shown:
            callback(shown)

    def _fetch(self) -> pa.Table | None:
        bounds = self._decide()
        ready = {
            place: offset
            for place, offset in self._positions.items()
            if offset is not None and place in bounds and place not in self._paused
        }
        try:
            fetched = self._fetcher.fetch(ready, {place: end for place, (_, end) in bounds.items()})
        except TopicNotFoundError:
            self._assignment.look_again()
            return None
        if fetched is None:
            return None
        self._positions |= fetched.positions
        return fetched.table

    def _decide(self) -> dict[TopicIdPartition, tuple[int, int]]:
        """Earliest offset and end of each partition, after every position was brought between the two."""
        if not self._positions:
            return {}
        bounds = self._catalog.manifest.offset_bounds(sorted({topic_id for topic_id, _ in self._positions}))
        for place, offset in self._positions.items():
            if place not in bounds:
                self._assignment.look_again()
            elif offset is None or not bounds[place][0] <= offset <= bounds[place][1]:
                self._positions[place] = self._beginning(place, offset, *bounds[place])
        return bounds

    def _beginning(self, place: TopicIdPartition, offset: int | None, start: int, end: int) -> int:
        """Where to begin at a partition whose position is not decided, or not there any more."""
        name = self._name(place)
        found = self._unplaced() if offset is None else f"offset {offset} is not there"
        where = f"topic {name.topic}, partition {name.partition}: {found}; the earliest offset is {start}, the end {end}"
        if self._reset == "none":
            message = f"{where}, and auto_offset_reset is 'none': seek to an offset between the two"
            raise OffsetOutOfRangeError(message, name.topic, name.partition, offset, start, end)
        chosen = start if self._reset == "earliest" else end
        if offset is not None:
            _LOGGER.warning("%s; reading on from %d, as auto_offset_reset=%r says", where, chosen, self._reset)
        return chosen

    def _unplaced(self) -> str:
        if self._group is None:
            return "there is no position to begin at, because nothing was sought"
        return "the group has committed nothing"

    # Names and places

    def _committable(self, offsets: Mapping[tuple[str, int], int] | None, partitions: Partitions | None) -> OffsetsByTopicId:
        if offsets is None:
            chosen = {place: self._positions[place] for place in self._chosen(partitions)}
        else:
            chosen = {place: offset_of(*name, offset) for name, offset in offsets.items() for place in self._chosen([name])}
        found: OffsetsByTopicId = {}
        for (topic_id, partition), offset in sorted(chosen.items()):
            if offset is not None:
                found.setdefault(topic_id, {})[partition] = offset
        return found

    def _seek_to_bound(self, partitions: Partitions | None, bound: int) -> None:
        chosen = self._chosen(partitions)
        bounds = self._catalog.manifest.offset_bounds(sorted({topic_id for topic_id, _ in chosen}))
        self._positions |= {place: bounds[place][bound] for place in chosen if place in bounds}

    def _chosen(self, partitions: Partitions | None) -> set[TopicIdPartition]:
        """The partitions of those names, all that are read now for None; ConfigError for one that is not among them."""
        self._check_open()
        known = {self._name(place): place for place in self._positions}
        if partitions is None:
            return set(known.values())
        chosen = names_of(partitions)
        for name in chosen:
            if name not in known:
                raise ConfigError(
                    f"partition {name.partition!r} of topic {name.topic!r} is not assigned to this consumer; assigned "
                    f"{'are ' + ', '.join(f'{topic} {number}' for topic, number in sorted(known)) if known else 'is none: poll first'}"
                )
        return {known[name] for name in chosen}

    def _existing(self, name: TopicPartition) -> TopicIdPartition:
        found = self._catalog.topics.get(name.topic)
        self._names[found.id] = found.name
        return found.id, check_partition(found, name.partition)

    def _name(self, place: TopicIdPartition) -> TopicPartition:
        return TopicPartition(self._names[place[0]], place[1])

    def _shown(self, places: Iterable[TopicIdPartition]) -> list[TopicPartition]:
        return sorted(self._name(place) for place in places)

    def _check_open(self) -> None:
        if self._is_closed:
            whose = "" if self._group is None else f" of group {self._group}"
            raise StreamKitError(f"this consumer{whose} is closed; make another one")
