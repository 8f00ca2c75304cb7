"""
The windows that rows fall into.

A window [start, start + size) has closed once stream time reaches its end plus grace. Stream time at a row is the larger of
its own order key and what the operator's inputs had committed (law 11); a final result counts with the moment it was due.
Kafka: `end <= stream time - grace`, decided per window, after the row itself has moved the time.

As in Kafka no window crosses 1970-01-01T00:00Z: a hopping window that would begin before and end after it does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import gcd

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers, Mask
from streamkit.engine.rows.place import extended, have_own_records
from streamkit.engine.rows.rows import numbers, repeated, with_columns
from streamkit.engine.stage.advance import stream_times
from streamkit.engine.stage.context import Context
from streamkit.expressions.times.calendar_windows import ends_of, starts_at
from streamkit.names import INPUT, PATH, TIMESTAMP, WINDOW
from streamkit.plan.operator import Operator
from streamkit.plan.program import Number
from streamkit.plan.windows import Windowing

SECOND_MS = 1000


@dataclass(frozen=True, eq=False)
class RowsInWindows:
    """
    Rows with the windows that hold each and are still open at its place: so many from the one at `oldest` on, at every advance.

    Without a window each row stands once, for itself. `number` is that of the operator in paths.
    """

    rows: pa.RecordBatch
    window: Windowing | None
    oldest: Integers
    windows: Integers
    number: Number = 0

    @property
    def advance_ms(self) -> int:
        if self.window is None:
            return 1
        return self.window.advance_ms if self.window.calendar is None else SECOND_MS  # a zone's days begin with a second

    @property
    def total(self) -> int:
        """How many rows they are once a window."""
        return int(self.windows.sum())

    @cached_property
    def are_mixed(self) -> bool:
        """Whether windows of a row stand between those of another in canonical order, as if two rows stand at the place of one record."""
        return self.window is not None and self.window.per_record > 1 and not have_own_records(self.rows)

    def once_a_window(self, rows: slice) -> pa.RecordBatch:
        """
        Some rows, each once for every window; `_window` has the window's start.

        The windows of a row follow each other, the oldest first. So rows that were in canonical order still are, unless two had one place.
        """
        batch = self.rows.slice(rows.start, rows.stop - rows.start)
        if self.window is None:
            return batch
        if self.window.per_record == 1:
            is_taken = self.windows[rows] == 1
            oldest = self.oldest[rows]
            taken = batch if is_taken.all() else batch.filter(pa.array(is_taken))
            return with_columns(taken, {WINDOW: pa.array(oldest[is_taken])})
        windows = self.windows[rows]
        starts = np.repeat(self.oldest[rows], windows) + turns(windows) * self.advance_ms
        batch = repeated(batch, windows)
        path = {PATH: extended(batch, self.number, starts)} if INPUT in batch.schema.names else {}
        return with_columns(batch, {WINDOW: pa.array(starts), **path})

    def in_pieces(self, rows_max: int) -> list[slice]:
        """The rows in pieces, in order, which have about `rows_max` rows once a window; the windows of a row stay together."""
        ends = np.cumsum(self.windows)
        borders = np.searchsorted(ends, np.arange(rows_max, ends[-1] if len(ends) else 0, rows_max), "right")
        borders = np.unique(np.concatenate([[0], borders, [len(ends)]])).tolist()
        return [slice(start, end) for start, end in pairwise(borders)]


def assign_windows(operator: Operator, window: Windowing, batch: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """Each row once for every window that holds it and is still open at the row's place, as `RowsInWindows.once_a_window`."""
    return windows_of(operator, window, batch, context).once_a_window(slice(0, batch.num_rows))


