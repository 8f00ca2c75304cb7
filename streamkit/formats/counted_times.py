"""Whole numbers as times, and times as whole numbers: always milliseconds since 1970, whoever converts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.conditionals import if_else
from streamkit.recast import recast

TIME_MS_MAX = ((1 << 63) - 1) // 1_000  # from 1970, of what a time in microseconds can hold


def times_of_numbers(numbers: pa.Array, kind: pa.TimestampType) -> pa.Array:
    """Integers, in milliseconds since 1970, as times of a type; ArrowInvalid for one beyond all times."""
    try:
        return numbers.cast(pa.int64()).cast(pa.timestamp("ms", kind.tz)).cast(kind)
    except pa.ArrowInvalid:
        outside = pc.or_(pc.less(numbers, -TIME_MS_MAX), pc.greater(numbers, TIME_MS_MAX))
        found = numbers.filter(outside)
        raise pa.ArrowInvalid(
            f"found {found[0] if len(found) else numbers[0]}, expected milliseconds since 1970, at most {TIME_MS_MAX} before or after it"
        ) from None


def numbers_of_times(times: pa.Array) -> pa.Array:
    """Times as milliseconds since 1970; ArrowInvalid for one between two milliseconds."""
    return times.cast(pa.timestamp("ms", times.type.tz)).cast(pa.int64())


def has_times(type: pa.DataType) -> bool:
    """Whether a type is a time or a date, or has one inside."""
    is_time = pa.types.is_timestamp(type) or pa.types.is_date(type)
    return is_time or any(has_times(type.field(place).type) for place in range(type.num_fields))


def counted(values: pa.Array) -> pa.Array:
    """Values with whole numbers in place of the dates and times inside: days, and what a time counts. Python has no years but 1 to 9999."""
    return recast(values, _counted_type(values.type)) if has_times(values.type) else values


def _counted_type(type: pa.DataType) -> pa.DataType:
    if pa.types.is_date32(type):
        return pa.int32()
    if pa.types.is_timestamp(type) or pa.types.is_date(type):
        return pa.int64()
    if pa.types.is_map(type):
        return pa.map_(_counted_type(type.key_type), _counted_type(type.item_type))
    if pa.types.is_struct(type):
        return pa.struct([field.with_type(_counted_type(field.type)) for field in type])
    return pa.list_(_counted_type(type.value_type)) if pa.types.is_list(type) else type


def with_counted_times(value: Any, type: pa.DataType) -> Any:
    """
    A Python value as Arrow takes it for a type: in it whole numbers for times, which are milliseconds, as the microseconds that Arrow counts.

    TypeError for a number that is not whole, and for any number in place of a date.
    """
    if value is None or not has_times(type):
        return value
    if pa.types.is_timestamp(type) or pa.types.is_date(type):
        return _counted(value, type) if isinstance(value, int | float | np.number | np.bool_) else value
    if pa.types.is_map(type):
        pairs = value.items() if isinstance(value, Mapping) else value
        return [(with_counted_times(key, type.key_type), with_counted_times(one, type.item_type)) for key, one in pairs]
    if pa.types.is_struct(type):
        if isinstance(value, tuple):
            return tuple(with_counted_times(one, field.type) for one, field in zip(value, type, strict=False))
        types = {field.name: field.type for field in type}
        return {name: with_counted_times(one, types[name]) if name in types else one for name, one in dict(value).items()}
    return [with_counted_times(one, type.value_type) for one in value]


def _counted(value: Any, type: pa.DataType) -> int | None:
    if isinstance(value, float | np.floating) and math.isnan(value):
        return None  # as pandas has what is absent
    if isinstance(value, bool | np.bool_ | float | np.floating) or pa.types.is_date(type):
        expected = "a date" if pa.types.is_date(type) else "a time, or whole milliseconds since 1970"
        raise TypeError(f"found {value!r}, expected {expected}")
    return int(value) * 1_000


def in_type(found: pa.Array, type: pa.DataType) -> pa.Array:
    """An array in another type as Arrow casts it, save that whole numbers and times are milliseconds since 1970 to each other."""
    if found.type == type or not (has_times(type) or has_times(found.type)):
        return recast(found, type)
    if pa.types.is_list(type) and pa.types.is_list(found.type):
        lists = pa.ListArray.from_arrays(found.offsets, in_type(found.values, type.value_type), type=type)
        return if_else(found.is_valid(), lists, pa.scalar(None, type)) if found.null_count else lists
    if pa.types.is_struct(type) and pa.types.is_struct(found.type) and found.type.names == type.names:
        arrays = [in_type(pc.struct_field(found, [field.name]), field.type) for field in type]
        return pa.StructArray.from_arrays(arrays, fields=list(type), mask=found.is_null())
    if pa.types.is_timestamp(type) and pa.types.is_integer(found.type):
        return times_of_numbers(found, type)
    if pa.types.is_timestamp(found.type) and pa.types.is_integer(type):
        return numbers_of_times(found).cast(type)
    if pa.types.is_date(type) != pa.types.is_date(found.type) and (pa.types.is_integer(type) or pa.types.is_integer(found.type)):
        raise pa.ArrowNotImplementedError(f"a date is no number, and found {found.type} for {type}")
    return recast(found, type)
