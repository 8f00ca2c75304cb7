"""
How many bytes records take as plain columns, whatever their layout: an entry of a dictionary counts for each row that has it.

The size of a record is the sum of its values, as for `max.message.bytes`: fixed widths, the bytes of texts and binaries, and what is
in nested values. The size of rows is the sum of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.log.values.nested_columns import entries, fields
from streamkit.names import DELETED, OFFSET

NOT_COUNTED = (DELETED, OFFSET)  # what the log keeps beside the record, where a row needs it


def sizes_of(batch: pa.RecordBatch) -> Integers:
    """The size of each row."""
    return sum((_sizes(column) for column in _counted(batch)), np.zeros(batch.num_rows, np.int64))


def size_of(batch: pa.RecordBatch) -> int:
    """The size of all rows together, without a look at each where that is not needed."""
    return sum(_size(column) for column in _counted(batch))


def sizes_between(batch: pa.RecordBatch, borders: Sequence[int]) -> list[int]:
    """The size of the rows between each border and the next."""
    counts = np.diff(borders)
    sizes: Integers = sum(
        (_sizes_between(column, borders, counts) for column in _counted(batch)), np.zeros(len(counts), np.int64)
    )
    return [int(size) for size in sizes]


def _sizes_between(column: pa.Array, borders: Sequence[int], counts: Integers) -> Integers:
    if (width := _width(column.type)) is not None:
        return width * counts
    if column.null_count == 0 and len(column) and (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        ends: Integers = np.frombuffer(column.buffers()[1], np.int32)[column.offset :][borders].astype(np.int64)
        return np.diff(ends)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(_sizes(column))])
    return np.diff(before[borders])


def _counted(batch: pa.RecordBatch) -> list[pa.Array]:
    return [column for name, column in zip(batch.schema.names, batch.columns, strict=True) if name not in NOT_COUNTED]


def _size(column: pa.Array) -> int:
    if (width := _width(column.type)) is not None:
        return width * len(column)
    if column.null_count == 0 and len(column) and (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        offsets = np.frombuffer(column.buffers()[1], np.int32)
        return int(offsets[column.offset + len(column)]) - int(offsets[column.offset])
    if pa.types.is_nested(column.type) and not pa.types.is_dictionary(column.type):
        return sum(_size(child) for child in _children(column)[1])
    return int(_sizes(column).sum())


def _children(column: pa.Array) -> tuple[Integers | None, list[pa.Array]]:
    """The columns in a nested one, and how many values of them each row has: one, if None."""
    if pa.types.is_struct(column.type):
        return None, column.flatten()
    counts, content = entries(column)
    return counts, fields(content) if pa.types.is_map(column.type) else [content]


def _sizes(column: pa.Array) -> Integers:
    if (width := _width(column.type)) is not None:
        return np.full(len(column), width, np.int64)
    if pa.types.is_dictionary(column.type):
        of_entries: Integers = np.append(_sizes(column.dictionary), 0)  # the last one is that of a null
        found: Integers = of_entries[column.indices.fill_null(len(column.dictionary)).to_numpy()]
        return found
    if pa.types.is_nested(column.type):
        counts, children = _children(column)
        sizes = sum((_sizes(child) for child in children), np.zeros(len(children[0]) if children else 0, np.int64))
        return sizes if counts is None else _sums(sizes, counts)
    lengths: Integers = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def _width(data_type: pa.DataType) -> int | None:
    """What each value of a type takes, in bytes; None where that depends on the value."""
    if pa.types.is_null(data_type):
        return 0
    if pa.types.is_dictionary(data_type) or pa.types.is_nested(data_type):
        return None
    try:
        return max(1, int(data_type.bit_width) // 8)
    except ValueError:
        return None


def _sums(sizes: Integers, counts: Integers) -> Integers:
    """The sum of the sizes for each row, which has so many of them."""
    ends = np.cumsum(counts, dtype=np.int64)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
    sums: Integers = before[ends] - before[ends - counts]
    return sums
