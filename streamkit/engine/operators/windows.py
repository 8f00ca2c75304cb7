"""The windows that each row falls into."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamkit.engine.context import Context
from streamkit.engine.rows import concatenate, numbers, with_columns, without_null_keys
from streamkit.names import ORDER, SUBINDEX, TIMESTAMP, WINDOW
from streamkit.plan.program import Windows


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
