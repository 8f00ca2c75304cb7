"""
Users' functions over windows that depend on the records: sessions and sliding windows.

A kernel says what each row changes; here is the rest: stored windows as Python values, the three emissions, and the changelog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.engine.folding.changes import windows_with_old_values
from streamkit.engine.folding.result_places import places_of_final, places_of_newest, places_of_rows
from streamkit.engine.folding.sequential import Functions, NamedValues, State, StateRows, is_deleted, timestamps_of
from streamkit.engine.folding.stored_windows import first_open_at
from streamkit.engine.folding.window_results import bounds
from streamkit.engine.folding.window_state import StoreChanges, WindowKeys, WindowState, keys_of
from streamkit.engine.rows.place import in_canonical_order
from streamkit.engine.rows.rows import numbers, rows_of
from streamkit.engine.stage.advance import stream_times
from streamkit.errors import EvaluationError
from streamkit.names import DELETED, KEY_GROUP, TIMESTAMP
from streamkit.plan.demands import WITH_OLD_VALUES
from streamkit.state.layout import ListedWindows, encode_lists


class KeyWindow(NamedTuple):
    """A window: the position of its key, and its bounds."""

    key: int
    start: int
    end: int


class WindowChange(NamedTuple):
    """What became of a window, by which row; None deletes it."""

    row: int
    window: KeyWindow
    state: State


@dataclass(frozen=True, eq=False)
class FunctionWindowState(WindowState):
    """The store of an operator in an epoch, whose values are states of functions."""

    @cached_property
    def has_ends(self) -> bool:
        """Whether windows close and expire by their ends, which then stand first in their keys; else by their starts."""
        return bool(self._layout.after)

    def times_of(self, starts: Integers, ends: Integers) -> tuple[Integers, ...]:
        """The times in the state keys of windows."""
        return self._layout.window_times(starts, ends)

    @property
    def state_rows(self) -> StateRows:
        return StateRows(self.context.store(self.operator.store).value)


@dataclass(eq=False)
class ChangedWindows:
    """What the rows of an epoch changed: all changes in canonical order, and the newest of each window."""

    groups: pa.RecordBatch
    keys: WindowKeys
    listed: ListedWindows
    stored: Mapping[KeyWindow, State]
    changes: list[WindowChange]
    newest: dict[KeyWindow, State] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.newest = {change.window: change.state for change in self.changes}

    def there(self) -> list[KeyWindow]:
        """The windows that changed and are there."""
        return [window for window, state in self.newest.items() if state.value is not None]

    def gone(self) -> list[KeyWindow]:
        """The windows that were stored and are not there any more."""
        return [window for window, state in self.newest.items() if state.value is None and window in self.stored]


@dataclass(frozen=True, eq=False)
class Given:
    """The rows of an epoch, as the functions are given them."""

    groups: pa.RecordBatch
    keys: WindowKeys
    codes: Integers
    listed: ListedWindows
    stored: Mapping[KeyWindow, State]
    functions: Functions

    @property
    def times(self) -> Integers:
        return numbers(self.groups, TIMESTAMP)


def given_rows(
    epoch: FunctionWindowState, groups: pa.RecordBatch, meets: Callable[[ListedWindows, Integers, Integers], Any]
) -> Given:
    """The rows with the stored windows of their keys; `meets` says which of these the rows can meet."""
    operator, store = epoch.operator, epoch.context.store(epoch.operator.store)
    keys, codes = keys_of(operator.key, groups)
    listed = epoch.listed(keys)
    met = listed.take(meets(listed, codes, numbers(groups, TIMESTAMP)))
    values = epoch.read(epoch.keys(keys, met.keys, epoch.times_of(met.starts, met.ends)))
    states = epoch.state_rows.decode(values)
    windows = map(KeyWindow, met.keys.tolist(), met.starts.tolist(), met.ends.tolist())
    stored = {window: state for window, state in zip(windows, states, strict=True) if state is not None}
    return Given(groups, keys, codes, listed, stored, Functions.of(operator.functions, store.value))


def changed(given: Given, changes: list[WindowChange]) -> ChangedWindows:
    """What rows changed."""
    return ChangedWindows(given.groups, given.keys, given.listed, given.stored, changes)


def blaming(
    record: Callable[[int], pa.RecordBatch], row: int, function: Callable[..., NamedValues | None], *given: Any
) -> NamedValues | None:
    """What a function gives; an EvaluationError carries the row."""
    try:
        return function(*given)
    except EvaluationError as error:
        error.row = record(row)
        raise


def stream_time_at(epoch: FunctionWindowState, groups: pa.RecordBatch) -> Integers:
    """The operator's stream time at each row."""
    return stream_times(epoch.operator, epoch.windowing, groups, epoch.context)


def emitted(epoch: FunctionWindowState, made: ChangedWindows | None) -> dict[str, pa.RecordBatch | None]:
    """The results that were asked for, by mode."""
    modes = epoch.operator.modes
    results: dict[str, pa.RecordBatch | None] = dict.fromkeys(modes)
    if made is not None and "every" in modes:
        results["every"] = _every(epoch, made)
    if made is not None and WITH_OLD_VALUES in modes:
        results[WITH_OLD_VALUES] = _with_old_values(epoch, made)
    if made is not None and "latest" in modes:
        results["latest"] = _latest(epoch, made)
    if "final" in modes:
        results["final"] = _final(epoch, made)
    return results


def _every(epoch: FunctionWindowState, made: ChangedWindows) -> pa.RecordBatch:
    """What each row changed, in the order in which it did."""
    causes = np.array([change.row for change in made.changes], np.int64)
    place = places_of_rows(epoch.operator, made.groups, causes, epoch.context)
    return _results(epoch, made.keys, [(change.window, change.state) for change in made.changes], place)


