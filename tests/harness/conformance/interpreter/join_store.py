"""The records of one side of a stream-stream join."""

from __future__ import annotations

from typing import Any

from tests.harness.conformance.interpreter.record import Record
from tests.harness.conformance.interpreter.stream_time import StreamTime


class JoinStore:
    """
    Records of equal key and timestamp are all kept. They become invisible when the retention has passed.

    With a clock that is by stream time, and not before a record that is `partner_ms` later can be too late to meet them.
    """

    def __init__(self, retention_ms: int, partner_ms: int, clock: StreamTime | None = None) -> None:
        self.retention_ms = retention_ms
        self.partner_ms = partner_ms
        self.clock = clock
        self.newest = -1
        self.rows: dict[Any, list[Record]] = {}

    def put(self, record: Record) -> None:
        """Keep a record; one without a key or value is not kept."""
        if record.key is not None and record.value is not None:
            self.newest = max(self.newest, record.timestamp)
            self.rows.setdefault(record.key, []).append(record)

    def fetch(self, key: Any, first: int, last: int) -> list[Record]:
        """The records of a key between two times, both included, by time."""
        first = max(first, self.oldest)
        found = [record for record in self.rows.get(key, []) if first <= record.timestamp <= last]
        return sorted(found, key=lambda record: record.timestamp)

    @property
    def oldest(self) -> int:
        """The first timestamp that is visible."""
        if self.clock is None:
            return self.newest - self.retention_ms + 1
        return self.clock.now - max(self.retention_ms - 1, self.partner_ms)
