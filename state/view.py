"""A store as people see it: rows with names and types, as of the last committed epoch."""

from __future__ import annotations

import datetime as dt
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.errors import ConfigError, CorruptionError, FormatVersionError, StreamKitError
from streamkit.expressions.python.python_functions import exact_array
from streamkit.html_table import html_table
from streamkit.log.catalog.applications import TIMES_METRIC
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.rows.event_time import TIME_MS_MAX
from streamkit.log.slab.slab import GONE
from streamkit.log.storage.storage import Storage
from streamkit.log.topic.formats import rows_of
from streamkit.log.values.keys import encode_keys, key_groups
from streamkit.log.values.whole_number import as_whole_number
from streamkit.names import WINDOW_START
from streamkit.plan.duration import duration_text
from streamkit.plan.program import Program, ProgramStore
from streamkit.plan.windows import Windowing
from streamkit.schema import SchemaColumn
from streamkit.state.foreign_record import KeptStore, check_changelogs
from streamkit.state.format import is_earlier
from streamkit.state.key_group import task_of_key_group
from streamkit.state.layout import MICROSECONDS, decode_lists, layout_of
from streamkit.state.shown_rows import shown_rows
from streamkit.state.snapshot import StateSnapshot, find_store, program_of, snapshot_of_store
from streamkit.state.task_state import StoreAheadError, TaskState, read_changelogs, read_state

if TYPE_CHECKING:
    import pandas as pd

Result = TypeVar("Result")
KeyGroupRange: TypeAlias = range  # the method `range` hides the type inside the class
UNIX_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_LOGGER = logging.getLogger(__name__)
ATTEMPTS = 4  # to read a store beside an application that runs
ROWS_SHOWN = 10  # in a notebook


class OpenLog(Protocol):
    """What a view needs of a log."""

    catalog: Catalog
    storage: Storage

    @property
    def local_root(self) -> str:
        """The folder of this host below which local stores are."""

    def storage_now(self) -> Storage:
        """The storage as it is on record now."""


@dataclass(frozen=True)
class Expiry:
    """What retention has deleted of a store: the windows whose start plus `retention_ms` is at most `stream_time_ms`."""

    retention_ms: int
    stream_time_ms: int

    def has_taken(self, window_start: Any) -> bool:
        """Whether the window that starts at this moment has expired."""
        return _milliseconds(window_start) + self.retention_ms <= self.stream_time_ms


