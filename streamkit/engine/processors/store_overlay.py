"""
A processor's store in a running epoch: what is committed, with the epoch's changes on top.

Nothing of the epoch goes into the store itself (law 6). Entries are found by the bytes of their state keys, so that a range of a
store is a range of bytes; their values are Python's, a tuple of the value columns. At the end of the epoch one sorted write takes
the changes to the changelog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from streamkit.data_type import is_nested
from streamkit.expressions.python.exact_values import copied
from streamkit.log.values.python_values import python_values
from streamkit.plan.program import ProgramStore
from streamkit.state.key import range_prefix
from streamkit.state.layout import layout_of
from streamkit.state.row import decode_rows, encode_rows
from streamkit.state.single_key import key_encoder
from streamkit.state.store import SortedKeys
from streamkit.state.task_state import TaskState

EntryValues: TypeAlias = tuple[Any, ...]


class StoreOverlay:
    """The entries of one store that a task sees: those committed, and its own changes."""

    def __init__(self, store: ProgramStore, number: int, state: TaskState) -> None:
        self.store = store
        self.number = number
        self.encode: Callable[[Sequence[Any]], bytes] = key_encoder([column.type for column in store.key])
        self._state = state
        self._known: dict[bytes, EntryValues | None] = {}  # what is committed, as far as it was read
        self._changed: dict[bytes, tuple[EntryValues | None, int]] = {}
        self._changed_keys = SortedKeys()
        nested = any(is_nested(column.type) for column in store.value)
        self._handed_out: Callable[[Any], Any] = copied if nested else lambda values: values

    def prefix(self, group: int) -> bytes:
        """The bytes with which the state keys of a key group begin."""
        return range_prefix(group, self.number)

    def prefetch(self, keys: pa.BinaryArray) -> None:
        """Read what is committed under these state keys in one go, because they are likely to be asked for."""
        wanted = keys.unique().sort()
        self._known.update(zip(wanted.to_pylist(), self._decoded(self._state.get(wanted)), strict=True))

    def get(self, key: bytes) -> EntryValues | None:
        """The values under a state key; None if there is no entry."""
        if key in self._changed:
            return self._handed_out(self._changed[key][0])  # type: ignore[no-any-return]
        if key not in self._known:
            self._known[key] = self._decoded(self._state.get(pa.array([key], pa.binary())))[0]
        return self._handed_out(self._known[key])  # type: ignore[no-any-return]

    def put(self, key: bytes, values: EntryValues | None, timestamp: int) -> None:
        """Set the values under a state key, or delete them with None."""
        if key not in self._changed:
            self._changed_keys.add(key)
        self._changed[key] = (values, timestamp)

    def scan(self, start: bytes, end: bytes) -> list[tuple[EntryValues, EntryValues]]:
        """
        The entries whose state keys are in the range [start, end), in their order, as they are now.

        Of each the times before the key, the key columns, and its values.
        """
        found = self._between(start, end)
        if not found:
            return []
        types = [column.type for column in self.store.key]
        _, times, columns = layout_of(self.store).split(pa.array(list(found), pa.binary()), types)
        keys = zip(*(time.tolist() for time in times), *map(python_values, columns), strict=True)
        return list(zip(keys, map(self._handed_out, found.values()), strict=True))

    def delete_between(self, ranges: Iterable[tuple[bytes, bytes]], timestamp: int) -> None:
        """Delete the entries whose state keys are in the ranges [start, end)."""
        for start, end in ranges:
            for key in self._between(start, end):
                self.put(key, None, timestamp)

    def changes(self) -> tuple[pa.BinaryArray, pa.BinaryArray, np.ndarray[Any, np.dtype[np.int64]]]:
        """The changes of the epoch: state keys, sorted, the rows to store, null for deletions, and event times."""
        keys = sorted(self._changed)
        rows = [self._changed[key] for key in keys]
        times = np.array([time for _, time in rows], np.int64)
        live = [place for place, (values, _) in enumerate(rows) if values is not None]
        columns = list(zip(*(rows[place][0] for place in live))) if live else [()] * len(self.store.value)
        arrays = [pa.array(values, column.arrow.type) for column, values in zip(self.store.value, columns, strict=True)]
        encoded = encode_rows([pa.array(times[live], pa.int64()), *arrays])
        places = np.full(len(keys), -1, np.int64)
        places[live] = np.arange(len(live))
        return pa.array(keys, pa.binary()), encoded.take(pa.array(places, mask=places < 0)), times

    def _between(self, start: bytes, end: bytes) -> dict[bytes, EntryValues]:
        keys, values = self._state.scan([(start, end)])
        found: dict[bytes, EntryValues | None] = dict(zip(keys.to_pylist(), self._decoded(values), strict=True))
        changed = self._changed_keys.between(start, end)
        if not changed:
            return found  # type: ignore[return-value]  # what is scanned has values
        found |= {key: self._changed[key][0] for key in changed}
        return {key: values for key, values in sorted(found.items(), key=itemgetter(0)) if values is not None}

    def _decoded(self, stored: pa.BinaryArray) -> list[EntryValues | None]:
        found: list[EntryValues | None] = [None] * len(stored)
        if stored.null_count == len(stored):
            return found
        _, *columns = decode_rows(stored.drop_null(), ["bigint", *(column.type for column in self.store.value)])
        count = len(stored) - stored.null_count
        rows: Iterable[EntryValues] = zip(*map(python_values, columns), strict=True) if columns else [()] * count
        places = np.flatnonzero(stored.is_valid().to_numpy(zero_copy_only=False)).tolist()
        for place, row in zip(places, rows, strict=True):
            found[place] = row
        return found
