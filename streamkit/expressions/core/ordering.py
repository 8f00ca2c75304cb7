"""
Values of any type as integers that are equal and ordered as the values are in Spark.

NaN equals NaN and is the largest number, 0.0 equals -0.0. Within arrays and structs null equals null and comes first;
a shorter array comes before those that it starts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.expressions.core.elements import Elements, as_numbers, structs_of, validity

_SIGN = np.int64(np.iinfo(np.int64).max)


def order_keys(values: pa.Array) -> np.ndarray:
    """An integer for each value; what stands for a null means nothing."""
    type = values.type
    if pa.types.is_null(type):
        return np.zeros(len(values), np.int64)
    if pa.types.is_boolean(type):
        return as_numbers(values.cast(pa.int8()))
    if pa.types.is_date(type):
        return as_numbers(values.cast(pa.int32()))
    if pa.types.is_timestamp(type):
        return as_numbers(values.cast(pa.int64()))
    if pa.types.is_integer(type):
        return as_numbers(values)
    if pa.types.is_floating(type):
        return _float_keys(values)
    if pa.types.is_struct(type):
        return _dense([ranks(pc.struct_field(values, [place])) for place in range(type.num_fields)])
    if pa.types.is_list(type):
        return _array_keys(values)
    return _dictionary_keys(values)


def ranks(values: pa.Array) -> np.ndarray:
    """As `order_keys`, but dense, and null is the least."""
    valid = validity(values)
    return _dense([valid.astype(np.int64), np.where(valid, order_keys(values), 0)])


def joint_keys(*arrays: pa.Array) -> list[np.ndarray]:
    """The keys of several arrays of one type, which can be compared with each other."""
    keys = order_keys(pa.concat_arrays(arrays))
    return np.split(keys, np.cumsum([len(array) for array in arrays])[:-1])


def groups(values: pa.Array) -> np.ndarray:
    """An integer for each value, the same for those that are equal; null is equal to null."""
    return ranks(values)


def without_negative_zeros(values: pa.Array) -> pa.Array:
    """The values with 0.0 for -0.0, at any depth."""
    if pa.types.is_floating(values.type):
        return pc.add(values, pa.scalar(0.0, values.type))
    if pa.types.is_list(values.type):
        elements = Elements.of(values)
        return elements.with_values(without_negative_zeros(elements.values)).as_arrays()
    if pa.types.is_struct(values.type):
        fields = [
            (field.name, without_negative_zeros(pc.struct_field(values, [place]))) for place, field in enumerate(values.type)
        ]
        return structs_of(fields, validity(values))
    return values


def sorted_places(parents: np.ndarray, values: pa.Array, ascending: bool, nulls_first: bool) -> np.ndarray:
    """The order in which values stand sorted within their rows."""
    valid = validity(values)
    keys = np.where(valid, order_keys(values), 0)
    nulls = valid if nulls_first else ~valid
    return np.lexsort((keys if ascending else ~keys, nulls, parents))


def _float_keys(values: pa.Array) -> np.ndarray:
    """The bits of a double, turned so that they are ordered as integers."""
    numbers = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
    bits = np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)
    return np.where(bits < 0, bits ^ _SIGN, bits)


def _dictionary_keys(values: pa.Array) -> np.ndarray:
    """The ranks of texts, bytes and decimals."""
    encoded = values.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places[as_numbers(encoded.indices)] if len(order) else np.zeros(len(values), np.int64)


def _array_keys(values: pa.Array) -> np.ndarray:
    """Place by place: the rows that are equal so far are told apart by their next elements."""
    elements = Elements.of(values)
    inner = ranks(elements.values)
    keys = np.zeros(len(values), np.int64)
    for place in range(int(elements.lengths.max(initial=0))):
        there = elements.lengths > place
        here = np.full(len(values), -1, np.int64)
        here[there] = inner[elements.starts[there] + place]
        keys = _dense([keys, here])
    return keys


def _dense(keys: Sequence[np.ndarray]) -> np.ndarray:
    """Ranks from 0 of rows that are compared by one key after the other."""
    order = np.lexsort(keys[::-1])
    differs = np.zeros(len(order), bool)
    for key in keys:
        differs[1:] |= key[order][1:] != key[order][:-1]
    found = np.empty(len(order), np.int64)
    found[order] = np.cumsum(differs)
    return found
