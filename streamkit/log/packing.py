"""Rows with their offsets, packed into new frames as maintenance writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.log.frame import FRAME_ROWS_MAX, LOG_TYPES
from streamkit.names import DELETED, HEADERS, OFFSET, TIMESTAMP

FRAME_BYTES = 16 * 1024 * 1024  # of rows in memory
Offsets = npt.NDArray[np.int64]
Rows = tuple[pa.RecordBatch, Offsets]  # rows, and the offset of each
_SPARSE = (DELETED, HEADERS)  # stored only where a row needs them


@dataclass(frozen=True, eq=False)
class PackedFrame:
    """The rows of a frame to be written, and the offsets that it covers: the first and the one behind the last."""

    rows: pa.RecordBatch
    base_offset: int
    next_offset: int


def pack(pieces: Sequence[Rows], frame_rows: int = FRAME_ROWS_MAX, frame_bytes: int = FRAME_BYTES) -> Iterator[PackedFrame]:
    """
    Consecutive rows of one partition in as few frames as may be; each covers the offsets from its first row to its last.

    Where offsets are missing in between, the frame gets the column `_offset`. Rows stored under different schemas stay in
    frames of their own, so nothing is lost or converted.
    """
    plain = [(_plain(batch), offsets) for batch, offsets in pieces if batch.num_rows]
    for _, alike in groupby(plain, key=lambda piece: _own_fields(piece[0])):
        run = list(alike)
        table = pa.Table.from_batches([batch for batch, _ in run])
        offsets = np.concatenate([piece for _, piece in run])
        step = max(1, min(frame_rows, frame_bytes * table.num_rows // max(1, table.nbytes)))
        for start in range(0, table.num_rows, step):
            yield _frame(table.slice(start, step), offsets[start : start + step])


def _own_fields(batch: pa.RecordBatch) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in batch.schema]


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows without dictionaries, and with all columns that only some frames have."""
    names = [name for name in batch.schema.names if name not in _SPARSE]
    columns = [batch[name].dictionary_decode() if pa.types.is_dictionary(batch[name].type) else batch[name] for name in names]
    sparse = [batch[name] if name in batch.schema.names else _absent(name, batch.num_rows) for name in _SPARSE]
    return pa.RecordBatch.from_arrays([*columns, *sparse], names=[*names, *_SPARSE])


def _absent(name: str, rows: int) -> pa.Array:
    return pa.repeat(False, rows) if name == DELETED else pa.nulls(rows, LOG_TYPES[name])


def _frame(table: pa.Table, offsets: Offsets) -> PackedFrame:
    (rows,) = table.combine_chunks().to_batches()
    needed = [name for name in rows.schema.names if name not in _SPARSE or _is_needed(rows[name])]
    columns, base, following = [rows[name] for name in needed], int(offsets[0]), int(offsets[-1]) + 1
    if len(offsets) < following - base:
        needed, columns = [*needed, OFFSET], [*columns, pa.array(offsets)]
    assert TIMESTAMP in needed, "rows without event times"
    return PackedFrame(pa.RecordBatch.from_arrays(columns, names=needed), base, following)


def _is_needed(column: pa.Array) -> bool:
    return bool(pc.any(column).as_py()) if pa.types.is_boolean(column.type) else column.null_count < len(column)
