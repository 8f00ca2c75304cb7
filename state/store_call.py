"""One call of a view: from the keys and bounds that a user gives to the rows of one committed epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.errors import ConfigError
from streamkit.log.values.keys import encode_keys, key_groups
from streamkit.names import WINDOW_END, WINDOW_START
from streamkit.plan.duration import duration_text
from streamkit.plan.operator import FormerRows
from streamkit.plan.program import ProgramStore
from streamkit.plan.store_kinds.versioned_store import IS_DELETED
from streamkit.schema import Schema
from streamkit.state.asked_keys import asked_columns, by_name
from streamkit.state.expiry import stream_time_of
from streamkit.state.format import is_earlier
from streamkit.state.history import last_of_each, valid_rows_of_table, valid_versions
from streamkit.state.key_changes import COLUMNS as CHANGE_COLUMNS
from streamkit.state.key_changes import changes_of
from streamkit.state.key_value import GivenValues, key_values
from streamkit.state.layout import MICROSECONDS, UTC_MICROSECONDS, decode_lists
from streamkit.state.moment import bound_ms, whole_milliseconds
from streamkit.state.single_key import after, text_prefix
from streamkit.state.state_reader import OpenLog, ReadProgram, StateReader
from streamkit.state.stored_rows import EVERYTHING, GROUP_BYTES, MOMENT_BYTES, StoredRows, WantedRows, inner_bytes
from streamkit.state.task_state import TaskState

Result = TypeVar("Result")
EVERY_STORE = (
    "get",
    "find",
    "many",
    "range",
    "prefix",
    "count",
    "to_arrow",
)  # verbs that fit all stores; `to_pandas` and its like, too
SCANNED_KEYS = 8  # so many are looked for by ranges of their own; for more, all of the store is read
KeysAndValues: TypeAlias = tuple[pa.BinaryArray, pa.BinaryArray]  # of rows in the state


@dataclass(frozen=True, eq=False)
class StoreCall:
    """
    What a call of a view does: it reads once, so that all it sees is of one epoch.

    `reader` is that of the view, with what it keeps; `known` the program by which `store` is read.
    """

    log: OpenLog
    application: str
    reader: StateReader
    known: ReadProgram
    store: ProgramStore

    @cached_property
    def stored(self) -> StoredRows:
        """What the bytes of the store mean."""
        application = self.known.application
        number = application.stores[self.store.name].number
        return StoredRows(self.known.program, self.store, number, is_earlier(application))

    @cached_property
    def former(self) -> FormerRows | None:
        """Where the store's former rows are, if it is that of a table with history."""
        return self.known.program.keeper(self.store.name).history_of(self.store.name)

    def find(self, key: Sequence[Any], named: Mapping[str, Any], window_start: Any) -> pa.Table:
        """What `StoreView.find` gives."""
        stored, layout = self.stored, self.stored.layout
        own = self._key_of_rows(key, named)
        columns = self._key_columns(own, key, named)
        is_found_by_key = stored.has_sessions or layout.has_lists
        if (window_start is None) == bool(stored.has_windows or layout.columns) and not (
            window_start is None and is_found_by_key
        ):
            raise ConfigError(
                f"the store {self.store.name!r} is {'' if window_start is None else 'not '}windowed; "
                f"expected {'' if window_start is None else 'no '}window_start="
            )
        start = bound_ms(window_start)
        if columns is None or (start is not None and whole_milliseconds(window_start) is None):  # no row has such a key
            return stored.schema.empty_table()
        if is_found_by_key:
            wanted = WantedRows() if start is None else WantedRows(start_ms=start, end_ms=start + 1)
            return self.of_key(columns, wanted)
        times = [] if start is None else [np.array([start], np.int64)]
        if self.store.is_spread:
            return self._everywhere(columns, times) if own == self.store.key else self._rows_under(columns, times)
        group = key_groups(columns, self.known.program.key_groups).astype(np.int64)
        if group[0] < 0:  # a null key has no row
            return stored.schema.empty_table()
        keys = layout.keys(stored.number, group, columns, times)
        (values,) = self._read([_one(int(group[0]))], lambda state, _: state.get(keys))
        return pa.Table.from_batches([stored.rows(keys, values)]).slice(0, 1 - values.null_count)

    def _key_of_rows(self, key: Sequence[Any], named: Mapping[str, Any]) -> Schema:
        """
        The key columns that are given: those that users declared.

        Of some stores of processors rows have one more, the number of a duplicate or the time of a version, and may be named by that.
        """
        has_all = len(key) + len(named) == len(self.store.key.names) and not self.stored.has_sessions
        return self.store.key if has_all else self.stored.key

    def of_key(self, columns: Sequence[pa.Array], wanted: WantedRows) -> pa.Table:
        """The wanted rows of one key, as users declared it, which may be of several windows."""
        if self.store.is_spread:
            return self.selected(_with_key(wanted, encode_keys(columns)[0].as_py()), None)
        group = key_groups(columns, self.known.program.key_groups).astype(np.int64)
        if group[0] < 0:
            return self.stored.schema.empty_table()
        if not self.stored.layout.has_lists:
            selection = _with_key(wanted, encode_keys(columns)[0].as_py())
            return self.selected(selection, None, [_one(int(group[0]))])
        (found,) = self._read([_one(int(group[0]))], lambda state, _: self._listed(state, group, columns, wanted))
        return pa.Table.from_batches([found])

    def _listed(self, state: TaskState, group: Integers, columns: Sequence[pa.Array], wanted: WantedRows) -> pa.RecordBatch:
        """The wanted ones of the windows that the store lists for a key, by their ends."""
        layout, stored = self.stored.layout, self.stored
        listed = decode_lists(state.get(layout.list_keys(stored.number, group, columns)))
        kept = np.ones(len(listed.starts), bool)
        kept &= True if wanted.start_ms is None else listed.starts >= wanted.start_ms
        kept &= True if wanted.end_ms is None else listed.starts < wanted.end_ms
        kept &= True if wanted.ends_from_ms is None else listed.ends >= wanted.ends_from_ms
        listed = listed.take(kept)
        places = pa.array(listed.keys)
        times = layout.window_times(listed.starts, listed.ends)
        keys = layout.keys(stored.number, group[listed.keys], [column.take(places) for column in columns], times)
        values = state.get(keys)
        return stored.rows(keys, values).filter(values.is_valid())

    def _everywhere(self, columns: Sequence[pa.Array], times: Sequence[Integers]) -> pa.Table:
        """The rows of keys in whichever key groups processors have put them into, key by key, in the order of the groups."""
        stored, asked = self.stored, len(columns[0])

        def look(state: TaskState, groups: range) -> tuple[Integers, pa.RecordBatch]:
            places = np.repeat(np.arange(asked), len(groups))
            repeated = [column.take(pa.array(places)) for column in columns]
            every_group = np.tile(np.array(groups, np.int64), asked)
            keys = stored.layout.keys(stored.number, every_group, repeated, [time[places] for time in times])
            values = state.get(keys)
            there = values.is_valid()
            return places[there.to_numpy(zero_copy_only=False)], stored.rows(keys.filter(there), values.drop_null())

        found = self._read(self._tasks, look)
        order = np.argsort(np.concatenate([places for places, _ in found]), kind="stable")
        return pa.Table.from_batches([rows for _, rows in found]).take(pa.array(order))

    def _rows_under(self, columns: Sequence[pa.Array], times: Sequence[Integers]) -> pa.Table:
        """
        The rows whose keys begin with these, one behind another, in the order of key groups: of windows all duplicates, of versions the newest.

        One value, of nine bytes, stands behind each of these keys: the number of a duplicate, or the time of a version.
        """
        stored = self.stored
        no_group = np.zeros(len(columns[0]), np.int64)
        begins = inner_bytes(stored.layout.keys(stored.number, no_group, columns, times), GROUP_BYTES, 0)
        unique = begins.unique()
        few = sorted(unique.to_pylist()) if len(unique) <= SCANNED_KEYS else None

        def look(state: TaskState, groups: range) -> tuple[Integers, pa.RecordBatch]:
            ranges = stored.ranges(groups)
            if few is not None:
                prefixes = [group.to_bytes(GROUP_BYTES, "big") + begin for group in groups for begin in few]
                ranges = [(prefix, after(prefix)) for prefix in prefixes]
            keys, values = state.scan(ranges)
            place = pc.index_in(inner_bytes(keys, GROUP_BYTES, MOMENT_BYTES), unique)
            kept = place.is_valid()
            keys, values, place = keys.filter(kept), values.filter(kept), place.filter(kept)
            if stored.kind == "versioned" and len(keys):
                is_newest = pa.array(last_of_each(inner_bytes(keys, 0, MOMENT_BYTES)))
                keys, values, place = keys.filter(is_newest), values.filter(is_newest), place.filter(is_newest)
            rows = stored.rows(keys, values)
            if stored.kind == "versioned":
                is_there = pc.invert(rows[IS_DELETED])
                rows, place = rows.filter(is_there), place.filter(is_there)
            return place.to_numpy(zero_copy_only=False).astype(np.int64), rows

        found = self._read(self._tasks, look)
        owners = np.concatenate([place for place, _ in found])
        order = np.argsort(owners, kind="stable")
        first = np.searchsorted(owners[order], np.arange(len(unique) + 1))
        asked = pc.index_in(begins, unique).to_numpy(zero_copy_only=False)
        taken = [order[first[one] : first[one + 1]] for one in asked]
        return pa.Table.from_batches([rows for _, rows in found]).take(pa.array(np.concatenate(taken), pa.int64()))

    def many(self, asked: Any) -> pa.Table:
        """What `StoreView.many` gives."""
        stored, layout = self.stored, self.stored.layout
        shown = [WINDOW_START, WINDOW_END] if stored.has_sessions else list(layout.columns[: layout.before])
        whole = stored.key if stored.has_sessions else self.store.key
        what = f"the store {self.store.name!r}"
        given = by_name(asked, [[*key.names, *shown] for key in dict.fromkeys((stored.key, whole))], what)
        is_whole = len(given) == len(whole.names) + len(shown)
        keys_asked = asked_columns(given, whole if is_whole else stored.key, shown, what)
        columns, times = keys_asked.columns, keys_asked.times
        if not len(columns[0]):
            return stored.schema.empty_table()
        if not is_whole:
            return self._rows_under(columns, times)
        if stored.has_sessions:
            times = times[::-1]  # the end of a session stands before its start
        if stored.has_sessions and self.store.is_spread:
            end, start = (pa.array(time * MICROSECONDS, pa.int64()).cast(UTC_MICROSECONDS) for time in times)
            columns, times = [end, *columns, start], []
        if self.store.is_spread:
            return self._everywhere(columns, times)
        group = key_groups(columns, self.known.program.key_groups).astype(np.int64)
        rows = np.flatnonzero(group >= 0)  # a null key has no row
        taken = pa.array(rows)
        group, columns = group[rows], [column.take(taken) for column in columns]
        keys = layout.keys(stored.number, group, columns, [time[rows] for time in times])

        def look(state: TaskState, groups: range) -> tuple[Integers, pa.RecordBatch]:
            own = np.flatnonzero((group >= groups.start) & (group < groups.stop))
            own_keys = keys.take(pa.array(own))
            values = state.get(own_keys)
            there = values.is_valid()
            return own[there.to_numpy(zero_copy_only=False)], stored.rows(own_keys.filter(there), values.drop_null())

        parts = [
            range(int(own.min()), int(own.max()) + 1)
            for groups in self._tasks
            if len(own := group[(group >= groups.start) & (group < groups.stop)])
        ]
        found = self._read(parts, look)
        if not found:
            return self.stored.schema.empty_table()
        order = np.argsort(np.concatenate([places for places, _ in found]), kind="stable")
        return pa.Table.from_batches([batch for _, batch in found]).take(pa.array(order))

    def within(self, start: Any, end: Any) -> WantedRows:
        """What `StoreView.range` gives: windows that start between two times, or keys between two."""
        if self.stored.layout.columns or self.stored.has_windows:
            return WantedRows(start_ms=bound_ms(start), end_ms=bound_ms(end))
        first, last = (b"" if bound is None else self._encoded_bound(bound) for bound in (start, end))
        return WantedRows(key_start=first, key_end=last or None)  # a bound of no columns is open

    def _encoded_bound(self, bound: Any) -> bytes:
        """The first bytes that are not before a bound: with these all keys begin that begin with its values."""
        given = bound if isinstance(bound, tuple) else () if isinstance(bound, Mapping) else (bound,)
        found = self._first_values(given, bound if isinstance(bound, Mapping) else {})
        columns: list[pa.Array] = []
        for one in found:
            if one.is_cut[0]:  # it lies between two moments: what follows it does not count
                columns.append(pc.add(one.values.cast(pa.int64()), 1).cast(one.values.type))
                break
            columns.append(one.values)
        return self._encoded(columns)

    def _first_values(self, first: Sequence[Any], named: Mapping[str, Any]) -> list[GivenValues]:
        """Values of the first key columns, or of none; ConfigError if they are others."""
        key = self.stored.key
        count = len(first) + len(named)
        if count > len(key.names) or set(named) != set(key.names[len(first) : count]):
            raise self._wrong_key(first, named, key, "the first of them")
        return self._key_values(Schema(key.columns[:count]), first, named)

    @property
    def history_ms(self) -> int | None:
        """How far behind stream time `valid_at` goes back; None if the store keeps no versions."""
        if self.former is not None:
            return self.former.history_ms
        return self.store.retention_ms if self.stored.kind == "versioned" else None

    def checked_history_ms(self) -> int:
        """How far `valid_at` goes back; ConfigError if the store keeps no versions."""
        if (found := self.history_ms) is not None:
            return found
        raise ConfigError(
            f"the store {self.store.name!r} keeps no versions, so it does not know what was valid at an event time: only tables with versioned= "
            f"and versioned stores of processors do; it is read by {self._verbs}"
        )

    def whole_key(self, first: Sequence[Any], named: Mapping[str, Any]) -> list[pa.Array] | None:
        """The key columns that have these values; None if they are not all that users declared, or no row can have them."""
        is_whole = len(first) + len(named) == len(self.stored.key.names)
        return self._key_columns(self.stored.key, first, named) if is_whole else None

    def _encoded(self, columns: Sequence[pa.Array]) -> bytes:
        encoded: bytes = encode_keys(columns)[0].as_py() if columns else b""
        return encoded

    def beginning(self, first: Sequence[Any], named: Mapping[str, Any], starts_with: str | None) -> WantedRows:
        """What `StoreView.prefix` gives: keys whose first columns are these, and whose next one begins with a text."""
        found = self._first_values(first, named)
        begin = self._encoded([one.values for one in found])
        key, count = self.stored.key, len(found)
        if starts_with is not None:
            if count == len(key.names) or key.columns[count].type != "string" or not isinstance(starts_with, str):
                next_one = "none" if count == len(key.names) else f"{key.columns[count].name} {key.columns[count].type}"
                raise ConfigError(
                    f"starts_with={starts_with!r}: the next key column of the store {self.store.name!r} is {next_one}; "
                    "expected text for a string"
                )
            begin += text_prefix(starts_with)
        if any(one.is_cut[0] for one in found):  # no key begins so
            return replace(EVERYTHING, key_start=begin, key_end=begin)
        return _with_key(EVERYTHING, begin) if begin else EVERYTHING

    def windows(self, key: Sequence[Any], named: Mapping[str, Any], start: Any, end: Any, limit: int | None) -> pa.Table:
        """What `StoreView.windows` gives."""
        if not self.stored.has_windows:
            raise ConfigError(f"the store {self.store.name!r} has no windows; it is read by {self._verbs}")
        return self._of_windows(key, named, WantedRows(start_ms=bound_ms(start), end_ms=bound_ms(end)), limit)

    def sessions(self, key: Sequence[Any], named: Mapping[str, Any], start: Any, end: Any, limit: int | None) -> pa.Table:
        """What `StoreView.sessions` gives."""
        if not self.stored.has_sessions:
            raise ConfigError(f"the store {self.store.name!r} has no sessions; it is read by {self._verbs}")
        return self._of_windows(key, named, WantedRows(ends_from_ms=bound_ms(start), end_ms=bound_ms(end)), limit)

    def _of_windows(self, key: Sequence[Any], named: Mapping[str, Any], wanted: WantedRows, limit: int | None) -> pa.Table:
        if not key and not named:
            return self.selected(wanted, limit)
        columns = self._key_columns(self.stored.key, key, named)
        found = self.stored.schema.empty_table() if columns is None else self.of_key(columns, wanted)
        found = found.sort_by(WINDOW_START) if self.stored.layout.has_lists and not self.stored.layout.after else found
        return found if limit is None else found.slice(0, _checked(limit))

    @property
    def _verbs(self) -> str:
        """The verbs of a view that fit the store."""
        some = {
            "windows": self.stored.has_windows,
            "sessions": self.stored.has_sessions,
            "valid_at": self.history_ms is not None,
        }
        return ", ".join([*EVERY_STORE, *(verb for verb, fits in some.items() if fits), "as_of", "history"])

    @property
    def _tasks(self) -> list[range]:
        """The key groups of each task."""
        return [self.known.groups(task) for task in range(self.known.application.tasks)]

    def _read(
        self, parts: Sequence[range], look: Callable[[TaskState, range], Result], stores: Sequence[str] | None = None
    ) -> list[Result]:
        """The result of `look` at the state of each range of key groups; look-ups of few keys keep what they opened, scans do not."""
        is_few = stores is None and all(len(groups) == 1 for groups in parts)
        if is_few or self.reader.position() is not None:
            return self.reader.read(self.known, parts, look)
        own = StateReader(self.log, self.application, stores or [self.store.name], keep=False, known=self.known)
        return own.read(self.known, parts, look)

    def selected(self, wanted: WantedRows, limit: int | None, parts: Sequence[range] | None = None) -> pa.Table:
        """The wanted rows in the order of the store, at most `limit`."""
        stored = self.stored
        most = None if limit is None else _checked(limit)

        def look(state: TaskState, groups: range) -> KeysAndValues:
            ranges = stored.ranges(groups, wanted)
            is_exact = stored.is_wanted(_NO_KEYS, wanted) is None
            keys, values = state.scan(ranges, [most] * len(ranges) if is_exact else None)
            mask = stored.is_wanted(keys, wanted)
            return (keys, values) if mask is None else (keys.filter(mask), values.filter(mask))

        found = self._read(self._tasks if parts is None else parts, look)
        order = stored.order(pa.concat_arrays([keys for keys, _ in found]))
        rows = pa.Table.from_batches([stored.rows(keys, values) for keys, values in found])
        return rows.take(order if most is None else order[:most])

    def history(self, key: Sequence[Any], named: Mapping[str, Any]) -> pa.Table:
        """What `StoreView.history` gives."""
        columns = self._key_columns(self.stored.key, key, named)
        if columns is None:
            return pa.schema([*CHANGE_COLUMNS, *self.stored.schema]).empty_table()
        every = range(self.known.program.key_groups)
        group = key_groups(columns, self.known.program.key_groups)[0]
        groups = every if self.store.is_spread else [int(group)] if group >= 0 else []
        extents, trail = self.reader.changelog_of(self.store.name, groups)
        wanted = _with_key(EVERYTHING, encode_keys(columns)[0].as_py())
        return changes_of(self.log.storage, self.stored, groups, wanted, extents, trail)

    def valid_at(self, time_ms: int, wanted: WantedRows, limit: int | None, key: Sequence[pa.Array] | None) -> pa.Table:
        """What `StoreView.valid_at` gives; the `key` is that which is wanted, if it is one."""
        stored, former, history_ms = self.stored, self.former, self.checked_history_ms()
        if former is None:
            found = self._read(self._tasks, lambda state, groups: valid_versions(stored, state, groups, wanted, time_ms))
        else:
            program, stores = self.known.program, self.known.application.stores
            history = StoredRows(program, program.store(former.store), stores[former.store].number)
            parts = self._tasks
            if key is not None:
                (group,) = key_groups(key, self.known.program.key_groups)
                parts = [] if group < 0 else [_one(int(group))]  # a null key has no row
            found = self._read(
                parts,
                lambda state, groups: valid_rows_of_table(stored, history, state, groups, wanted, time_ms),
                stores=[self.store.name, former.store],
            )
        self._check_history(time_ms, history_ms)
        if not found:
            return stored.schema.empty_table()
        keys = pa.concat_arrays([keys for keys, _ in found])
        rows = pa.Table.from_batches([batch for _, batch in found]).take(stored.order(keys))
        return rows if limit is None else rows.slice(0, _checked(limit))

    def _check_history(self, time_ms: int, history_ms: int) -> None:
        """ConfigError if what was valid at a time may have been gone when it was read; so this is asked after that."""
        state, catalog = self.known.application, self.log.catalog
        if self.reader.position() is None:
            state = catalog.applications.get(self.application)
        reached = stream_time_of(catalog, self.known.program, self.store.name, state)
        if reached is not None and time_ms < reached - history_ms:
            since = np.datetime64(reached - history_ms, "ms")
            raise ConfigError(
                f"found the time {np.datetime64(time_ms, 'ms')}Z; the history of the store {self.store.name!r} goes back to {since}Z, which is "
                f"{duration_text(history_ms)} before its stream time"
            )

    def count(self) -> int:
        """How many rows there are."""
        stored = self.stored
        return sum(self._read(self._tasks, lambda state, groups: state.count(stored.ranges(groups))))

    def every(self, limit: int | None) -> pa.Table:
        """The rows of all key groups, or the first ones: then it stops reading at the key group that has enough."""
        stored, most = self.stored, None if limit is None else _checked(limit)
        left = 0

        def look(state: TaskState, groups: range) -> list[pa.RecordBatch]:
            nonlocal left
            if most is None:
                return [stored.rows(*state.scan(stored.ranges(groups)))]
            if groups.start == 0:  # a damaged store makes the reader begin again
                left = most
            found = []
            for bounds in stored.ranges(groups):
                if left > 0:
                    found.append(stored.rows(*state.scan([bounds], [left])))
                    left -= found[-1].num_rows
            return found

        parts = [batch for batches in self._read(self._tasks, look) for batch in batches]
        return pa.Table.from_batches(parts, self.stored.schema)

    def _key_columns(self, key: Schema, given: Sequence[Any], named: Mapping[str, Any]) -> list[pa.Array] | None:
        """One row of key columns from the values that were given, in order or by name; None if no row can have them."""
        both = {**dict(zip(key.names, given, strict=False)), **named}
        if len(given) + len(named) != len(key.names) or set(both) != set(key.names):
            raise self._wrong_key(given, named, key, "all of them")
        found = self._key_values(key, given, named)
        return None if any(one.is_cut[0] for one in found) else [one.values for one in found]

    def _key_values(self, key: Schema, given: Sequence[Any], named: Mapping[str, Any]) -> list[GivenValues]:
        both = {**dict(zip(key.names, given, strict=False)), **named}
        what = f"the store {self.store.name!r}"
        return [
            key_values(pa.repeat(one, 1) if isinstance(one := both[column.name], pa.Scalar) else [one], column, what)
            for column in key
        ]

    def _wrong_key(self, given: Sequence[Any], named: Mapping[str, Any], key: Schema, expected: str) -> ConfigError:
        found = ", ".join([*map(repr, given), *(f"{name}={value!r}" for name, value in named.items())])
        if len(given) == 1 and isinstance(given[0], tuple | list) and len(given[0]) == len(key.names) > 1:
            expected = f"a value for each, apart and not in one: {', '.join(map(repr, given[0]))}"
        return ConfigError(
            f"found the key {found or 'without columns'}; the store {self.store.name!r} has the key columns {', '.join(key.names)}: "
            f"expected {expected}"
        )


def _with_key(wanted: WantedRows, encoded: bytes) -> WantedRows:
    """A selection of the keys that begin with this encoding; of a whole key that is this one, since each column says where it ends."""
    return replace(wanted, key_start=encoded, key_end=after(encoded))


def _checked(limit: int) -> int:
    if type(limit) is not int or limit < 0:
        raise ConfigError(f"limit={limit!r}; expected a whole number, 0 or more")
    return limit


def _one(group: int) -> range:
    return range(group, group + 1)


_NO_KEYS = pa.nulls(0, pa.binary())
