"""Values by key and window start, which become invisible when the retention has passed."""

from __future__ import annotations

from typing import Any

from tests.harness.conformance.interpreter.record import Stored, key_bytes


class WindowStore:
    """`retention_ms` counts from the newest window start that was put; None: all is kept."""

    def __init__(self, retention_ms: int | None) -> None:
        self.retention_ms = retention_ms
        self.newest = -1
        self.rows: dict[tuple[Any, int], Stored] = {}

    def get(self, key: Any, start: int) -> Stored | None:
        """The value of a key's window."""
        return self.rows.get((key, start)) if start >= self.oldest else None

    def put(self, key: Any, start: int, value: Any, timestamp: int) -> None:
        """Set the value of a key's window; None deletes it."""
        self.newest = max(self.newest, start)
        if value is None:
            self.rows.pop((key, start), None)
        else:
            self.rows[key, start] = Stored(value, timestamp)

    def windows_of(self, key: Any, first: int, last: int) -> list[tuple[int, Stored]]:
        """The windows of a key that start between two times, both included, in order."""
        first = max(first, self.oldest)
        return sorted((start, row) for (one, start), row in self.rows.items() if one == key and first <= start <= last)

    def windows(self, first: int, last: int) -> list[tuple[Any, int, Stored]]:
        """The windows of all keys that start between two times, by start and key."""
        first = max(first, self.oldest)
        found = [(key, start, row) for (key, start), row in self.rows.items() if first <= start <= last]
        return sorted(found, key=lambda one: (one[1], key_bytes(one[0])))

    @property
    def oldest(self) -> int:
        """The first window start that is visible."""
        return 0 if self.retention_ms is None else self.newest - self.retention_ms + 1
