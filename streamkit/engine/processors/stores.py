"""
The stores of a processor, as it sees them: those of its own key group, with what it has put there.

Times are whole milliseconds since 1970 UTC; where one is taken, a datetime will do. Keys are given as a dict of the key columns,
as a tuple, or as the value of the only one. Values are dicts of the value columns, and None deletes. Entries come as they are
at the moment of the call, in the order of their keys.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from streamkit.engine.folding.sequential import NamedValues
from streamkit.engine.processors.call import ProcessorCall
from streamkit.engine.processors.store_overlay import EntryValues, StoreOverlay
from streamkit.expressions.python.exact_values import UNFIT, exactly
from streamkit.log.rows.event_time import TIME_MS_MAX
from streamkit.plan.function_digest import type_name
from streamkit.plan.processing import RefusedCallError
from streamkit.plan.store_definition import KEY_VALUE, SESSION, VERSIONED, WINDOW, StoreDefinition
from streamkit.schema import Schema
from streamkit.state.key import range_end, range_prefix
from streamkit.state.single_key import after, key_encoder, moment_key, text_prefix

StoreTime: TypeAlias = "int | dt.datetime"
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
LAST_MS = TIME_MS_MAX + 1  # behind every time that a log takes
ASCENDING, DESCENDING = "ascending", "descending"


class Entry(NamedTuple):
    """A key and its value."""

    key: NamedValues
    value: NamedValues


class WindowEntry(NamedTuple):
    """A key, where its window or session starts and ends, in ms, and its value."""

    key: NamedValues
    start: int
    end: int
    value: NamedValues


class Version(NamedTuple):
    """A value, the time from which it is valid, and the one from which it is not; None if it is the newest."""

    value: NamedValues
    timestamp: int
    valid_to: int | None


class Put(NamedTuple):
    """Whether a version was taken, and when the next one begins; None if it is the newest."""

    is_put: bool
    valid_to: int | None


class ProcessorStore:
    """What stores of all kinds share: the way from users' keys and values to those of the overlay, and back."""

    def __init__(self, definition: StoreDefinition, overlay: StoreOverlay, call: ProcessorCall) -> None:
        self._definition = definition
        self._overlay = overlay
        self._call = call
        self._prefix = overlay.prefix(call.group)
        self._end = range_end(call.group, overlay.number)
        self._key = _Exact(definition, definition.key, "key")
        self._value = _Exact(definition, definition.value, "value")
        self._retention_ms = definition.retention_ms or 0
        self._encode_key = key_encoder([column.type for column in definition.key])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._definition.name!r}: {self._definition.key} to {self._definition.value})"

    def _begin(self) -> None:
        self._call.check(f"the store {self._definition.name!r}")

    def _put(self, key: bytes, value: Any) -> None:
        values = None if value is None else self._value.of_dict(value)
        self._overlay.put(key, values, self._call.time)

    def _earliest(self) -> int | None:
        """The time at which what is kept begins: entries of it and before are gone; None if stream time has not begun."""
        return None if self._call.stream_time is None else self._call.stream_time - self._retention_ms

    def _named(self, values: EntryValues | None) -> NamedValues | None:
        return None if values is None else dict(zip(self._definition.value.names, values))

    def _key_dict(self, values: Iterable[Any]) -> NamedValues:
        return dict(zip(self._definition.key.names, values))


class KeyValueStore(ProcessorStore):
    """A store that keeps one value for each key."""

    def get(self, key: Any) -> NamedValues | None:
        """The value of a key; None if there is none."""
        self._begin()
        return self._named(self._overlay.get(self._at(key)))

    def put(self, key: Any, value: Mapping[str, Any] | None) -> None:
        """Set the value of a key, or delete it with None."""
        self._begin()
        self._put(self._prefix + self._encode_key(self._key.to_put(key)), value)

    def put_if_absent(self, key: Any, value: Mapping[str, Any]) -> NamedValues | None:
        """Set the value of a key that has none; returns the value that it had."""
        before = self.get(key)
        if before is None:
            self.put(key, value)
        return before

    def put_all(self, entries: Iterable[tuple[Any, Mapping[str, Any] | None]]) -> None:
        """Set the values of many keys, in their order."""
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: Any) -> NamedValues | None:
        """Delete a key; returns the value that it had."""
        before = self.get(key)
        if before is not None:
            self.put(key, None)
        return before

    def range(self, first: Any = None, last: Any = None) -> list[Entry]:
        """The entries from one key to another, both included, in the order of the values of keys; None leaves an end open."""
        self._begin()
        start = self._prefix if first is None else self._at(first)
        end = self._end if last is None else self._at(last) + b"\x00"
        return self._entries(start, end)

    def reverse_range(self, first: Any = None, last: Any = None) -> list[Entry]:
        """As `range`, from the last key to the first."""
        return self.range(first, last)[::-1]

    def prefix_scan(self, prefix: Any) -> list[Entry]:
        """The entries whose key begins so: with the text of the only key column, or with these values of the first ones, as a tuple."""
        self._begin()
        is_text = isinstance(prefix, str) and self._definition.key.columns[0].type == "string"
        start = self._prefix + (text_prefix(prefix) if is_text else self._encode_key(self._key.of_first(prefix)))
        return self._entries(start, after(start))

    def all(self) -> list[Entry]:
        """All entries, in the order of their keys."""
        return self.range()

    def reverse_all(self) -> list[Entry]:
        """All entries, from the last key to the first."""
        return self.range()[::-1]

    def _at(self, key: Any) -> bytes:
        return self._prefix + self._encode_key(self._key.of(key))

    def _entries(self, start: bytes, end: bytes) -> list[Entry]:
        found = self._overlay.scan(start, end)
        return [Entry(self._key_dict(key), self._named(values) or {}) for key, values in found]


