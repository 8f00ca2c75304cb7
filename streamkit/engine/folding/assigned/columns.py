"""
Grouped aggregation: fold before the exchange, fold into the store behind it, and the three emissions.

Results of an epoch depend only on committed state and the epoch's rows; what changed goes to the changelog.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.engine.folding.every_row import (
    PieceByPiece,
    each_result,
    find_groups,
    groups_of_rows,
)
from streamkit.engine.folding.group_state import (
    GroupStates,
    Updated,
    as_numbers,
    decoded,
    keyed_values,
    lifted,
    rows_of_results,
    sorted_groups,
    state_names,
    stored_states,
)
from streamkit.engine.folding.result_places import places_of_final, places_of_newest
from streamkit.engine.folding.stored_windows import expired, ranges_closed
from streamkit.engine.folding.window_results import null_on_overflow
from streamkit.engine.folding.windows import RowsInWindows, windows_of
from streamkit.engine.rows.place import in_canonical_order
from streamkit.engine.rows.rows import OptionalBatch, rows_of
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import OperatorResult, RowsInPieces
from streamkit.expressions.aggregates import combine, fold
from streamkit.names import DELETED, KEY_GROUP, TIMESTAMP, WINDOW
from streamkit.plan.operators.aggregate import Aggregate
from streamkit.plan.windows import Windowing
from streamkit.state.layout import layout_of
from streamkit.state.row import encode_rows


def fold_columns(operator: Aggregate, inputs: Sequence[OptionalBatch], context: Context) -> Mapping[str, OperatorResult]:
    """Fold the rows into the store, and return the results that were asked for, by mode."""
    (batch,) = inputs
    results: dict[str, OptionalBatch] = dict.fromkeys(operator.modes)
    updated = Updated.none()
    if batch is not None and batch.num_rows:
        if operator.folded:
            updated = _update(operator, _merge(operator, batch), context)
        elif operator.gives_each:
            rows = _rows_in_windows(operator, batch, context)
            pieces = PieceByPiece.of(operator, rows, context)
            if pieces is None:
                updated, each = _whole(operator, _once_a_window(rows), context)
                results |= each
            elif operator.modes == ("every",) and context.may_give_pieces:
                return {"every": RowsInPieces(_until_kept(operator, pieces, context))}  # which keeps the state behind the last
            else:
                results |= pieces.all_results()
                updated = pieces.updated()
        else:
            updated = _update(operator, _merge(operator, _in_order(operator, batch, context)), context)
    if "latest" in operator.modes and updated.groups is not None:
        results["latest"] = latest_results(operator, updated.groups, context)
    if "final" in operator.modes:
        results["final"] = _close(operator, updated, context)
    keep(operator, updated, context)
    return results


def _in_order(operator: Aggregate, batch: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """The states of rows that came one by one, in canonical order, since that is what the result depends on."""
    rows = _once_a_window(_rows_in_windows(operator, batch, context))
    states = dict(zip(state_names(operator.aggregates), lifted(operator.aggregates, rows), strict=True))
    names = [*operator.key, *([WINDOW] if operator.window else []), TIMESTAMP, KEY_GROUP]
    return rows_of({**{name: rows[name] for name in names}, **states})


def _rows_in_windows(operator: Aggregate, batch: pa.RecordBatch, context: Context) -> RowsInWindows:
    """The rows to aggregate, in canonical order, with their windows."""
    return windows_of(
        operator, operator.window, in_canonical_order(keyed_values(operator.id, operator.key, batch, context)), context
    )


def _once_a_window(rows: RowsInWindows) -> pa.RecordBatch:
    """The rows once for each of their windows, in canonical order."""
    batch = rows.once_a_window(slice(0, rows.rows.num_rows))
    return in_canonical_order(batch) if rows.are_mixed else batch


def _whole(operator: Aggregate, batch: pa.RecordBatch, context: Context) -> tuple[Updated, dict[str, OptionalBatch]]:
    """Fold all rows at once, one by one: the updated groups, and the results by mode."""
    rows = groups_of_rows(operator, batch)
    found = find_groups(operator, rows, context)
    each = each_result(operator, batch, rows, found.before, found.ranks)
    return found.updated(each.newest), each.results


def _until_kept(operator: Aggregate, pieces: PieceByPiece, context: Context) -> Iterator[OptionalBatch]:
    """Every result, piece by piece; behind the last the state is kept."""
    for each in pieces.results():
        yield each["every"]
    keep(operator, pieces.updated(), context)


def _merge(operator: Aggregate, batch: pa.RecordBatch) -> GroupStates:
    """The rows of state that readers and upstream kernels sent, one per group."""
    by = [*operator.key, *([WINDOW] if operator.window else [])]
    names = state_names(operator.aggregates)
    largest, states = [batch[TIMESTAMP], batch[KEY_GROUP]], [batch[name] for name in names]
    keys, (timestamps, key_groups, *folded) = fold([batch[name] for name in by], largest, operator.aggregates, states)
    windows = as_numbers(keys.pop()) if operator.window else None
    return GroupStates(keys, windows, as_numbers(timestamps), folded, as_numbers(key_groups))


def _update(operator: Aggregate, groups: GroupStates, context: Context) -> Updated:
    """The groups, with their stored state folded in."""
    keys, groups, _ = sorted_groups(operator, groups, context)
    stored = stored_states(operator, keys, groups, context)
    return Updated(keys, _combined(operator, groups, stored), stored.is_valid().to_numpy(zero_copy_only=False))


def _combined(operator: Aggregate, groups: GroupStates, stored: pa.BinaryArray) -> GroupStates:
    if stored.null_count == len(stored):
        return groups
    known = np.flatnonzero(stored.is_valid().to_numpy(zero_copy_only=False))
    timestamps, states = decoded(operator, stored.drop_null())
    indices = np.full(len(stored), -1, np.int64)
    indices[known] = np.arange(len(known))
    nullable = pa.array(indices, mask=indices < 0)
    largest = groups.timestamps.copy()
    largest[known] = np.maximum(largest[known], timestamps)
    combined = combine(operator.aggregates, [old.take(nullable) for old in states], groups.states)
    return replace(groups, timestamps=largest, states=combined)


def _close(operator: Aggregate, updated: Updated, context: Context) -> pa.RecordBatch | None:
    """The results of the windows that close in this epoch, from the store and this epoch's updates."""
    assert operator.window is not None
    closed = _closed_groups(operator, operator.window, updated, context)
    if closed is None:
        return None
    assert closed.windows is not None
    place = places_of_final(operator, operator.window.closes_at(closed.windows), closed.windows, closed.keys, context)
    return in_canonical_order(rows_of_results(operator, closed, place))


