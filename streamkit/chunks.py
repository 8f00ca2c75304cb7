"""
Columns in chunks, made one: with all their rows, or with an error, never with the first chunk alone.

A column of texts, bytes or arrays counts in 32 bits: it holds 2 GiB, or as many elements. Arrow gathers a table of more into several
chunks without a word, and some of what makes columns counts past the end. So nothing else in this project takes chunks apart:
`tests/unit/test_chunks.py` forbids it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamkit.arrays import AnyArray
from streamkit.errors import ColumnTooLargeError

COLUMN_BYTES_MAX = 2**31 - 2  # Arrow's own bound for the bytes of a column of texts, and for the elements of one of arrays
WRAPPED_BYTES_MAX = 2**32 - 1  # of more, what counts in 32 bits has come round again
ADVICE = (
    "set max_bytes_per_epoch or max_records_per_epoch lower for an application, send smaller batches with a producer, "
    "or make less of each record"
)
_OVERFLOWS = (  # what Arrow says where it counts
    "offset overflow while concatenating",
    "overflowed binary array capacity",
    "array cannot contain more than",
    "might not fit in",
    "will not fit in a 32-bit",
    "use smaller batches",  # what this project says
    "which are too many",
    "the values of one batch have",
)


def one_array(column: pa.Array | pa.ChunkedArray, name: str = "") -> pa.Array:
    """The column in one piece; ColumnTooLargeError, which names it, if it is too long for that."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if not column.num_chunks:
        return pa.array([], column.type)
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    check_size(sum(_bytes(chunk) for chunk in column.chunks), name, len(column))
    try:
        return pa.concat_arrays(column.chunks)
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
        raise _too_large(f"{error}", name, len(column)) from error


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """All rows of the table as one batch; ColumnTooLargeError, which names the column, if one is too long for that."""
    columns = [one_array(column, name) for name, column in zip(table.schema.names, table.columns, strict=True)]
    if not columns:  # rows without columns have no batch but their number
        return pa.RecordBatch.from_struct_array(pa.array([{}] * table.num_rows, pa.struct([])))
    fields = [field.with_type(column.type) for field, column in zip(table.schema, columns, strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, table.schema.metadata))
    if batch.num_rows != table.num_rows:
        raise ColumnTooLargeError(f"{table.num_rows} rows were gathered into {batch.num_rows}; expected all of them")
    return batch


def few_batches(table: pa.Table) -> list[pa.RecordBatch]:
    """All rows of the table, in their order, in as few batches as may be: one, unless a column is too long for that."""
    try:
        return [one_batch(table)] if table.num_rows else []
    except ColumnTooLargeError:
        if table.num_rows == 1:
            raise
        half = table.num_rows // 2
        return [*few_batches(table.slice(0, half)), *few_batches(table.slice(half))]


def offsets_of(lengths: AnyArray, what: str = "") -> npt.NDArray[np.int32]:
    """Where each row begins, and where the last one ends, as Arrow keeps it; ColumnTooLargeError if that is too far."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return narrow_offsets(offsets, what)


def narrow_offsets(offsets: AnyArray, what: str = "") -> npt.NDArray[np.int32]:
    """Offsets in 32 bits; ColumnTooLargeError if the last one has no room there."""
    if len(offsets):
        check_size(int(offsets[-1]), what, len(offsets) - 1)
    return offsets.astype(np.int32)


def check_size(size: int, name: str, rows: int) -> None:
    """ColumnTooLargeError if so many bytes, or elements, are too many for one column."""
    if size > COLUMN_BYTES_MAX:
        raise _too_large(f"{size} bytes or elements together, expected at most {COLUMN_BYTES_MAX}", name, rows)


def check_sound(column: Any, what: str = "") -> Any:
    """The column, or one value, as it is; ColumnTooLargeError if what made it counted past the end, as some functions of Arrow do."""
    if isinstance(column, pa.Scalar) or not len(column) or not is_text(column.type):
        return column
    _, offsets, data = column.buffers()
    end = 4 * (column.offset + len(column))
    last = int.from_bytes(memoryview(offsets)[end : end + 4], "little", signed=True)
    if data is not None and (last < 0 or data.size > WRAPPED_BYTES_MAX):
        raise _too_large(f"{data.size} bytes", what, len(column))
    return column


def is_overflow(error: Exception) -> bool:
    """Whether an error says that values were too long together for one column."""
    if isinstance(error, pa.ArrowCapacityError | ColumnTooLargeError | MemoryError):
        return True
    return isinstance(error, pa.ArrowInvalid | OverflowError) and any(text in str(error) for text in _OVERFLOWS)


def too_large(error: Exception, what: str, rows: int) -> ColumnTooLargeError:
    """The error for values that were too long together where that was found by Arrow."""
    return _too_large(str(error), what, rows)


def _too_large(found: str, name: str, rows: int) -> ColumnTooLargeError:
    of = f" of {name}" if name else ""
    return ColumnTooLargeError(
        f"the values{of} in {rows} rows are too long for one column, which holds 2 GiB: found {found}; nothing was taken: {ADVICE}"
    )


def _bytes(array: pa.Array) -> int:
    """The bytes of texts, or the elements of arrays, in the largest part of a column: Arrow counts them in 32 bits."""
    if pa.types.is_dictionary(array.type):
        return _bytes(array.dictionary)
    if pa.types.is_struct(array.type):
        return max((_bytes(child) for child in array.flatten()), default=0)
    if not (is_text(array.type) or pa.types.is_list(array.type) or pa.types.is_map(array.type)) or not len(array):
        return 0
    first, last = np.frombuffer(array.buffers()[1], np.int32)[[array.offset, array.offset + len(array)]].tolist()
    if is_text(array.type):
        return int(last - first)
    return max(int(last - first), _bytes(array.values.slice(first, last - first)))


def is_text(data_type: pa.DataType) -> bool:
    """Whether values of the type are texts or bytes, which lie end to end."""
    return bool(pa.types.is_string(data_type) or pa.types.is_binary(data_type))
