"""Aggregation of sliding windows by users' functions: a call for each record and each window that holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from streamkit.arrays import Integers, Mask
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
from streamkit.engine.folding.sliding.slid_windows import OpenWindows
from streamkit.engine.folding.windows import since_1970
from streamkit.engine.rows.rows import OptionalBatch
from streamkit.engine.stage.context import Context
from streamkit.plan.operators.aggregate import Aggregate
from streamkit.state.layout import ListedWindows


def fold_functions(operator: Aggregate, inputs: Sequence[OptionalBatch], context: Context) -> Mapping[str, OptionalBatch]:
    """Call the functions with the rows, and return the results that were asked for, by mode."""
    epoch = FunctionWindowState(operator, context)
    rows = [None if batch is None else since_1970(operator.id, batch, context) for batch in inputs]
    arrived = arrived_rows(operator, rows, context)
    made = None
    if arrived is not None:

        def met(listed: ListedWindows, codes: Integers, times: Integers) -> Mask:
            earliest = np.full(int(codes.max()) + 1, np.iinfo(np.int64).max)
            np.minimum.at(earliest, codes, times)
            found: Mask = listed.starts >= earliest[listed.keys] - 2 * epoch.length_ms
            return found

        given = given_rows(epoch, arrived.groups, met)
        made = changed(given, _changes(epoch, arrived, given))
    keep(epoch, made)
    return emitted(epoch, made)


def _changes(epoch: FunctionWindowState, arrived: ArrivedRows, given: Given) -> list[WindowChange]:
    """For each row the windows that it changed."""
    operator, context = epoch.operator, epoch.context
    values, origins = values_of(operator, context.store(operator.store), arrived), arrived.inputs.tolist()
    codes, changes = given.codes.tolist(), list[WindowChange]()

    def update(row: int, before: NamedValues | None) -> NamedValues | None:
        return blaming(arrived.record, row, given.functions.update, before, values(row), origins[row])

    def note(row: int, start: int, value: NamedValues | None, time: int) -> None:
        changes.append(WindowChange(row, KeyWindow(codes[row], start, start + epoch.length_ms), State(time, value)))

    windows: list[OpenWindows[NamedValues]] = [OpenWindows(epoch.length_ms, update, note) for _ in given.keys.groups]
    for window, state in given.stored.items():
        assert state.value is not None
        windows[window.key].add(window.start, state.value, state.timestamp)
    first_open = epoch.windowing.first_open(stream_time_at(epoch, arrived.groups)).tolist()
    rows = zip(codes, given.times.tolist(), first_open, strict=True)
    late = sum(not windows[code].take(row, time, first) for row, (code, time, first) in enumerate(rows))
    context.count("late", operator.id, late + sum(one.skipped for one in windows))
    return changes
