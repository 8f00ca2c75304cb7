"""Partitions of Kafka read on from their positions, as the bytes of their record batches, from all leaders at the same time."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass

from streamkit.connectors.kafka.batch_client import (
    EARLIEST,
    FETCH,
    LATEST,
    LEADER_SECONDS,
    BatchClient,
    FetchedPartition,
    KafkaPartition,
    Reply,
)
from streamkit.connectors.kafka.broker_error import NETWORK_EXCEPTION, NO_TOPIC, NONE, OFFSET_OUT_OF_RANGE, PASSING
from streamkit.errors import CorruptionError, OffsetOutOfRangeError, TopicNotFoundError

REFRESH_SECONDS = 1.0  # for leaders to be told, while other partitions have records
SERVER_ERROR = -1  # a broker says it of what went wrong on its side
_MAGIC = 16  # where a batch says its format
_BATCH_HEADER = struct.Struct(
    ">qiibIhi"
)  # offset, bytes that follow, leader's epoch, format, checksum, attributes, last offset less the first


@dataclass(frozen=True)
class FetchedBatches:
    """
    Whole record batches of a partition, in their order.

    The first may begin before `offset`, which was asked for. Of a reader of committed records, `aborted` are the aborted
    transactions among them: the id of the producer, and the first offset. `is_old`: some are message sets of formats 0 and 1.
    """

    place: KafkaPartition
    offset: int
    next_offset: int
    data: bytes
    aborted: tuple[tuple[int, int], ...]
    is_old: bool


class RawFetcher:
    """
    Reads on from positions; a question to each leader is always under way, so that the next records come while these are worked on.

    What passes is asked again after a pause: a leader that has moved, a broker that is away. Raised by `poll`, once all records
    before it were handed out: OffsetOutOfRangeError for a position that is gone or not there yet, TopicNotFoundError for a topic
    that is not there, ConnectionError for one that was made again since `assign`, ConfigError for what a broker refuses.
    """

    def __init__(self, client: BatchClient, *, is_committed: bool = True) -> None:
        self._client = client
        self._is_committed = is_committed
        self._positions: dict[KafkaPartition, int] = {}
        self._flights: dict[
            int, tuple[Reply, dict[KafkaPartition, int]]
        ] = {}  # by node: the answer that comes, and what was asked for
        self._paused: dict[KafkaPartition, float] = {}
        self._lost_since: dict[KafkaPartition, float] = {}  # partitions that no broker knows
        self._topic_ids: dict[str, str] = {}
        self._failed: dict[KafkaPartition, Exception] = {}
        self._ready: list[FetchedBatches] = []
        self._unread: set[KafkaPartition] = set()  # read from the beginning, wherever that is
        self.ends: dict[KafkaPartition, int] = {}  # where the records end that can be read, as it was last heard
        self.high_watermarks: dict[KafkaPartition, int] = {}

    def assign(self, positions: Mapping[KafkaPartition, int]) -> None:
        """
        Read these partitions from now on, each from an offset, EARLIEST or LATEST; what is under way is let go.

        Where one begins is asked once it is not at 0: so a partition without a leader keeps the others waiting for nothing.
        """
        self.let_go()
        self._positions, self._ready, self._failed, self._paused, self._lost_since = {}, [], {}, {}, {}
        self.ends, self.high_watermarks = {}, {}
        for topic, code in self._client.refresh({topic for topic, _ in positions}).items():
            if code not in PASSING and code != NONE:
                raise self._client.meaning(code, topic)
        asked = {place: offset for place, offset in positions.items() if offset == LATEST}
        found = self._client.offsets_for(asked, is_committed=self._is_committed)
        self._positions = {place: offset if offset >= 0 else int(found.get(place) or 0) for place, offset in positions.items()}
        self._unread = {place for place, offset in positions.items() if offset == EARLIEST}
        self._topic_ids = {topic: known for topic, _ in positions if (known := self._client.id_of(topic)) is not None}

    def let_go(self) -> None:
        """Ask for nothing more; connections go whose answers are on the way, for a broker may wait before it sends them."""
        for node in self._flights:
            self._client.disconnect(node, FETCH)
        self._flights, self._positions = {}, {}

    def position_of(self, place: KafkaPartition) -> int:
        """The offset behind what was fetched of a partition."""
        return self._positions[place]

    def seek(self, place: KafkaPartition, offset: int) -> None:
        """Read a partition from another offset on. Records that were fetched and not handed out are dropped."""
        self._positions[place] = offset
        self._ready = [found for found in self._ready if found.place != place]
        self._failed.pop(place, None)

    def poll(self, seconds: float) -> list[FetchedBatches]:
        """
        What has come, at once if there is something; else what comes first within so many seconds, or nothing.

        It also returns when it first hears where a partition ends.
        """
        deadline = time.monotonic() + seconds
        ends = len(self.ends)
        while True:
            self._ask()
            look = min([deadline, *(self._paused[place] for place in self._paused.keys() & self._positions.keys())])
            self._client.wait(lambda: any(reply.is_done for reply, _ in self._flights.values()), look)
            self._take()
            if self._ready:
                found, self._ready = self._ready, []
                self._ask()
                self._client.sleep(0)  # the next question leaves now
                self._client.sleep(0)
                return found
            if self._failed:
                raise next(iter(self._failed.values()))
            if time.monotonic() >= deadline or len(self.ends) > ends:
                return []

    def _ask(self) -> None:
        """Ask each leader for records, unless its answer is under way. Partitions that gave records last are asked for last."""
        now = time.monotonic()
        by_node: dict[int, dict[KafkaPartition, int]] = {}
        for place, offset in self._positions.items():
            if place in self._failed or self._paused.get(place, 0) > now:
                continue
            self._paused.pop(place, None)
            leader = self._client.leader_of(place)
            if leader is None:
                self._pause(place)
            elif leader not in self._flights:
                by_node.setdefault(leader, {})[place] = offset
        for node, offsets in by_node.items():
            waits = offsets.keys() <= self.ends.keys()  # until every end is known, the broker answers at once
            reply = self._client.fetch(node, offsets, self._topic_ids, is_committed=self._is_committed, waits=waits)
            self._flights[node] = (reply, offsets)
        if any(self._client.leader_of(place) is None for place in self._paused):
            self._look_for_leaders()

    def _take(self) -> None:
        for node, (reply, asked) in list(self._flights.items()):
            if not reply.is_done:
                continue
            del self._flights[node]
            answer = reply.take()
            code, shares = (NETWORK_EXCEPTION, []) if answer is None else self._client.fetched(answer, self._topic_ids)
            found = {share.place: share for share in shares}
            is_stale = False
            for place, offset in asked.items():
                if self._positions.get(place) != offset:  # another one was assigned since
                    continue
                share = found.get(place)
                share_code = code or (NETWORK_EXCEPTION if share is None else share.code)
                if share is not None and share_code == NONE:
                    self._take_share(share, offset)
                else:
                    is_stale = True
                    self._hear(place, offset, share_code)
            if is_stale:
                self._look_for_leaders()

    def _take_share(self, share: FetchedPartition, offset: int) -> None:
        place = share.place
        self._lost_since.pop(place, None)
        self._unread.discard(place)
        self.high_watermarks[place] = share.high_watermark
        self.ends[place] = (
            share.last_stable_offset if self._is_committed and share.last_stable_offset >= 0 else share.high_watermark
        )
        if not share.data:
            return
        try:
            end, next_offset, is_old = whole_batches(share.data, place)
        except CorruptionError as error:
            self._failed[place] = error
            return
        if end == 0:
            self._failed[place] = CorruptionError(
                f"{self._client.where} sent {len(share.data)} bytes of {place[0]}-{place[1]} from offset {offset} on, without a whole batch",
                *place, offset,
            )  # fmt: skip
            return
        data = share.data if end == len(share.data) else share.data[:end]
        next_offset = max(next_offset, offset)
        self._ready.append(FetchedBatches(place, offset, next_offset, data, share.aborted, is_old))
        self._positions.pop(place)
        self._positions[place] = next_offset  # behind the others

    def _hear(self, place: KafkaPartition, offset: int, code: int) -> None:
        """What a broker says in place of records: asked again after a pause, or raised."""
        if code == OFFSET_OUT_OF_RANGE:
            self._check_range(place, offset)
        elif code in PASSING or code == SERVER_ERROR:
            if code in NO_TOPIC:
                self._lost_since.setdefault(place, time.monotonic())
            self._pause(place)
        else:
            self._failed[place] = self._client.meaning(code, place[0])

    def _check_range(self, place: KafkaPartition, offset: int) -> None:
        """A leader that was elected a moment ago may not know yet how far its records are committed; else the offset is not there."""
        try:
            earliest = self._client.offsets_for({place: EARLIEST}, is_committed=False)[place] or 0
            end = self._client.offsets_for({place: LATEST}, is_committed=False)[place] or 0
        except (ConnectionError, TopicNotFoundError):
            self._pause(place)
            return
        if place in self._unread:
            self._positions[place] = earliest
            return
        if earliest <= offset <= end:
            self._pause(place)
            return
        self._failed[place] = OffsetOutOfRangeError(
            f"{self._client.where}: topic {place[0]}, partition {place[1]} has no offset {offset}; it has {earliest} to {end}",
            *place, offset, earliest, end,
        )  # fmt: skip

    def _pause(self, place: KafkaPartition) -> None:
        self._paused[place] = time.monotonic() + self._client.settings["retry.backoff.ms"] / 1000

    def _look_for_leaders(self) -> None:
        """Ask which brokers lead. A topic with another id was made again, so its offsets mean other records."""
        topics = {topic for topic, _ in self._positions}
        try:
            codes = self._client.refresh(topics, REFRESH_SECONDS)
        except ConnectionError:
            return
        now = time.monotonic()
        for place in self._positions:
            topic, code = place[0], codes[place[0]]
            known, found = self._topic_ids.get(topic), self._client.id_of(topic)
            if code == NONE and known is not None and found is not None and found != known:
                self._failed[place] = ConnectionError(  # whoever starts again sees which one is there
                    f"{self._client.where}: topic {topic} with the id {known} was deleted; there is another one of that name, with the id {found}"
                )
            elif (code not in PASSING and code != NONE) or (
                code in NO_TOPIC and now > self._lost_since.setdefault(place, now) + LEADER_SECONDS
            ):
                self._failed[place] = self._client.meaning(code, topic)
            elif code == NONE and self._client.leader_of(place) is not None:
                self._lost_since.pop(place, None)


def whole_batches(data: bytes, place: KafkaPartition) -> tuple[int, int, bool]:
    """
    How many bytes are whole batches, the offset behind the last one, and whether some have an old format.

    A broker cuts its answer anywhere behind the first batch. CorruptionError for a length that no batch can have.
    """
    at, next_offset, is_old = 0, 0, False
    while at + 12 <= len(data):
        first, length = struct.unpack_from(">qi", data, at)
        if length < 14:  # the header of the oldest format
            raise CorruptionError(
                f"a batch of {place[0]}-{place[1]} at offset {first} says it has {length} bytes; expected at least 14",
                *place,
                first,
            )
        if at + 12 + length > len(data):
            break
        if data[at + _MAGIC] < 2:  # its offset is that of the last record in it
            next_offset, is_old = first + 1, True
        elif length < 49:
            raise CorruptionError(
                f"a batch of {place[0]}-{place[1]} at offset {first} says it has {length} bytes; expected at least 49",
                *place,
                first,
            )
        else:
            next_offset = first + _BATCH_HEADER.unpack_from(data, at)[6] + 1
        at += 12 + length
    return at, next_offset, is_old
