"""
Stored values as bytes: compact rows whose order does not matter.

A row, little-endian, without gaps:

    1 byte              format: 1, or 2 of rows with nested columns
    ceil(n / 8) bytes   nulls: bit i of the columns, lowest bit first, is set where column i is null; unused bits are zero
    fixed part          each column in order: boolean 1 byte, tinyint 1, smallint 2, int, date and float 4, bigint, timestamp,
                        timestamp_ntz and double 8, decimal 16, void 0, string, binary, array, map and struct their
                        length in bytes as u32; all zero where the column is null
    variable part       the bytes of the string, binary and nested columns, in order; `streamkit.state.nested_value` has those

Doubles are kept bit by bit, -0.0 and NaN included. A column without bytes (void) is null in every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.arrays import AnyArray, Bytes, Mask
from streamkit.data_type import from_arrow, is_nested
from streamkit.errors import CorruptionError, FormatVersionError
from streamkit.log.values.columns import canonical, checked, fixed_array, fixed_values, valid_rows
from streamkit.log.values.slices import ByteSlices, join, overlapping
from streamkit.state.nested_value import has_length, stored_dtype, variable_column, variable_values

ROW_FORMAT, NESTED_FORMAT = 1, 2
LAYOUTS_KEPT = 256
_FORMAT, _NULLS = "format", "nulls"  # fields of the fixed part; columns are fields "0", "1" …


def encode_rows(columns: Sequence[pa.Array], rows: int | None = None) -> pa.BinaryArray:
    """
    Encode rows of value columns as one binary value each, never null; `rows` is needed only if there are no columns.

    Raises SchemaError for a column that no schema can have, OverflowError when the rows together exceed 2 GiB.
    """
    if not columns and rows is None:
        raise ValueError("rows without columns cannot be counted; pass rows=")
    types = tuple(from_arrow(column.type) for column in columns)
    head = np.zeros(len(columns[0]) if columns else rows or 0, _head_dtype(types))
    head[_FORMAT] = _format_of(types)
    variable = []
    for index, column in enumerate(columns):
        column, type_name = canonical(column)
        valid = _put_nulls(head, index, column)
        if has_length(type_name):
            variable.append(variable_values(column, type_name))
            head[str(index)] = variable[-1].lengths
        elif type_name != "void":
            _put_fixed(head, index, fixed_values(column, type_name), valid)
    return join([head, *variable])


def decode_rows(values: pa.BinaryArray, types: Sequence[str]) -> list[pa.Array]:
    """
    Return the columns behind encoded rows, one per Spark type; a null value gives a row of nulls.

    Raises CorruptionError if bytes are not a row of these types, FormatVersionError if a row has another format.
    """
    if values.null_count:
        found = values.is_valid().to_numpy(zero_copy_only=False)
        places = pa.array(np.cumsum(found) - 1, mask=~found)
        return [column.take(places) for column in decode_rows(values.drop_null(), types)]
    rows, dtype = ByteSlices.of(values), _head_dtype(tuple(types))
    _check_format(rows, _format_of(types))
    _require(rows.lengths >= dtype.itemsize, f"fewer bytes than the {dtype.itemsize} of the fixed part")
    head = _heads(rows, dtype)
    valid = _valid_rows(head[_NULLS], len(types))
    positions = rows.starts + dtype.itemsize
    columns = []
    for index, type_name in enumerate(types):
        if has_length(type_name):
            text = ByteSlices(rows.data, positions, head[str(index)].astype(np.int64))
            positions = text.ends
            _require(positions <= rows.ends, f"a length of column {index} beyond the end")
            columns.append(variable_column(text, type_name, valid[index]))
        else:
            columns.append(_fixed_column(head, index, type_name, valid[index]))
    _require(positions == rows.ends, "bytes after the last column")
    return columns


def _format_of(types: Sequence[str]) -> int:
    return NESTED_FORMAT if any(map(is_nested, types)) else ROW_FORMAT


@lru_cache(maxsize=LAYOUTS_KEPT)
def _head_dtype(types: tuple[str, ...]) -> np.dtype[Any]:
    """The part of fixed width, as numpy sees it: the format, the null bits, and a field for each column that has bytes."""
    fields: list[tuple[Any, ...]] = [(_FORMAT, "u1"), (_NULLS, "u1", ((len(types) + 7) // 8,))]
    for index, type_name in enumerate(types):
        if type_name != "void":
            fields.append((str(index), stored_dtype(type_name)))
    return np.dtype(fields)


def _put_nulls(head: AnyArray, index: int, column: pa.Array) -> Mask | None:
    valid = valid_rows(column)
    if valid is not None:
        head[_NULLS][:, index // 8] |= (~valid).view(np.uint8) << np.uint8(index % 8)
    return valid


def _put_fixed(head: AnyArray, index: int, values: AnyArray, valid: Mask | None) -> None:
    if valid is None:
        head[str(index)] = values
    else:
        head[str(index)][valid] = values[valid]


def _heads(rows: ByteSlices, dtype: np.dtype[Any]) -> AnyArray:
    """The fixed part of each row; a view where the rows have nothing else."""
    if len(rows.data) == len(rows) * dtype.itemsize and (rows.lengths == dtype.itemsize).all():
        return rows.data.view(dtype)
    return overlapping(rows.data, dtype.itemsize)[rows.starts].view(dtype)


def _valid_rows(nulls: Bytes, columns: int) -> list[Mask | None]:
    if not nulls.any():
        return [None] * columns
    bits = np.unpackbits(nulls, axis=1, bitorder="little").view(np.bool_)
    _require(nulls[:, -1] < 1 << (columns - 1) % 8 + 1, f"a null bit beyond the {columns} columns")
    return [None if not bits[:, index].any() else ~bits[:, index] for index in range(columns)]


def _fixed_column(head: AnyArray, index: int, type_name: str, valid: Mask | None) -> pa.Array:
    if type_name == "void":
        return pa.nulls(len(head))
    values: AnyArray = head[str(index)]
    if type_name == "boolean":
        _require(values <= 1, f"a boolean that is neither 0 nor 1 in column {index}")
    column = fixed_array(values, type_name, valid)
    return checked(column, type_name) if type_name.startswith("decimal") else column


def _check_format(rows: ByteSlices, expected: int) -> None:
    _require(rows.lengths > 0, "no bytes at all")
    formats = rows.data[rows.starts]
    if not (formats == expected).all():
        row = int(np.argmax(formats != expected))
        raise FormatVersionError(
            f"found format {formats[row]} in the stored value of row {row}; expected {expected}: "
            "a newer StreamKit wrote it, so upgrade this one, or the value is damaged"
        )


def _require(holds: Mask, found: str) -> None:
    if not holds.all():
        raise CorruptionError(
            f"found {found} in the stored value of row {int(np.argmin(holds))}; expected a row as encode_rows writes it"
        )
