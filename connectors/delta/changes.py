"""What a version of a Delta table changes, as rows of a topic: old rows first, new ones behind them, in an order of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import UnsignedIntegers
from streamkit.chunks import one_array
from streamkit.log.values.keys import encode_keys
from streamkit.names import DELETED

CHANGE = "_change_type"
PIECE_BYTES = 1 << 28
_OLD = ("delete", "update_preimage")  # the others are insert and update_postimage


def changes_of(feed: pa.Table, key: Sequence[str] | None) -> pa.Table:
    """
    The rows of a version's change data feed with `_deleted`: deletions of old rows, then new rows.

    The feed has its rows in any order, and in another one at each call: what this returns depends on the rows alone, so that a
    position may lie within them. With `key`, a deletion whose key has a new row is left out: the version replaced it.
    """
    is_old = _is_old(feed)
    old, new = (feed.filter(some).drop_columns([CHANGE]) for some in (is_old, pc.invert(is_old)))
    if key is not None:
        replaced = one_array(_keys(new, key).cast(pa.large_binary()))
        old = old.filter(pc.invert(pc.is_in(_keys(old, key).cast(pa.large_binary()), value_set=replaced)))
    return pa.concat_tables(
        [
            rows.append_column(DELETED, pa.repeat(pa.scalar(is_deleted), rows.num_rows))
            for rows, is_deleted in ((in_order(old), True), (in_order(new), False))
        ]
    )


def has_old(feed: pa.Table) -> bool:
    """Whether a version takes or changes a row."""
    return bool(pc.any(_is_old(feed)).as_py())


def in_order(rows: pa.Table) -> pa.Table:
    """Rows in an order that their values alone say: rows that change places are the same, bit by bit."""
    if rows.num_rows < 2 or not rows.num_columns:
        return rows
    columns = {str(number): _sortable(column) for number, column in enumerate(rows.columns)}
    return _taken(rows, pc.sort_indices(pa.table(columns), sort_keys=[(name, "ascending") for name in columns]).to_numpy())


def _taken(rows: pa.Table, places: UnsignedIntegers) -> pa.Table:
    """The rows at these places, gathered in pieces, because Arrow makes one array of a column before it takes its rows."""
    pieces = []
    for piece in np.array_split(places, rows.nbytes // PIECE_BYTES + 1):
        is_wanted = np.zeros(rows.num_rows, bool)
        is_wanted[piece] = True
        pieces.append(rows.filter(pa.array(is_wanted)).take(pa.array(np.argsort(np.argsort(piece)))))
    return pa.concat_tables(pieces)


def _is_old(feed: pa.Table) -> pa.ChunkedArray:
    return pc.is_in(feed[CHANGE].cast(pa.string()), value_set=pa.array(_OLD))


def _keys(rows: pa.Table, key: Sequence[str]) -> pa.ChunkedArray:
    batches = rows.select(list(key)).to_batches(max_chunksize=100_000)
    return pa.chunked_array([encode_keys(batch.columns) for batch in batches], pa.binary())


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column that Arrow sorts, in any order: floating point by its bits, because both zeros and all NaN count as equal."""
    kind = column.type
    if pa.types.is_nested(kind):
        return pa.chunked_array([pa.array([repr(value) for value in chunk.to_pylist()], pa.string()) for chunk in column.chunks])
    if pa.types.is_floating(kind):
        return pa.chunked_array([chunk.view(pa.int32() if kind == pa.float32() else pa.int64()) for chunk in column.chunks])
    return column