def _with_old_values(epoch: FunctionWindowState, made: ChangedWindows) -> pa.RecordBatch:
    """Each change as two rows: what its window was before it, then itself."""
    numbers_of: dict[KeyWindow, int] = {}
    windows = (*made.stored, *(change.window for change in made.changes))
    codes = np.array([numbers_of.setdefault(window, len(numbers_of)) for window in windows], np.int64)
    before = epoch.state_rows.arrays(list(made.stored.values()))
    return windows_with_old_values(_every(epoch, made), before, codes)


def _latest(epoch: FunctionWindowState, made: ChangedWindows) -> pa.RecordBatch:
    """
    The newest state of each window that changed, and a deletion of each that is gone, at the end of the epoch.

    Windows that merge come in the order of ends, deletions first: no part of one ends behind it, so parts are deleted before it comes.
    """
    gone = made.gone()
    shown = [(window, made.newest[window]) for window in (*gone, *made.there())]
    keys, starts, ends = _columns([window for window, _ in shown])
    columns = made.keys.take(keys).columns
    if epoch.has_ends:
        place = places_of_newest(epoch.operator, ends, columns, epoch.context, np.arange(len(shown)) < len(gone))
    else:
        place = places_of_newest(epoch.operator, starts, columns, epoch.context)
    return _results(epoch, made.keys, shown, place)


def _final(epoch: FunctionWindowState, made: ChangedWindows | None) -> pa.RecordBatch | None:
    """The results of the windows that close in this epoch, from the store and this epoch's rows."""
    state_keys, values = epoch.due_in_epoch(epoch.wait_ms)
    keys, shown = None, []
    if made is not None:
        if len(state_keys):
            own = _state_keys(epoch, made.keys, list(made.newest))
            untouched = pc.invert(pc.is_in(state_keys, value_set=own))
            state_keys, values = state_keys.filter(untouched), values.filter(untouched)
        first_open = first_open_at(epoch.windowing, epoch.times[1])
        keys, shown = made.keys, [(one, made.newest[one]) for one in made.there() if _time(epoch, one) < first_open]
    if len(state_keys):
        own_keys, times = epoch.split(state_keys)
        others = 0 if keys is None else len(keys.groups)
        keys = own_keys if keys is None else WindowKeys.concatenated(keys, own_keys)
        starts = times[-1]
        ends = times[0] if epoch.has_ends else starts + epoch.length_ms
        windows = map(KeyWindow, range(others, others + len(starts)), starts.tolist(), ends.tolist())
        shown += [
            (window, state) for window, state in zip(windows, epoch.state_rows.decode(values), strict=True) if state is not None
        ]
    if keys is None or not shown:
        return None
    places, starts, ends = _columns([window for window, _ in shown])
    first, *rest = epoch.times_of(starts, ends)
    columns = [*map(pa.array, rest), *keys.take(places).columns]
    place = places_of_final(epoch.operator, epoch.windowing.closes_at(first), first, columns, epoch.context)
    return in_canonical_order(_results(epoch, keys, shown, place).drop_columns([DELETED]))


def _results(
    epoch: FunctionWindowState, keys: WindowKeys, shown: Sequence[tuple[KeyWindow, State]], place: Mapping[str, pa.Array]
) -> pa.RecordBatch:
    """Rows of windows: key columns, bounds, the columns of the states, and record columns."""
    places, starts, ends = _columns([window for window, _ in shown])
    own, states = keys.take(places), [state for _, state in shown]
    return rows_of(
        {
            **dict(zip(epoch.operator.key, own.columns, strict=True)),
            **bounds(starts, ends),
            **epoch.state_rows.arrays(states),
            TIMESTAMP: timestamps_of(states),
            DELETED: is_deleted(states),
            KEY_GROUP: pa.array(own.groups, pa.int32()),
            **place,
        }
    )


def keep(epoch: FunctionWindowState, made: ChangedWindows | None) -> None:
    """Write the windows that changed and the lists of their keys to the changelog; those whose retention has ended are deleted."""
    epoch.keep([] if made is None else [_changes(epoch, made)], None if made is None else made.keys)


def _changes(epoch: FunctionWindowState, made: ChangedWindows) -> StoreChanges:
    there = [window for window in made.there() if _time(epoch, window) > epoch.expired_ms]
    gone = made.gone()
    written = [*gone, *there]
    states = [made.newest[window] for window in written]
    before = set(map(KeyWindow, made.listed.keys.tolist(), made.listed.starts.tolist(), made.listed.ends.tolist()))
    after = [window for window in before.difference(gone).union(there) if _time(epoch, window) > epoch.expired_ms]
    lists = encode_lists(ListedWindows(*_columns(after)), len(made.keys.groups))
    return (
        pa.concat_arrays([_state_keys(epoch, made.keys, written), epoch.list_keys(made.keys)]),
        pa.concat_arrays([epoch.state_rows.encode(states), lists]),
        np.concatenate([timestamps_of(states).to_numpy(), np.full(len(lists), epoch.times[1])]),
    )


def _state_keys(epoch: FunctionWindowState, keys: WindowKeys, windows: Sequence[KeyWindow]) -> pa.BinaryArray:
    places, starts, ends = _columns(windows)
    return epoch.keys(keys, places, epoch.times_of(starts, ends))


def _time(epoch: FunctionWindowState, window: KeyWindow) -> int:
    """The time of a window by which it closes and expires."""
    return window.end if epoch.has_ends else window.start


def _columns(windows: Iterable[KeyWindow]) -> tuple[Integers, Integers, Integers]:
    """Windows as columns: keys, starts, ends."""
    table = np.array(list(windows), np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]
