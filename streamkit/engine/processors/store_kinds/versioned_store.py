"""What a processor sees of a store that keeps the versions of each key's value."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from streamkit.engine.folding.sequential import NamedValues
from streamkit.engine.processors.processor_store import ProcessorStore, processor_store
from streamkit.engine.processors.store_overlay import EntryValues
from streamkit.engine.processors.store_time import LAST_MS, StoreTime, bound, milliseconds
from streamkit.plan.processing import RefusedCallError
from streamkit.plan.store_kinds.versioned_store import VersionedStoreDefinition
from streamkit.state.single_key import after, moment_key

ASCENDING, DESCENDING = "ascending", "descending"


class Version(NamedTuple):
    """A value, the time from which it is valid, and the one from which it is not; None if it is the newest."""

    value: NamedValues
    timestamp: int
    valid_to: int | None


class Put(NamedTuple):
    """Whether a version was taken, and when the next one begins; None if it is the newest."""

    is_put: bool
    valid_to: int | None


@processor_store(VersionedStoreDefinition)
class VersionedStore(ProcessorStore[VersionedStoreDefinition]):
    """
    A store that keeps the versions of each key's value, by the time from which each is valid.

    What is older than stream time minus the history retention is not taken (metric `expired`), and only found if it is still valid.
    """

    def put(self, key: Any, value: Mapping[str, Any] | None, timestamp: StoreTime) -> Put:
        """Set the value that is valid from a time on, until the next version; None: from then on there is none. The same time replaces."""
        self._begin()
        time_ms, values = self._time("put(key, value, timestamp)", timestamp), self._key.to_put(key)
        earliest = self._earliest(self._definition.retention_ms)
        if earliest is not None and time_ms < earliest:
            self._call.count("expired")
            return Put(False, None)
        columns = (None,) * len(self._definition.value) if value is None else self._value.of_dict(value)
        self._overlay.put(self._at(values) + moment_key(time_ms), (*columns, value is None), self._call.time)
        self._forget(values)
        later = [start for start, _ in self._versions(values) if start > time_ms]
        return Put(True, min(later, default=None))

    def get(self, key: Any, valid_at: StoreTime | None = None) -> Version | None:
        """The newest version of a key, or the one valid at a time; None if there is none."""
        self._begin()
        versions = self._versions(self._key.of(key))
        time_ms = LAST_MS if valid_at is None else self._time("get(key, valid_at)", valid_at, bound)
        earliest = self._earliest(self._definition.retention_ms)
        if earliest is not None and time_ms < earliest:
            versions = versions[-1:]
        starts = [start for start, _ in versions]
        found = max((place for place, start in enumerate(starts) if start <= time_ms), default=None)
        return None if found is None else self._version(versions, found)

    def get_range(
        self, key: Any, first: StoreTime | None = None, last: StoreTime | None = None, *, order: str = ASCENDING
    ) -> list[Version]:
        """The versions of a key that are valid at some time from `first` to `last`, both included; `order` is ascending or descending."""
        self._begin()
        if order not in (ASCENDING, DESCENDING):
            raise RefusedCallError(f"get_range() was given order={order!r}; expected {ASCENDING!r} or {DESCENDING!r}")
        versions = self._versions(self._key.of(key))
        lowest = -LAST_MS if first is None else self._time("get_range(key, first, last)", first, bound)
        highest = LAST_MS if last is None else self._time("get_range(key, first, last)", last, bound)
        if lowest > highest:
            return []
        earliest = self._earliest(self._definition.retention_ms)
        if earliest is not None and highest < earliest:
            versions = versions[-1:]
        elif earliest is not None:
            lowest = max(lowest, earliest)
        found = [one for place in range(len(versions)) if (one := self._version(versions, place)) is not None]
        kept = [one for one in found if one.timestamp <= highest and (one.valid_to is None or one.valid_to > lowest)]
        return kept if order == ASCENDING else kept[::-1]

    def delete(self, key: Any, timestamp: StoreTime) -> Version | None:
        """End what is valid at a time; returns it. Nothing happens if the time is too old."""
        self._begin()
        self._time("delete(key, timestamp)", timestamp)
        before = self.get(key, timestamp)
        return before if self.put(key, None, timestamp).is_put else None

    def _at(self, values: EntryValues) -> bytes:
        return self._prefix + self._encode_key(values)

    def _versions(self, values: EntryValues) -> list[tuple[int, EntryValues]]:
        """The starts of a key's versions, and their values, the oldest first."""
        start = self._at(values)
        return [(milliseconds(key[-1]), found) for key, found in self._overlay.scan(start, after(start))]

    def _version(self, versions: list[tuple[int, EntryValues]], place: int) -> Version | None:
        """The version at a place; None if it says that there is no value."""
        start, (*values, is_deleted) = versions[place]
        following = versions[place + 1][0] if place + 1 < len(versions) else None
        return None if is_deleted else Version(self._named(tuple(values)) or {}, start, following)

    def _forget(self, values: EntryValues) -> None:
        """Delete the versions of a key that stopped being valid before the history begins."""
        earliest = self._earliest(self._definition.retention_ms)
        if earliest is None:
            return
        versions = self._versions(values)
        for (start, _), (following, _) in pairwise(versions):
            if following < earliest:
                self._overlay.put(self._at(values) + moment_key(start), None, self._call.time)