class WindowStore(ProcessorStore):
    """
    A store that keeps a value for each key and start of a window.

    A window is gone when stream time has reached its start plus the retention: it is not found, and not taken (metric `expired`).
    """

    def put(self, key: Any, value: Mapping[str, Any] | None, start: StoreTime) -> None:
        """Set the value of a key in the window that starts then, or delete it with None; a store that retains duplicates adds a value."""
        self._begin()
        start_ms, values = milliseconds(start), self._key.to_put(key)
        if self._is_gone(start_ms):
            self._call.count("expired")
        elif not self._definition.retain_duplicates:
            self._put(self._at(values, start_ms), value)
        elif value is not None:
            numbers = [found[-1] for found, _ in self._in_window(values, start_ms)]
            self._put(self._at((*values, max(numbers, default=-1) + 1), start_ms), value)

    def get(self, key: Any, start: StoreTime) -> NamedValues | None:
        """The value of a key in the window that starts then; None if there is none. The last one of duplicates."""
        found = self.fetch(key, start, start)
        return found[-1].value if found else None

    def fetch(
        self, key: Any, first: StoreTime | None = None, last: StoreTime | None = None, *, reverse: bool = False
    ) -> list[WindowEntry]:
        """The windows of a key that start from one time to another, both included, by their starts; None leaves an end open."""
        self._begin()
        values = self._key.of(key)
        if first is not None and first == last:
            start_ms = bound(first)
            found = [] if self._is_gone(start_ms) else self._in_window(values, start_ms)
            return self._entries(found, reverse)
        width = 1 + len(values)
        return self._entries([one for one in self._between(first, last) if one[0][1:width] == values], reverse)

    def fetch_all(
        self, first: StoreTime | None = None, last: StoreTime | None = None, *, reverse: bool = False
    ) -> list[WindowEntry]:
        """The windows of all keys that start from one time to another, both included, by their starts, then keys."""
        self._begin()
        return self._entries(self._between(first, last), reverse)

    def all(self, *, reverse: bool = False) -> list[WindowEntry]:
        """All windows of all keys, by their starts, then keys."""
        return self.fetch_all(reverse=reverse)

    def _is_gone(self, start_ms: int) -> bool:
        earliest = self._earliest()
        return earliest is not None and start_ms <= earliest

    def _at(self, values: EntryValues, start_ms: int) -> bytes:
        return range_prefix(self._call.group, self._overlay.number, start_ms) + self._overlay.encode(values)

    def _in_window(self, values: EntryValues, start_ms: int) -> list[tuple[EntryValues, EntryValues]]:
        start = self._at(values, start_ms)
        if self._definition.retain_duplicates:
            return self._overlay.scan(start, after(start))
        found = self._overlay.get(start)
        return [] if found is None else [((start_ms, *values), found)]

    def _between(self, first: StoreTime | None, last: StoreTime | None) -> list[tuple[EntryValues, EntryValues]]:
        earliest = self._earliest()
        lowest = -LAST_MS if earliest is None else earliest + 1
        start = lowest if first is None else max(lowest, bound(first))
        end = LAST_MS + 1 if last is None else bound(last) + 1
        group, number = self._call.group, self._overlay.number
        return self._overlay.scan(range_prefix(group, number, start), range_prefix(group, number, end))

    def _entries(self, found: list[tuple[EntryValues, EntryValues]], reverse: bool) -> list[WindowEntry]:
        size = self._definition.window_size_ms or 0
        entries = [
            WindowEntry(self._key_dict(key[1:]), key[0], key[0] + size, self._named(values) or {}) for key, values in found
        ]
        return entries[::-1] if reverse else entries