def keep(operator: Aggregate, updated: Updated, context: Context) -> None:
    """Write the updated groups to the changelog; those whose retention ends in this epoch are deleted, or not written."""
    keys, values, timestamps, was_stored = updated.keys, pa.array([], pa.binary()), np.empty(0, np.int64), updated.was_stored
    if updated.groups is not None:
        timestamps = updated.groups.timestamps
        _check_not_ahead(operator, updated.groups, context)
        values = encode_rows([pa.array(timestamps, pa.int64()), *updated.groups.states])
    retention = context.store(operator.store).retention_ms
    if operator.window and retention is not None:
        windows = updated.groups.windows if updated.groups is not None else None
        keys, values, timestamps, was_stored = expired(
            operator, operator.window, retention, windows, (keys, values, timestamps, was_stored), context
        )
    context.change(operator.store, keys, values, timestamps, was_stored)


def _check_not_ahead(operator: Aggregate, groups: GroupStates, context: Context) -> None:
    """No group's window begins after the epoch's stream time: `stored_states` relies on it."""
    if operator.window is not None and groups.windows is not None and not operator.window.may_lead:
        now = context.stream_time(operator.window)[1]
        assert (operator.window.bounds(groups.windows)[0] <= now).all(), "a window began after the stream time of its epoch"


def _closed_groups(operator: Aggregate, window: Windowing, updated: Updated, context: Context) -> GroupStates | None:
    """The groups, stored or updated, whose windows close in this epoch."""
    keys, values = context.committed_state().scan(ranges_closed(operator.store, window, context))
    groups = updated.groups
    if groups is not None and groups.windows is not None:
        groups = groups.take(np.flatnonzero(window.are_closed(groups.windows, context.stream_time(window)[1])))
        if len(keys):
            untouched = pc.invert(pc.is_in(keys, value_set=updated.keys))
            keys, values = keys.filter(untouched), values.filter(untouched)
    stored = _stored_groups(operator, keys, values, context) if len(keys) else None
    both = [one for one in (stored, groups) if one is not None and len(one.timestamps)]
    return _concatenated(both) if both else None


def _stored_groups(operator: Aggregate, keys: pa.BinaryArray, values: pa.BinaryArray, context: Context) -> GroupStates:
    types = [column.type for column in context.store(operator.store).key]
    key_groups, (windows, *_), columns = layout_of(context.store(operator.store)).split(keys, types)
    timestamps, states = decoded(operator, values)
    return GroupStates(columns, windows, timestamps, states, key_groups)


def _concatenated(groups: Sequence[GroupStates]) -> GroupStates:
    if len(groups) == 1:
        return groups[0]
    first, second = groups
    assert first.windows is not None
    assert second.windows is not None
    return GroupStates(
        [pa.concat_arrays([a, b.cast(a.type)]) for a, b in zip(first.keys, second.keys, strict=True)],
        np.concatenate([first.windows, second.windows]),
        np.concatenate([first.timestamps, second.timestamps]),
        [pa.concat_arrays([a, b.cast(a.type)]) for a, b in zip(first.states, second.states, strict=True)],
        np.concatenate([first.key_groups, second.key_groups]),
    )


def latest_results(operator: Aggregate, groups: GroupStates, context: Context) -> pa.RecordBatch:
    """
    Newest results stand at the end of the epoch, in the order of their windows and keys.

    Which of them there are depends on the cut. So a value that does not fit its type is null and counted, while the other
    emissions fail. If this one failed too, the cut would decide whether a sum that leaves its range and comes back fails.
    """
    place = places_of_newest(operator, groups.windows, groups.keys, context)
    finish = null_on_overflow(operator.id, context)
    return rows_of_results(operator, groups, {**place, DELETED: pa.array(np.zeros(len(groups.timestamps), bool))}, finish)
