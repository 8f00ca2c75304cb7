"""The windows that each row falls into."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamkit.engine.context import Context
from streamkit.engine.operators.aggregate import fold_rows
from streamkit.engine.rows import concatenate, numbers, with_columns, without_null_keys
from streamkit.names import ORDER, SUBINDEX, TIMESTAMP, WINDOW
from streamkit.plan.program import Fold, Windows

WINDOW_ROWS = 1_000_000  # that one batch of a reader may become in its windows
FOLD_ROWS = 4_000_000  # that are folded together


def assign_windows(operator: Windows, batch: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """
    Each row once per window it falls into and that is still open at the row's place in the order.

    A window [start, start + size) has closed once stream time reaches its end plus grace; stream time at a row is its order
    key (Kafka: `end <= stream time - grace`, decided per window, after the row itself has moved the time).
    """
    batch, dropped = without_null_keys(batch, operator.key)
    context.count("null_key", operator.id, dropped)
    timestamps, order = numbers(batch, TIMESTAMP), numbers(batch, ORDER)
    newest = timestamps // operator.advance_ms * operator.advance_ms
    pieces = [_in_window(operator, batch, timestamps, order, newest, back, context) for back in range(operator.per_record)]
    return concatenate(pieces)


def fold_windows(operator: Windows, fold: Fold, batch: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """The rows of a kernel in their windows and folded, in parts; the next kernel puts the parts together."""
    rows_max = max(1, FOLD_ROWS // operator.per_record)
    parts = [batch.slice(first, rows_max) for first in range(0, max(1, batch.num_rows), rows_max)]
    return concatenate([fold_rows(fold, assign_windows(operator, part, context), context) for part in parts])


def _in_window(
    operator: Windows,
    batch: pa.RecordBatch,
    timestamps: np.ndarray[tuple[int], np.dtype[np.int64]],
    order: np.ndarray[tuple[int], np.dtype[np.int64]],
    newest: np.ndarray[tuple[int], np.dtype[np.int64]],
    back: int,
    context: Context,
) -> pa.RecordBatch:
    """The rows with the window that starts `back` advances before the newest one that holds them."""
    start = newest - back * operator.advance_ms
    inside = (timestamps < start + operator.size_ms) & ((start >= 0) | (timestamps < 0))
    closed = start + (operator.size_ms + operator.grace_ms) <= order
    context.count("late", operator.id, int((inside & closed).sum()))
    kept = inside & ~closed
    columns = {WINDOW: pa.array(start)}
    if operator.advance_ms < operator.size_ms and SUBINDEX in batch.schema.names:
        rank = operator.per_record - 1 - back
        columns[SUBINDEX] = pa.array(numbers(batch, SUBINDEX) * operator.per_record + rank, pa.int32())
    rows = with_columns(batch, columns)
    return rows if kept.all() else rows.filter(pa.array(kept))
