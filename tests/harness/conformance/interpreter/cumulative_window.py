"""An aggregate over cumulative windows, as Flink has them and Kafka Streams has not."""

from __future__ import annotations

from typing import Any

from tests.harness.conformance.interpreter.record import Record, Stored, Windowed
from tests.harness.conformance.interpreter.stream_aggregate import Adder
from tests.harness.conformance.interpreter.stream_time import StreamTime
from tests.harness.conformance.interpreter.windowed_table import Json, WindowedTable


class CumulativeWindowTable(WindowedTable):
    """Windows begin together every size, and end one step later each; the store has them by their ends."""

    def __init__(self, window: Json, store: Json, **table: Any) -> None:
        super().__init__(window, wait_ms=window["grace_ms"], **table)
        self.size_ms: int = window["size_ms"]
        self.step_ms: int = window["step_ms"]
        self.store = self._window_store(self.grace_ms)

    def _row(self, key: Any) -> Stored | None:
        return self.store.get(key.key, key.end)

    def _add(self, record: Record, add: Adder, clock: StreamTime) -> bool:
        closed = clock.now - self.grace_ms
        start = record.timestamp // self.size_ms * self.size_ms
        ends = [end for end in range(start + self.step_ms, start + self.size_ms + 1, self.step_ms) if end > record.timestamp]
        if ends[-1] <= closed:
            self.too_late(record._replace(key=Windowed(record.key, start, ends[-1])))
        for end in ends:
            if end > closed:
                row = self.store.get(record.key, end)
                old = self.aggregation.initial if row is None else row.value
                timestamp = record.timestamp if row is None else max(record.timestamp, row.timestamp)
                value = add(record.value, old)
                self.store.put(record.key, end, value, timestamp)
                self._update(Windowed(record.key, start, end), value, self._replaced(row, old), timestamp)
        return True

    def _send_closed(self, now: int) -> None:
        last = now - self.grace_ms
        if last <= self.closed_before:
            return
        for key, end, row in self.store.windows(self.closed_before + 1, last):
            start = (end - 1) // self.size_ms * self.size_ms
            self._give(Record(Windowed(key, start, end), row.value, row.timestamp), end + self.grace_ms)
        self.closed_before = last
