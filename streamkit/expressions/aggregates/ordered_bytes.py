"""
Values as bytes that stand in their order, the largest first if that is wanted: how `top_k` and members of groups are kept.

A value is what `encode_keys` makes of its columns: itself, or, of a struct, whether it is there and then its fields. Values in a
falling order have all bits turned over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import AnyArray, Bytes, Integers
from streamkit.data_type import array_of, fields_of, is_nested, to_arrow
from streamkit.expressions.core.accumulation import Accumulator, chosen
from streamkit.expressions.core.groups import one_zero
from streamkit.log.values.byte_order import ROWS_MIN, order_by_first_bits, words_of
from streamkit.log.values.keys import decode_leading, encode_keys
from streamkit.log.values.slices import ByteSlices, overlapping

_WORD = 8
_KEPT_BITS = ~np.array([(1 << 8 * (_WORD - taken)) - 1 for taken in range(_WORD + 1)], np.uint64)  # by how many bytes are taken


def order_complaint(type_name: str) -> str | None:
    """Why values of a type have no such bytes; None if they have."""
    if (fields := fields_of(type_name)) is not None:
        return next((found for _, field in fields if (found := order_complaint(field)) is not None), None)
    return f"values of {type_name} have no order" if is_nested(type_name) else None


def encode_ordered(column: pa.Array, is_falling: bool = False) -> pa.BinaryArray:
    """The bytes of values, null ones too."""
    encoded = encode_keys(_flat(column))
    return _turned(encoded) if is_falling else encoded


def ranks(values: pa.Array) -> Integers:
    """A number for each value, equal for equal ones and growing with them; NaN is the greatest, and null of anything."""
    if pa.types.is_struct(values.type):
        values = where_there(encode_ordered(values), values)
    encoded = (one_zero(values) if pa.types.is_floating(values.type) else values).dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy().astype(np.int64)
    places = np.zeros(len(order) + 1, np.int64)
    places[order] = np.arange(len(order))
    of_rows: Integers = places[encoded.indices.fill_null(len(order)).to_numpy()]
    return of_rows


def order_within(owners: Integers, values: pa.BinaryArray) -> Integers:
    """
    The order of rows by owner, and of an owner's rows by their bytes, none of them null.

    Many rows are sorted by the first bits in which they differ. Those that are equal there, or few, are sorted by their first 16 bytes, as two
    numbers, those that are equal again by the next 16, and so on. Mostly few are, so most bytes of long values are never looked at.
    """
    slices = ByteSlices.of(values)
    padded = np.concatenate([slices.data, np.zeros(2 * _WORD, np.uint8)])
    order = np.arange(len(values))
    groups: AnyArray = owners  # the run of each place that may still change
    places, depth = np.arange(len(values)), 0
    if len(values) >= ROWS_MIN:
        number, order, places = order_by_first_bits(chain([owners.view(np.uint64)], words_of(values)), len(values))
        groups = number[order[places]]
    while len(places):
        rows = order[places]
        left = np.clip(slices.lengths[rows] - depth, 0, 2 * _WORD)
        keys: list[AnyArray] = [groups, *_words(padded, slices.starts[rows] + depth, left)]
        if left.min() < 2 * _WORD:
            keys.append(left)  # of equal words the value that ends comes first
        within = np.lexsort(keys[::-1])
        order[places] = rows[within]
        is_new = np.ones(len(places), bool)
        is_new[1:] = np.any([key[within][1:] != key[within][:-1] for key in keys], axis=0)
        depth += 2 * _WORD
        # Next come the runs of several rows whose bytes go on; all of a run have the same number of bytes left, up to those compared.
        runs = np.cumsum(is_new) - 1
        goes_on = (np.bincount(runs)[runs] > 1) & (left[within] == 2 * _WORD)
        places, groups = places[goes_on], runs[goes_on]
    return order


def _words(padded: Bytes, starts: Integers, lengths: Integers) -> tuple[AnyArray, AnyArray]:
    """The next 16 bytes of each value as two numbers that compare as they do; zeros stand behind the end of a value."""
    found = []
    for number in range(2):
        taken = np.clip(lengths - number * _WORD, 0, _WORD)
        places = np.minimum(starts + number * _WORD, len(padded) - _WORD)  # behind the end of a value nothing is taken
        found.append(overlapping(padded, _WORD)[places].byteswap() & _KEPT_BITS[taken])
    return found[0], found[1]


def last_extreme(rows: pa.Array, by: pa.Array, is_largest: bool, accumulate: Accumulator) -> pa.Array:
    """The rows in which `by` is largest, or smallest, and of several of a group the last; null of a group whose `by` is null throughout."""
    places, count = ranks(by), len(by)
    numbers = (places if is_largest else count - places) * (count + 1) + np.arange(count)
    numbers[~by.is_valid().to_numpy(zero_copy_only=False)] = -1
    best = accumulate(np.maximum, numbers, -1)
    return chosen(rows, np.where(best < 0, -1, best % (count + 1)))


def where_there(encoded: pa.BinaryArray, argument: pa.Array) -> pa.BinaryArray:
    """The bytes, null where the argument is."""
    return pc.if_else(argument.is_valid(), encoded, pa.scalar(None, pa.binary())) if argument.null_count else encoded


def _first_or_null(lists: pa.Array) -> pa.BinaryArray:
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy().astype(np.int64)
    places = np.cumsum(lengths) - lengths
    return lists.flatten().take(pa.array(places, mask=lengths == 0))


def decode_first(lists: pa.Array, types: Sequence[str], falling: Sequence[bool]) -> tuple[list[pa.Array], pa.BooleanArray]:
    """The values of the first of each list, null of an empty list, and which lists have one."""
    first = _first_or_null(lists)
    is_there = first.is_valid()
    there = is_there.to_numpy(zero_copy_only=False)
    places = pa.array(np.cumsum(there) - 1, mask=~there)
    return [column.take(places) for column in decode_ordered(first.drop_null(), types, falling)], is_there


def decode_lists(lists: pa.Array, type_name: str) -> pa.Array:
    """Lists of the values that lists of bytes stand for."""
    (values,) = decode_ordered(lists.flatten(), [type_name], [False])
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy().astype(np.int64)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, values, type=to_arrow(array_of(type_name)))


def decode_ordered(encoded: pa.BinaryArray, types: Sequence[str], falling: Sequence[bool]) -> list[pa.Array]:
    """The values of each type that bytes stand for, one after the other; the inverse of `encode_ordered`."""
    rest, columns = ByteSlices.of(encoded), []
    for type_name, is_falling in zip(types, falling, strict=True):
        data = np.invert(rest.data) if is_falling else rest.data
        flat, left = decode_leading(ByteSlices(data, rest.starts, rest.lengths), _flat_types(type_name))
        columns.append(_whole(iter(flat), type_name))
        rest = ByteSlices(rest.data, left.starts, left.lengths)
    return columns


def _turned(encoded: pa.BinaryArray) -> pa.BinaryArray:
    slices = ByteSlices.of(encoded)
    offsets = np.append(slices.starts, slices.ends[-1:] if len(slices) else 0).astype(np.int32)
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(encoded), [None, pa.py_buffer(offsets), pa.py_buffer(np.invert(slices.data))]
    )


def _flat(column: pa.Array) -> list[pa.Array]:
    if not pa.types.is_struct(column.type):
        return [column]
    fields = [pc.struct_field(column, [place]) for place in range(column.type.num_fields)]
    return [column.is_valid(), *(flat for field in fields for flat in _flat(field))]


def _flat_types(type_name: str) -> list[str]:
    fields = fields_of(type_name)
    return [type_name] if fields is None else ["boolean", *(flat for _, field in fields for flat in _flat_types(field))]


def _whole(flat: Iterator[pa.Array], type_name: str) -> pa.Array:
    fields = fields_of(type_name)
    if fields is None:
        return next(flat).cast(to_arrow(type_name))
    is_there = next(flat)
    kind = to_arrow(type_name)
    inner = [_whole(flat, field) for _, field in fields]
    mask = pc.invert(is_there)
    return pa.StructArray.from_arrays(inner, fields=list(kind), mask=mask)
