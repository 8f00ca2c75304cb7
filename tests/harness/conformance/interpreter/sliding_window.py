"""
An aggregate over sliding windows.

A window ends at each record, and one starts behind each record that later ones follow within the time difference. Records before
the first time difference share the window that begins at 0.
"""

from __future__ import annotations

from typing import Any

from tests.harness.conformance.interpreter.record import Record, Stored, Windowed
from tests.harness.conformance.interpreter.stream_aggregate import Adder
from tests.harness.conformance.interpreter.stream_time import StreamTime
from tests.harness.conformance.interpreter.table import value_of
from tests.harness.conformance.interpreter.windowed_table import Json, WindowedTable


class SlidingWindowTable(WindowedTable):
    """Windows contain both ends. Null values are dropped."""

    contains_end = True

    def __init__(self, window: Json, store: Json, **table: Any) -> None:
        super().__init__(window, wait_ms=window["grace_ms"], **table)
        self.difference_ms: int = window["time_difference_ms"]
        self.store = self._window_store(store.get("retention_ms", 2 * self.difference_ms + self.grace_ms))

    def _row(self, key: Any) -> Stored | None:
        return self.store.get(key.key, key.start)

    def _is_dropped(self, record: Record) -> bool:
        return record.key is None or record.value is None

    def _add(self, record: Record, add: Adder, clock: StreamTime) -> bool:
        now = clock.now
        if record.timestamp + self.difference_ms < now - self.grace_ms:
            return False
        if record.timestamp < self.difference_ms:
            self._add_early(record, add, now)
            return False
        self._add_usual(record, add, now)
        return True

    def _add_usual(self, record: Record, add: Adder, now: int) -> None:
        moment, difference = record.timestamp, self.difference_ms
        windows = self.store.windows_of(record.key, max(0, moment - 2 * difference), moment + 1)
        starts: set[int] = set()
        left = right = previous = None
        has_left = has_right = False
        for start, row in reversed(windows):
            starts.add(start)
            if start == moment + 1:
                has_right = True
            elif start + difference > moment:
                right = right or row
                self._put(record, add, now, start, row)
            elif start + difference == moment:
                has_left = True
                self._put(record, add, now, start, row)
                if row.timestamp >= moment:
                    return
                previous = row.timestamp
            else:
                left, previous = row, row.timestamp
                break
        if previous is not None and previous + 1 not in starts and previous + 1 + difference >= moment:
            self._put(record, add, now, previous + 1, None)
        if not has_left:
            reaches = left is not None and previous is not None and moment - difference <= previous
            self._put(record, add, now, moment - difference, Stored(left.value, moment) if left and reaches else None)
        if not has_right:
            self._start_right(record, right)

    def _add_early(self, record: Record, add: Adder, now: int) -> None:
        moment = record.timestamp
        starts: set[int] = set()
        shared = right = previous = None
        has_right = False
        for start, row in self.store.windows_of(record.key, 0, moment + 1):
            starts.add(start)
            if start == 0:
                shared = row
                previous = row.timestamp if row.timestamp < moment else None
            elif start <= moment:
                right = row
                self._put(record, add, now, start, row)
            else:
                has_right = True
        if right is None and shared is not None and shared.timestamp > moment:
            right = shared
        if not has_right:
            self._start_right(record, right)
        if previous is not None and previous + 1 not in starts:
            self._put(record, add, now, previous + 1, None)
        self._put(record, add, now, 0, shared)

    def _put(self, record: Record, add: Adder, now: int, start: int, row: Stored | None) -> None:
        """Add the record to a window, unless this has closed."""
        end = start + self.difference_ms
        if end < now - self.grace_ms:
            return
        old = self.aggregation.initial if row is None else row.value
        timestamp = record.timestamp if row is None else max(record.timestamp, row.timestamp)
        value, given = add(record.value, old), self.store.get(record.key, start)
        self.store.put(record.key, start, value, timestamp)
        replaced = value_of(given) if self.rules.first_result_replaces_nothing else old
        self._update(Windowed(record.key, start, end), value, replaced, timestamp)

    def _start_right(self, record: Record, right: Stored | None) -> None:
        """Start the window behind a record, if later records are in it: with what they have come to already."""
        if right is None or right.timestamp <= record.timestamp:
            return
        start = record.timestamp + 1
        self.store.put(record.key, start, right.value, right.timestamp)
        self._update(Windowed(record.key, start, start + self.difference_ms), right.value, None, right.timestamp)

    def _send_closed(self, now: int) -> None:
        last = now - self.grace_ms - self.difference_ms - 1
        if last <= self.closed_before:
            return
        for key, start, row in self.store.windows(self.closed_before + 1, last):
            end = start + self.difference_ms
            self._give(Record(Windowed(key, start, end), row.value, row.timestamp), end + self.grace_ms + 1)
        self.closed_before = last
