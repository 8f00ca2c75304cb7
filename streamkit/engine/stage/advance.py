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
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.engine.epoch.epoch import Slice
from streamkit.engine.epoch.report import ReachedBy
from streamkit.engine.epoch.stream_time import NO_TIME, UNKNOWN
from streamkit.engine.rows.place import WITHOUT_RECORD
from streamkit.engine.stage.context import Context
from streamkit.errors import CorruptionError
from streamkit.names import DUE, INPUT, OFFSET, ORDER, ORDER_COLUMNS, PARTITION
from streamkit.plan.operator import Operator
from streamkit.plan.program import Program
from streamkit.plan.windows import Windowing

COLUMNS = 5  # number of the closed window, order key, input, partition, offset
NUMBER = np.dtype("<i8")
DIFFERENCES = tuple(np.dtype(name) for name in ("<i1", "<i2", "<i4", "<i8"))


@dataclass
class Advances:
    """What a reader has seen: by aggregation, the earliest record that closed each window, of each piece that it took."""

    program: Program
    seen: dict[str, list[Integers]] = field(default_factory=dict)

    def take(self, piece: Slice, keys: Integers, offsets: Integers, context: Context) -> None:
        """Note the records of one partition, in their order, that pass a due moment."""
        for operator in closers(self.program, piece.input):
            window = operator.closing
            assert window is not None
            before, _ = context.reached(window)
            ahead = np.flatnonzero(keys > max(before, UNKNOWN))
            if not len(ahead):
                continue
            closed = window.closed(keys[ahead])
            passing = np.flatnonzero(np.diff(closed, prepend=closed[0] - 1))
            places = ahead[passing]
            table = np.empty((len(places), COLUMNS), np.int64)
            table[:, 0], table[:, 1], table[:, 4] = closed[passing], keys[places], offsets[places]
            table[:, 2:4] = piece.input, piece.partition
            self.seen.setdefault(operator.id, []).append(table)

    def reached(self) -> ReachedBy:
        """The report: by aggregation, the earliest record for each window, in their order."""
        return tuple((name, encode_reached(_first_of_each(tables))) for name, tables in sorted(self.seen.items()))


def closers(program: Program, number: int) -> Iterable[Operator]:
    """The operators whose windows are closed by records of an input."""
    return [one for one in program.operators if one.closing is not None and number in one.closing.streams]


def final_place(operator: Operator, due: Integers, reports: Sequence[ReachedBy]) -> dict[str, pa.Array]:
    """The place of results that were due at these moments: just before the record that moved stream time past them."""
    place = reaching_place(operator, due, reports)
    inputs, offsets = (place[name].to_numpy(zero_copy_only=False) for name in (INPUT, OFFSET))
    return {**place, OFFSET: pa.array(np.where(inputs == WITHOUT_RECORD, offsets, offsets - 1))}


def reaching_place(operator: Operator, due: Integers, reports: Sequence[ReachedBy]) -> dict[str, pa.Array]:
    """The place of the records that moved stream time past these moments, or to them; each with its moment."""
    assert operator.closing is not None
    seen = earliest(operator.id, reports)
    if not len(seen):  # no record moved stream time, as at the end of a drain
        return {
            ORDER: pa.array(due),
            INPUT: pa.array(np.full(len(due), WITHOUT_RECORD, np.int16)),
            PARTITION: pa.array(np.zeros(len(due), np.int32)),
            OFFSET: pa.array(np.zeros(len(due), np.int64)),
            DUE: pa.array(due),
        }
    found = np.searchsorted(seen[:, 0], operator.closing.closed(due))
    assert (found < len(seen)).all(), f"{operator.id}: a window closed, and no reader saw the record that closed it"
    _, keys, inputs, partitions, offsets = seen[found].T
    return {
        ORDER: pa.array(keys),
        INPUT: pa.array(inputs, pa.int16()),
        PARTITION: pa.array(partitions, pa.int32()),
        OFFSET: pa.array(offsets),
        DUE: pa.array(due),
    }


def reached_before(operator: Operator, rows: pa.RecordBatch, reports: Sequence[ReachedBy]) -> Integers:
    """
    The stream time that records of this epoch had reached just before each row's place; NO_TIME where none had moved it.

    It is that of an operator whose windows close at any millisecond, so that the reports have every record that moved its time.
    """
    seen = earliest(operator.id, reports)
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


