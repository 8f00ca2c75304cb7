"""Aggregation of sessions by users' functions: a call for each record, and one for each session that a record merges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from streamkit.chunks import one_batch
from streamkit.engine.folding.arrived_rows import ArrivedRows, arrived_rows, values_of
from streamkit.engine.folding.function_windows import (
    FunctionWindowState,
    Given,
    KeyWindow,
    WindowChange,
    blaming,
    changed,
    emitted,
    given_rows,
    keep,
    stream_time_at,
)
from streamkit.engine.folding.sequential import NamedValues, State
from streamkit.engine.folding.session.merged_sessions import OpenSessions
from streamkit.engine.folding.stored_windows import first_open_at
from streamkit.engine.rows.rows import OptionalBatch
from streamkit.engine.stage.advance import moves_time
from streamkit.engine.stage.context import Context
from streamkit.plan.demands import LATE
from streamkit.plan.operators.aggregate import Aggregate


def fold_functions(operator: Aggregate, inputs: Sequence[OptionalBatch], context: Context) -> Mapping[str, OptionalBatch]:
    """Call the functions with the rows, and return the results that were asked for, by mode."""
    epoch = FunctionWindowState(operator, context)
    arrived = arrived_rows(operator, inputs, context)
    made, late = None, None
    if arrived is not None:
        before, _ = epoch.times
        first_open = first_open_at(epoch.windowing, before)
        given = given_rows(epoch, arrived.groups, lambda listed, codes, times: listed.ends >= first_open)
        changes, late_rows = _changes(epoch, arrived, given)
        made = changed(given, changes)
        if LATE in operator.modes and late_rows:
            late = one_batch(pa.Table.from_batches([arrived.record(row) for row in late_rows]))
    keep(epoch, made)
    results = emitted(epoch, made)
    return {**results, LATE: late} if LATE in operator.modes else results


def _changes(epoch: FunctionWindowState, arrived: ArrivedRows, given: Given) -> tuple[list[WindowChange], list[int]]:
    """For each row the deletions of the sessions that it merged, then the session that it made; and the rows that were late."""
    operator, context = epoch.operator, epoch.context
    sessions: list[OpenSessions[NamedValues]] = [OpenSessions(epoch.length_ms) for _ in given.keys.groups]
    for window, state in given.stored.items():
        assert state.value is not None
        sessions[window.key].add(window.start, window.end, state.value)
    moves = np.zeros(len(given.codes), bool)
    if operator.closing is not None and epoch.windowing.grace_ms == 0:
        moves = moves_time(operator, arrived.groups, epoch.times[0], context.advances())
    first_open = epoch.windowing.first_open(stream_time_at(epoch, arrived.groups))
    values, origins = values_of(operator, context.store(operator.store), arrived), arrived.inputs.tolist()
    changes: list[WindowChange] = []
    late: list[int] = []
    rows = zip(given.codes.tolist(), given.times.tolist(), first_open.tolist(), moves.tolist(), strict=True)
    for row, (code, time, own_first_open, moves_it) in enumerate(rows):
        grown = sessions[code].grown(time, own_first_open, moves_it)
        if grown is None:
            late.append(row)
            continue
        merged = [one.session for one in grown.merged]
        value = blaming(arrived.record, row, given.functions.extend, merged, values(row), origins[row])
        if (grown.start, grown.end) != (time, time):
            changes += [WindowChange(row, KeyWindow(code, one.start, one.end), State(one.end, None)) for one in grown.merged]
        sessions[code].replace(grown, value)
        changes.append(WindowChange(row, KeyWindow(code, grown.start, grown.end), State(grown.end, value)))
    context.count("late", operator.id, len(late))
    return changes, late
