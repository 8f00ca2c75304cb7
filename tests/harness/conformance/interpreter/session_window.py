"""An aggregate over session windows."""

from __future__ import annotations

from typing import Any

from tests.harness.conformance.interpreter.record import Record, Stored, Windowed
from tests.harness.conformance.interpreter.session_store import SessionStore
from tests.harness.conformance.interpreter.stream_aggregate import Adder
from tests.harness.conformance.interpreter.stream_time import StreamTime
from tests.harness.conformance.interpreter.windowed_table import Json, WindowedTable


class SessionWindowTable(WindowedTable):
    """A record merges the sessions that it is within the gap of. Null values are added like others."""

    contains_end = True

    def __init__(self, window: Json, store: Json, **table: Any) -> None:
        super().__init__(window, wait_ms=window["grace_ms"] + window["gap_ms"], **table)
        self.gap_ms: int = window["gap_ms"]
        retention_ms = store.get("retention_ms", self.gap_ms + self.grace_ms)
        self.store = SessionStore(None if self.rules.windows_are_kept else retention_ms)

    def _row(self, key: Any) -> Stored | None:
        value = self.store.get(key)
        return None if value is None else Stored(value, key.end)

    def _add(self, record: Record, add: Adder, clock: StreamTime) -> bool:
        now = clock.now
        moment, value = record.timestamp, self.aggregation.initial
        close = now - self.grace_ms - self.gap_ms
        earliest = moment - self.gap_ms
        if self.rules.windows_are_kept:
            earliest = max(earliest, clock.before - self.grace_ms - self.gap_ms + 1)
        found = self.store.sessions_of(record.key, earliest, moment + self.gap_ms)
        merged = Windowed(record.key, moment, moment)
        for session, part in found:
            value = self.aggregation.merge(value, part)
            merged = Windowed(record.key, min(merged.start, session.start), max(merged.end, session.end))
        if merged.end < close:
            return True
        old = None
        if (merged.start, merged.end) == (moment, moment):
            old = self.store.get(merged) if self.rules.sessions_replace else None
        else:
            for session, part in found:
                self.store.put(session, None)
                self._update(session, None, part, session.end)
        value = add(record.value, value)
        self.store.put(merged, value)
        self._update(merged, value, old, merged.end)
        return True

    def _send_closed(self, now: int) -> None:
        last = now - self.grace_ms - self.gap_ms - 1
        if last <= self.closed_before:
            return
        for session, value in self.store.sessions(self.closed_before + 1, last):
            self._give(Record(session, value, session.end), session.end + self.gap_ms + self.grace_ms + 1)
        self.closed_before = last
