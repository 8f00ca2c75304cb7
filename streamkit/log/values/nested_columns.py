"""Columns of nested types taken apart and put together, a level at a time: lists and maps by their entries, structs by their fields."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers, Mask
from streamkit.data_type import entry_of, to_arrow
from streamkit.log.values.columns import valid_rows
from streamkit.log.values.slices import bitmap

ENTRIES_MAX = 2**31 - 1  # offsets of Arrow's lists are int32


def entries(column: pa.Array) -> tuple[Integers, pa.Array]:
    """
    How many entries each row of a list or map column has, none where it is null, and the entries of all rows, one after another.

    Those of a map are structs of its key and its value.
    """
    counts, valid = np.diff(_offsets(column)), valid_rows(column)
    if valid is not None and counts[~valid].any():  # a null may stand on entries that nobody sees
        column, counts = column.drop_null(), np.where(valid, counts, 0)
    elif valid is not None:
        counts = np.where(valid, counts, 0)
    offsets = _offsets(column)
    return counts, column.values.slice(offsets[0], offsets[-1] - offsets[0])


def fields(column: pa.StructArray) -> list[pa.Array]:
    """The fields of each row of a struct column; where the struct is null they may be anything."""
    return [column.field(number) for number in range(column.type.num_fields)]


def listed(type_name: str, counts: Integers, valid: Mask | None, children: Sequence[pa.Array]) -> pa.Array:
    """
    A column of arrays or maps from its entries: the elements, or the keys and the values; null where not valid.

    OverflowError if there are more entries than one column can have.
    """
    if counts.sum() > ENTRIES_MAX:
        raise OverflowError(f"the rows have {counts.sum()} entries together; expected at most {ENTRIES_MAX}: use smaller batches")
    layout = to_arrow(type_name)
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    (content,) = children if entry_of(type_name) is None else [_pairs(layout, children)]
    return pa.Array.from_buffers(layout, len(counts), [bitmap(valid), pa.py_buffer(offsets)], children=[content])


def structured(type_name: str, rows: int, valid: Mask | None, children: Sequence[pa.Array]) -> pa.StructArray:
    """A column of structs from its fields; null where not valid."""
    return pa.Array.from_buffers(to_arrow(type_name), rows, [bitmap(valid)], children=list(children))


def spread(column: pa.Array, valid: Mask | None) -> pa.Array:
    """The values of a column at the rows that are valid, in their order, and null in the others."""
    return column if valid is None else column.take(pa.array(np.cumsum(valid) - 1, mask=~valid))


def _pairs(layout: pa.MapType, children: Sequence[pa.Array]) -> pa.StructArray:
    kind = pa.struct([layout.key_field, layout.item_field])
    return pa.Array.from_buffers(kind, len(children[0]), [None], children=list(children))


def _offsets(column: pa.Array) -> Integers:
    if not len(column):
        return np.zeros(1, np.int64)
    offsets = np.frombuffer(column.buffers()[1], np.int32)
    return offsets[column.offset : column.offset + len(column) + 1].astype(np.int64)
