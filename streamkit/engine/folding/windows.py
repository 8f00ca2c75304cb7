"""
The windows that rows fall into.

Which windows hold a time, and when each closes, the kind of windows says (`streamkit.plan.windows`); when a row is late, the rule in
`streamkit.plan.closing`. Stream time at a row is the larger of its own order key and what the operator's inputs had committed (law 11); a
final result counts with the moment it was due.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers, Mask
from streamkit.engine.rows.place import extended, have_own_records
from streamkit.engine.rows.rows import numbers, repeated, with_columns
from streamkit.engine.stage.advance import stream_times
from streamkit.engine.stage.context import Context
from streamkit.names import INPUT, PATH, TIMESTAMP, WINDOW
from streamkit.plan.operator import Operator
from streamkit.plan.program import Number
from streamkit.plan.windows import Windowing


@dataclass(frozen=True, eq=False)
class RowsInWindows:
    """
    Rows with the windows that hold each and are still open at its place: so many from the one at `oldest` on, at every `apart_ms`.

    Without a window each row stands once, for itself. `number` is that of the operator in paths.
    """

    rows: pa.RecordBatch
    window: Windowing | None
    oldest: Integers
    windows: Integers
    number: Number = 0

    @property
    def apart_ms(self) -> int:
        return 1 if self.window is None else self.window.apart_ms

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
        Some rows, each once for every window; `_window` has the time by which the window is known.

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
        starts = np.repeat(self.oldest[rows], windows) + turns(windows) * self.apart_ms
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
    oldest, newest = window.holding(timestamps)
    if window.per_record == 1:
        is_open = window.take_rows(newest, reached).astype(np.int64)
        context.count("late", operator.id, len(is_open) - int(is_open.sum()))
        return RowsInWindows(batch, window, newest, is_open)
    still_open = np.maximum(oldest, window.first_open(reached))
    held, taken = (np.maximum((newest - first) // window.apart_ms + 1, 0) for first in (oldest, still_open))
    context.count("late", operator.id, int(held.sum() - taken.sum()))
    context.count("before_1970", operator.id, int(np.count_nonzero(held == 0)))
    return RowsInWindows(batch, window, still_open, taken, context.turn(operator.id).owns)


def turns(counts: Integers) -> Integers:
    """For each count 0, 1, 2 and so on, so many numbers."""
    numbered: Integers = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return numbered


def since_1970(operator_id: str, batch: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """The rows that sliding windows can hold: none begins before 1970. The others are counted."""
    kept = numbers(batch, TIMESTAMP) >= 0
    context.count("before_1970", operator_id, int((~kept).sum()))
    return batch if kept.all() else batch.filter(pa.array(kept))


def is_open_in_all(operator: Operator, window: Windowing, batch: pa.RecordBatch, context: Context) -> Mask:
    """Whether every window that holds a row is open at the row's place; false of a row that no window holds."""
    oldest, newest = window.holding(numbers(batch, TIMESTAMP))
    is_open = window.take_rows(oldest, stream_times(operator, window, batch, context))
    return is_open & (newest >= oldest)
