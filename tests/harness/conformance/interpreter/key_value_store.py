"""The newest value of each key."""

from __future__ import annotations

from typing import Any

from tests.harness.conformance.interpreter.record import Stored


class KeyValueStore:
    """A later put wins, whatever its timestamp."""

    is_versioned = False

    def __init__(self) -> None:
        self.rows: dict[Any, Stored] = {}

    def get(self, key: Any) -> Stored | None:
        """The value of a key; None if there is none."""
        return self.rows.get(key)

    def get_as_of(self, key: Any, timestamp: int) -> Stored | None:
        """The same: there is no history."""
        return self.get(key)

    def put(self, key: Any, value: Any, timestamp: int) -> bool | None:
        """Set a value, or delete it if it is None. True: it is the newest of its key."""
        if value is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = Stored(value, timestamp)
        return True
