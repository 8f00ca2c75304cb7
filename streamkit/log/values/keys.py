"""
Keys as bytes: the order-preserving encoding, and the hash that places a key in a partition and a key group.

docs/log-format.md states the bytes. A null is its tag byte alone. -0.0 is kept as 0.0 and every NaN as one, here and in
`partition_bytes`, because equal keys have to meet; Kafka's own serialiser would tell these apart.

A struct is its tag and then its fields, each as a column. An array is its tag, then for each element a byte 1 and the element as a column,
then a byte 0. So nested values compare as Python's tuples do, an array before each longer one that begins with it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import AnyArray, Bytes, Integers, Mask
from streamkit.chunks import check_sound
from streamkit.data_type import element_of, fields_of, from_arrow, has_map, inner_types, to_arrow
from streamkit.errors import CorruptionError, SchemaError
from streamkit.log.values.columns import (
    BYTES_TYPES,
    DECIMAL,
    canonical,
    checked,
    fixed_array,
    fixed_dtype,
    fixed_values,
    valid_rows,
)
from streamkit.log.values.nested_columns import entries, fields, listed, spread, structured
from streamkit.log.values.slices import ByteSlices, RowPart, gather, join, overlapping, unless

KAFKA_TYPES = frozenset(("tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary"))  # Kafka has a serialiser
MURMUR_SEED, MURMUR_FACTOR, MURMUR_SHIFT = np.uint32(0x9747B28C), np.uint32(0x5BD1E995), np.uint32(24)
_REST_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)  # by the number of bytes after the last whole word
_REST_FACTORS = np.array([1, MURMUR_FACTOR, MURMUR_FACTOR, MURMUR_FACTOR], np.uint32)
_ORDERED_DECIMAL = np.dtype([("high", ">u8"), ("low", ">u8")])
_SIGN = np.uint64(1 << 63)
_NO_PLACES = np.empty(0, np.int64)
_UINT32 = (1 << 32) - 1
_WORD = struct.Struct("<I")
FEW_ROWS = 8  # so many are hashed one by one
_PADDING = 16  # bytes after the last key, so that any fixed value can be read before it is known to be there


def encode_keys(columns: Sequence[pa.Array]) -> pa.BinaryArray:
    """
    Encode rows of key columns so that byte order is value order, column by column, null first and NaN last.

    Takes at least one column of any type without maps, dictionary-encoded or sliced or not; the result has no nulls.
    Raises SchemaError for a column with maps, OverflowError when the keys together exceed 2 GiB.
    """
    return join(key_parts(columns))


def decode_keys(encoded: pa.BinaryArray, types: Sequence[str]) -> list[pa.Array]:
    """Return the columns behind encoded keys, one per Spark type; CorruptionError where bytes are not a key of these types."""
    return decode_key_slices(ByteSlices.of(encoded), types)


def key_parts(columns: Sequence[pa.Array]) -> list[RowPart]:
    """The encoding of the columns as parts, for callers that put something before the key."""
    if not columns:
        raise ValueError("a key needs at least one column, found none")
    return [part for column in columns for part in _column_parts(column)]


def decode_key_slices(keys: ByteSlices, types: Sequence[str]) -> list[pa.Array]:
    """As `decode_keys`, from slices of a buffer."""
    columns, rest = decode_leading(keys, types)
    if rest.lengths.any():
        row = int(np.flatnonzero(rest.lengths)[0])
        raise CorruptionError(
            f"found bytes after the last column in the key of row {row}; expected a key as encode_keys writes it"
        )
    return columns


def decode_leading(keys: ByteSlices, types: Sequence[str]) -> tuple[list[pa.Array], ByteSlices]:
    """The columns that keys begin with, one per Spark type, and what follows them."""
    reader = _KeyReader.of(keys, types)
    positions, columns = keys.starts, []
    for type_name in types:
        column, positions = reader.column(positions, type_name)
        columns.append(column)
    return columns, ByteSlices(keys.data, positions, keys.ends - positions)


def partition_bytes(columns: Sequence[pa.Array]) -> pa.BinaryArray:
    """
    Return the bytes that the partitioner hashes: Kafka's serialisation of one column, `encode_keys` of several or of other types.

    A row is null where all columns are.
    """
    serialised = _kafka_bytes(columns[0]) if len(columns) == 1 else None
    if serialised is not None:
        return serialised
    valid, encoded = _not_all_null(columns), encode_keys(columns)
    return encoded if valid is None else gather(ByteSlices.of(encoded), valid)


def murmur2(values: pa.BinaryArray) -> npt.NDArray[np.int32]:
    """Hash each value as Kafka's default partitioner does (murmur2, 32 bits, Kafka's seed); a null hashes to 0."""
    hashes = _murmur2(ByteSlices.of(values)).view(np.int32)
    if values.null_count:
        hashes[values.is_null().to_numpy(zero_copy_only=False)] = 0
    return hashes


@dataclass
class PlacedEntries:
    """The partitions of a dictionary's entries, and behind them that of null, which the next batch takes too if it shares the dictionary."""

    dictionary: pa.Array | None = None
    count: int = 0
    places: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))

    def of(self, dictionary: pa.Array, count: int) -> npt.NDArray[np.int32]:
        """The partitions among `count`."""
        if self.dictionary is None or self.count != count or _memory(self.dictionary) != _memory(dictionary):
            self.dictionary, self.count, self.places = dictionary, count, partitions([_with_null(dictionary)], count)
        return self.places


