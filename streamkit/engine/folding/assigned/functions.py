"""
Aggregation by users' functions: a call for each record, in canonical order, and the three emissions.

The rules are Kafka Streams': a state begins with the initial value, or with the first value of a reduction. A function that gives
None deletes it, and the next record starts again. A result has the larger of the event times of record and state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Mask
from streamkit.engine.folding.arrived_rows import ArrivedRows, arrived_rows, values_of
from streamkit.engine.folding.changes import previous_of_code, with_old_values
from streamkit.engine.folding.result_places import places_of_final, places_of_newest
from streamkit.engine.folding.sequential import Functions, GroupCodes, State, StateRows, fold, is_deleted, timestamps_of
from streamkit.engine.folding.stored_windows import expired, ranges_closed
from streamkit.engine.folding.window_results import bounds
from streamkit.engine.rows.place import in_canonical_order, place_columns
from streamkit.engine.rows.rows import OptionalBatch, concatenate, numbers, rows_of
from streamkit.engine.stage.context import Context
from streamkit.names import DELETED, KEY_GROUP, TIMESTAMP, WINDOW
from streamkit.plan.demands import WITH_OLD_VALUES
from streamkit.plan.operators.aggregate import Aggregate
from streamkit.state.layout import layout_of


def fold_functions(operator: Aggregate, inputs: Sequence[OptionalBatch], context: Context) -> Mapping[str, OptionalBatch]:
    """Call the functions with the rows, and return the results that were asked for, by mode."""
    results: dict[str, OptionalBatch] = dict.fromkeys(operator.modes)
    arrived = arrived_rows(operator, inputs, context)
    folded = None if arrived is None else _folded(operator, arrived, context)
    if arrived is not None and folded is not None:
        if "every" in operator.modes:
            results["every"] = _every(operator, arrived, folded, context)
        if WITH_OLD_VALUES in operator.modes:
            results[WITH_OLD_VALUES] = _with_old_values(operator, arrived, folded, context)
        if "latest" in operator.modes:
            results["latest"] = _latest(operator, folded, context)
    if "final" in operator.modes:
        results["final"] = _final(operator, folded, context)
    _keep(operator, folded, context)
    return results


@dataclass(frozen=True, eq=False)
class Folded:
    """The state after each row, and the groups: their columns, what was stored of them, and their states at the end."""

    after: list[State]
    codes: GroupCodes
    groups: pa.RecordBatch
    stored: list[State | None]
    was_stored: Mask
    states: list[State]


def _folded(operator: Aggregate, arrived: ArrivedRows, context: Context) -> Folded:
    store, groups = context.store(operator.store), arrived.groups
    codes = GroupCodes.of(_state_keys(operator, groups, context))
    stored = StateRows(store.value).decode(context.committed_state().get(codes.keys))
    before = list(stored)
    was_stored = np.array([state is not None for state in stored], bool)
    functions = Functions.of(operator.functions, store.value)
    origins, values = arrived.inputs.tolist(), values_of(operator, store, arrived)
    after = fold(
        stored,
        codes.codes,
        numbers(groups, TIMESTAMP),
        lambda state, row: functions.update(state, values(row), origins[row]),
        arrived.record,
    )
    states = [state for state in stored if state is not None]
    return Folded(after, codes, groups.take(pa.array(codes.last)), before, was_stored, states)


def _state_keys(operator: Aggregate, groups: pa.RecordBatch, context: Context) -> pa.BinaryArray:
    layout = layout_of(context.store(operator.store))
    times = () if operator.window is None else layout.window_times(*operator.window.bounds(numbers(groups, WINDOW)))
    columns = [groups[name] for name in operator.key]
    return layout.keys(context.store_number(operator.store), numbers(groups, KEY_GROUP), columns, times)


def _every(operator: Aggregate, arrived: ArrivedRows, folded: Folded, context: Context) -> pa.RecordBatch:
    """The result after each row, at the place of the row."""
    return _results(operator, arrived.groups, folded.after, place_columns(arrived.groups), context)


def _with_old_values(operator: Aggregate, arrived: ArrivedRows, folded: Folded, context: Context) -> pa.RecordBatch:
    """Each result as two rows: the result of its group before it, then itself."""
    previous, codes = previous_of_code(folded.codes.codes).tolist(), folded.codes.codes.tolist()
    found = [folded.after[row] if row >= 0 else folded.stored[code] for row, code in zip(previous, codes, strict=True)]
    before = [state or State(0, None) for state in found]
    replaced = np.where([state.value is None for state in before], -1, np.arange(len(before)))
    values = StateRows(context.store(operator.store).value).arrays(before)
    return with_old_values(_every(operator, arrived, folded, context), values, replaced)


def _latest(operator: Aggregate, folded: Folded, context: Context) -> pa.RecordBatch:
    """The newest results, at the end of the epoch, in the order of their windows and keys."""
    windows = numbers(folded.groups, WINDOW) if operator.window is not None else None
    place = places_of_newest(operator, windows, [folded.groups[name] for name in operator.key], context)
    return _results(operator, folded.groups, folded.states, place, context)


def _final(operator: Aggregate, folded: Folded | None, context: Context) -> pa.RecordBatch | None:
    """The results of the windows that close in this epoch, from the store and from this epoch's states."""
    window = operator.window
    assert window is not None
    keys, values = context.committed_state().scan(ranges_closed(operator.store, window, context))
    parts: list[tuple[pa.RecordBatch, list[State]]] = []
    if folded is not None:
        keep = pc.invert(pc.is_in(keys, value_set=folded.codes.keys))
        keys, values = keys.filter(keep), values.filter(keep)
        closing = window.are_closed(numbers(folded.groups, WINDOW), context.stream_time(window)[1])
        here = [place for place in np.flatnonzero(closing).tolist() if folded.states[place].value is not None]
        names = [*operator.key, WINDOW, KEY_GROUP]
        parts.append((folded.groups.select(names).take(pa.array(here, pa.int64())), [folded.states[place] for place in here]))
    if len(keys):
        stored = StateRows(context.store(operator.store).value).decode(values)
        parts.append((_stored_groups(operator, keys, context), [state for state in stored if state is not None]))
    parts = [part for part in parts if part[1]]
    if not parts:
        return None
    groups, states = concatenate([part[0] for part in parts]), [state for part in parts for state in part[1]]
    windows = numbers(groups, WINDOW)
    due, keys = window.closes_at(windows), [groups[name] for name in operator.key]
    place = places_of_final(operator, due, windows, keys, context)
    return in_canonical_order(_results(operator, groups, states, place, context).drop_columns([DELETED]))


