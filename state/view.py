"""A store as people see it: rows with names and types, as of the last committed epoch."""

from __future__ import annotations

import datetime as dt
import json
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.errors import ConfigError, CorruptionError, StoreNotFoundError
from streamkit.expressions.aggregates import result, state_columns
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.rows.records import TIME_MS_MAX
from streamkit.log.storage.storage import Storage
from streamkit.log.topic.formats import rows_of
from streamkit.log.values.keys import key_groups
from streamkit.log.values.whole_number import as_whole_number
from streamkit.names import WINDOW_END, WINDOW_START, store_folder
from streamkit.plan.program import Aggregate, Program, Store
from streamkit.state.changelog import Changes
from streamkit.state.key import range_prefix, split_state_keys, state_keys
from streamkit.state.key_group import key_group_range, task_of_key_group
from streamkit.state.row import decode_rows
from streamkit.state.task_state import Share, TaskState, read_changelogs, read_state

if TYPE_CHECKING:
    import pandas as pd

Result = TypeVar("Result")
Groups: TypeAlias = range  # the method `range` hides the type inside the class
UNIX_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_LOGGER = logging.getLogger(__name__)
UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")


class OpenLog(Protocol):
    """What a view needs of a log."""

    root: str
    catalog: Catalog
    storage: Storage