def windows_of(operator: Operator, window: Windowing | None, batch: pa.RecordBatch, context: Context) -> RowsInWindows:
    """The rows with the windows that hold each and are still open at its place; those that are not are counted."""
    if window is None:
        return RowsInWindows(batch, None, np.zeros(batch.num_rows, np.int64), np.ones(batch.num_rows, np.int64))
    timestamps, reached = numbers(batch, TIMESTAMP), stream_times(operator, window, batch, context)
    if window.per_record == 1:
        starts = starts_of_rows(window, timestamps)
        is_open = (ends_of_windows(window, starts) + window.grace_ms > reached).astype(np.int64)
        context.count("late", operator.id, len(is_open) - int(is_open.sum()))
        return RowsInWindows(batch, window, starts, is_open)
    oldest, newest = _windows_that_hold(window, timestamps)
    still_open = np.maximum(oldest, _first_after(window, reached - (window.size_ms + window.grace_ms)))
    held, taken = _windows_between(window, oldest, newest), _windows_between(window, still_open, newest)
    context.count("late", operator.id, int(held.sum() - taken.sum()))
    context.count("before_1970", operator.id, int(np.count_nonzero(held == 0)))
    return RowsInWindows(batch, window, still_open, taken, context.turn(operator.id).owns)


def starts_of_rows(window: Windowing, timestamps: Integers) -> Integers:
    """The start of the newest window that holds each time."""
    if window.calendar is not None:
        return starts_at(window.calendar, timestamps)
    starts: Integers = timestamps // window.advance_ms * window.advance_ms
    return starts


def ends_of_windows(window: Windowing, starts: Integers) -> Integers:
    """The end of the windows that start then."""
    return starts + window.size_ms if window.calendar is None else ends_of(window.calendar, starts)


def turns(counts: Integers) -> Integers:
    """For each count 0, 1, 2 and so on, so many numbers."""
    numbered: Integers = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return numbered


def _windows_that_hold(window: Windowing, timestamps: Integers) -> tuple[Integers, Integers]:
    """The starts of the oldest and the newest window that hold each time; the newest is before the oldest if there is none."""
    oldest = _first_after(window, timestamps - window.size_ms)
    newest = timestamps // window.advance_ms * window.advance_ms
    ended = -window.size_ms // window.advance_ms * window.advance_ms  # the last window that ends by 1970
    is_before = timestamps < 0
    return np.where(is_before, oldest, np.maximum(oldest, 0)), np.where(is_before, np.minimum(newest, ended), newest)


def _first_after(window: Windowing, times: Integers) -> Integers:
    """The start of the first window that begins after each time."""
    starts: Integers = (times // window.advance_ms + 1) * window.advance_ms
    return starts


def _windows_between(window: Windowing, oldest: Integers, newest: Integers) -> Integers:
    counts: Integers = np.maximum((newest - oldest) // window.advance_ms + 1, 0)
    return counts


def holds(window: Windowing, start: Integers, timestamps: Integers) -> Mask:
    """Whether the window at `start`, which is not after the time, holds it; none crosses 1970."""
    end = start + window.size_ms
    return (timestamps < end) & ((start >= 0) | (end <= 0))


def since_1970(operator_id: str, batch: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """The rows that sliding windows can hold: none begins before 1970. The others are counted."""
    kept = numbers(batch, TIMESTAMP) >= 0
    context.count("before_1970", operator_id, int((~kept).sum()))
    return batch if kept.all() else batch.filter(pa.array(kept))


def last_windows(window: Windowing, timestamps: Integers) -> tuple[Integers, Mask]:
    """The start of the last window that holds each time, and whether there is one: before 1970 there may be none."""
    newest = starts_of_rows(window, timestamps)
    if window.calendar is not None:
        return newest, np.ones(len(newest), bool)
    ended = -window.size_ms // window.advance_ms * window.advance_ms  # the last window that ends by 1970
    starts = np.where(holds(window, newest, timestamps), newest, np.minimum(newest, ended))
    return starts, holds(window, starts, timestamps)


def pane_ms(window: Windowing) -> int:
    """The longest stretch of time whose rows all fall into the same windows."""
    return gcd(window.size_ms, window.advance_ms)


def is_open_in_all(operator: Operator, window: Windowing, batch: pa.RecordBatch, context: Context) -> Mask:
    """Whether every window that holds a row is open at the row's place."""
    timestamps = numbers(batch, TIMESTAMP)
    oldest = (timestamps - window.size_ms) // window.advance_ms * window.advance_ms + window.advance_ms
    return oldest + (window.size_ms + window.grace_ms) > stream_times(operator, window, batch, context)