class SessionStore(ProcessorStore):
    """
    A store that keeps a value for each key, start and end of a session.

    A session is gone when stream time has reached its end plus the retention: it is not found, and not taken (metric `expired`).
    """

    def put(self, key: Any, start: StoreTime, end: StoreTime, value: Mapping[str, Any] | None) -> None:
        """Set the value of a session, or delete it with None."""
        self._begin()
        at = self._at(self._key.to_put(key), start, end)
        if self._is_gone(milliseconds(end)):
            self._call.count("expired")
        else:
            self._put(at, value)

    def remove(self, key: Any, start: StoreTime, end: StoreTime) -> None:
        """Delete a session."""
        self.put(key, start, end, None)

    def get(self, key: Any, start: StoreTime, end: StoreTime) -> NamedValues | None:
        """The value of a session; None if there is none."""
        self._begin()
        return None if self._is_gone(milliseconds(end)) else self._named(self._overlay.get(self._at(key, start, end)))

    def find_sessions(
        self, key: Any, earliest_end: StoreTime | None = None, latest_start: StoreTime | None = None, *, reverse: bool = False
    ) -> list[WindowEntry]:
        """The sessions of a key that end then or later, and start then or earlier, in the order of time; None leaves a bound open."""
        self._begin()
        values = self._key.of(key)
        latest = LAST_MS if latest_start is None else bound(latest_start)
        found = [one for one in self._ending(earliest_end) if one.start <= latest and tuple(one.key.values()) == values]
        return found[::-1] if reverse else found

    def fetch(self, key: Any, *, reverse: bool = False) -> list[WindowEntry]:
        """All sessions of a key, in the order of time."""
        return self.find_sessions(key, reverse=reverse)

    def all(self) -> list[WindowEntry]:
        """All sessions of all keys, by their ends, then keys, then starts."""
        self._begin()
        return self._ending(None)

    def _is_gone(self, end_ms: int) -> bool:
        earliest = self._earliest()
        return earliest is not None and end_ms <= earliest

    def _at(self, key: Any, start: StoreTime, end: StoreTime) -> bytes:
        start_ms, end_ms = milliseconds(start), milliseconds(end)
        if start_ms > end_ms:
            raise RefusedCallError(f"a session from {start_ms} to {end_ms}; expected an end that is not before the start")
        return self._prefix + moment_key(end_ms) + self._encode_key(self._key.of(key)) + moment_key(start_ms)

    def _ending(self, earliest_end: StoreTime | None) -> list[WindowEntry]:
        earliest = self._earliest()
        lowest = -LAST_MS if earliest is None else earliest + 1
        first = lowest if earliest_end is None else max(lowest, bound(earliest_end))
        found = self._overlay.scan(self._prefix + moment_key(first), self._end)
        return [
            WindowEntry(self._key_dict(key), milliseconds(start), milliseconds(end), self._named(values) or {})
            for (end, *key, start), values in found
        ]


class VersionedStore(ProcessorStore):
    """
    A store that keeps the versions of each key's value, by the time from which each is valid.

    What is older than stream time minus the history retention is not taken (metric `expired`), and only found if it is still valid.
    """

    def put(self, key: Any, value: Mapping[str, Any] | None, timestamp: StoreTime) -> Put:
        """Set the value that is valid from a time on, until the next version; None: from then on there is none. The same time replaces."""
        self._begin()
        time_ms, values = milliseconds(timestamp), self._key.to_put(key)
        earliest = self._earliest()
        if earliest is not None and time_ms < earliest:
            self._call.count("expired")
            return Put(False, None)
        columns = (None,) * len(self._definition.value) if value is None else self._value.of_dict(value)
        self._overlay.put(self._at(values) + moment_key(time_ms), (*columns, value is None), self._call.time)
        self._forget(values)
        later = [start for start, _ in self._versions(values) if start > time_ms]
        return Put(True, min(later, default=None))

    def get(self, key: Any, as_of: StoreTime | None = None) -> Version | None:
        """The newest version of a key, or the one valid at a time; None if there is none."""
        self._begin()
        versions = self._versions(self._key.of(key))
        time_ms = LAST_MS if as_of is None else bound(as_of)
        earliest = self._earliest()
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
        lowest = -LAST_MS if first is None else bound(first)
        highest = LAST_MS if last is None else bound(last)
        if lowest > highest:
            return []
        earliest = self._earliest()
        if earliest is not None and highest < earliest:
            versions = versions[-1:]
        elif earliest is not None:
            lowest = max(lowest, earliest)
        found = [one for place in range(len(versions)) if (one := self._version(versions, place)) is not None]
        kept = [one for one in found if one.timestamp <= highest and (one.valid_to is None or one.valid_to > lowest)]
        return kept if order == ASCENDING else kept[::-1]

    def delete(self, key: Any, timestamp: StoreTime) -> Version | None:
        """End what is valid at a time; returns it. Nothing happens if the time is too old."""
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
        earliest = self._earliest()
        if earliest is None:
            return
        versions = self._versions(values)
        for (start, _), (following, _) in pairwise(versions):
            if following < earliest:
                self._overlay.put(self._at(values) + moment_key(start), None, self._call.time)