def partitions(columns: Sequence[pa.Array], count: int, placed: PlacedEntries | None = None) -> npt.NDArray[np.int32]:
    """
    The partition of each row's key among `count`, where any Kafka client would put it; -1 for a null key.

    `placed` is what was found for the batch before, and is told what is found for this one.
    """
    if count < 1:
        raise ValueError(f"keys are spread over at least one place, found {count}")
    if len(columns) == 1 and _is_small_dictionary(columns[0]):
        return (placed or PlacedEntries()).of(columns[0].dictionary, count).take(_codes(columns[0]))
    if len(columns) > 1 and (found := _partitions_of_entries(columns, count)) is not None:
        return found
    if len(columns) == 1 == len(columns[0]) and columns[0].null_count == 0 and columns[0].type in (pa.string(), pa.binary()):
        # One text or byte string: a dozen calls of numpy would cost more.
        return np.array([(_murmur2_alone(columns[0][0].as_buffer().to_pybytes()) & 0x7FFFFFFF) % count], np.int32)
    encoded = partition_bytes(columns)
    places = _places(encoded, count)
    if encoded.null_count:
        places[encoded.is_null().to_numpy(zero_copy_only=False)] = -1
    return places


def _partitions_of_entries(columns: Sequence[pa.Array], count: int) -> npt.NDArray[np.int32] | None:
    """The partitions by those of all combinations of the dictionaries' entries; None unless these are fewer than the rows."""
    if not all(map(_is_small_dictionary, columns)):
        return None
    sizes = [len(column.dictionary) + 1 for column in columns]  # and null
    if prod(sizes) > len(columns[0]):
        return None
    places = np.unravel_index(np.arange(prod(sizes)), sizes)
    entries = [_with_null(column.dictionary).take(pa.array(own)) for column, own in zip(columns, places, strict=True)]
    return partitions(entries, count)[np.ravel_multi_index([_codes(column) for column in columns], sizes)]


def partitions_of_rows(
    rows: pa.RecordBatch,
    key: Sequence[str],
    partition_by: Sequence[str],
    count: int,
    placed: PlacedEntries | None = None,
) -> npt.NDArray[np.int32]:
    """
    The partition of each row among `count`, by the part of its key that chooses one; -1 for a null key.

    Where that part is null and the key is not, its encoding is hashed instead, so that the rows of a key stay together.
    """
    places = partitions([rows.column(name) for name in partition_by], count, placed)
    if set(partition_by) != set(key) and (places < 0).any():
        has_key = _not_all_null([rows.column(name) for name in key])
        (place_of_null,) = _places(encode_keys([pa.nulls(1)] * len(partition_by)), count)
        places[(places < 0) & (True if has_key is None else has_key)] = place_of_null
    return places


