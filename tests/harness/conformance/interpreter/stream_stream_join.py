"""Two streams joined within a span of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.harness.conformance.interpreter.join_store import JoinStore
from tests.harness.conformance.interpreter.node import Node
from tests.harness.conformance.interpreter.record import Record, key_bytes
from tests.harness.conformance.interpreter.stream_time import Inputs, InputTimes

Json = dict[str, Any]
Joiner = Callable[[Any, Any, Any], Any]
Unmatched = tuple[int, bool, bytes]


@dataclass
class Side:
    """One side: how far before and after a record of it the other side's may be, and whether it is kept without a match."""

    is_left: bool
    before_ms: int
    after_ms: int
    is_outer: bool
    store: JoinStore


@dataclass
class Waiting:
    """Records without a match so far, by timestamp, side (right first) and key."""

    rows: dict[Unmatched, list[Record]] = field(default_factory=dict)
    earliest: float = float("inf")
    by_value: bool = False

    def add(self, side: Side, record: Record) -> None:
        """A record has found no match."""
        self.earliest = min(self.earliest, record.timestamp)
        self.rows.setdefault(self.place(side.is_left, record), []).append(record)

    def remove(self, is_left: bool, record: Record) -> None:
        """A record has found a match."""
        self.rows.pop(self.place(is_left, record), None)

    def place(self, is_left: bool, record: Record) -> Unmatched:
        """Where a record stands in the order."""
        return record.timestamp, is_left, key_bytes(record.key, by_value=self.by_value)


class StreamStreamJoin(Node):
    """
    Matches come at once; a record that found none comes when its window and the grace period are over.

    All that is `delay_ms` later, because so far behind stream time records may be when they come.
    """

    def __init__(self, node: Json, joiner: Joiner, times: InputTimes, inputs: Inputs, delay_ms: int) -> None:
        super().__init__()
        before_ms, after_ms = node["before_ms"], node["after_ms"]
        self.grace_ms: int = node["grace_ms"] + delay_ms
        self.delay_ms = delay_ms
        self.joiner = joiner
        self.times = times
        self.rules = times.rules
        self.clock = times.of(inputs)
        retention_ms = before_ms + after_ms + self.grace_ms
        left_outer, right_outer = node["type"] != "inner", node["type"] == "outer"
        clock = self.clock if self.rules.partners_are_kept_by_stream_time else None
        lefts = JoinStore(retention_ms, after_ms + self.grace_ms, clock)
        rights = JoinStore(retention_ms, before_ms + self.grace_ms, clock)
        self.left = Side(True, before_ms, after_ms, left_outer, lefts)
        self.right = Side(False, after_ms, before_ms, right_outer, rights)
        self.waiting = Waiting(by_value=self.rules.keys_are_in_order_of_value) if left_outer else None
        self.over: dict[Unmatched, list[Record]] = {}

    def receive_left(self, record: Record) -> None:
        """A record of the left stream."""
        self._receive(self.left, self.right, record)

    def receive_right(self, record: Record) -> None:
        """A record of the right stream."""
        self._receive(self.right, self.left, record)

    def pass_time(self) -> None:
        """Send the records that found no match in time."""
        if self.rules.finals_when_time_passes and self.waiting is not None:
            self._send_all_due()

    def _receive(self, side: Side, other: Side, record: Record) -> None:
        self._match(side, other, record)
        side.store.put(record)

    def _match(self, side: Side, other: Side, record: Record) -> None:
        self.clock.observe(record.timestamp)
        if self.rules.time_gives_results:
            self._end_waits()
        else:
            self.pass_time()
        if side.is_outer and record.key is None and record.value is not None:
            self._send(side.is_left, record, None, record.timestamp)
        if record.key is None or record.value is None:
            return
        if not self.rules.finals_when_time_passes and self.waiting is not None and record.timestamp == self.clock.now:
            self._send_due(self.waiting, side)
        first_ms, last_ms = self._bound(record.timestamp - side.before_ms), self._bound(record.timestamp + side.after_ms)
        matches = other.store.fetch(record.key, first_ms, last_ms)
        for match in matches:
            if self.waiting is not None:
                self.waiting.remove(other.is_left, match)
            self._send(side.is_left, record, match.value, max(record.timestamp, match.timestamp))
        if not matches and side.is_outer and self.waiting is not None:
            self._wait(side, self.waiting, record)

    def _bound(self, time_ms: int) -> int:
        return time_ms if self.rules.windows_begin_before_1970 else max(0, time_ms)

    def _wait(self, side: Side, waiting: Waiting, record: Record) -> None:
        """A record whose window has ended is sent at once, although the grace period may not be over."""
        if self._bound(record.timestamp + side.after_ms) + self.delay_ms < self.clock.now:
            self._send(side.is_left, record, None, record.timestamp)
        else:
            waiting.add(side, record)

    def _send_due(self, waiting: Waiting, side: Side) -> None:
        """
        Send records that found no match.

        Kafka Streams stops when it has seen an open window of each side, and remembers the timestamp at which it stopped.
        """
        if waiting.earliest + side.after_ms + self.grace_ms >= self.clock.now:
            return
        waiting.earliest = float("inf")
        open_sides: set[bool] = set()
        for place in sorted(waiting.rows):
            timestamp, is_left, _ = place
            waiting.earliest = timestamp
            if len(open_sides) == 2:
                return
            if self._is_open(timestamp, is_left):
                open_sides.add(is_left)
                continue
            self._send_unmatched(waiting, place)

    def _end_waits(self) -> None:
        """Records whose wait is over find no match any more; they are sent with all that time brings."""
        if self.waiting is None:
            return
        for place in [place for place in self.waiting.rows if not self._is_open(*place[:2])]:
            self.over.setdefault(place, []).extend(self.waiting.rows.pop(place))

    def _send_all_due(self) -> None:
        self._end_waits()
        over, self.over = self.over, {}
        for place in sorted(over):
            self._send_alone(place, over[place])

    def _send_unmatched(self, waiting: Waiting, place: Unmatched) -> None:
        self._send_alone(place, waiting.rows.pop(place))

    def _send_alone(self, place: Unmatched, records: list[Record]) -> None:
        timestamp, is_left, _ = place
        for record in records:
            with self.times.at(self._last(timestamp, is_left) + 1):
                self._send(is_left, record, None, timestamp)

    def _is_open(self, timestamp: int, is_left: bool) -> bool:
        return self._last(timestamp, is_left) >= self.clock.now

    def _last(self, timestamp: int, is_left: bool) -> int:
        """The last moment at which a record may find a match in time."""
        return timestamp + (self.left if is_left else self.right).after_ms + self.grace_ms

    def _send(self, is_left: bool, record: Record, other: Any, timestamp: int) -> None:
        left, right = (record.value, other) if is_left else (other, record.value)
        self.forward(Record(record.key, self.joiner(record.key, left, right), timestamp))
