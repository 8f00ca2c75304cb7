"""Groups of rows by their key: a dense number per row instead of a key, found without Python per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from streamkit.arrays import AnyArray, Integers
from streamkit.data_type import FLOATS, atomic_types, from_arrow, is_nested
from streamkit.expressions.core.short_texts import short_text_codes
from streamkit.log.values.keys import decode_keys, encode_keys

CODES_MIN = 1 << 12  # up to so many codes, unused ones cost less than hashing rows


@dataclass(frozen=True, eq=False)
class KeyCodes:
    """One key column: a code per row, and the value that each code stands for; equal values have equal codes."""

    codes: Integers
    values: pa.Array

    @classmethod
    def of(cls, column: pa.Array) -> KeyCodes:
        """Encode any column without maps; null is a value, NaN one value, -0.0 is 0.0."""
        if pa.types.is_dictionary(column.type):
            return cls._of_dictionary(column)
        if pa.types.is_nested(column.type):
            keys = cls._by_hash(encode_keys([column]))
            (values,) = decode_keys(keys.values, [from_arrow(column.type)])
            return cls(keys.codes, values)
        if pa.types.is_floating(column.type):
            column = one_zero(column)
        return _by_distance(column) or _by_bytes(column) or cls._by_hash(column)

    @classmethod
    def _of_dictionary(cls, column: pa.DictionaryArray) -> KeyCodes:
        """Only the entries are hashed: two of them may be the same value, and one may be null."""
        entries = cls.of(pa.concat_arrays([column.dictionary, pa.nulls(1, column.dictionary.type)]))
        indices = column.indices.cast(pa.int64()).fill_null(len(column.dictionary))
        return cls(entries.codes[indices.to_numpy()], entries.values)

    @classmethod
    def _by_hash(cls, column: pa.Array) -> KeyCodes:
        encoded = column.dictionary_encode(null_encoding="encode")
        return cls(encoded.indices.to_numpy().astype(np.int64), encoded.dictionary)


@dataclass(frozen=True, eq=False)
class Groups:
    """A number below `size` per row, equal where the keys are; numbers may be unused. The last row of each group in `rows`."""

    codes: Integers
    size: int
    rows: Integers

    @classmethod
    def of(cls, codes: Integers, size: int) -> Groups:
        """The groups of rows that are numbered already."""
        width = np.int32 if len(codes) <= np.iinfo(np.int32).max else np.int64  # the smaller ones take half the time
        last_row: AnyArray = np.full(size, -1, width)
        last_row[codes] = np.arange(len(codes), dtype=width)  # of several assignments to a place numpy leaves the last one
        return cls(codes, size, last_row[last_row >= 0].astype(np.int64))

    @cached_property
    def used(self) -> Integers:
        """The numbers that occur, each once, in the order of `rows`."""
        used: Integers = self.codes[self.rows]
        return used


def group(columns: Sequence[pa.Array], rows: int) -> tuple[Groups, list[pa.Array]]:
    """Return the groups of `rows` rows by these columns, and the columns' values in each group; no column is one group."""
    if rows == 1:
        return Groups.of(np.zeros(1, np.int64), 1), [_alone(column) for column in columns]
    keys = [KeyCodes.of(column) for column in columns]
    codes, size = (keys[0].codes, len(keys[0].values)) if keys else (np.zeros(rows, np.int64), 1)
    for key in keys[1:]:
        codes, size = codes * len(key.values) + key.codes, size * len(key.values)
        if size > max(4 * rows, CODES_MIN):
            encoded = pa.array(codes).dictionary_encode()
            codes, size = encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)
    groups = Groups.of(codes, size)
    return groups, [key.values.take(pa.array(key.codes[groups.rows])) for key in keys]


def _alone(column: pa.Array) -> pa.Array:
    """A column of one row as the values of its groups."""
    value = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return one_of_equal_keys(value)


def row_by_row(rows: int, times: int) -> Groups:
    """The groups of columns that repeat `rows` rows `times` times: rows at the same position are one group."""
    return Groups.of(np.tile(np.arange(rows), times), rows)


def one_of_equal_keys(column: pa.Array) -> pa.Array:
    """As `one_of_equals`, also of floats inside of arrays and structs."""
    type_name = from_arrow(column.type)
    if is_nested(type_name) and not atomic_types(type_name).isdisjoint(FLOATS):
        return decode_keys(encode_keys([column]), [type_name])[0]
    return one_of_equals(column)


def one_of_equals(column: pa.Array) -> pa.Array:
    """A column of keys with one value for those that are equal: of floats -0.0 is 0.0, and every NaN one; any other column as it is."""
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, one_of_equals(column.dictionary))
    return one_zero(column) if pa.types.is_floating(column.type) else column


def one_zero(column: pa.Array) -> pa.Array:
    """The floats with -0.0 as 0.0 and every NaN as one."""
    values: AnyArray = column.fill_null(0.0).to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):  # a signalling NaN signals here
        values = values + values.dtype.type(0.0)
    values[np.isnan(values)] = np.nan
    return pa.array(values, mask=None if column.null_count == 0 else column.is_null().to_numpy(zero_copy_only=False))


def _by_bytes(column: pa.Array) -> KeyCodes | None:
    """Short texts, coded as numbers; None for any other column."""
    found = short_text_codes(column)
    return None if found is None else KeyCodes(*found)


def _by_distance(column: pa.Array) -> KeyCodes | None:
    """Integers within a narrow range, coded by their distance from the smallest; None for any other column."""
    if column.null_count or len(column) == 0 or not (pa.types.is_integer(column.type) or pa.types.is_temporal(column.type)):
        return None
    numbers = (
        column.view(pa.int64() if column.type.bit_width == 64 else pa.int32()) if pa.types.is_temporal(column.type) else column
    )
    values = numbers.to_numpy()
    smallest, largest = int(values.min()), int(values.max())
    if largest - smallest >= max(len(column), CODES_MIN):
        return None
    distances = values.astype(np.int64) - smallest
    occurs = np.zeros(largest - smallest + 1, np.bool_)
    occurs[distances] = True
    occurring = pa.array(np.flatnonzero(occurs) + smallest).cast(numbers.type)
    return KeyCodes((np.cumsum(occurs) - 1)[distances], occurring.view(column.type))
