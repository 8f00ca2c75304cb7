"""What a processor sees of a store that keeps a value for each key and start of a window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from streamkit.engine.folding.sequential import NamedValues
from streamkit.engine.processors.processor_store import ProcessorStore, processor_store
from streamkit.engine.processors.store_overlay import EntryValues, StoreOverlay
from streamkit.engine.processors.store_time import LAST_MS, StoreTime, bound
from streamkit.plan.store_kinds.window_store import WindowStoreDefinition
from streamkit.state.key import range_prefix
from streamkit.state.single_key import after


class WindowEntry(NamedTuple):
    """A key, where its window or session starts and ends, in ms, and its value."""

    key: NamedValues
    start: int
    end: int
    value: NamedValues


@processor_store(WindowStoreDefinition)
class WindowStore(ProcessorStore[WindowStoreDefinition]):
    """
    A store that keeps a value for each key and start of a window.

    A window is gone when stream time has reached its start plus the retention: it is not found, and not taken (metric `expired`).
    """

    def put(self, key: Any, value: Mapping[str, Any] | None, start: StoreTime) -> None:
        """Set the value of a key in the window that starts then, or delete it with None; a store that retains duplicates adds a value."""
        self._begin()
        start_ms, values = self._time("put(key, value, start)", start), self._key.to_put(key)
        if self._is_gone(start_ms):
            self._call.count("expired")
        elif not self._definition.retain_duplicates:
            self._put(self._at(values, start_ms), value)
        elif value is not None:
            numbers = [found[-1] for found, _ in self._in_window(values, start_ms)]
            self._put(self._at((*values, max(numbers, default=-1) + 1), start_ms), value)

    def get(self, key: Any, start: StoreTime) -> NamedValues | None:
        """The value of a key in the window that starts then; None if there is none. The last one of duplicates."""
        found = self._fetched("get(key, start)", key, start, start)
        return self._named(found[-1][1]) or {} if found else None

    def fetch(
        self, key: Any, first: StoreTime | None = None, last: StoreTime | None = None, *, reverse: bool = False
    ) -> list[WindowEntry]:
        """The windows of a key that start from one time to another, both included, by their starts; None leaves an end open."""
        return self._entries(self._fetched("fetch(key, first, last)", key, first, last), reverse)

    def fetch_all(
        self, first: StoreTime | None = None, last: StoreTime | None = None, *, reverse: bool = False
    ) -> list[WindowEntry]:
        """The windows of all keys that start from one time to another, both included, by their starts, then keys."""
        self._begin()
        return self._entries(self._between("fetch_all(first, last)", first, last), reverse)

    def all(self, *, reverse: bool = False) -> list[WindowEntry]:
        """All windows of all keys, by their starts, then keys."""
        return self.fetch_all(reverse=reverse)

    @classmethod
    def _expired_ranges(
        cls, definition: WindowStoreDefinition, overlay: StoreOverlay, group: int, stream_time: int
    ) -> list[tuple[bytes, bytes]]:
        behind = stream_time - definition.retention_ms + 1
        return [(overlay.prefix(group), range_prefix(group, overlay.number, behind))]

    def _is_gone(self, start_ms: int) -> bool:
        earliest = self._earliest(self._definition.retention_ms)
        return earliest is not None and start_ms <= earliest

    def _at(self, values: EntryValues, start_ms: int) -> bytes:
        return range_prefix(self._call.group, self._overlay.number, start_ms) + self._overlay.encode(values)

    def _fetched(
        self, call: str, key: Any, first: StoreTime | None, last: StoreTime | None
    ) -> list[tuple[EntryValues, EntryValues]]:
        self._begin()
        values = self._key.of(key)
        if first is not None and first == last:
            start_ms = self._time(call, first, bound)
            return [] if self._is_gone(start_ms) else self._in_window(values, start_ms)
        width = 1 + len(values)
        return [one for one in self._between(call, first, last) if one[0][1:width] == values]

    def _in_window(self, values: EntryValues, start_ms: int) -> list[tuple[EntryValues, EntryValues]]:
        start = self._at(values, start_ms)
        if self._definition.retain_duplicates:
            return self._overlay.scan(start, after(start))
        found = self._overlay.get(start)
        return [] if found is None else [((start_ms, *values), found)]

    def _between(self, call: str, first: StoreTime | None, last: StoreTime | None) -> list[tuple[EntryValues, EntryValues]]:
        earliest = self._earliest(self._definition.retention_ms)
        lowest = -LAST_MS if earliest is None else earliest + 1
        start = lowest if first is None else max(lowest, self._time(call, first, bound))
        end = LAST_MS + 1 if last is None else self._time(call, last, bound) + 1
        group, number = self._call.group, self._overlay.number
        return self._overlay.scan(range_prefix(group, number, start), range_prefix(group, number, end))

    def _entries(self, found: list[tuple[EntryValues, EntryValues]], reverse: bool) -> list[WindowEntry]:
        size = self._definition.window_size_ms
        entries = [
            WindowEntry(self._key_dict(key[1:]), key[0], key[0] + size, self._named(values) or {}) for key, values in found
        ]
        return entries[::-1] if reverse else entries
