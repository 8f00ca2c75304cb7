"""
The narrow protocol of a store, and its twin in memory.

A store maps bytes to bytes in byte order and remembers one position. It knows nothing of topics, windows or types:
those are layers above. A `write` is atomic: all of its puts, deletions and its position, or nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Protocol

import pyarrow as pa

StoredKey = bytes
StoredValue = bytes


class Store(Protocol):
    """Six verbs: read many keys, scan a range, write a batch, tell the position, flush, close."""

    def get_many(self, keys: pa.BinaryArray) -> pa.BinaryArray:
        """The value of each key, null where it is absent; fastest when the keys are sorted."""
        ...

    def scan(self, start: StoredKey, end: StoredKey, limit: int | None = None) -> tuple[list[StoredKey], list[StoredValue]]:
        """Keys in [start, end) in byte order, and their values; the first `limit` of them."""
        ...

    def write(self, keys: pa.BinaryArray, values: pa.BinaryArray, position: bytes) -> None:
        """Put each value, delete where it is null, and set the position, atomically; later pairs win."""
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


class SortedKeys:
    """
    Distinct keys in byte order, taken in any order.

    New keys wait until a range is asked for. Then they are sorted into a run, and runs of similar length are merged: each is
    more than twice as long as the next, so that a key moves into a longer one some log2(keys) times, however puts and
    ranges alternate. `moved` counts the keys put into runs, again for each time: the work that was done.
    """

    def __init__(self, keys: Iterable[StoredKey] = ()) -> None:
        self._runs: list[list[StoredKey]] = []
        self._waiting: list[StoredKey] = list(keys)
        self.moved = 0

    def add(self, key: StoredKey) -> None:
        """Take a key that is not there yet."""
        self._waiting.append(key)

    def between(self, start: StoredKey, end: StoredKey) -> list[StoredKey]:
        """The keys in [start, end), in order."""
        if self._waiting:
            self._sort_waiting()
        parts = [run[first : bisect_left(run, end, first)] for run in self._runs if (first := bisect_left(run, start)) < len(run)]
        return parts[0] if len(parts) == 1 else _merged(parts)

    def _sort_waiting(self) -> None:
        run, self._waiting = self._waiting, []
        run.sort()
        parts, length = [run], len(run)
        while self._runs and len(self._runs[-1]) <= 2 * length:
            parts.append(self._runs.pop())
            length += len(parts[-1])
        self._runs.append(_merged(parts[::-1]))
        self.moved += length


def _merged(runs: Sequence[list[StoredKey]]) -> list[StoredKey]:
    """The keys of sorted runs, in order; `sorted` finds the runs, and only merges them."""
    return sorted(chain(*runs))


class MemoryStore:
    """A store in a dict; its keys are put in order when a range of them is asked for."""

    def __init__(self) -> None:
        self._values: dict[StoredKey, StoredValue | None] = {}  # None: deleted, and still among the keys
        self._keys = SortedKeys()
        self._deleted = 0
        self._position: bytes | None = None

    def get_many(self, keys: pa.BinaryArray) -> pa.BinaryArray:
        return pa.array(map(self._values.get, keys.to_pylist()), pa.binary(), size=len(keys))

    def scan(self, start: StoredKey, end: StoredKey, limit: int | None = None) -> tuple[list[StoredKey], list[StoredValue]]:
        keys: list[StoredKey] = []
        values: list[StoredValue] = []
        for key in self._keys.between(start, end):
            if len(keys) == limit:
                break
            if (value := self._values[key]) is not None:
                keys.append(key)
                values.append(value)
        return keys, values

    def write(self, keys: pa.BinaryArray, values: pa.BinaryArray, position: bytes) -> None:
        for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True):
            self._put(key, value) if value is not None else self._delete(key)
        if self._deleted > len(self._values) // 2:
            self._values = {key: value for key, value in self._values.items() if value is not None}
            self._keys, self._deleted = SortedKeys(self._values), 0
        self._position = position

    def position(self) -> bytes | None:
        return self._position

    def flush(self) -> None:
        """Nothing outlives the process anyway."""

    def close(self) -> None:
        """Nothing to give back."""

    def _put(self, key: StoredKey, value: StoredValue) -> None:
        if key not in self._values:
            self._keys.add(key)
        elif self._values[key] is None:
            self._deleted -= 1
        self._values[key] = value

    def _delete(self, key: StoredKey) -> None:
        if self._values.get(key) is not None:
            self._values[key] = None
            self._deleted += 1