STORES: Mapping[str, Callable[[StoreDefinition, StoreOverlay, ProcessorCall], ProcessorStore]] = {
    KEY_VALUE: KeyValueStore,
    WINDOW: WindowStore,
    SESSION: SessionStore,
    VERSIONED: VersionedStore,
}


def expired_range(definition: StoreDefinition, overlay: StoreOverlay, group: int, stream_time: int) -> list[tuple[bytes, bytes]]:
    """The state keys of a key group that are gone at a stream time; none of stores that keep all."""
    if definition.kind not in (WINDOW, SESSION):
        return []
    behind = stream_time - (definition.retention_ms or 0) + 1
    prefix = overlay.prefix(group)
    end = range_prefix(group, overlay.number, behind) if definition.kind == WINDOW else prefix + moment_key(behind)
    return [(prefix, end)]


def milliseconds(moment: Any) -> int:
    """A time in whole ms since 1970 UTC; RefusedCallError if it is none."""
    if moment.__class__ is int and abs(moment) < LAST_MS:
        return int(moment)
    if isinstance(moment, dt.datetime):
        moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.timezone.utc)
        return int((moment - EPOCH) // dt.timedelta(milliseconds=1))
    if isinstance(moment, np.datetime64):  # what a column has outside the years of a datetime
        found = int(moment.astype("M8[ms]").astype(np.int64))
        if abs(found) < LAST_MS:
            return found
    raise RefusedCallError(f"found the time {moment!r}; expected whole milliseconds since 1970, or a datetime")


def bound(moment: Any) -> int:
    """A time that bounds what is read, as `milliseconds`; a whole number beyond all times, such as the largest of 64 bits, leaves it open."""
    if isinstance(moment, int) and not isinstance(moment, bool) and abs(moment) >= LAST_MS:
        return LAST_MS if moment > 0 else -LAST_MS
    return milliseconds(moment)


class _Exact:
    """Users' keys or values as tuples of what their columns hold."""

    def __init__(self, definition: StoreDefinition, schema: Schema, what: str) -> None:
        self._store, self._what, self._schema = definition.name, what, schema
        self._names = dict.fromkeys(schema.names)
        self._convert = [(column.name, column.type, column.nullable, exactly(column.arrow.type)) for column in schema]

    def of(self, given: Any) -> EntryValues:
        """A key, as a dict, a tuple, or the value of the only column."""
        if isinstance(given, Mapping):
            return self.of_dict(given)
        values = tuple(given) if isinstance(given, tuple | list) else (given,)
        if len(values) != len(self._convert):
            raise self._wrong(f"found {given!r}")
        return self._converted(values)

    def to_put(self, given: Any) -> EntryValues:
        """A key to keep something under, as `of`; RefusedCallError if it is null, which is no key."""
        values = self.of(given)
        if all(value is None for value in values):
            raise self._wrong(f"found {given!r}, a null key, under which nothing can be put; expected a value")
        return values

    def of_first(self, given: Any) -> EntryValues:
        """The first columns of a key, as a tuple, or the value of the first one."""
        values = tuple(given.values()) if isinstance(given, Mapping) else tuple(given) if isinstance(given, tuple) else (given,)
        if not 0 < len(values) <= len(self._convert):
            raise self._wrong(f"found the beginning {given!r}")
        return self._converted(values)

    def of_dict(self, given: Any) -> EntryValues:
        """A dict of columns; those that it leaves out are null."""
        if given.__class__ is not dict and not isinstance(given, Mapping):  # the second look is slow
            raise self._wrong(f"found {given!r}; expected a dict")
        for name in given:
            if name not in self._names:
                raise self._wrong(f"found the column {name!r}")
        return self._converted([given.get(name) for name in self._names])

    def _converted(self, values: Sequence[Any]) -> EntryValues:
        found = []
        for (name, type, nullable, convert), value in zip(self._convert, values):
            if value is None and not nullable:
                raise self._wrong(f"found None for {name}, which is declared NOT NULL")
            try:
                found.append(convert(value))
            except UNFIT as error:
                raise self._wrong(f"found {name} = {value!r} ({type_name(value)}), and declared is {type}: {error}") from None
        return tuple(found)

    def _wrong(self, found: str) -> RefusedCallError:
        columns = ", ".join(f"{column.name} {column.type}" for column in self._schema)
        return RefusedCallError(f"the {self._what} of the store {self._store!r} has the columns {columns}; {found}")
