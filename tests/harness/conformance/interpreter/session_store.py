"""Sessions by key, start and end."""

from __future__ import annotations

from typing import Any

from tests.harness.conformance.interpreter.record import Windowed, key_bytes

SEGMENT_MS = 60_000


class SessionStore:
    """`retention_ms` counts from the newest session end that was put; None: all is kept."""

    def __init__(self, retention_ms: int | None) -> None:
        self.retention_ms = retention_ms
        self.newest = -1
        self.rows: dict[Windowed, Any] = {}

    def sessions_of(self, key: Any, earliest_end: int, latest_start: int) -> list[tuple[Windowed, Any]]:
        """The sessions of a key that touch a span of time, by end and start."""
        earliest_end = max(earliest_end, self.oldest)
        found = [
            (session, value)
            for session, value in self.rows.items()
            if session.key == key and session.end >= earliest_end and session.start <= latest_start
        ]
        return sorted(found, key=lambda one: (one[0].end, one[0].start))

    def sessions(self, earliest_end: int, latest_end: int) -> list[tuple[Windowed, Any]]:
        """The sessions of all keys that end between two times, both included; also those that a key would not see any more."""
        found = [(session, value) for session, value in self.rows.items() if earliest_end <= session.end <= latest_end]
        return sorted(found, key=lambda one: (one[0].end, key_bytes(one[0])))

    def get(self, session: Windowed) -> Any:
        """The value of a session; None if there is none."""
        return self.rows.get(session) if session.end >= self.oldest else None

    def put(self, session: Windowed, value: Any) -> None:
        """Set the value of a session; None deletes it."""
        self.newest = max(self.newest, session.end)
        if value is None:
            self.rows.pop(session, None)
        else:
            self.rows[session] = value
        self._expire()

    @property
    def oldest(self) -> int:
        """The first session end that a key sees."""
        return 0 if self.retention_ms is None else self.newest - self.retention_ms + 1

    def _expire(self) -> None:
        """Drop whole segments that the retention has passed, as the store on disk does."""
        if self.retention_ms is None:
            return
        segment = max(self.retention_ms // 2, SEGMENT_MS)
        first = max(0, self.newest - self.retention_ms) // segment * segment
        for session in [one for one in self.rows if one.end < first]:
            del self.rows[session]
