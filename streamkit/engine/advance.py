"""
Which record closes a window.

A final result comes just before the record that moves stream time past its due moment, as in Kafka Streams. Only the readers
see which record that is. For every aggregation with final results, a reader reports the first of its records to pass each due
moment, and a kernel takes the earliest of all reports. So the place of a final result depends neither on the number of tasks
nor on how the input is cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamkit.engine.context import Context
from streamkit.engine.epoch import Slice
from streamkit.engine.place import WITHOUT_RECORD, Numbers
from streamkit.engine.report import Reached, ReachedBy
from streamkit.names import DUE, INPUT, OFFSET, ORDER, PARTITION
from streamkit.plan.operator import Operator
from streamkit.plan.program import Program
from streamkit.plan.windows import Windowing


def closed_at(window: Windowing, times: npt.NDArray[np.int64] | int) -> npt.NDArray[np.int64]:
    """The number, counted in advances from 1970, of the last window that has closed when stream time is `times`."""
    closed: npt.NDArray[np.int64] = (np.asarray(times, np.int64) - window.size_ms - window.grace_ms) // window.advance_ms
    return closed


@dataclass
class Advances:
    """What a reader has seen: by aggregation and closed window, the earliest record that closed it."""

    program: Program
    first: dict[tuple[str, int], Reached] = field(default_factory=dict)

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
            for row in np.flatnonzero(np.diff(closed, prepend=closed[0] - 1)):
                place = int(ahead[row])
                self._note(operator.id, (int(closed[row]), int(keys[place]), piece.input, piece.partition, int(offsets[place])))

    def reached(self) -> ReachedBy:
        """The report: by aggregation, the earliest record for each window, in their order."""
        ids = sorted({operator for operator, _ in self.first})
        return tuple((name, tuple(sorted(seen for (other, _), seen in self.first.items() if other == name))) for name in ids)

    def _note(self, operator: str, seen: Reached) -> None:
        known = self.first.get((operator, seen[0]))
        if known is None or seen[1:] < known[1:]:
            self.first[operator, seen[0]] = seen


def closers(program: Program, number: int) -> Iterable[Operator]:
    """The operators whose windows are closed by records of an input."""
    return [one for one in program.operators if one.closing is not None and number in one.closing.streams]


def final_place(operator: Operator, due: Numbers, reports: Sequence[ReachedBy]) -> dict[str, pa.Array]:
    """The place of results that were due at these moments: just before the record that moved stream time past them."""
    place = reaching_place(operator, due, reports)
    inputs, offsets = (place[name].to_numpy(zero_copy_only=False) for name in (INPUT, OFFSET))
    return {**place, OFFSET: pa.array(np.where(inputs == WITHOUT_RECORD, offsets, offsets - 1))}


def reaching_place(operator: Operator, due: Numbers, reports: Sequence[ReachedBy]) -> dict[str, pa.Array]:
    """The place of the records that moved stream time past these moments, or to them; each with its moment."""
    assert operator.closing is not None
    seen = _earliest(operator.id, reports)
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
        OFFSET: pa.array(offsets),
        DUE: pa.array(due),
    }


def _earliest(operator: str, reports: Sequence[ReachedBy]) -> npt.NDArray[np.int64]:
    """For each window the earliest record that closed it, by the number of the window."""
    rows = [seen for report in reports for name, all_seen in report if name == operator for seen in all_seen]
    if not rows:
        return np.empty((0, 5), np.int64)
    table = np.array(sorted(rows), np.int64)
    return table[np.unique(table[:, 0], return_index=True)[1]]
