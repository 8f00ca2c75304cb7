"""The events of Nexmark for both sides: a log for StreamKit, and packed files for Flink (`PackedSource.java` has the format)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.log.opening import open_log
from topologies.nexmark.generator import Events, generate, load

FILES = 2  # of each kind of event, one for each of Flink's subtasks
ROWS_AT_ONCE = 65_536
KINDS = ("person", "auction", "bid")


def write_log(folder: Path, events: int) -> None:
    """A new log with the events."""
    with open_log(folder) as log:
        load(log, generate(events))


def write_packed(folder: Path, events: int) -> None:
    """The files of the same events: `bid-0.bin` and so on, each with every second row."""
    folder.mkdir(parents=True)
    made: Events = generate(events)
    for kind in KINDS:
        rows = getattr(made, kind)
        for number in range(FILES):
            own = rows.take(np.arange(number, rows.num_rows, FILES))
            with (folder / f"{kind}-{number}.bin").open("wb") as file:
                for start in range(0, own.num_rows, ROWS_AT_ONCE):
                    file.write(packed(own.slice(start, ROWS_AT_ONCE)))


def packed(rows: pa.Table) -> bytes:
    """
    The bytes of rows without nulls: numbers, times and texts.

    A row is its length (4 bytes), 8 bytes for each column, then its texts. So where each text of each row begins follows from the
    lengths of those before it, and a column of all rows is written at once.
    """
    columns = [column.combine_chunks() for column in rows.columns]
    texts = {
        place: np.asarray(pc.binary_length(column)).astype(np.int64) for place, column in enumerate(columns) if _is_text(column)
    }
    offset = np.full(rows.num_rows, 4 + 8 * len(columns), np.int64)
    offsets = {}
    for place, lengths in texts.items():
        offsets[place] = offset
        offset = offset + lengths
    begins = np.cumsum(offset) - offset  # by now the offset behind the last text is the row's length
    found = np.zeros(int(offset.sum()), np.uint8)
    _put(found, begins, offset.astype("<i4"))
    for place, column in enumerate(columns):
        slots = (offsets[place] << 32) | texts[place] if place in texts else _numbers(column)
        _put(found, begins + 4 + 8 * place, slots.astype("<i8"))
    for place, lengths in texts.items():
        letters = np.frombuffer(b"".join(columns[place].cast(pa.binary()).to_pylist()), np.uint8)
        found[np.repeat(begins + offsets[place] - (np.cumsum(lengths) - lengths), lengths) + np.arange(len(letters))] = letters
    return found.tobytes()


def _is_text(column: pa.Array) -> bool:
    return bool(pa.types.is_string(column.type))


def _numbers(column: pa.Array) -> np.ndarray:
    """Numbers as they are, times in milliseconds."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    return np.asarray(column)


def _put(found: np.ndarray, places: np.ndarray, numbers: np.ndarray) -> None:
    """Write each number at its place, byte by byte."""
    width = numbers.dtype.itemsize
    found[places[:, None] + np.arange(width)] = numbers.view(np.uint8).reshape(len(numbers), width)