def _places(encoded: pa.BinaryArray, count: int) -> npt.NDArray[np.int32]:
    hashes = murmur2(encoded)
    if count & (count - 1) == 0:  # a power of two, by which numpy divides eight times as slowly as it masks
        return hashes & np.int32(count - 1)
    places: npt.NDArray[np.int32] = (hashes & np.int32(0x7FFFFFFF)) % np.int32(count)
    return places


def key_groups(columns: Sequence[pa.Array], count: int) -> npt.NDArray[np.int32]:
    """The key group of each row's key among `count`, by the partitioner's hash; -1 for a null key."""
    return partitions(columns, count)


def _column_parts(column: pa.Array) -> list[RowPart]:
    if _is_small_dictionary(column):
        return [ByteSlices.of(encode_keys([_with_null(column.dictionary)])).take(_codes(column))]
    column, type_name = _canonical_key(column)
    if type_name == "void":
        return [np.zeros(len(column), np.uint8)]
    body: list[RowPart]
    if type_name in BYTES_TYPES:
        body = [_escaped(column), np.zeros(len(column), np.uint16)]
    elif pa.types.is_struct(column.type):
        body = [part for child in fields(column) for part in _column_parts(child)]
    elif pa.types.is_list(column.type):
        body = [_elements(column), np.zeros(len(column), np.uint8)]
    else:
        body = [_ordered(fixed_values(column, type_name), type_name)]
    valid = valid_rows(column)
    if valid is None:
        return [np.ones(len(column), np.uint8), *body]
    return [valid.view(np.uint8), *(unless(part, valid) for part in body)]


def _canonical_key(column: pa.Array) -> tuple[pa.Array, str]:
    """As `canonical`, of a type that keys can have."""
    if has_map(from_arrow(column.type)):
        raise SchemaError(f"a key cannot have values of the type {from_arrow(column.type)}; expected a type without maps")
    return canonical(column)


def _elements(column: pa.ListArray) -> ByteSlices:
    """The elements of each array, each behind a byte 1."""
    counts, elements = entries(column)
    encoded = ByteSlices.of(join([np.ones(len(elements), np.uint8), *_column_parts(elements)]))
    borders = np.concatenate([np.zeros(1, np.int64), encoded.ends])  # one element ends where the next begins
    last = np.cumsum(counts)
    starts = borders[last - counts]
    return ByteSlices(encoded.data, starts, borders[last] - starts)


def _is_small_dictionary(column: pa.Array) -> bool:
    """Whether it pays to encode the dictionary instead of the rows."""
    return pa.types.is_dictionary(column.type) and len(column.dictionary) <= len(column)


def _memory(array: pa.Array) -> tuple[object, ...]:
    """Where an array lies: those for which it is equal have the same values."""
    return (array.type, array.offset, len(array), *(buffer and buffer.address for buffer in array.buffers()))


def _with_null(dictionary: pa.Array) -> pa.Array:
    return pa.concat_arrays([dictionary, pa.nulls(1, dictionary.type)])


def _codes(column: pa.DictionaryArray) -> AnyArray:
    """The row's place in `_with_null(dictionary)`."""
    codes: AnyArray = column.indices.cast(pa.int64()).fill_null(len(column.dictionary)).to_numpy()
    return codes


def _escaped(column: pa.Array) -> ByteSlices:
    """The bytes of each row with 0x00 as 0x00 0xFF."""
    slices = ByteSlices.of(column)
    if slices.data.all():
        return slices
    return ByteSlices.of(check_sound(pc.replace_substring(column.cast(pa.binary()), pattern=b"\x00", replacement=b"\x00\xff")))


def _ordered(values: AnyArray, type_name: str) -> AnyArray:
    """Values of fixed width as unsigned big-endian numbers in the same order."""
    if type_name == "boolean":
        return values
    if type_name.startswith("decimal"):
        return _ordered_decimals(values)
    width = values.dtype.itemsize
    # With the sign bit turned over, negative numbers come before the others. The bits of a double without its sign grow with its size, so of
    # a negative one they are all turned over: the larger it is, the further in front it stands.
    flipped: AnyArray = np.array(1 << (width * 8 - 1), f"u{width}")
    if values.dtype.kind == "f":
        values = _one_zero_one_nan(values)
        flipped = (values.view(f"i{width}") >> (width * 8 - 1)).view(
            flipped.dtype
        ) | flipped  # the shift spreads the sign over all bits
    ordered: AnyArray = values.view(flipped.dtype) ^ flipped
    return ordered.byteswap()