@dataclass(frozen=True, eq=False)
class StoreView:
    """
    A store of an application, read from outside; each call sees the newest committed epoch, whole.

    Keys are given by name (`get(origin="EWR", airline="Delta")`) or in the order of the key columns; windows by their start,
    `window_start=`. Without it all sessions or sliding windows of a key are found. Times are datetimes, ISO
    8601 text or milliseconds since 1970, UTC unless they have a zone; ConfigError if a time is none of these.
    """

    log: OpenLog
    application: str
    program: Program
    store: ProgramStore
    snapshot: StateSnapshot | None = field(default=None, repr=False)  # that of the call at work
    reads_local_stores: bool = field(default=True, repr=False)

    def __repr__(self) -> str:
        return f"StoreView({self.application!r}, {self.store.name!r}: {self._facts()})"

    def _repr_html_(self) -> str:
        found = self.schema.empty_table()
        with suppress(StreamKitError, OSError):  # the store may be reset or the log closed by now
            found = self._whole(lambda view: view._first(ROWS_SHOWN))
        caption = f"store {self.store.name} of {self.application}: {self._facts()}"
        return html_table(caption, [tuple(row.values()) for row in rows_of(None, found)], found.column_names)

    def _facts(self) -> str:
        """What there is to say in a line: the key, the windows and the other columns."""
        store, layout = self.store, layout_of(self.store)
        others = [name for name in self.schema.names if name not in (*store.key.names, *layout.columns)]
        windows = [layout.name] if layout.columns else []
        if store.window_size_ms is not None:
            windows = [f"windows of {duration_text(store.window_size_ms)}"]
        return "; ".join([f"key {', '.join(store.key.names)}", *windows, f"columns {', '.join(others)}"])

    def get(self, *key: Any, window_start: Any = None, **named: Any) -> dict[str, Any] | None:
        """The row of a key (and window), as a dict; None if there is none. Of sessions and sliding windows the first, unless given."""
        return next(iter(rows_of(None, self.find(*key, window_start=window_start, **named))), None)

    def find(self, *key: Any, window_start: Any = None, **named: Any) -> pa.Table:
        """The row of a key (and window), or of all sessions or sliding windows of a key, as a table; without rows if there is none."""
        return self._whole(lambda view: view._find(key, named, window_start))

    def range(self, start: Any = None, end: Any = None) -> pa.Table:
        """The rows of windows that start in [start, end), or of a table without windows all rows; either bound may be left out."""
        if not layout_of(self.store).columns and (start is not None or end is not None):
            raise ConfigError(f"the store {self.store.name!r} has no windows; expected neither start nor end")
        first, last = (None if bound is None else _milliseconds(bound) for bound in (start, end))
        return self._whole(lambda view: view._scan(first, last))

    def to_arrow(self) -> pa.Table:
        """All rows, in the order of key groups, windows and keys."""
        return self._whole(lambda view: view._scan(None, None))

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a DataFrame."""
        return self.to_arrow().to_pandas()

    def expiry(self) -> Expiry | None:
        """Which windows retention has deleted by now, in the stream time of the store's operator; None if it keeps all, or has seen no time."""
        time = self._stream_time()
        retention = self.store.retention_ms
        return None if time is None or retention is None or self.store.window_size_ms is None else Expiry(retention, time)

    def _stream_time(self) -> int | None:
        """That of the operator which keeps the store, of which it expires: no other input moves it."""
        state, keeper = self.log.catalog.applications.get(self.application), self.program.keeper(self.store.name)
        times = dict(state.metrics.get(TIMES_METRIC) or ())
        if not keeper.expires_by or not times:
            return state.stream_time_ms
        found = [self._time_of(window, times) for window in keeper.expires_by]
        known = [time for time in found if time is not None]
        return min(known) if len(known) == len(found) else None

    def _time_of(self, window: Windowing, times: Mapping[str, int]) -> int | None:
        if (name := f"store/{window.store}") in times:
            return times[name]
        topics = [self.program.inputs[number].topic for number in window.streams]
        names = [f"input/{self.log.catalog.topics.get(topic).id}" for topic in topics]
        return max((times[name] for name in names if name in times), default=None)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows: those of the key, where windows start and end, and the values."""
        nothing = pa.array([], pa.binary())
        return self._rows(nothing, nothing).schema

    def _whole(self, work: Callable[[StoreView], Result]) -> Result:
        """
        The result of `work` on this view with one snapshot of the catalog.

        A running application may outrun the snapshot: it moves a local store on, or slabs are merged and deleted after a while.
        Then all is read again with a new snapshot. The last attempt reads only the changelogs, which are never ahead.
        """
        for _ in range(ATTEMPTS - 1):
            try:
                return self._now()._done(work)
            except StoreAheadError:
                continue
            except GONE:
                self.log.storage_now()  # another process may have changed the roots
        return replace(self._now(), reads_local_stores=False)._done(work)

    def _done(self, work: Callable[[StoreView], Result]) -> Result:
        """The result of `work`; CorruptionError that names a record of the changelog which is none of the store, if that is why it fails."""
        try:
            return work(self)
        except (CorruptionError, FormatVersionError):
            found, program = self._snapshot, self.program
            kept = KeptStore(
                self.application,
                self.store,
                self._number,
                found.application.stores[self.store.name].changelog_topic_id,
                program.key_groups,
                program.changelog_partitions,
            )
            check_changelogs(self.log.storage, found.changes, [kept], range(program.key_groups))
            raise

    def _now(self) -> StoreView:
        """This view with the newest snapshot, and the program that it has; StoreNotFoundError if the store is no longer in it."""
        found = self.log.catalog.read(lambda transaction: snapshot_of_store(transaction, self.application, self.store.name))
        return replace(self, snapshot=found, program=found.program, store=found.program.store(self.store.name))

    def _find(self, key: Sequence[Any], named: Mapping[str, Any], window_start: Any) -> pa.Table:
        columns, layout = self._key_columns(key, named), layout_of(self.store)
        is_found_by_key = layout.has_lists or bool(layout.after)
        if (window_start is None) == bool(layout.columns) and not (window_start is None and is_found_by_key):
            raise ConfigError(
                f"the store {self.store.name!r} is {'' if window_start is None else 'not '}windowed; "
                f"expected {'' if window_start is None else 'no '}window_start="
            )
        group = key_groups(columns, self.program.key_groups).astype(np.int64)
        if is_found_by_key:
            start, look = (
                None if window_start is None else _milliseconds(window_start),
                self._listed if layout.has_lists else self._sought,
            )
            (found,) = self._read([_one(int(group[0]))], lambda state, _: look(state, group, columns, start))
            return pa.Table.from_batches([found])
        times = [] if window_start is None else [np.array([_milliseconds(window_start)], np.int64)]
        if self.store.is_spread:
            return self._find_everywhere(columns, times)
        keys = layout_of(self.store).keys(self._number, group, columns, times)
        (values,) = self._read([_one(int(group[0]))], lambda state, _: state.get(keys))
        return pa.Table.from_batches([self._rows(keys, values)]).slice(0, 1 - values.null_count)

    def _listed(self, state: TaskState, group: Integers, columns: Sequence[pa.Array], start: int | None) -> pa.RecordBatch:
        """The windows that the store lists for a key, or the one that starts at `start`."""
        layout = layout_of(self.store)
        listed = decode_lists(state.get(layout.list_keys(self._number, group, columns)))
        listed = listed if start is None else listed.take(listed.starts == start)
        places = pa.array(listed.keys)
        times = layout.window_times(listed.starts, listed.ends)
        keys = layout.keys(self._number, group[listed.keys], [column.take(places) for column in columns], times)
        values = state.get(keys)
        return self._rows(keys, values).filter(values.is_valid())

    def _sought(self, state: TaskState, group: Integers, columns: Sequence[pa.Array], start: int | None) -> pa.RecordBatch:
        """The windows of a key whose store does not list them: those of its key group are looked through."""
        found = self._rows(*state.scan(layout_of(self.store).ranges(self._number, group.tolist())))
        key = encode_keys([found[name] for name in self.store.key.names])
        own = found.filter(pc.equal(key, encode_keys(columns)[0]))
        return own if start is None else _starting(own, start, start + 1)

    def _find_everywhere(self, columns: Sequence[pa.Array], times: Sequence[Any]) -> pa.Table:
        """The rows of a key in whichever key groups processors have put it into, in their order."""
        tasks = [self._snapshot.groups(task) for task in range(self._snapshot.application.tasks)]
        rows = self._read(tasks, lambda state, groups: self._rows_in(state, groups, columns, times))
        return pa.Table.from_batches(rows)

    def _rows_in(
        self, state: TaskState, groups: KeyGroupRange, columns: Sequence[pa.Array], times: Sequence[Any]
    ) -> pa.RecordBatch:
        """The rows of a key in each of these key groups that has one."""
        places = np.zeros(len(groups), np.int64)
        repeated = [column.take(pa.array(places)) for column in columns]
        moments = [time[places] for time in times]
        keys = layout_of(self.store).keys(self._number, np.array(groups, np.int64), repeated, moments)
        values = state.get(keys)
        return self._rows(keys.filter(values.is_valid()), values.drop_null())

    def _scan(self, first: int | None, last: int | None) -> pa.Table:
        """The rows whose windows start in [first, last) (ms), or all."""
        layout, number = layout_of(self.store), self._number
        tasks = [self._snapshot.groups(task) for task in range(self._snapshot.application.tasks)]
        bounds = (first, last) if layout.starts_first else (None, None)
        found = self._read(tasks, lambda state, groups: state.scan(layout.ranges(number, groups, *bounds)))
        rows = [self._rows(keys, values) for keys, values in found]
        return pa.Table.from_batches(rows if layout.starts_first else [_starting(batch, first, last) for batch in rows])

    def _first(self, count: int) -> pa.Table:
        """The first rows of a scan, at most `count`: it stops reading at the key group that has enough."""
        found = self.schema.empty_table()
        for task in range(self._snapshot.application.tasks):
            if found.num_rows < count:
                parts = self._read([self._snapshot.groups(task)], lambda state, groups: self._first_of(state, groups, count))
                found = pa.concat_tables([found, *parts])
        return found.slice(0, count)

    def _first_of(self, state: TaskState, groups: KeyGroupRange, count: int) -> pa.Table:
        """At least `count` rows of these key groups, or all."""
        found = self.schema.empty_table()
        for bounds in layout_of(self.store).ranges(self._number, groups):
            if found.num_rows < count:
                found = pa.concat_tables([found, pa.Table.from_batches([self._rows(*state.scan([bounds]))])])
        return found

    @property
    def _snapshot(self) -> StateSnapshot:
        assert self.snapshot is not None, "a store was read without a snapshot of the catalog"
        return self.snapshot

    @property
    def _number(self) -> int:
        return self._snapshot.application.stores[self.store.name].number

    def _read(self, parts: Sequence[KeyGroupRange], look: Callable[[TaskState, KeyGroupRange], Result]) -> list[Result]:
        """
        The result of `look` at the state of each range of key groups.

        Local stores are opened before the first look: what is open stays as it is, and the application moves the others on.
        """
        with ExitStack() as opened:
            states = []
            for groups in parts:
                is_here = self.reads_local_stores and self._snapshot.folder(self.log.local_root, self._task(groups)).exists()
                states.append(opened.enter_context(closing(self._open(groups))) if is_here else None)
            return [self._looked(state, groups, look) for state, groups in zip(states, parts, strict=True)]

    def _looked(
        self, state: TaskState | None, groups: KeyGroupRange, look: Callable[[TaskState, KeyGroupRange], Result]
    ) -> Result:
        """The result of `look` at a state; at the changelogs if there is no local store, or it turns out to be damaged."""
        if state is not None:
            try:
                return look(state, groups)
            except CorruptionError as error:  # of a block of the store: the changelogs were read when it was opened
                _LOGGER.warning("%s; until then it is read from the changelog, which takes longer", error)
        with closing(self._open(groups, is_local=False)) as changelogs:
            return look(changelogs, groups)

    def _open(self, groups: KeyGroupRange, is_local: bool = True) -> TaskState:
        """The state of these key groups at the snapshot: from the local store of the task that owns them, or from the changelogs."""
        snapshot, storage = self._snapshot, self.log.storage
        if not is_local:
            return read_changelogs(storage, snapshot.share(groups), snapshot.changes)
        task = self._task(groups)
        return read_state(
            storage, snapshot.folder(self.log.local_root, task), snapshot.share(snapshot.groups(task)), snapshot.changes
        )

    def _task(self, groups: KeyGroupRange) -> int:
        return task_of_key_group(groups.start, self._snapshot.application.tasks, self.program.key_groups)

    def _key_columns(self, key: Sequence[Any], named: Mapping[str, Any]) -> list[pa.Array]:
        names = self.store.key.names
        given = {**dict(zip(names, key, strict=False)), **named}
        if len(key) > len(names) or set(given) != set(names):
            found = ", ".join([*map(repr, key), *(f"{name}={value!r}" for name, value in named.items())])
            raise ConfigError(f"found the key {found}; the store {self.store.name!r} has the key columns {', '.join(names)}")
        return [self._key_column(column, given[column.name]) for column in self.store.key]

    def _key_column(self, column: SchemaColumn, value: Any) -> pa.Array:
        try:
            return exact_array([value], column.arrow.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise ConfigError(
                f"found the key {column.name} = {value!r} ({type(value).__name__}); the store {self.store.name!r} has {column.name} "
                f"{column.type}: expected a value of that type"
            ) from error

    def _rows(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> pa.RecordBatch:
        is_from_earlier = self.snapshot is not None and is_earlier(self.snapshot.application)
        return shown_rows(self.program, self.store, keys, values, is_earlier=is_from_earlier)


def open_view(log: OpenLog, application: str, name: str) -> StoreView:
    """The view of a store by name; StoreNotFoundError lists those the application has."""
    program = log.catalog.read(lambda transaction: program_of(transaction, application))
    return StoreView(log, application, program, find_store(program, name))


def open_views(log: OpenLog, application: str) -> list[StoreView]:
    """The views of all stores of an application."""
    program = log.catalog.read(lambda transaction: program_of(transaction, application))
    return [StoreView(log, application, program, store) for store in program.stores]


def _starting(rows: pa.RecordBatch, first: int | None, last: int | None) -> pa.RecordBatch:
    """The rows whose windows start in [first, last) (ms)."""
    if first is None and last is None:
        return rows
    starts = rows[WINDOW_START].cast(pa.int64()).to_numpy() // MICROSECONDS
    kept = np.ones(len(starts), bool)
    kept &= True if first is None else starts >= first
    kept &= True if last is None else starts < last
    return rows.filter(pa.array(kept))


def _one(group: int) -> KeyGroupRange:
    return range(group, group + 1)


def _milliseconds(moment: Any) -> int:
    """A moment in milliseconds since 1970; without a zone it is UTC."""
    is_numpy = isinstance(moment, np.datetime64) and not np.isnat(moment)
    number = int(moment.astype("M8[ms]").astype(np.int64)) if is_numpy else as_whole_number(moment)
    if number is not None and abs(number) <= TIME_MS_MAX:
        return number
    try:
        found = _datetime(moment)
        found = found if found.tzinfo else found.replace(tzinfo=dt.timezone.utc)
        return int((found - UNIX_EPOCH) // dt.timedelta(milliseconds=1))
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(
            f"found the time {moment!r}; expected a datetime, ISO 8601 text such as '2026-01-31' or '2026-01-31T12:00:00Z', "
            "UTC unless it has a zone, or whole milliseconds since 1970"
        ) from None


def _datetime(moment: Any) -> dt.datetime:
    """The datetime that a text, datetime or date names; TypeError, ValueError or OverflowError if it names none."""
    match moment:
        case str():
            return dt.datetime.fromisoformat(re.sub("[zZ]$", "+00:00", moment))
        case dt.datetime() if not math.isnan(moment.year):  # that of NaT, which pandas calls a datetime, is NaN
            return moment
        case dt.date():
            return dt.datetime(moment.year, moment.month, moment.day, tzinfo=dt.timezone.utc)
    raise TypeError
