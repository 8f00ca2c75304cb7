"""
Nested values as bytes: what `streamkit.state.row` keeps of a struct, an array or a map.

A value, little-endian, without gaps:

    struct   nulls, fixed part and variable part of its fields, as a row has them of its columns
    array    4 bytes, the number of elements as u32; then the elements
    map      4 bytes, the number of entries as u32; then the keys; then the values

The elements of an array, and the keys and values of a map, are laid out like a row of so many columns of one type:

    ceil(n / 8) bytes   nulls: bit i is set where value i is null; unused bits are zero
    fixed part          each value in order; of string, binary and nested types the length in bytes as u32; zero where null
    variable part       the bytes of the string, binary and nested values, in order

The same value always has the same bytes; entries of maps keep their order. All is encoded and decoded a column at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.arrays import AnyArray, Bytes, Integers, Mask
from streamkit.data_type import element_of, entry_of, fields_of, is_nested
from streamkit.errors import CorruptionError
from streamkit.log.values.columns import BYTES_TYPES, checked, fixed_array, fixed_dtype, fixed_values, valid_rows
from streamkit.log.values.nested_columns import entries, fields, listed, spread, structured
from streamkit.log.values.slices import ByteSlices, RowPart, gather, join, overlapping, unless

_COUNT = np.dtype("<u4")
_LENGTH = np.dtype("<u4")


def encode_values(column: pa.Array, type_name: str) -> ByteSlices:
    """
    The bytes of each value of a nested column in the layout of its type; none where it is null.

    OverflowError when the values together exceed 2 GiB.
    """
    parts = _struct_parts(column, type_name) if fields_of(type_name) else _list_parts(column, type_name)
    encoded, valid = ByteSlices.of(join(parts)), valid_rows(column)
    return encoded if valid is None else unless(encoded, valid)


def decode_values(values: ByteSlices, type_name: str, valid: Mask | None = None) -> pa.Array:
    """The column behind encoded values of a nested type, null where not valid; CorruptionError if bytes are not such values."""
    present = values if valid is None else values.take(np.flatnonzero(valid))
    decoded = _decoded_structs(present, type_name) if fields_of(type_name) else _decoded_lists(present, type_name)
    return spread(decoded, valid)


def has_length(type_name: str) -> bool:
    """Whether values of the type differ in length, so that their bytes stand in the variable part."""
    return type_name in BYTES_TYPES or is_nested(type_name)


def stored_dtype(type_name: str) -> np.dtype[Any] | None:
    """What the fixed part holds of a value: itself or its length; None of a type without values."""
    return _LENGTH if has_length(type_name) else fixed_dtype(type_name)


def variable_values(column: pa.Array, type_name: str) -> ByteSlices:
    """The bytes that the variable part holds of each value of a column."""
    return ByteSlices.of(column) if type_name in BYTES_TYPES else encode_values(column, type_name)


def variable_column(values: ByteSlices, type_name: str, valid: Mask | None) -> pa.Array:
    """The inverse of `variable_values`: the column, null where not valid; CorruptionError if bytes are not of the type."""
    return checked(gather(values, valid), type_name) if type_name in BYTES_TYPES else decode_values(values, type_name, valid)


def _struct_parts(column: pa.StructArray, type_name: str) -> list[RowPart]:
    nulls = np.zeros((len(column), len(_types(type_name))), np.bool_)
    fixed: list[RowPart] = []
    variable: list[RowPart] = []
    for number, (field, kind) in enumerate(zip(fields(column), _types(type_name), strict=True)):
        if (valid := valid_rows(field)) is not None:
            nulls[:, number] = ~valid
        own_fixed, own_variable = _pieces(field, kind)
        fixed += [] if own_fixed is None else [own_fixed]
        variable += [] if own_variable is None else [own_variable]
    bits = np.packbits(nulls, axis=1, bitorder="little")
    return [bits.view(f"V{bits.shape[1]}").reshape(len(column)), *fixed, *variable]


def _list_parts(column: pa.Array, type_name: str) -> list[RowPart]:
    counts, content = entries(column)
    children = fields(content) if entry_of(type_name) else [content]
    parts: list[RowPart] = [counts.astype(_COUNT)]
    for child, kind in zip(children, _types(type_name), strict=True):
        parts += _run_parts(child, kind, counts)
    return parts


def _run_parts(values: pa.Array, type_name: str, counts: Integers) -> list[RowPart]:
    """The parts of a run of values for each row, which has so many of them."""
    first = np.cumsum(counts) - counts
    parts: list[RowPart] = [_null_bits(values, counts, first)]
    fixed, variable = _pieces(values, type_name)
    if fixed is not None:
        width = fixed.dtype.itemsize
        parts.append(ByteSlices(np.ascontiguousarray(fixed).view(np.uint8), first * width, counts * width))
    if variable is not None:
        data, offsets = ByteSlices.of(gather(variable)).data, np.concatenate([[0], np.cumsum(variable.lengths)]).astype(np.int64)
        parts.append(ByteSlices(data, offsets[first], offsets[first + counts] - offsets[first]))
    return parts


def _null_bits(values: pa.Array, counts: Integers, first: Integers) -> ByteSlices:
    """The null bits of the values of each row, which begin at a byte of their own."""
    lengths = (counts + 7) // 8
    starts = np.cumsum(lengths) - lengths
    bits = np.zeros(int(lengths.sum()) * 8, np.bool_)
    if (valid := valid_rows(values)) is not None:
        bits[np.arange(len(values)) + np.repeat(starts * 8 - first, counts)] = ~valid
    return ByteSlices(np.packbits(bits, bitorder="little"), starts, lengths)


def _pieces(column: pa.Array, type_name: str) -> tuple[AnyArray | None, ByteSlices | None]:
    """What the fixed and the variable part hold of each value of a column; zeros, and nothing, where it is null."""
    if has_length(type_name):
        variable = variable_values(column, type_name)
        return variable.lengths.astype(_LENGTH), variable
    if type_name == "void":
        return None, None
    values, valid = fixed_values(column, type_name), valid_rows(column)
    if valid is not None:
        values = values.copy()
        values[~valid] = np.zeros((), values.dtype)
    return values, None


def _decoded_structs(values: ByteSlices, type_name: str) -> pa.StructArray:
    data, positions, ends = values.data, values.starts, values.ends
    types, rows = _types(type_name), len(values)
    null_bytes = (len(types) + 7) // 8
    nulls = _head(data, positions, ends, np.dtype(f"V{null_bytes}"), type_name).view(np.uint8).reshape(rows, null_bytes)
    bits = np.unpackbits(nulls, axis=1, bitorder="little").view(np.bool_)
    beyond: Mask = np.logical_or.reduce(bits[:, len(types) :], axis=1)
    _require(~beyond, f"a null bit beyond the {len(types)} fields", type_name)
    positions = positions + null_bytes
    heads: list[AnyArray | None] = []
    for kind in types:
        dtype = stored_dtype(kind)
        heads.append(None if dtype is None else _head(data, positions, ends, dtype, type_name))
        positions = positions + (0 if dtype is None else dtype.itemsize)
    columns = []
    for number, (kind, head) in enumerate(zip(types, heads, strict=True)):
        text = None
        if head is not None and has_length(kind):
            text = ByteSlices(data, positions, head.astype(np.int64))
            positions = text.ends
            _require(positions <= ends, f"a length of field {number} beyond the end", type_name)
        columns.append(_column(kind, head, text, ~bits[:, number], type_name))
    _require(positions == ends, "bytes after the last field", type_name)
    return structured(type_name, rows, None, columns)


def _decoded_lists(values: ByteSlices, type_name: str) -> pa.Array:
    counts = _head(values.data, values.starts, values.ends, _COUNT, type_name).astype(np.int64)
    positions, columns = values.starts + _COUNT.itemsize, []
    for kind in _types(type_name):
        column, positions = _decoded_run(values.data, positions, values.ends, counts, kind, type_name)
        columns.append(column)
    _require(positions == values.ends, "bytes after the last entry", type_name)
    if entry_of(type_name) and columns[0].null_count:
        raise CorruptionError(f"found a null as a key in a stored {type_name}; expected keys that are not null")
    return listed(type_name, counts, None, columns)


def _decoded_run(
    data: Bytes, positions: Integers, ends: Integers, counts: Integers, kind: str, type_name: str
) -> tuple[pa.Array, Integers]:
    """The values of the run that each row has at its position, and the positions behind it."""
    nulls, dtype = (counts + 7) // 8, stored_dtype(kind)
    width = 0 if dtype is None else dtype.itemsize
    behind = positions + nulls + counts * width  # in 64 bits, which a count of 32 does not exceed
    _require(behind <= ends, "a number of entries that go beyond the end", type_name)
    owners = np.repeat(np.arange(len(counts)), counts)
    places = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    rest = np.flatnonzero(counts % 8)
    unused: Mask = data[positions[rest] + nulls[rest] - 1] >> (counts[rest] % 8) == 0
    _require(unused, "a null bit beyond the entries", type_name)
    valid = (data[positions[owners] + (places >> 3)] >> (places & 7).astype(np.uint8)) & 1 == 0
    if dtype is None:
        return _column(kind, None, None, valid, type_name), behind
    head = overlapping(data, width)[(positions + nulls)[owners] + places * width].view(dtype)
    if not has_length(kind):
        return _column(kind, head, None, valid, type_name), behind
    lengths = head.astype(np.int64)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    first = np.cumsum(counts) - counts
    after = behind + before[first + counts] - before[first]
    _require(after <= ends, "a length beyond the end", type_name)
    text = ByteSlices(data, (behind - before[first])[owners] + before[:-1], lengths)
    return _column(kind, head, text, valid, type_name), after


def _column(kind: str, head: AnyArray | None, text: ByteSlices | None, valid: Mask, type_name: str) -> pa.Array:
    """A column of values from what the fixed part (None: nothing) and the variable part hold of them."""
    if head is None:
        _require(~valid, "a value of a type that has none", type_name)
        return pa.nulls(len(valid))
    if text is not None:
        return variable_column(text, kind, None if valid.all() else valid)
    if kind == "boolean":
        _require(head <= 1, "a boolean that is neither 0 nor 1", type_name)
    column = fixed_array(head, kind, valid)
    return checked(column, kind) if kind.startswith("decimal") else column


def _head(data: Bytes, positions: Integers, ends: Integers, dtype: np.dtype[Any], type_name: str) -> AnyArray:
    """The item of this type at each position."""
    _require(positions + dtype.itemsize <= ends, "the end too early", type_name)
    if not len(positions):
        return np.zeros(0, dtype)
    found: AnyArray = overlapping(data, dtype.itemsize)[positions].view(dtype)
    return found


def _types(type_name: str) -> Sequence[str]:
    """The types of a struct's fields, an array's elements, or a map's keys and values."""
    if found := fields_of(type_name):
        return [kind for _, kind in found]
    element = element_of(type_name)
    return entry_of(type_name) or ([] if element is None else [element])


def _require(holds: Mask, found: str, type_name: str) -> None:
    if not holds.all():
        raise CorruptionError(f"found {found} in a stored {type_name}; expected a value as encode_values writes it")
