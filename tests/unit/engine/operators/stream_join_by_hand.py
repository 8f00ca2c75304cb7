"""A stream-stream join by hand: one record after another, in canonical order, as the rules say it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.kit.reference import NO_TIME, Record

PRESERVED = {"inner": (), "left": ("left",), "outer": ("left", "right")}
OTHER = {"left": "right", "right": "left"}


@dataclass(frozen=True)
class Result:
    """A row of the result; the value of a side that is not there is None."""

    key: Any
    left: Any
    right: Any
    timestamp: int


@dataclass(eq=False)
class Kept:
    """A record of a side that may be met; `number` says when it came."""

    side: str
    key: Any
    value: Any
    timestamp: int
    number: int


@dataclass
class JoinByHand:
    """
    The join; `sides` has the sides that each input feeds, the left first.

    `results` has what it gave, in order. `keyless` counts records without a key that a side which is not kept drops, `late` those that came too late
    to be met by others.
    """

    how: str
    before: int
    after: int
    grace: int
    sides: dict[int, tuple[str, ...]]
    now: int = NO_TIME
    rows: list[Kept] = field(default_factory=list)
    waiting: list[Kept] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    keyless: int = 0
    late: int = 0
    came: int = 0

    def run(self, records: Iterable[Record]) -> None:
        for record in records:
            self.advance(max(self.now, record.order))
            if not record.deleted:
                is_dropped = record.row["k"] is None and not set(self.sides[record.input]) <= set(PRESERVED[self.how])
                self.keyless += is_dropped
                for side in self.sides[record.input]:
                    self._take(side, record.row["k"], record.row["v"], record.timestamp)

    def advance(self, now: int) -> None:
        """Move stream time; what waited long enough gives its result with nulls."""
        self.now = now
        closed = [one for one in self.waiting if one.timestamp + self._wait(one.side) < now]
        for one in sorted(closed, key=lambda kept: (kept.timestamp, kept.side == "left", kept.key, kept.number)):
            self.waiting.remove(one)
            self._give(one, None)

    @property
    def stores(self) -> list[str]:
        return ["left", "right", *(f"{side}-waiting" for side in PRESERVED[self.how])]

    def content(self, store: str) -> dict[tuple[Any, int], list[tuple[int, Any]]]:
        """What a store holds: by key and bucket, or by key and time of what waits, the times and values in the order they came."""
        side, _, is_waiting = store.partition("-")
        size = 1 if is_waiting else max(self.before + self.after + 1, 1000)
        lists: dict[tuple[Any, int], list[tuple[int, Any]]] = {}
        for one in sorted(self.waiting if is_waiting else self.rows, key=lambda kept: kept.number):
            bucket = one.timestamp // size * size
            if one.side == side and (is_waiting or bucket + size - 1 + self._keep(side) > self.now):
                lists.setdefault((one.key, bucket), []).append((one.timestamp, one.value))
        return lists

    def _take(self, side: str, key: Any, value: Any, timestamp: int) -> None:
        self.came += 1
        record = Kept(side, key, value, timestamp, self.came)
        if key is None:
            if side in PRESERVED[self.how]:
                self._give(record, None)
            return
        partners = sorted(filter(lambda one: self._meets(record, one), self.rows), key=lambda one: (one.timestamp, one.number))
        for partner in partners:
            self._give(record, partner)
            if partner in self.waiting:
                self.waiting.remove(partner)
        if not partners and side in PRESERVED[self.how]:
            if timestamp + self._reach(side)[1] < self.now:
                self._give(record, None)
            else:
                self.waiting.append(record)
        if timestamp + self._keep(side) > self.now:
            self.rows.append(record)
        else:
            self.late += 1

    def _meets(self, record: Kept, one: Kept) -> bool:
        low, high = self._reach(record.side)
        is_near = one.side == OTHER[record.side] and low <= one.timestamp - record.timestamp <= high
        return is_near and one.key == record.key and one.timestamp + self._keep(one.side) > self.now

    def _give(self, one: Kept, partner: Kept | None) -> None:
        values = {one.side: one.value, OTHER[one.side]: partner.value if partner else None}
        timestamp = max(one.timestamp, partner.timestamp if partner else NO_TIME)
        self.results.append(Result(one.key, values["left"], values["right"], timestamp))

    def _reach(self, side: str) -> tuple[int, int]:
        """The times of a record's partners, from its own."""
        return (-self.before, self.after) if side == "left" else (-self.after, self.before)

    def _wait(self, side: str) -> int:
        return self._reach(side)[1] + self.grace

    def _keep(self, side: str) -> int:
        return max(self.before + self.after + self.grace, self._wait(side) + 1)
