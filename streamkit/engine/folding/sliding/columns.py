"""
Aggregation per sliding window: rows go into the windows of their keys that hold them, and begin and end windows.

Which windows there are is found out first (`slid_windows`), their states then (`streamkit.engine.rows.lineage`). A stored
window is a row of state under its start and key; the windows of a key are listed under the key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.engine.folding.changes import windows_with_old_values
from streamkit.engine.folding.group_state import keyed_values, lifted
from streamkit.engine.folding.result_places import places_of_final, places_of_newest, places_of_rows
from streamkit.engine.folding.sliding.slid_windows import Slid, SlidingRows, WindowNodes, slid_windows
from streamkit.engine.folding.window_results import Finish, bounds, failing, finished, null_on_overflow
from streamkit.engine.folding.window_state import StoreChanges, WindowKeys, WindowState, decoded, keys_of
from streamkit.engine.folding.windows import since_1970
from streamkit.engine.rows.place import in_canonical_order
from streamkit.engine.rows.rows import OptionalBatch, concatenate, numbers, rows_of
from streamkit.engine.stage.advance import stream_times
from streamkit.engine.stage.context import Context
from streamkit.log.values.keys import encode_keys
from streamkit.names import DELETED, KEY_GROUP, TIMESTAMP
from streamkit.plan.demands import WITH_OLD_VALUES
from streamkit.plan.operators.aggregate import Aggregate
from streamkit.state.layout import ListedWindows, encode_lists
from streamkit.state.row import encode_rows

FOLDED = frozenset(
    ("count", "count_if", "sum", "avg", "min", "max")
)  # a fold gives what one row after the other does, to the last bit


def fold_columns(operator: Aggregate, inputs: Sequence[OptionalBatch], context: Context) -> Mapping[str, OptionalBatch]:
    """Take the rows into the windows of the store, and return the results that were asked for, by mode."""
    (batch,) = inputs
    results: dict[str, OptionalBatch] = dict.fromkeys(operator.modes)
    epoch = WindowState(operator, context)
    made = None
    if batch is not None and batch.num_rows:
        batch = in_canonical_order(since_1970(operator.id, keyed_values(operator.id, operator.key, batch, context), context))
        made = _made(epoch, batch) if batch.num_rows else None
    if made is not None:
        context.count("late", operator.id, int(made.slid.is_late.sum()) + made.slid.skipped)
        if operator.gives_each:
            results |= _each(epoch, made)
        if "latest" in operator.modes:
            results["latest"] = _latest(epoch, made)
    if "final" in operator.modes:
        results["final"] = _closed(epoch, made)
    epoch.keep([] if made is None else [_changed(epoch, made)], None if made is None else made.keys)
    return results


@dataclass(frozen=True, eq=False)
class _MadeWindows:
    """
    What the rows of an epoch made of the windows of their keys.

    `stored` are the windows that the rows could meet, with their states; `states` has the state of each node of the lineage.
    """

    batch: pa.RecordBatch
    keys: WindowKeys
    listed: ListedWindows
    stored: WindowNodes
    stored_states: list[pa.Array]
    slid: Slid
    states: list[pa.Array]


def _made(epoch: WindowState, batch: pa.RecordBatch) -> _MadeWindows:
    operator = epoch.operator
    keys, codes = keys_of(operator.key, batch)
    times, listed = numbers(batch, TIMESTAMP), epoch.listed(keys)
    earliest = np.full(len(keys.groups), np.iinfo(np.int64).max)
    np.minimum.at(earliest, codes, times)
    met = listed.take(listed.starts >= earliest[listed.keys] - 2 * epoch.length_ms)
    stored_times, stored_states = decoded(epoch.operator.aggregates, epoch.read(epoch.keys(keys, met.keys, (met.starts,))))
    states = lifted(operator.aggregates, batch)
    rows = [pa.concat_arrays([old, new.cast(old.type)]) for old, new in zip(stored_states, states, strict=True)]
    stored = WindowNodes(met.keys, met.starts, stored_times, np.arange(len(stored_times)))
    taken = SlidingRows(codes, times, stream_times(operator, epoch.windowing, batch, epoch.context))
    is_each_given = operator.gives_each
    slid = slid_windows(taken, stored, epoch.windowing, is_each_given=is_each_given)
    if slid.is_flat and all(one.function in FOLDED for one in operator.aggregates):
        found = slid.lineage.folded(operator.aggregates, rows, slid.newest.nodes)
        slid = replace(slid, newest=replace(slid.newest, nodes=np.arange(len(slid.newest.nodes))))
    else:
        found = slid.lineage.states(operator.aggregates, rows)
    return _MadeWindows(batch, keys, listed, stored, stored_states, slid, found)


def _each(epoch: WindowState, made: _MadeWindows) -> dict[str, OptionalBatch]:
    """After each row the windows that it changed, by mode."""
    given, causes = made.slid.given, made.slid.causes
    place = places_of_rows(epoch.operator, made.batch, causes, epoch.context)
    every = _results(epoch, made, given, place, failing)
    if WITH_OLD_VALUES not in epoch.operator.modes:
        return {"every": every}
    before = finished(epoch.operator.aggregates, made.stored_states, None, failing)
    columns = [np.concatenate(pair) for pair in ((made.stored.keys, given.keys), (made.stored.starts, given.starts))]
    windows = encode_keys([pa.array(column) for column in columns]).dictionary_encode().indices.to_numpy()
    return {"every": every, WITH_OLD_VALUES: windows_with_old_values(every, before, windows)}


def _latest(epoch: WindowState, made: _MadeWindows) -> pa.RecordBatch:
    """The newest result of each window that changed, at the end of the epoch."""
    newest = made.slid.newest
    place = places_of_newest(epoch.operator, newest.starts, made.keys.take(newest.keys).columns, epoch.context)
    deleted = {DELETED: pa.array(np.zeros(len(newest.keys), bool))}
    return _results(epoch, made, newest, {**place, **deleted}, null_on_overflow(epoch.operator.id, epoch.context))


def _closed(epoch: WindowState, made: _MadeWindows | None) -> pa.RecordBatch | None:
    """The results of the windows that close in this epoch, from the store and this epoch's rows."""
    stored = epoch.due_in_epoch(epoch.wait_ms)
    parts = []
    if made is not None:
        newest = made.slid.newest
        if len(stored[0]):
            own = epoch.keys(made.keys, newest.keys, (newest.starts,))
            untouched = pc.invert(pc.is_in(stored[0], value_set=own))
            stored = stored[0].filter(untouched), stored[1].filter(untouched)
        closing = newest.take(epoch.windowing.are_closed(newest.starts, epoch.times[1]))
        if len(closing.keys):
            place = _final_place(epoch, made.keys.take(closing.keys), closing.starts)
            parts.append(_results(epoch, made, closing, place, failing))
    if len(stored[0]):
        keys, (starts,) = epoch.split(stored[0])
        times, states = decoded(epoch.operator.aggregates, stored[1])
        parts.append(_rows(epoch, keys, starts, times, states, None, _final_place(epoch, keys, starts), failing))
    return in_canonical_order(concatenate(parts)) if parts else None