def _stored_groups(operator: Aggregate, keys: pa.BinaryArray, context: Context) -> pa.RecordBatch:
    """The columns of the groups behind state keys."""
    store = context.store(operator.store)
    key_groups, (windows, *_), columns = layout_of(store).split(keys, [column.type for column in store.key])
    record = {WINDOW: pa.array(windows, pa.int64()), KEY_GROUP: pa.array(key_groups, pa.int32())}
    return rows_of({**dict(zip(operator.key, columns, strict=True)), **record})


def _results(
    operator: Aggregate, groups: pa.RecordBatch, states: Sequence[State], place: dict[str, pa.Array], context: Context
) -> pa.RecordBatch:
    """Result rows: key columns, window bounds, the columns of the states, and record columns."""
    columns: dict[str, pa.Array] = {name: groups[name] for name in operator.key}
    if operator.window is not None:
        columns |= bounds(*operator.window.bounds(numbers(groups, WINDOW)))
    columns |= StateRows(context.store(operator.store).value).arrays(states)
    record = {TIMESTAMP: timestamps_of(states), DELETED: is_deleted(states), KEY_GROUP: groups[KEY_GROUP]}
    return rows_of({**columns, **record, **place})


def _keep(operator: Aggregate, folded: Folded | None, context: Context) -> None:
    """Write the states to the changelog; those whose retention ends in this epoch are deleted, or not written."""
    store = context.store(operator.store)
    keys, values, timestamps = pa.array([], pa.binary()), pa.array([], pa.binary()), np.empty(0, np.int64)
    windows, was_stored = None, np.empty(0, bool)
    if folded is not None:
        values = StateRows(store.value).encode(folded.states)
        written = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False) | folded.was_stored)
        keys, values = folded.codes.keys.take(pa.array(written)), values.take(pa.array(written))
        timestamps, was_stored = timestamps_of(folded.states).to_numpy()[written], folded.was_stored[written]
        windows = numbers(folded.groups, WINDOW)[written] if operator.window is not None else None
    if operator.window is not None and store.retention_ms is not None:
        keys, values, timestamps, was_stored = expired(
            operator, operator.window, store.retention_ms, windows, (keys, values, timestamps, was_stored), context
        )
    context.change(operator.store, keys, values, timestamps, was_stored)
