"""
Aggregation by users' functions: a call for each record, in canonical order, and the three emissions.

The rules are Kafka Streams': a state begins with the initial value, or with the first value of a reduction. A function that gives
None deletes it, and the next record starts again. A result has the larger of the event times of record and state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.engine.folding.changes import previous_of_code, with_old_values
from streamkit.engine.folding.sequential import Functions, GroupCodes, State, StateRows, fold, is_deleted, timestamps_of
from streamkit.engine.folding.window_results import bounds
from streamkit.engine.folding.windows import assign_windows, ends_of_windows
from streamkit.engine.operators.aggregate import expired, ranges_closed
from streamkit.engine.rows.place import as_they_come, at_epoch_end, canonical_order, in_canonical_order, paths_of, place_columns
from streamkit.engine.rows.rows import (
    OptionalBatch,
    concatenate,
    deletions_of,
    numbers,
    own_columns,
    rows_of,
    without_deletions,
    without_null_keys,
)
from streamkit.engine.stage.advance import final_place
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.expressions.core.groups import one_of_equals
from streamkit.log.values.python_values import python_values
from streamkit.names import DELETED, KEY_GROUP, PATH, TIMESTAMP, WINDOW
from streamkit.plan.demands import WITH_OLD_VALUES
from streamkit.plan.operators.function_aggregate import FunctionAggregate
from streamkit.plan.program import ProgramStore
from streamkit.state.layout import layout_of


@kernel(FunctionAggregate, runs_empty=True)
def function_aggregate(
    operator: FunctionAggregate, inputs: Sequence[OptionalBatch], context: Context
) -> Mapping[str, OptionalBatch]:
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
class ArrivedRows:
    """
    The rows of all inputs in canonical order: the columns of their groups and their places.

    `inputs` and `rows` say from which input each comes, and which row of `batches` it is there.
    """

    groups: pa.RecordBatch
    batches: Sequence[pa.RecordBatch]
    inputs: Integers
    rows: Integers

    def record(self, row: int) -> pa.RecordBatch:
        """A row as it came."""
        return self.batches[self.inputs[row]].slice(self.rows[row], 1)


@dataclass(frozen=True, eq=False)
class Folded:
    """The state after each row, and the groups: their columns, what was stored of them, and their states at the end."""

    after: list[State]
    codes: GroupCodes
    groups: pa.RecordBatch
    stored: list[State | None]
    was_stored: Mask
    states: list[State]


def arrived_rows(operator: FunctionAggregate, inputs: Sequence[OptionalBatch], context: Context) -> ArrivedRows | None:
    """The rows that fall into groups; None if there are none."""
    batches = [
        pa.RecordBatch.from_pydict({}) if batch is None else _grouped(operator, number, batch, context)
        for number, batch in enumerate(as_they_come(inputs, context.turn(operator.id)))
    ]
    places = [place for place, batch in enumerate(batches) if batch.num_rows]
    if not places:
        return None
    groups = concatenate([_group_columns(operator, operator.keys[place], batches[place]) for place in places])
    origins = np.concatenate([np.full(batches[place].num_rows, place) for place in places])
    rows = np.concatenate([np.arange(batches[place].num_rows) for place in places])
    order = canonical_order(groups)
    return ArrivedRows(groups.take(pa.array(order)), batches, origins[order], rows[order])


def _grouped(operator: FunctionAggregate, number: int, batch: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """The rows of one input that have a group and a value, in each of their windows; what is left out is counted."""
    batch, dropped = without_null_keys(batch, operator.keys[number])
    context.count("null_key", operator.id, dropped)
    if not operator.takes_tombstones:
        batch, deletions = without_deletions(batch)
        context.count("deletion", operator.id, deletions)
    return batch if operator.assigned is None else assign_windows(operator, operator.assigned, batch, context)


def _group_columns(operator: FunctionAggregate, key: Sequence[str], batch: pa.RecordBatch) -> pa.RecordBatch:
    """What the groups of rows are, under the names of the result, and where the rows stand."""
    columns = {name: one_of_equals(batch[own]) for name, own in zip(operator.key, key, strict=True)}
    record = {name: batch[name] for name in (TIMESTAMP, KEY_GROUP, WINDOW) if name in batch.schema.names}
    return rows_of({**columns, **record, **place_columns(batch)})


def _folded(operator: FunctionAggregate, arrived: ArrivedRows, context: Context) -> Folded:
    store, groups = context.store(operator.store), arrived.groups
    codes = GroupCodes.of(_state_keys(operator, groups, context))
    stored = StateRows(store.value).decode(context.committed_state().get(codes.keys))
    before = list(stored)
    was_stored = np.array([state is not None for state in stored], bool)
    functions = Functions(store.value, operator.initial, operator.updates, operator.merge)
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


def _state_keys(operator: FunctionAggregate, groups: pa.RecordBatch, context: Context) -> pa.BinaryArray:
    times = (numbers(groups, WINDOW),) if operator.window is not None else ()
    columns = [groups[name] for name in operator.key]
    layout = layout_of(context.store(operator.store))
    return layout.keys(context.store_number(operator.store), numbers(groups, KEY_GROUP), columns, times)


def values_of(operator: FunctionAggregate, store: ProgramStore, arrived: ArrivedRows) -> Callable[[int], dict[str, Any] | None]:
    """What the functions are given of a row: a reduction its value columns or None, others all columns or, of a tombstone, those of the key."""
    columns = []
    for batch in arrived.batches:
        names = store.value.names if operator.initial is None and batch.num_rows else own_columns(batch)
        columns.append({name: python_values(batch[name]) for name in names})
    is_tombstone = [deletions_of(batch).tolist() for batch in arrived.batches]
    keys = [None if operator.initial is None else frozenset(key) for key in operator.keys]
    origins, rows = arrived.inputs.tolist(), arrived.rows.tolist()

    def value(number: int) -> dict[str, Any] | None:
        origin, row = origins[number], rows[number]
        if not is_tombstone[origin][row]:
            return {name: column[row] for name, column in columns[origin].items()}
        key = keys[origin]
        return None if key is None else {name: column[row] for name, column in columns[origin].items() if name in key}

    return value


def _every(operator: FunctionAggregate, arrived: ArrivedRows, folded: Folded, context: Context) -> pa.RecordBatch:
    """The result after each row, at the place of the row."""
    return _results(operator, arrived.groups, folded.after, place_columns(arrived.groups), context)


def _with_old_values(operator: FunctionAggregate, arrived: ArrivedRows, folded: Folded, context: Context) -> pa.RecordBatch:
    """Each result as two rows: the result of its group before it, then itself."""
    previous, codes = previous_of_code(folded.codes.codes).tolist(), folded.codes.codes.tolist()
    found = [folded.after[row] if row >= 0 else folded.stored[code] for row, code in zip(previous, codes, strict=True)]
    before = [state or State(0, None) for state in found]
    replaced = np.where([state.value is None for state in before], -1, np.arange(len(before)))
    values = StateRows(context.store(operator.store).value).arrays(before)
    return with_old_values(_every(operator, arrived, folded, context), values, replaced)


def _latest(operator: FunctionAggregate, folded: Folded, context: Context) -> pa.RecordBatch:
    """The newest results, at the end of the epoch, in the order of their windows and keys."""
    windows = numbers(folded.groups, WINDOW) if operator.window is not None else None
    paths = paths_of(None, windows, [folded.groups[name] for name in operator.key])
    place = at_epoch_end(context.plan.end.order, context.number(operator.id), paths)
    return _results(operator, folded.groups, folded.states, place, context)


def _final(operator: FunctionAggregate, folded: Folded | None, context: Context) -> pa.RecordBatch | None:
    """The results of the windows that close in this epoch, from the store and from this epoch's states."""
    window = operator.window
    assert window is not None
    keys, values = context.committed_state().scan(ranges_closed(operator.store, window, context))
    parts: list[tuple[pa.RecordBatch, list[State]]] = []
    if folded is not None:
        keep = pc.invert(pc.is_in(keys, value_set=folded.codes.keys))
        keys, values = keys.filter(keep), values.filter(keep)
        closing = ends_of_windows(window, numbers(folded.groups, WINDOW)) + window.grace_ms <= context.stream_time(window)[1]
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
    place = final_place(operator, ends_of_windows(window, windows) + window.grace_ms, context.advances())
    paths = paths_of(context.turn(operator.id).own, windows, [groups[name] for name in operator.key])
    return in_canonical_order(_results(operator, groups, states, {**place, PATH: paths}, context).drop_columns([DELETED]))


