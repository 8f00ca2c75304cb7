"""What a processor sees of a store that keeps a value for each key, start and end of a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamkit.engine.folding.sequential import NamedValues
from streamkit.engine.processors.processor_store import ProcessorStore, processor_store
from streamkit.engine.processors.store_kinds.window_store import WindowEntry
from streamkit.engine.processors.store_overlay import EntryValues, StoreOverlay
from streamkit.engine.processors.store_time import LAST_MS, StoreTime, bound, milliseconds
from streamkit.plan.processing import RefusedCallError
from streamkit.plan.store_kinds.session_store import SessionStoreDefinition
from streamkit.state.single_key import moment_key


@processor_store(SessionStoreDefinition)
class SessionStore(ProcessorStore[SessionStoreDefinition]):
    """
    A store that keeps a value for each key, start and end of a session.

    A session is gone when stream time has reached its end plus the retention: it is not found, and not taken (metric `expired`).
    """

    def put(self, key: Any, start: StoreTime, end: StoreTime, value: Mapping[str, Any] | None) -> None:
        """Set the value of a session, or delete it with None."""
        self._put_at("put(key, start, end, value)", key, start, end, value)

    def remove(self, key: Any, start: StoreTime, end: StoreTime) -> None:
        """Delete a session."""
        self._put_at("remove(key, start, end)", key, start, end, None)

    def get(self, key: Any, start: StoreTime, end: StoreTime) -> NamedValues | None:
        """The value of a session; None if there is none."""
        self._begin()
        start_ms, end_ms = self._bounds("get(key, start, end)", start, end)
        return None if self._is_gone(end_ms) else self._named(self._overlay.get(self._at(self._key.of(key), start_ms, end_ms)))

    def find_sessions(
        self, key: Any, earliest_end: StoreTime | None = None, latest_start: StoreTime | None = None, *, reverse: bool = False
    ) -> list[WindowEntry]:
        """The sessions of a key that end then or later, and start then or earlier, in the order of time; None leaves a bound open."""
        self._begin()
        values = self._key.of(key)
        call = "find_sessions(key, earliest_end, latest_start)"
        latest = LAST_MS if latest_start is None else self._time(call, latest_start, bound)
        earliest = None if earliest_end is None else self._time(call, earliest_end, bound)
        found = [one for one in self._ending(earliest) if one.start <= latest and tuple(one.key.values()) == values]
        return found[::-1] if reverse else found

    def fetch(self, key: Any, *, reverse: bool = False) -> list[WindowEntry]:
        """All sessions of a key, in the order of time."""
        return self.find_sessions(key, reverse=reverse)

    def all(self) -> list[WindowEntry]:
        """All sessions of all keys, by their ends, then keys, then starts."""
        self._begin()
        return self._ending(None)

    @classmethod
    def _expired_ranges(
        cls, definition: SessionStoreDefinition, overlay: StoreOverlay, group: int, stream_time: int
    ) -> list[tuple[bytes, bytes]]:
        prefix = overlay.prefix(group)
        return [(prefix, prefix + moment_key(stream_time - definition.retention_ms + 1))]

    def _is_gone(self, end_ms: int) -> bool:
        earliest = self._earliest(self._definition.retention_ms)
        return earliest is not None and end_ms <= earliest

    def _put_at(self, call: str, key: Any, start: StoreTime, end: StoreTime, value: Mapping[str, Any] | None) -> None:
        self._begin()
        start_ms, end_ms = self._bounds(call, start, end)
        at = self._at(self._key.to_put(key), start_ms, end_ms)
        if self._is_gone(end_ms):
            self._call.count("expired")
        else:
            self._put(at, value)

    def _bounds(self, call: str, start: StoreTime, end: StoreTime) -> tuple[int, int]:
        start_ms, end_ms = self._time(call, start), self._time(call, end)
        if start_ms > end_ms:
            raise RefusedCallError(
                f"{call} of the store {self._definition.name!r}: found a session from {start_ms} to {end_ms}; expected an end that is not before the start"
            )
        return start_ms, end_ms

    def _at(self, values: EntryValues, start_ms: int, end_ms: int) -> bytes:
        return self._prefix + moment_key(end_ms) + self._encode_key(values) + moment_key(start_ms)

    def _ending(self, earliest_end_ms: int | None) -> list[WindowEntry]:
        earliest = self._earliest(self._definition.retention_ms)
        lowest = -LAST_MS if earliest is None else earliest + 1
        first = lowest if earliest_end_ms is None else max(lowest, earliest_end_ms)
        found = self._overlay.scan(self._prefix + moment_key(first), self._end)
        return [
            WindowEntry(self._key_dict(key), milliseconds(start), milliseconds(end), self._named(values) or {})
            for (end, *key, start), values in found
        ]