def _ordered_decimals(values: AnyArray) -> AnyArray:
    ordered = np.empty(len(values), _ORDERED_DECIMAL)
    ordered["high"], ordered["low"] = values["high"].view(np.uint64) ^ _SIGN, values["low"]
    return ordered


def _unordered(ordered: AnyArray, type_name: str) -> AnyArray:
    """The inverse of `_ordered`."""
    if type_name == "boolean":
        return ordered
    if type_name.startswith("decimal"):
        return _unordered_decimals(ordered.view(_ORDERED_DECIMAL))
    dtype = np.dtype(fixed_dtype(type_name))
    unsigned, flipped = ordered.byteswap(), np.array(1 << (dtype.itemsize * 8 - 1), ordered.dtype)
    if dtype.kind == "f":
        flipped = np.where(unsigned & flipped, flipped, ~np.zeros_like(flipped))
    values: AnyArray = (unsigned ^ flipped).view(dtype)
    return values


def _unordered_decimals(ordered: AnyArray) -> AnyArray:
    values = np.empty(len(ordered), DECIMAL)
    values["low"] = ordered["low"]
    values["high"] = (ordered["high"].astype(np.uint64) ^ _SIGN).view(np.int64)
    return values


def _one_zero_one_nan(values: AnyArray) -> AnyArray:
    with np.errstate(invalid="ignore"):  # a signalling NaN signals here
        unified: AnyArray = values + values.dtype.type(0.0)  # -0.0 + 0.0 is 0.0
    unified[np.isnan(unified)] = np.nan
    return unified