def _stored_groups(operator: FunctionAggregate, keys: pa.BinaryArray, context: Context) -> pa.RecordBatch:
    """The columns of the groups behind state keys."""
    store = context.store(operator.store)
    key_groups, (windows,), columns = layout_of(store).split(keys, [column.type for column in store.key])
    record = {WINDOW: pa.array(windows, pa.int64()), KEY_GROUP: pa.array(key_groups, pa.int32())}
    return rows_of({**dict(zip(operator.key, columns, strict=True)), **record})


def _results(
    operator: FunctionAggregate, groups: pa.RecordBatch, states: Sequence[State], place: dict[str, pa.Array], context: Context
) -> pa.RecordBatch:
    """Result rows: key columns, window bounds, the columns of the states, and record columns."""
    columns: dict[str, pa.Array] = {name: groups[name] for name in operator.key}
    if operator.window is not None:
        starts = numbers(groups, WINDOW)
        columns |= bounds(starts, ends_of_windows(operator.window, starts))
    columns |= StateRows(context.store(operator.store).value).arrays(states)
    record = {TIMESTAMP: timestamps_of(states), DELETED: is_deleted(states), KEY_GROUP: groups[KEY_GROUP]}
    return rows_of({**columns, **record, **place})


def _keep(operator: FunctionAggregate, folded: Folded | None, context: Context) -> None:
    """Write the states to the changelog; those whose retention ends in this epoch are deleted, or not written."""
    store = context.store(operator.store)
    keys, values, timestamps = pa.array([], pa.binary()), pa.array([], pa.binary()), np.empty(0, np.int64)
    starts = None
    if folded is not None:
        values = StateRows(store.value).encode(folded.states)
        written = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False) | folded.was_stored)
        keys, values = folded.codes.keys.take(pa.array(written)), values.take(pa.array(written))
        timestamps = timestamps_of(folded.states).to_numpy()[written]
        starts = numbers(folded.groups, WINDOW)[written] if operator.window is not None else None
    if operator.window is not None and store.retention_ms is not None:
        keys, values, timestamps = expired(
            operator, operator.window, store.retention_ms, starts, keys, values, timestamps, context
        )
    context.change(operator.store, keys, values, timestamps)