def stream_times(
    operator: Operator, window: Windowing, batch: pa.RecordBatch, context: Context, *, by_records: bool = False
) -> Integers:
    """
    The operator's stream time at each row: the row's own order key, or what its inputs had committed.

    What closed windows without a record counts, too, unless time is to be taken `by_records` alone.

    A result that time brought counts with the moment at which it was due. Between that and its place, records of other inputs may
    have moved the time on: they count whether they are in this epoch or in one before. If there are such inputs, readers report them.
    """
    before, _ = context.reached(window) if by_records else context.stream_time(window)
    if DUE not in batch.schema.names:
        return np.maximum(_numbers(batch, ORDER), before)
    due: Integers = pc.coalesce(batch[DUE], batch[ORDER]).to_numpy(zero_copy_only=False)
    times = np.maximum(due, before)
    return times if operator.closing is None else np.maximum(times, reached_before(operator, batch, context.advances()))


def moves_time(operator: Operator, batch: pa.RecordBatch, before: int, reports: Sequence[ReachedBy]) -> Mask:
    """Which rows are of records that moved the operator's stream time, which was `before` at the beginning of the epoch."""
    window, seen = operator.closing, earliest(operator.id, reports)
    assert window is not None, f"{operator.id}: nobody notes which records move its stream time"
    keys, rows = _numbers(batch, ORDER), np.zeros(batch.num_rows, bool)
    ahead = np.flatnonzero(keys > before)
    if not len(ahead) or not len(seen):
        return rows
    found = seen[np.minimum(np.searchsorted(seen[:, 0], window.closed(keys[ahead])), len(seen) - 1)]
    own = np.stack([keys, *(_numbers(batch, name) for name in (INPUT, PARTITION, OFFSET))], axis=1)[ahead]
    rows[ahead] = (found[:, 1:] == own).all(axis=1)
    return rows


def _numbers(batch: pa.RecordBatch, name: str) -> Integers:
    values: Integers = batch[name].to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return values


def earliest(operator: str, reports: Sequence[ReachedBy]) -> Integers:
    """For each window the earliest record that closed it, by the number of the window."""
    return _first_of_each([decode_reached(table) for report in reports for name, table in report if name == operator])


def _first_of_each(tables: Sequence[Integers]) -> Integers:
    """The first record of each window, by the number of the window."""
    if not tables:
        return np.empty((0, COLUMNS), np.int64)
    table = np.concatenate(tables)
    windows, keys, *origin = (np.ascontiguousarray(column) for column in table.T)
    if (windows[1:] > windows[:-1]).all():  # of one partition
        return table
    by_key = keys - windows
    columns = [*([] if (by_key == by_key[0]).all() else [keys]), *origin]  # where any millisecond closes one, both have one order
    order = np.lexsort([*(column for column in reversed(columns) if (column != column[0]).any()), windows])
    first: Integers = table[order[np.flatnonzero(np.diff(windows[order], prepend=windows[order[0]] - 1))]]
    return first


def encode_reached(table: Integers) -> str:
    """
    A table as text: column by column the first number and the differences from row to row, compressed.

    Differences are small, and take as few bytes each as the largest of their column needs.
    """
    parts = [np.array([len(table)], NUMBER).tobytes()]
    for column in table.T if len(table) else ():
        differences = np.diff(column)
        largest = max(-int(differences.min(initial=0)), int(differences.max(initial=0)))
        narrow = next((type for type in DIFFERENCES if largest <= np.iinfo(type).max), NUMBER)
        parts += [bytes([narrow.itemsize]), column[:1].astype(NUMBER).tobytes(), differences.astype(narrow).tobytes()]
    return base64.b64encode(zlib.compress(b"".join(parts), 1)).decode()


def decode_reached(text: str) -> Integers:
    """The inverse of `encode_reached`; CorruptionError if the text is not such a table."""
    try:
        data = zlib.decompress(base64.b64decode(text))
        rows = int(np.frombuffer(data, NUMBER, 1)[0])
        table, place = np.empty((rows, COLUMNS), np.int64), NUMBER.itemsize
        for column in range(COLUMNS if rows else 0):
            narrow = next(type for type in DIFFERENCES if type.itemsize == data[place])
            table[0, column] = np.frombuffer(data, NUMBER, 1, place + 1)[0]
            place += 1 + NUMBER.itemsize
            table[1:, column] = np.frombuffer(data, narrow, rows - 1, place)
            np.cumsum(table[:, column], out=table[:, column])
            place += (rows - 1) * narrow.itemsize
    except (ValueError, IndexError, StopIteration, zlib.error) as error:
        raise CorruptionError(f"a report on which records close windows cannot be read: {error}") from error
    if place != len(data):
        raise CorruptionError(f"found a report of {len(data)} bytes on which records close windows; expected {place}")
    return table