@dataclass(frozen=True, eq=False)
class _KeyReader:
    """Reads columns of keys; the key of each of these rows ends at its place in `ends` of `data`."""

    data: Bytes
    ends: Integers
    rows: Integers
    terminators: Integers  # where two zero bytes lie, if there are texts or byte strings to read

    @classmethod
    def of(cls, keys: ByteSlices, types: Sequence[str]) -> _KeyReader:
        data = np.concatenate([keys.data, np.zeros(_PADDING, np.uint8)])
        has_bytes = any(map(_has_bytes, types))
        terminators = np.flatnonzero(overlapping(data, 2) == 0) if has_bytes else _NO_PLACES  # the padding ends with one
        return cls(data, keys.ends, np.arange(len(keys)), terminators)

    def column(self, positions: Integers, type_name: str) -> tuple[pa.Array, Integers]:
        """The column whose values begin at the positions, and where each ends."""
        self._require(positions < self.ends, f"the end where a {type_name} should begin")
        tags = self.data[positions]
        self._require(tags <= (0 if type_name == "void" else 1), f"a tag that is neither null nor value before a {type_name}")
        valid, positions = tags.view(np.bool_), positions + 1
        if type_name == "void":
            return pa.nulls(len(tags)), positions
        if type_name in BYTES_TYPES:
            return self._bytes(positions, type_name, valid)
        if type_name.startswith(("struct<", "array<")):
            return self._nested(positions, type_name, valid)
        return self._fixed(positions, type_name, valid)

    def _fixed(self, positions: Integers, type_name: str, valid: Mask) -> tuple[pa.Array, Integers]:
        dtype = np.dtype(fixed_dtype(type_name))
        after = positions + dtype.itemsize * valid
        self._require(after <= self.ends, f"the end inside a {type_name}")
        ordered = overlapping(self.data, dtype.itemsize)[positions]
        if type_name == "boolean":
            self._require((ordered <= 1) | ~valid, "a boolean that is neither 0 nor 1")
        column = fixed_array(_unordered(ordered, type_name), type_name, valid)
        return checked(column, type_name) if dtype == DECIMAL else column, after

    def _bytes(self, positions: Integers, type_name: str, valid: Mask) -> tuple[pa.Array, Integers]:
        # A value ends at the first two zero bytes from its beginning on, since a zero within it is followed by 0xFF. All such places of the
        # buffer are found at once, and for each row the next one; a row that lacks its own finds one behind its end, and is refused.
        ends_of_value = np.where(valid, self.terminators[np.searchsorted(self.terminators, positions)], positions)
        after = ends_of_value + 2 * valid
        self._require(after <= self.ends, f"no end of a {type_name}")
        column = gather(ByteSlices(self.data, positions, ends_of_value - positions), valid)
        escaped = np.frombuffer(column.buffers()[2] or b"", np.uint8)
        if not escaped.all():
            self._require(~_has_stray_zero(column), f"0x00 inside a {type_name} not followed by 0xFF")
            column = pc.replace_substring(column, pattern=b"\x00\xff", replacement=b"\x00")
        return checked(column, type_name), after

    def _nested(self, positions: Integers, type_name: str, valid: Mask) -> tuple[pa.Array, Integers]:
        if not valid.all():  # what is inside is read of the rows that have it
            there = np.flatnonzero(valid)
            column, ends_there = self._of(there)._nested(positions[there], type_name, valid[there])
            after = positions.copy()
            after[there] = ends_there
            return spread(column, valid), after
        if (element := element_of(type_name)) is not None:
            return self._array(positions, type_name, element)
        columns = []
        for _, field_type in fields_of(type_name) or ():
            column, positions = self.column(positions, field_type)
            columns.append(column)
        return structured(type_name, len(positions), None, columns), positions

    def _array(self, positions: Integers, type_name: str, element: str) -> tuple[pa.Array, Integers]:
        """All arrays at once, one element of each after the other; then the elements are sorted by the array that they belong to."""
        left, after = np.arange(len(positions)), positions.copy()
        found, owners = [pa.array([], to_arrow(element))], [_NO_PLACES]
        while len(left):
            reader = self._of(left)
            reader._require(after[left] < reader.ends, f"the end inside an {type_name}")
            marks = self.data[after[left]]
            reader._require(marks <= 1, f"a byte in an {type_name} that says neither that an element follows nor that none does")
            after[left] += 1
            left = left[marks == 1]
            column, after[left] = self._of(left).column(after[left], element)
            found.append(column)
            owners.append(left)
        of_elements = np.concatenate(owners)
        elements = pa.concat_arrays(found).take(pa.array(np.argsort(of_elements, kind="stable")))
        return listed(type_name, np.bincount(of_elements, minlength=len(positions)), None, [elements]), after

    def _of(self, places: Integers) -> _KeyReader:
        return replace(self, ends=self.ends[places], rows=self.rows[places])

    def _require(self, holds: Mask, found: str) -> None:
        if not holds.all():
            row = int(self.rows[np.argmin(holds)])
            raise CorruptionError(f"found {found} in the key of row {row}; expected a key as encode_keys writes it")


def _has_bytes(type_name: str) -> bool:
    return type_name in BYTES_TYPES or any(map(_has_bytes, inner_types(type_name)))


def _has_stray_zero(column: pa.BinaryArray) -> Mask:
    zeros, escapes = (pc.count_substring(column, pattern=pattern).fill_null(0).to_numpy() for pattern in (b"\x00", b"\x00\xff"))
    stray: Mask = zeros != escapes
    return stray


def _not_all_null(columns: Sequence[pa.Array]) -> Mask | None:
    """Which rows have a value in some column; None when all have."""
    valid: Mask | None = None
    for column in columns:
        mask = valid_rows(column.dictionary_decode() if pa.types.is_dictionary(column.type) else column)
        if mask is None:
            return None
        valid = mask if valid is None else valid | mask
    return valid


def _kafka_bytes(column: pa.Array) -> pa.BinaryArray | None:
    """What Kafka's own serialiser makes of a column, whose texts and byte strings are not copied; None if it has none for the type."""
    column, type_name = _canonical_key(column)
    if type_name not in KAFKA_TYPES:
        return None
    if type_name in BYTES_TYPES:
        return column.cast(pa.binary())
    values, valid = fixed_values(column, type_name), valid_rows(column)
    numbers = (_one_zero_one_nan(values) if values.dtype.kind == "f" else values).byteswap()
    return join([numbers]) if valid is None else gather(ByteSlices.of(join([numbers])), valid)


