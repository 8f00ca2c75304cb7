"""An aggregate over tumbling or hopping windows."""

from __future__ import annotations

from typing import Any

from tests.harness.conformance.interpreter.record import Record, Stored, Windowed
from tests.harness.conformance.interpreter.stream_aggregate import Adder
from tests.harness.conformance.interpreter.stream_time import StreamTime
from tests.harness.conformance.interpreter.windowed_table import Json, WindowedTable


class TimeWindowTable(WindowedTable):
    """Windows are aligned to 0 and do not contain their end. Null values are added like others."""

    def __init__(self, window: Json, store: Json, **table: Any) -> None:
        super().__init__(window, wait_ms=window["grace_ms"], **table)
        self.size_ms: int = window["size_ms"]
        self.advance_ms: int = window.get("advance_ms") or self.size_ms
        self.store = self._window_store(store.get("retention_ms", self.size_ms + self.grace_ms))

    def _row(self, key: Any) -> Stored | None:
        return self.store.get(key.key, key.start)

    def _add(self, record: Record, add: Adder, clock: StreamTime) -> bool:
        now = clock.now
        *_, last = starts = self._starts(record.timestamp)
        if last + self.size_ms <= now - self.grace_ms:
            self.too_late(record._replace(key=Windowed(record.key, last, last + self.size_ms)))
        for start in starts:
            if start + self.size_ms > now - self.grace_ms:
                row = self.store.get(record.key, start)
                old = self.aggregation.initial if row is None else row.value
                timestamp = record.timestamp if row is None else max(record.timestamp, row.timestamp)
                value = add(record.value, old)
                self.store.put(record.key, start, value, timestamp)
                self._update(Windowed(record.key, start, start + self.size_ms), value, self._replaced(row, old), timestamp)
        return True

    def _starts(self, timestamp: int) -> list[int]:
        first = max(0, timestamp - self.size_ms + self.advance_ms) // self.advance_ms * self.advance_ms
        return list(range(first, timestamp + 1, self.advance_ms))

    def _send_closed(self, now: int) -> None:
        last = now - self.grace_ms - self.size_ms
        if last <= self.closed_before:
            return
        for key, start, row in self.store.windows(self.closed_before + 1, last):
            end = start + self.size_ms
            self._give(Record(Windowed(key, start, end), row.value, row.timestamp), end + self.grace_ms)
        self.closed_before = last