def _final_place(epoch: WindowState, keys: WindowKeys, starts: Integers) -> dict[str, pa.Array]:
    return places_of_final(epoch.operator, epoch.windowing.closes_at(starts), starts, keys.columns, epoch.context)


def _results(
    epoch: WindowState, made: _MadeWindows, windows: WindowNodes, place: Mapping[str, pa.Array], finish: Finish
) -> pa.RecordBatch:
    keys, places = made.keys.take(windows.keys), pa.array(windows.nodes)
    return _rows(epoch, keys, windows.starts, windows.times, made.states, places, place, finish)


def _rows(
    epoch: WindowState,
    keys: WindowKeys,
    starts: Integers,
    times: Integers,
    states: Sequence[pa.Array],
    places: pa.Array | None,
    place: Mapping[str, pa.Array],
    finish: Finish,
) -> pa.RecordBatch:
    """Rows of windows; `places` are the positions of their states."""
    return rows_of(
        {
            **dict(zip(epoch.operator.key, keys.columns, strict=True)),
            **bounds(starts, starts + epoch.length_ms),
            **finished(epoch.operator.aggregates, states, places, finish),
            TIMESTAMP: pa.array(times),
            **place,
            KEY_GROUP: pa.array(keys.groups, pa.int32()),
        }
    )


def _changed(epoch: WindowState, made: _MadeWindows) -> StoreChanges:
    """The windows that rows changed, and the lists of all keys that had rows."""
    newest, listed = made.slid.newest, made.listed
    kept = newest.take(newest.starts > epoch.expired_ms)
    nodes = pa.array(kept.nodes)
    values = encode_rows([pa.array(kept.times), *(state.take(nodes) for state in made.states)])
    both = [np.concatenate(pair) for pair in ((listed.keys, kept.keys), (listed.starts, kept.starts))]
    rows = np.unique(np.stack(both, axis=1), axis=0)
    rows = rows[rows[:, 1] > epoch.expired_ms]
    ends = rows[:, 1] + epoch.length_ms
    lists = encode_lists(ListedWindows(rows[:, 0], rows[:, 1], ends), len(made.keys.groups))
    return (
        pa.concat_arrays([epoch.keys(made.keys, kept.keys, (kept.starts,)), epoch.list_keys(made.keys)]),
        pa.concat_arrays([values, lists]),
        np.concatenate([kept.times, np.full(len(lists), epoch.times[1])]),
    )
