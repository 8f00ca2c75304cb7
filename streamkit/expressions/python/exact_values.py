"""
Values that users' functions give, as a store of the declared type would give them back.

A function may give a tuple for an array, or leave out fields of a struct. What it sees of its own result later must not depend
on whether the value was stored in between. So each value is brought into one form at once, which shares nothing with the old.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import pyarrow as pa

from streamkit.expressions.python.one_form import unknown_field
from streamkit.expressions.python.python_functions import exact_array
from streamkit.log.values.python_values import python_values

ConvertValue: TypeAlias = Callable[[Any], Any]
UNFIT = (
    pa.ArrowException,
    TypeError,
    ValueError,
    OverflowError,
)  # what a conversion raises for a value that its type does not hold


def exactly(type: pa.DataType) -> ConvertValue:
    """The conversion of a value of this type into its one form; it raises one of UNFIT for a value that the type does not hold."""

    def through_arrow(value: Any) -> Any:
        return python_values(exact_array([value], type))[0]

    quick = _quick(type, through_arrow)
    return lambda value: None if value is None else quick(value)


def copied(value: Any) -> Any:
    """A copy of a value in its one form, which shares nothing that can be changed; many times faster than `copy.deepcopy`."""
    kind = value.__class__
    if kind is dict:
        return {name: copied(part) for name, part in value.items()}
    if kind is list:
        return [copied(part) for part in value]
    return tuple(map(copied, value)) if kind is tuple else value


def _quick_struct(type: pa.StructType, other: ConvertValue) -> ConvertValue:
    """The conversion of a dict, which has no names but those of the fields."""
    fields = [(field.name, exactly(field.type)) for field in type]
    known = frozenset(name for name, _ in fields)

    def convert(value: Any) -> Any:
        if value.__class__ is not dict:
            return other(value)
        if not known.issuperset(value):
            raise unknown_field(value, [name for name, _ in fields])
        return {name: convert(value.get(name)) for name, convert in fields}

    return convert


def _quick(type: pa.DataType, other: ConvertValue) -> ConvertValue:
    """The conversion of values that are not null; `other` converts those that need more than a look at their class."""
    if pa.types.is_integer(type):
        least, most = -(1 << type.bit_width - 1), (1 << type.bit_width - 1) - 1
        return lambda value: value if value.__class__ is int and least <= value <= most else other(value)
    if pa.types.is_float64(type):
        return lambda value: value if value.__class__ is float else other(value)
    if pa.types.is_boolean(type):
        return lambda value: value if value.__class__ is bool else other(value)
    if pa.types.is_string(type):
        return lambda value: value if value.__class__ is str and value.isascii() else other(value)
    if pa.types.is_binary(type):
        return lambda value: value if value.__class__ is bytes else other(value)
    if pa.types.is_list(type):
        element = exactly(type.value_type)
        return lambda value: list(map(element, value)) if value.__class__ is list else other(value)
    if pa.types.is_struct(type):
        return _quick_struct(type, other)
    if pa.types.is_timestamp(type) and type.unit == "us":
        zone = None if type.tz is None else ZoneInfo(type.tz)
        return lambda value: value if value.__class__ is dt.datetime and value.tzinfo is zone and not value.fold else other(value)
    return other
