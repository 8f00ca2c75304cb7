"""
Table function aggregate: a user's adder puts rows of a table into groups, and a subtractor takes them out.

The rules are Kafka Streams' (KGroupedTable). A row that changes within its group is one update: the old row is taken away, the new one
is added, and one result is given. Nothing is taken from a group that has no state; its result is a deletion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.engine.folding.changes import ADDED, REPLACED, with_old_values
from streamkit.engine.folding.result_places import places_of_newest
from streamkit.engine.folding.sequential import Functions, GroupCodes, NamedValues, State, StateRows, is_deleted, timestamps_of
from streamkit.engine.folding.undoing import left_over, warn_of
from streamkit.engine.rows.place import in_canonical_order, place_columns
from streamkit.engine.rows.rows import OptionalBatch, numbers, own_columns, rows_of
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.errors import EvaluationError
from streamkit.expressions.python.python_functions import calls_twice, function_of
from streamkit.log.values.python_values import python_values
from streamkit.names import CHANGE, DELETED, KEY_GROUP, TIMESTAMP
from streamkit.plan.demands import WITH_OLD_VALUES
from streamkit.plan.operators.table_function_aggregate import TableFunctionAggregate
from streamkit.state.layout import layout_of

ADDER, SUBTRACTOR = 0, 1


@dataclass(frozen=True, eq=False)
class Results:
    """
    Results in order: the rows that gave them, and the states of their groups before (None: there was none) and after.

    `left_over` has the columns that rows change which are added and taken away again, where that is looked at.
    """

    rows: list[int]
    before: list[State | None]
    after: list[State]
    left_over: dict[str, None]


@kernel(TableFunctionAggregate)
def table_function_aggregate(
    operator: TableFunctionAggregate, inputs: Sequence[OptionalBatch], context: Context
) -> Mapping[str, OptionalBatch]:
    """Call the functions with the rows, in canonical order; the results that were asked for, by mode."""
    (batch,) = inputs
    assert batch is not None
    batch, store = in_canonical_order(batch), context.store(operator.store)
    states = StateRows(store.value)
    key = [batch[name] for name in operator.key]
    keys = layout_of(store).keys(context.store_number(store.name), numbers(batch, KEY_GROUP), key)
    codes = GroupCodes.of(keys)
    stored = states.decode(context.committed_state().get(codes.keys))
    current = list(stored)
    functions = Functions.of(operator.functions, store.value)
    results = _updated(operator, batch, codes.codes, current, functions)
    if results.left_over:
        warn_of(
            context.program, operator.id, [function_of(one).name for one in operator.functions.updates], list(results.left_over)
        )
    newest = [state for state in current if state is not None]
    _keep(operator, codes, stored, newest, states, context)
    groups = batch.take(pa.array(codes.last))
    place = places_of_newest(operator, None, [groups[name] for name in operator.key], context)
    changed = batch.take(pa.array(results.rows, pa.int64()))
    every = _rows(operator, changed, results.after, states, place_columns(changed))
    ports: dict[str, OptionalBatch] = {"every": every, "latest": _rows(operator, groups, newest, states, place)}
    if WITH_OLD_VALUES in operator.modes:
        before = [state or State(0, None) for state in results.before]
        replaced = np.where([state.value is None for state in before], -1, np.arange(len(before)))
        ports[WITH_OLD_VALUES] = with_old_values(every, states.arrays(before), replaced)
    return {mode: rows for mode, rows in ports.items() if mode in operator.modes}


def _updated(
    operator: TableFunctionAggregate,
    batch: pa.RecordBatch,
    codes: Integers,
    current: list[State | None],
    functions: Functions,
) -> Results:
    """Take rows away and add rows, one by one; `current` has the state of each group, and is brought up to date."""
    value, results = _values(operator, batch), Results([], [], [], {})
    whole: State | None = None  # what a group had before the row that is replaced was taken away
    is_checked = calls_twice()
    changes, timestamps = numbers(batch, CHANGE).tolist(), numbers(batch, TIMESTAMP).tolist()
    for row, (code, change, timestamp) in enumerate(zip(codes.tolist(), changes, timestamps, strict=True)):
        taken = current[code]
        before = taken if whole is None else whole
        try:
            state_before = None if taken is None else taken.value
            after = _changed(functions, state_before, value(row), change)
            if change == ADDED and is_checked:
                results.left_over.update(dict.fromkeys(left_over(functions, state_before, after, value(row), SUBTRACTOR)))
        except EvaluationError as error:
            error.row = batch.slice(row, 1)
            raise
        if before is not None and before.value is not None:
            timestamp = max(timestamp, before.timestamp)
        current[code] = state = State(timestamp, after)
        whole = before if change == REPLACED else None
        if change != REPLACED:
            results.rows.append(row)
            results.before.append(before)
            results.after.append(state)
    return results


def _changed(functions: Functions, state: NamedValues | None, row: dict[str, Any], change: int) -> NamedValues | None:
    """The state after a row is added or taken away."""
    if change == ADDED:
        return functions.update(state, row, ADDER)
    return None if state is None else functions.update(state, row, SUBTRACTOR)


def _values(operator: TableFunctionAggregate, batch: pa.RecordBatch) -> Callable[[int], dict[str, Any]]:
    """What the functions are given of a row: a reduction all columns but those of the group, others all."""
    left_out = operator.key if operator.functions.initial is None else ()
    columns = {name: python_values(batch[name]) for name in own_columns(batch) if name not in left_out}
    return lambda row: {name: column[row] for name, column in columns.items()}


def _rows(
    operator: TableFunctionAggregate,
    groups: pa.RecordBatch,
    after: Sequence[State],
    states: StateRows,
    place: Mapping[str, pa.Array],
) -> pa.RecordBatch:
    """Result rows: the key of each group, the columns of its state, and record columns."""
    key = {name: groups[name] for name in operator.key}
    record = {TIMESTAMP: timestamps_of(after), DELETED: is_deleted(after), KEY_GROUP: groups[KEY_GROUP]}
    return rows_of({**key, **states.arrays(after), **record, **place})


def _keep(
    operator: TableFunctionAggregate,
    codes: GroupCodes,
    stored: Sequence[State | None],
    newest: Sequence[State],
    states: StateRows,
    context: Context,
) -> None:
    """Write the newest states to the changelog, those too that are deleted; what was never stored needs no deletion."""
    written = [place for place, state in enumerate(newest) if state.value is not None or stored[place] is not None]
    wanted = pa.array(written, pa.int64())
    timestamps = timestamps_of(newest).to_numpy()
    was_stored = np.array([stored[place] is not None for place in written], bool)
    context.change(operator.store, codes.keys.take(wanted), states.encode(newest).take(wanted), timestamps[written], was_stored)