@dataclass(frozen=True, eq=False)
class StoreView:
    """
    A store of an application, read from outside; each call sees the newest committed epoch, whole.

    Keys are given by name (`get(origin="EWR", airline="Delta")`) or in the order of the key columns; windows by their
    start, `window_start=`. Times are datetimes, ISO 8601 text or milliseconds since 1970, UTC unless they have a zone; ConfigError
    for what is no time.
    """

    log: OpenLog
    application: str
    program: Program
    store: Store

    def get(self, *key: Any, window_start: Any = None, **named: Any) -> dict[str, Any] | None:
        """The row of a key (and window), as a dict; None if there is none."""
        return next(iter(rows_of(None, self.find(*key, window_start=window_start, **named))), None)

    def find(self, *key: Any, window_start: Any = None, **named: Any) -> pa.Table:
        """The row of a key (and window), as a table; without rows if there is none."""
        columns = self._key_columns(key, named)
        if (window_start is None) == (self.store.window_size_ms is not None):
            raise ConfigError(
                f"the store {self.store.name!r} is {'' if window_start is None else 'not '}windowed; "
                f"expected {'' if window_start is None else 'no '}window_start="
            )
        group = key_groups(columns, self.program.key_groups)
        windows = None if window_start is None else np.array([_milliseconds(window_start)], np.int64)
        keys = state_keys(self._number, group, columns, windows)
        values = self._read(_one(int(group[0])), lambda state: state.get(keys))
        return pa.Table.from_batches([self._rows(keys, values)]).slice(0, 1 - values.null_count)

    def range(self, start: Any = None, end: Any = None) -> pa.Table:
        """The rows of windows that start in [start, end), or of a table without windows all rows; either bound may be left out."""
        table = self.to_arrow()
        if self.store.window_size_ms is None:
            if start is not None or end is not None:
                raise ConfigError(f"the store {self.store.name!r} has no windows; expected neither start nor end")
            return table
        for bound, compare in ((start, pc.greater_equal), (end, pc.less)):
            if bound is not None:
                table = table.filter(
                    compare(table[WINDOW_START], pa.scalar(_milliseconds(bound) * 1000, pa.int64()).cast(UTC_MICROSECONDS))
                )
        return table

    def to_arrow(self) -> pa.Table:
        """All rows, in the order of key groups, windows and keys."""
        batches = []
        tasks = self.log.catalog.application(self.application).tasks
        for task in range(tasks):
            groups = key_group_range(task, tasks, self.program.key_groups)
            ranges = [(range_prefix(group, self._number), range_prefix(group, self._number + 1)) for group in groups]
            batches.append(self._rows(*self._read(groups, partial(_scan, ranges=ranges))))
        return pa.Table.from_batches(batches)

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a DataFrame."""
        return self.to_arrow().to_pandas()

    @property
    def _number(self) -> int:
        return self.log.catalog.application(self.application).stores[self.store.name].number

    def _read(self, groups: Groups, look: Callable[[TaskState], Result]) -> Result:
        """What a look at the state of these key groups finds; at the changelogs alone where the local store turns out to be damaged."""
        state = self._open(groups)
        try:
            return _looked(state, look)
        except CorruptionError as error:  # of a block of the store: catalog and changelogs were read when it was opened
            _LOGGER.warning("%s; until then it is read from the changelog, which takes longer", error)
            return _looked(self._open(groups, is_local=False), look)

    def _open(self, groups: Groups, is_local: bool = True) -> TaskState:
        """The state of these key groups: from the local store of the task that owns them all, if there is one and it is to be used."""
        catalog = self.log.catalog
        state = catalog.application(self.application)
        task = task_of_key_group(groups.start, state.tasks, self.program.key_groups)
        owned = key_group_range(task, state.tasks, self.program.key_groups)
        stores = [store for store in self.program.stores if store.stage == self.store.stage]
        ids = tuple(state.stores[store.name].changelog_topic_id for store in stores)
        folder = Path(self.log.root) / store_folder(self.application, self.store.stage, task, state.tasks)
        manifest = catalog.extents_of(ids, {})
        tokens = catalog.epoch_tokens(state.id)
        purged = manifest.purged_below
        changes = Changes(state.epoch, state.token, manifest.end_offsets, {}, manifest.extents, tokens, purged_below=purged)
        is_found = is_local and folder.exists()
        share = Share(owned if is_found else groups, self.program.key_groups, self.program.changelog_partitions, ids)
        if not is_found:
            return read_changelogs(self.log.storage, share, changes)
        return read_state(self.log.storage, folder, share, changes)

    def _key_columns(self, key: Sequence[Any], named: Mapping[str, Any]) -> list[pa.Array]:
        names = self.store.key.names
        given = {**dict(zip(names, key, strict=False)), **named}
        if len(key) > len(names) or set(given) != set(names):
            raise ConfigError(
                f"found the key {(*key, *named.items())}; the store {self.store.name!r} has the key columns {', '.join(names)}"
            )
        return [pa.array([given[column.name]], column.arrow.type) for column in self.store.key]

    def _rows(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> pa.RecordBatch:
        windowed = self.store.window_size_ms is not None
        _, windows, columns = split_state_keys(keys, [column.type for column in self.store.key], windowed)
        rows: dict[str, pa.Array] = dict(zip(self.store.key.names, columns, strict=True))
        if windows is not None and self.store.window_size_ms is not None:
            rows[WINDOW_START] = pa.array(windows * 1000, pa.int64()).cast(UTC_MICROSECONDS)
            rows[WINDOW_END] = pa.array((windows + self.store.window_size_ms) * 1000, pa.int64()).cast(UTC_MICROSECONDS)
        return pa.RecordBatch.from_pydict({**rows, **self._values(values)})

    def _values(self, values: pa.BinaryArray) -> dict[str, pa.Array]:
        aggregate = next(
            (one for one in self.program.operators if isinstance(one, Aggregate) and one.store == self.store.name), None
        )
        if aggregate is None:
            _, *columns = decode_rows(values, ["bigint", *(column.type for column in self.store.value)])
            return dict(zip(self.store.value.names, columns, strict=True))
        types = [column.type for one in aggregate.aggregates for column in state_columns(one)]
        _, *states = decode_rows(values, ["bigint", *types])
        found: dict[str, pa.Array] = {}
        for one in aggregate.aggregates:
            width = len(state_columns(one))
            found[one.name], states = result(one, states[:width]), states[width:]
        return found


def _looked(state: TaskState, look: Callable[[TaskState], Result]) -> Result:
    try:
        return look(state)
    finally:
        state.close()


def _scan(state: TaskState, ranges: Sequence[tuple[bytes, bytes]]) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    return state.scan(ranges)


def open_view(log: OpenLog, application: str, name: str) -> StoreView:
    """The view of a store by name; StoreNotFoundError lists those the application has."""
    program = Program.from_json(json.loads(log.catalog.program(application)))
    store = next((store for store in program.stores if store.name == name), None)
    if store is None:
        names = ", ".join(store.name for store in program.stores) or "none"
        raise StoreNotFoundError(f"the application {application!r} has no store {name!r}; it has {names}")
    return StoreView(log, application, program, store)


def _one(group: int) -> Groups:
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
    """Whatever names a moment; TypeError, ValueError or OverflowError for anything else."""
    match moment:
        case str():
            return dt.datetime.fromisoformat(re.sub("[zZ]$", "+00:00", moment))
        case dt.datetime() if not math.isnan(moment.year):  # that of NaT, which pandas calls a datetime, is NaN
            return moment
        case dt.date():
            return dt.datetime(moment.year, moment.month, moment.day, tzinfo=dt.timezone.utc)
    raise TypeError
