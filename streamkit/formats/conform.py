"""Columns in other types: those that a reader wants, of values that were written in others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.conditionals import if_else, repeat
from streamkit.data_type import FieldPath, from_arrow
from streamkit.decimals import decimals_of_texts
from streamkit.formats.counted_times import in_type
from streamkit.formats.time_texts import times_of_texts
from streamkit.recast import recast

Default: TypeAlias = "pa.Array | str"  # one value, or why there is none
Defaults: TypeAlias = Mapping[FieldPath, Default]  # of all fields of a schema, by the names on the way; "" is an element


class MissingFieldError(ValueError):
    """A field has no value, and no default."""


def conformed(values: pa.Array, wanted: pa.DataType, path: FieldPath, defaults: Defaults | None) -> pa.Array:
    """
    The values in the wanted type, fields of structs by their names.

    A field that is missing has its default; without `defaults`, and if these do not name it, it is null. ArrowInvalid for a value that the type cannot hold,
    ArrowNotImplementedError for types that do not go together, MissingFieldError for a field without a default.
    """
    if values.type == wanted:
        return values
    if pa.types.is_struct(wanted) and pa.types.is_struct(values.type):
        arrays = [_field(values, field, (*path, field.name), defaults) for field in wanted]
        return pa.StructArray.from_arrays(arrays, fields=list(wanted), mask=values.is_null())
    if pa.types.is_list(wanted) and pa.types.is_list(values.type):
        inner = conformed(values.values, wanted.value_type, (*path, ""), defaults)
        return _with_nulls(pa.ListArray.from_arrays(values.offsets, inner, type=wanted), values)
    if pa.types.is_map(wanted) and pa.types.is_map(values.type):
        inner = conformed(values.items, wanted.item_type, (*path, ""), defaults)
        keys = recast(values.keys, wanted.key_type)
        return _with_nulls(pa.MapArray.from_arrays(values.offsets, keys, inner, type=wanted), values)
    if pa.types.is_map(values.type) and pa.types.is_list(wanted):  # which Arrow calls an error of types, and of no values none
        raise pa.ArrowNotImplementedError("a map is no list")
    return _atomic(values, wanted)


def _atomic(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Values that are not nested, in another type; whole numbers and times are milliseconds since 1970 to each other."""
    kind = values.type
    if pa.types.is_string(kind) and (pa.types.is_timestamp(wanted) or pa.types.is_date(wanted)):
        return times_of_texts(values, from_arrow(wanted))
    if pa.types.is_string(kind) and pa.types.is_decimal(wanted):
        return decimals_of_texts(values, wanted)
    found = in_type(values, wanted)
    if pa.types.is_floating(wanted) and pa.types.is_floating(kind) and not pc.is_inf(found).equals(pc.is_inf(values)):
        raise pa.ArrowInvalid("it is beyond the greatest float")
    return found


def default_values(count: int, wanted: pa.DataType, path: FieldPath, defaults: Defaults | None) -> pa.Array:
    """The default of a field that the values lack, so often."""
    if defaults is None or path not in defaults:  # a field that no schema has
        return pa.nulls(count, wanted)
    found = defaults[path]
    if isinstance(found, str):
        raise MissingFieldError(found)
    return conformed(repeat(found[0], count), wanted, path, defaults)


def _field(values: pa.StructArray, field: pa.Field, path: FieldPath, defaults: Defaults | None) -> pa.Array:
    if values.type.get_field_index(field.name) < 0:
        return default_values(len(values), field.type, path, defaults)
    return conformed(pc.struct_field(values, [field.name]), field.type, path, defaults)


def _with_nulls(array: pa.Array, like: pa.Array) -> pa.Array:
    """The lists, null where the others are."""
    return if_else(like.is_valid(), array, pa.scalar(None, array.type)) if like.null_count else array
