"""
Fold: rows of a key, and window, become one row of aggregate state.

If a row falls into many windows, rows are first folded by pane, the longest stretch of time whose rows all fall into the same
windows. Then panes are folded into windows. So work and memory grow with the panes, not with rows times windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from streamkit.engine.folding.group_state import keyed_values, lifted, state_names
from streamkit.engine.folding.windows import assign_windows, is_open_in_all
from streamkit.engine.rows.rows import (
    OptionalBatch,
    concatenate,
    numbers,
    rows_of,
    with_columns,
)
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.expressions.aggregates import fold
from streamkit.log.values.byte_order import byte_order
from streamkit.log.values.keys import encode_keys
from streamkit.names import KEY_GROUP, TIMESTAMP, WINDOW
from streamkit.plan.operators.fold import Fold
from streamkit.plan.windows import Windowing

FOLD_ROWS = 4_000_000  # folded together
WINDOW_ROWS = 250_000  # the most rows that rows or panes become at once in their windows
PANES_MIN = 16  # with so many windows a record, panes are folded first; with fewer, folding twice costs more than it saves


@kernel(Fold, gathers=FOLD_ROWS)
def fold_rows(operator: Fold, inputs: Sequence[OptionalBatch], context: Context) -> pa.RecordBatch:
    """One row of state per key (and window): key columns, `_window`, `_timestamp`, state columns, `_key_group` if rows have it."""
    (batch,) = inputs
    assert batch is not None
    batch = keyed_values(operator.id, operator.key, batch, context)
    window = operator.window
    if window is None:
        return _folded(operator, batch, operator.key)
    if window.per_record < PANES_MIN:
        return _folded(operator, assign_windows(operator, window, batch, context), (*operator.key, WINDOW))
    return concatenate(list(_folded_by_pane(operator, window, batch, context)))


def _folded(operator: Fold, batch: pa.RecordBatch, by: tuple[str, ...]) -> pa.RecordBatch:
    return _combined(operator, batch, by, lifted(operator.aggregates, batch))


def _combined(operator: Fold, batch: pa.RecordBatch, by: tuple[str, ...], states: list[pa.Array]) -> pa.RecordBatch:
    largest = [name for name in (TIMESTAMP, KEY_GROUP) if name in batch.schema.names]
    keys, folded = fold([batch[name] for name in by], [batch[name] for name in largest], operator.aggregates, states)
    names = [*largest, *state_names(operator.aggregates)]
    return rows_of({**dict(zip(by, keys, strict=True)), **dict(zip(names, folded, strict=True))})


def _folded_by_pane(operator: Fold, window: Windowing, batch: pa.RecordBatch, context: Context) -> Iterator[pa.RecordBatch]:
    """Fold rows by pane, then panes by window; rows that are late for some of their windows are put into each by itself."""
    by = (*operator.key, WINDOW)
    open_in_all = is_open_in_all(operator, window, batch, context)
    some_late = batch.filter(pa.array(~open_in_all))
    rows_max = max(1, WINDOW_ROWS // window.per_record)
    for part in _parts(some_late, rows_max):
        yield _folded(operator, assign_windows(operator, window, part, context), by)
    on_time = batch.filter(pa.array(open_in_all))
    starts = numbers(on_time, TIMESTAMP) // window.pane_ms * window.pane_ms
    panes = _folded(operator, with_columns(on_time, {WINDOW: pa.array(starts)}), by)
    for part in _parts(_by_key(operator, panes), rows_max):
        yield _windows_of_panes(operator, window, part, by)


def _by_key(operator: Fold, panes: pa.RecordBatch) -> pa.RecordBatch:
    """The panes with those of a key together, so that its windows are made in one part, or two, and are there once or twice."""
    return panes.take(byte_order(encode_keys([panes[name] for name in operator.key]))) if operator.key else panes


def _parts(batch: pa.RecordBatch, rows_max: int) -> list[pa.RecordBatch]:
    return [batch.slice(first, rows_max) for first in range(0, max(1, batch.num_rows), rows_max)]


def _windows_of_panes(operator: Fold, window: Windowing, panes: pa.RecordBatch, by: tuple[str, ...]) -> pa.RecordBatch:
    """Rows of state per pane, folded into all windows that hold the pane."""
    oldest, newest = window.holding(numbers(panes, WINDOW))
    pieces = []
    for back in range(window.per_record):
        start = newest - back * window.apart_ms
        inside = start >= oldest
        piece = panes if inside.all() else panes.filter(pa.array(inside))
        pieces.append(with_columns(piece, {WINDOW: pa.array(start[inside])}))
    rows = concatenate(pieces)
    return _combined(operator, rows, by, [rows[name] for name in state_names(operator.aggregates)])
