"""
The windows that rows fall into.

A window [start, start + size) has closed once stream time reaches its end plus grace. Stream time at a row is the larger of
its own order key and what the operator's inputs had committed (law 11); a final result counts with the moment it was due.
Kafka: `end <= stream time - grace`, decided per window, after the row itself has moved the time.

As in Kafka no window crosses 1970-01-01T00:00Z: a hopping window that would begin before and end after it does not exist.
"""

from __future__ import annotations

from math import gcd

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamkit.engine.advance import stream_times
from streamkit.engine.context import Context
from streamkit.engine.place import extended
from streamkit.engine.rows import numbers, repeated, with_columns
from streamkit.names import INPUT, PATH, TIMESTAMP, WINDOW
from streamkit.plan.operator import Operator
from streamkit.plan.windows import Windowing

Numbers = npt.NDArray[np.int64]


def assign_windows(operator: Operator, window: Windowing, batch: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """
    Each row once for every window that holds it and is still open at the row's place; `_window` has the window's start.

    The windows of a row follow each other, the oldest first. So rows that were in canonical order still are, unless two had one place.
    """
    timestamps, reached = numbers(batch, TIMESTAMP), stream_times(operator, window, batch, context)
    oldest, newest = _windows_that_hold(window, timestamps)
    still_open = np.maximum(oldest, _first_after(window, reached - (window.size_ms + window.grace_ms)))
    held, taken = _windows_between(window, oldest, newest), _windows_between(window, still_open, newest)
    context.count("late", operator.id, int(held.sum() - taken.sum()))
    context.count("before_1970", operator.id, int(np.count_nonzero(held == 0)))
    if window.per_record == 1:
        is_taken = taken == 1
        rows, starts = (batch, newest) if is_taken.all() else (batch.filter(pa.array(is_taken)), newest[is_taken])
        return with_columns(rows, {WINDOW: pa.array(starts)})
    turns = np.arange(taken.sum()) - np.repeat(np.cumsum(taken) - taken, taken)
    starts = np.repeat(still_open, taken) + turns * window.advance_ms
    rows = repeated(batch, taken)
    path = {PATH: extended(rows, starts)} if INPUT in batch.schema.names else {}
    return with_columns(rows, {WINDOW: pa.array(starts), **path})


def _windows_that_hold(window: Windowing, timestamps: Numbers) -> tuple[Numbers, Numbers]:
    """The starts of the oldest and the newest window that hold each time; the newest is before the oldest if there is none."""
    oldest = _first_after(window, timestamps - window.size_ms)
    newest = timestamps // window.advance_ms * window.advance_ms
    ended = -window.size_ms // window.advance_ms * window.advance_ms  # the last window that ends by 1970
    is_before = timestamps < 0
    return np.where(is_before, oldest, np.maximum(oldest, 0)), np.where(is_before, np.minimum(newest, ended), newest)


def _first_after(window: Windowing, times: Numbers) -> Numbers:
    """The start of the first window that begins after each time."""
    starts: Numbers = (times // window.advance_ms + 1) * window.advance_ms
    return starts


def _windows_between(window: Windowing, oldest: Numbers, newest: Numbers) -> Numbers:
    counts: Numbers = np.maximum((newest - oldest) // window.advance_ms + 1, 0)
    return counts


def holds(window: Windowing, start: Numbers, timestamps: Numbers) -> npt.NDArray[np.bool_]:
    """Whether the window at `start`, which is not after the time, holds it; none crosses 1970."""
    end = start + window.size_ms
    return (timestamps < end) & ((start >= 0) | (end <= 0))


def since_1970(operator_id: str, batch: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """The rows that sliding windows can hold: none begins before 1970. The others are counted."""
    kept = numbers(batch, TIMESTAMP) >= 0
    context.count("before_1970", operator_id, int((~kept).sum()))
    return batch if kept.all() else batch.filter(pa.array(kept))


def last_windows(window: Windowing, timestamps: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """The start of the last window that holds each time, and whether there is one: before 1970 there may be none."""
    newest = timestamps // window.advance_ms * window.advance_ms
    ended = -window.size_ms // window.advance_ms * window.advance_ms  # the last window that ends by 1970
    starts = np.where(holds(window, newest, timestamps), newest, np.minimum(newest, ended))
    return starts, holds(window, starts, timestamps)


def pane_ms(window: Windowing) -> int:
    """The longest stretch of time whose rows all fall into the same windows."""
    return gcd(window.size_ms, window.advance_ms)


def is_open_in_all(operator: Operator, window: Windowing, batch: pa.RecordBatch, context: Context) -> npt.NDArray[np.bool_]:
    """Whether every window that holds a row is open at the row's place."""
    timestamps = numbers(batch, TIMESTAMP)
    oldest = (timestamps - window.size_ms) // window.advance_ms * window.advance_ms + window.advance_ms
    return oldest + (window.size_ms + window.grace_ms) > stream_times(operator, window, batch, context)
