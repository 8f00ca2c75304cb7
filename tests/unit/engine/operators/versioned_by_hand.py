"""Tables with history, and joins with them, by their definition: one record at a time, nothing forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.kit.reference import Record

NO_TIME = -(10**15)
Result = tuple[Any, int, Any, int]  # key, value of the stream, value of the table, event time


@dataclass
class TableByHand:
    """All versions of each key by their times; `now` is the table's stream time."""

    history: int
    versions: dict[Any, dict[int, int | None]] = field(default_factory=dict)
    now: int = NO_TIME
    late: int = 0

    def put(self, record: Record) -> str:
        """Enter a change; whether it is the key's newest version, a former one, or too late."""
        self.now = max(self.now, record.order)
        if record.timestamp < self.now - self.history:
            self.late += 1
            return "late"
        known = self.versions.setdefault(record.row["k"], {})
        is_newest = all(record.timestamp >= time for time in known)
        known[record.timestamp] = None if record.deleted else record.row["v"]
        return "newest" if is_newest else "former"

    def at(self, key: Any, time: int) -> int | None:
        """The value that was valid at a time; None if there was none, or it was too long ago."""
        known = self.versions.get(key, {})
        before = [version for version in known if version <= time]
        if not before or (max(known) > time and time < self.now - self.history):
            return None
        return known[max(before)]

    def newest(self) -> dict[Any, int]:
        """The newest value of each key that has one."""
        found = {key: known[max(known)] for key, known in self.versions.items()}
        return {key: value for key, value in found.items() if value is not None}


@dataclass
class JoinByHand:
    """The join of a stream with the table, which is input number `table_input`; without a grace no record waits."""

    how: str
    history: int
    grace: int | None
    table_input: int
    table: TableByHand = field(init=False)
    results: list[Result] = field(default_factory=list)
    changes: list[tuple[Any, int | None, int]] = field(default_factory=list)
    waiting: list[tuple[int, str, int, int]] = field(default_factory=list)  # time, key, arrival, value
    now: int = NO_TIME

    def __post_init__(self) -> None:
        self.table = TableByHand(self.history)

    def run(self, records: Iterable[Record]) -> None:
        for number, record in enumerate(records):
            if record.input == self.table_input:
                self._let_go(record.order)
                if record.row["k"] is not None and self.table.put(record) != "late":
                    self.changes.append((record.row["k"], None if record.deleted else record.row["v"], record.timestamp))
                continue
            self.advance(record.order)
            if record.deleted:
                continue
            is_forgotten = record.timestamp < self.table.now - self.history
            if record.row["k"] is None or self.grace is None or is_forgotten or record.timestamp + self.grace <= self.now:
                self._join(record.timestamp, record.row["k"], record.row["w"])
            else:
                self.waiting.append((record.timestamp, record.row["k"], number, record.row["w"]))

    def advance(self, now: int) -> None:
        """Move stream time on; the records whose grace is over are joined, by time, key and arrival."""
        self.now = max(self.now, now)
        for time, key, number, value in self._due():
            self.waiting.remove((time, key, number, value))
            self._join(time, key, value)

    def _let_go(self, table_now: int) -> None:
        """Before the table's time moves on: the records that it would not remember then are joined."""
        for time, key, number, value in sorted(self.waiting):
            if time < table_now - self.history:
                self.waiting.remove((time, key, number, value))
                self._join(time, key, value)

    def _due(self) -> Iterator[tuple[int, str, int, int]]:
        return iter(sorted(row for row in self.waiting if row[0] + (self.grace or 0) <= self.now))

    def _join(self, time: int, key: Any, value: int) -> None:
        found = None if key is None else self.table.at(key, time)
        if found is not None or (self.how == "left"):
            self.results.append((key, value, found, time))
