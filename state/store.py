"""
The narrow protocol of a store, and its twin in memory.

A store maps bytes to bytes in byte order and remembers one position. It knows nothing of topics, windows or types:
those are layers above. A `write` is atomic: all of its puts, deletions and its position, or nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Protocol

Key = bytes
Value = bytes


class Store(Protocol):
    """Six verbs: read many keys, scan a range, write a batch, tell the position, flush, close."""

    def get_many(self, keys: Sequence[Key]) -> list[Value | None]:
        """The value of each key, None where it is absent; fastest when the keys are sorted."""
        ...

    def scan(self, start: Key, end: Key) -> tuple[list[Key], list[Value]]:
        """Keys in [start, end) in byte order, and their values."""
        ...

    def write(self, keys: Sequence[Key], values: Sequence[Value | None], position: bytes) -> None:
        """Put each value, delete where it is None, and set the position, atomically; later pairs win."""
        ...

    def position(self) -> bytes | None:
        """What the last write said; None for a new store."""
        ...

    def flush(self) -> None:
        """Make what was written survive the end of the process."""
        ...

    def close(self) -> None:
        """Flush, and give the files back."""
        ...


class MemoryStore:
    """A store in a dict and a sorted list of its keys."""

    def __init__(self) -> None:
        self._values: dict[Key, Value] = {}
        self._keys: list[Key] = []
        self._position: bytes | None = None

    def get_many(self, keys: Sequence[Key]) -> list[Value | None]:
        return [self._values.get(key) for key in keys]

    def scan(self, start: Key, end: Key) -> tuple[list[Key], list[Value]]:
        keys = self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, end)]
        return keys, [self._values[key] for key in keys]

    def write(self, keys: Sequence[Key], values: Sequence[Value | None], position: bytes) -> None:
        for key, value in zip(keys, values, strict=True):
            self._put(key, value) if value is not None else self._delete(key)
        self._position = position

    def position(self) -> bytes | None:
        return self._position

    def flush(self) -> None:
        """Nothing outlives the process anyway."""

    def close(self) -> None:
        """Nothing to give back."""

    def _put(self, key: Key, value: Value) -> None:
        if key not in self._values:
            insort(self._keys, key)
        self._values[key] = value

    def _delete(self, key: Key) -> None:
        if self._values.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]
