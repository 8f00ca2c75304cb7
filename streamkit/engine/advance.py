"""
Which record closes a window.

A final result comes just before the record that moves stream time past its due moment, as in Kafka Streams. Only the readers
see which record that is. For every operator that gives results when time passes, a reader reports the first of its records to pass each due
moment, and a kernel takes the earliest of all reports. So the place of a final result depends neither on the number of tasks
nor on how the input is cut.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamkit.engine.context import Context
from streamkit.engine.epoch import Slice
from streamkit.engine.place import WITHOUT_RECORD, Numbers
from streamkit.engine.report import ReachedBy
from streamkit.engine.stream_time import NO_TIME
from streamkit.names import DUE, INPUT, OFFSET, ORDER, ORDER_COLUMNS, PARTITION
from streamkit.plan.operator import Operator
from streamkit.plan.program import Program
from streamkit.plan.windows import Windowing

NUMBERS = 5  # of a window, then of its record: order key, input, partition, offset


def closed_at(window: Windowing, times: npt.NDArray[np.int64] | int) -> npt.NDArray[np.int64]:
    """The number, counted in advances from 1970, of the last window that has closed when stream time is `times`."""
    closed: npt.NDArray[np.int64] = (np.asarray(times, np.int64) - window.size_ms - window.grace_ms) // window.advance_ms
    return closed


@dataclass
class Advances:
    """What a reader has seen: by operator, the records that closed windows: of each window the number, and the record's place."""

    program: Program
    seen: dict[str, list[Numbers]] = field(default_factory=dict)

    def take(self, piece: Slice, keys: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], context: Context) -> None:
        """Note the records of one partition, in their order, that pass a due moment."""
        for operator in closers(self.program, piece.input):
            window = operator.closing
            assert window is not None
            before, _ = context.stream_time(window)
            ahead = np.flatnonzero(keys > before)
            if not len(ahead):
                continue
            closed = closed_at(window, keys[ahead])
            first = np.flatnonzero(np.diff(closed, prepend=closed[0] - 1))
            rows = ahead[first]
            origin = np.full((2, len(rows)), [[piece.input], [piece.partition]], np.int64)
            self.seen.setdefault(operator.id, []).append(np.array([closed[first], keys[rows], *origin, offsets[rows]]).T)

    def reached(self) -> ReachedBy:
        """The report: by operator, the earliest record for each window, in their order."""
        return tuple((operator, _packed(_earliest(seen))) for operator, seen in sorted(self.seen.items()))


def closers(program: Program, number: int) -> Iterable[Operator]:
    """The operators whose windows are closed by records of an input."""
    return [one for one in program.operators if one.closing is not None and number in one.closing.streams]


def final_place(operator: Operator, due: Numbers, reports: Sequence[ReachedBy]) -> dict[str, pa.Array]:
    """The place of results that were due at these moments: just before the record that moved stream time past them."""
    assert operator.closing is not None
    seen = _seen(operator, reports)
    if not len(seen):  # no record moved stream time, as at the end of a drain
        return {
            ORDER: pa.array(due),
            INPUT: pa.array(np.full(len(due), WITHOUT_RECORD, np.int16)),
            PARTITION: pa.array(np.zeros(len(due), np.int32)),
            OFFSET: pa.array(np.zeros(len(due), np.int64)),
            DUE: pa.array(due),
        }
    found = np.searchsorted(seen[:, 0], closed_at(operator.closing, due))
    assert (found < len(seen)).all(), f"{operator.id}: a window closed, and no reader saw the record that closed it"
    _, keys, inputs, partitions, offsets = seen[found].T
    return {
        ORDER: pa.array(keys),
        INPUT: pa.array(inputs, pa.int16()),
        PARTITION: pa.array(partitions, pa.int32()),
        OFFSET: pa.array(offsets - 1),
        DUE: pa.array(due),
    }


def reached_before(operator: Operator, rows: pa.RecordBatch, reports: Sequence[ReachedBy]) -> Numbers:
    """
    The stream time that records of this epoch had reached just before each row's place; NO_TIME where none had moved it.

    It is that of an operator whose windows close at any millisecond, so that the reports have every record that moved its time.
    """
    seen = _seen(operator, reports)
    order, *origin = (rows[name].to_numpy(zero_copy_only=False).astype(np.int64) for name in ORDER_COLUMNS)
    if not len(seen):
        return np.full(rows.num_rows, NO_TIME, np.int64)
    found = np.searchsorted(seen[:, 1], order)
    reached = np.where(found > 0, seen[found - 1, 1], NO_TIME)
    equal = seen[np.minimum(found, len(seen) - 1)]
    is_before = np.zeros(rows.num_rows, bool)
    for own, other in reversed(list(zip(origin, equal.T[2:], strict=True))):
        is_before = (other < own) | ((other == own) & is_before)
    return np.where((equal[:, 1] == order) & is_before, order, reached)


def _seen(operator: Operator, reports: Sequence[ReachedBy]) -> Numbers:
    """All reports on an operator as one: for each window the record that closed it."""
    return _earliest([_unpacked(text) for report in reports for name, text in report if name == operator.id])


def _earliest(seen: Sequence[Numbers]) -> Numbers:
    """For each window the earliest record that closed it, by the number of the window."""
    if not seen:
        return np.empty((0, NUMBERS), np.int64)
    table = np.concatenate(seen)
    table = table[np.lexsort(table.T[::-1])]
    return table[np.diff(table[:, 0], prepend=table[0, 0] - 1) > 0] if len(table) else table


def _packed(table: Numbers) -> str:
    """Rows of numbers as text: a join of streams may have one for each millisecond, and rows that follow each other differ little."""
    steps = np.diff(table, axis=0, prepend=np.zeros((1, NUMBERS), np.int64))
    return base64.b64encode(zlib.compress(np.ascontiguousarray(steps.T).tobytes(), 1)).decode()


def _unpacked(text: str) -> Numbers:
    """The inverse of `_packed`."""
    steps = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.int64).reshape(NUMBERS, -1)
    return np.cumsum(steps.T, axis=0)