def _murmur2(rows: ByteSlices) -> npt.NDArray[np.uint32]:
    if len(rows) <= FEW_ROWS:
        return np.array([_murmur2_alone(rows.row(number)) for number in range(len(rows))], np.uint32)
    if rows.is_whole and rows.lengths.min() == rows.lengths.max():
        return _murmur2_alike(rows, int(rows.lengths[0]))
    word_counts = rows.lengths >> 2
    if word_counts.min() == word_counts.max():
        return _murmur2_sorted(rows, word_counts)
    narrow = np.uint16 if word_counts.max() < 1 << 16 else np.int64  # 16 bits are sorted in linear time
    order = np.argsort(word_counts.astype(narrow), kind="stable")
    hashes = np.empty(len(rows), np.uint32)
    hashes[order] = _murmur2_sorted(rows.take(order), word_counts[order])
    return hashes


def _murmur2_alone(value: bytes) -> int:
    """The hash of one value; numpy would take twenty steps a word."""
    factor, shift, whole = int(MURMUR_FACTOR), int(MURMUR_SHIFT), len(value) & ~3
    found = len(value) ^ int(MURMUR_SEED)
    for (word,) in _WORD.iter_unpack(value[:whole]):
        mixed = word * factor & _UINT32
        found = (found * factor & _UINT32) ^ ((mixed ^ mixed >> shift) * factor & _UINT32)
    if rest := value[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * factor & _UINT32
    found = (found ^ found >> 13) * factor & _UINT32
    return found ^ found >> 15


def _murmur2_sorted(rows: ByteSlices, word_counts: Integers) -> npt.NDArray[np.uint32]:
    """The hashes of rows in ascending order of their whole words: those that have one more are then always the last ones."""
    words = overlapping(np.concatenate([rows.data, np.zeros(_PADDING, np.uint8)]), 4)
    hashes = rows.lengths.astype(np.uint32) ^ MURMUR_SEED
    # At each turn, the hashes from `begin` on take in their word of that number; those in front have no such word, and are left alone.
    for word in range(int(word_counts[-1])):
        begin = np.searchsorted(word_counts, word, side="right")
        mixed = words[rows.starts[begin:] + 4 * word] * MURMUR_FACTOR
        mixed ^= mixed >> MURMUR_SHIFT
        mixed *= MURMUR_FACTOR
        hashes[begin:] *= MURMUR_FACTOR
        hashes[begin:] ^= mixed
    rest_bytes = rows.lengths & 3  # behind the last whole word; without any, the mask is 0 and the factor 1
    hashes ^= words[rows.starts + 4 * word_counts] & _REST_MASKS[rest_bytes]
    hashes *= _REST_FACTORS[rest_bytes]
    return _finished(hashes)


def _murmur2_alike(rows: ByteSlices, length: int) -> npt.NDArray[np.uint32]:
    """The hashes of rows of one length that lie one behind the other: their words are found by steps of that length, in a third of the time."""
    whole, rest_bytes = length >> 2, length & 3
    data = np.concatenate([rows.data, np.zeros(_PADDING, np.uint8)]) if rest_bytes else rows.data
    words = [np.ndarray((len(rows),), "<u4", data, int(rows.starts[0]) + 4 * word, (length,)) for word in range(-(-length // 4))]
    hashes = np.full(len(rows), np.uint32(length) ^ MURMUR_SEED, np.uint32)
    for word in words[:whole]:
        mixed = word * MURMUR_FACTOR
        mixed ^= mixed >> MURMUR_SHIFT
        mixed *= MURMUR_FACTOR
        hashes *= MURMUR_FACTOR
        hashes ^= mixed
    if rest_bytes:
        hashes ^= words[whole] & _REST_MASKS[rest_bytes]
        hashes *= MURMUR_FACTOR
    return _finished(hashes)


def _finished(hashes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """The last step of all hashes, in place."""
    hashes ^= hashes >> np.uint32(13)
    hashes *= MURMUR_FACTOR
    hashes ^= hashes >> np.uint32(15)
    return hashes
