"""
Columns as another type, at any depth: those with nulls of no type inside, and those that become decimals, among them.

Arrow casts null to null by an array that is as long as the outermost one, whatever the list, map or struct around it holds: rows have
wrong lengths, and reading them may end the process. What it makes of numbers that are too large for a decimal is in `decimals`.
So such a column is taken apart and made again; everything else is Arrow's cast.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.decimals import decimals_of_numbers, decimals_of_texts

_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
    pa.types.is_fixed_size_list,
)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def recast(values: pa.Array, type: pa.DataType) -> pa.Array:
    """The array as `type`, by Arrow's safe cast of what it holds; ArrowInvalid where that cannot be."""
    if values.type == type:
        return values
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), type)
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([recast(chunk, type) for chunk in values.chunks], type)
    if pa.types.is_dictionary(values.type) and _holds_decimals(type):
        return recast(values.dictionary_decode(), type)
    if pa.types.is_decimal(type):
        is_text = any(is_kind(values.type) for is_kind in _TEXTS)
        return decimals_of_texts(values.cast(pa.string()), type) if is_text else decimals_of_numbers(values, type)
    if not (pa.types.is_nested(type) and (_holds_nulls(values.type) or _holds_decimals(type))):
        return values.cast(type)
    if pa.types.is_struct(type) and pa.types.is_struct(values.type):
        parts = [recast(_field(values, place, type), field.type) for place, field in enumerate(type)]
        if not parts:
            return values.cast(type)
        return pa.StructArray.from_arrays(parts, fields=list(type), mask=values.is_null() if values.null_count else None)
    if pa.types.is_map(values.type):
        return _recast_map(values, type)
    if _is_list(values.type) and _is_list(type):
        return _listed(type, pc.list_value_length(values), recast(values.flatten(), type.value_type))
    return values.cast(type)


def _field(structs: pa.Array, place: int, type: pa.StructType) -> pa.Array:
    """The field of structs that becomes one of a type: by its place where all are there, else by its name, as Arrow casts."""
    names = structs.type.names
    if names == type.names or (len(names) == type.num_fields and not set(names).intersection(type.names)):
        return pc.struct_field(structs, [place])
    name = type.names[place]
    if names.count(name) == 1:
        return pc.struct_field(structs, [names.index(name)])
    if name in names or not type.field(place).nullable:
        raise pa.ArrowInvalid(f"the fields of {structs.type} and {type} do not go together: {name!r}")
    return pa.nulls(len(structs))


def map_entries(maps: pa.Array) -> tuple[pa.Array, pa.Array]:
    """How many entries each map has, null for null; and all entries, end to end, as structs of key and value."""
    offsets = np.frombuffer(maps.buffers()[1] or b"", np.int32)[maps.offset : maps.offset + len(maps) + 1]
    if not len(maps):
        return pa.array([], pa.int32()), maps.values.slice(0, 0)
    lengths = np.diff(offsets)
    missing = maps.is_null().to_numpy(zero_copy_only=False) if maps.null_count else None
    counts = pa.array(lengths, pa.int32(), mask=missing)
    if missing is None or not lengths[missing].any():
        return counts, maps.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    there = np.where(missing, 0, lengths)
    starts = np.repeat(offsets[:-1] - (np.cumsum(there) - there), there)
    return counts, maps.values.take(pa.array(starts + np.arange(int(there.sum()))))


def _recast_map(maps: pa.Array, type: pa.DataType) -> pa.Array:
    counts, entries = map_entries(maps)
    if not pa.types.is_map(type):
        return _listed(type, counts, recast(entries, type.value_type)) if _is_list(type) else maps.cast(type)
    keys, items = recast(pc.struct_field(entries, [0]), type.key_type), recast(pc.struct_field(entries, [1]), type.item_type)
    return pa.MapArray.from_arrays(_offsets(counts, pa.int32()), keys, items, type=type, mask=_mask(counts))


def _listed(type: pa.DataType, counts: pa.Array, values: pa.Array) -> pa.Array:
    """Lists of so many values each; null where the number is."""
    kind = pa.LargeListArray if pa.types.is_large_list(type) else pa.ListArray
    if not (pa.types.is_list(type) or pa.types.is_large_list(type)):
        return _listed(pa.large_list(type.value_field), counts, values).cast(type)
    offsets = _offsets(counts, pa.int64() if kind is pa.LargeListArray else pa.int32())
    return kind.from_arrays(offsets, values, type=type, mask=_mask(counts))


def _offsets(counts: pa.Array, type: pa.DataType) -> pa.Array:
    numbers = counts.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return pa.array(np.concatenate([[0], np.cumsum(numbers)])).cast(type)


def _mask(counts: pa.Array) -> pa.Array | None:
    return counts.is_null() if counts.null_count else None


def _is_list(type: pa.DataType) -> bool:
    return any(is_kind(type) for is_kind in _LISTS)


def _holds_decimals(type: pa.DataType) -> bool:
    """Whether somewhere inside stands a column of decimals."""
    return pa.types.is_decimal(type) or any(_holds_decimals(type.field(place).type) for place in range(type.num_fields))


def _holds_nulls(type: pa.DataType) -> bool:
    """Whether somewhere inside stands a column of no type."""
    return pa.types.is_null(type) or any(_holds_nulls(type.field(place).type) for place in range(type.num_fields))
