"""
Columns of Python's values as Arrow arrays, each value as if it stood alone.

Arrow looks for one type that all values have which it gets at once. So true beside 1.5 is 1.0, a time beside a date is a
date, and some mixtures end the process. Here it gets values of one kind at a time: one class, and of numpy's times and Arrow's
scalars, whose class does not say their type, one type.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.chunks import one_array
from streamkit.decimals import decimals_of_python

CastArray: TypeAlias = Callable[[pa.Array], pa.Array]

_TYPED = (np.datetime64, pa.Scalar)
_ATOMS = (str, bytes, bytearray, memoryview, np.generic, pa.Scalar)  # what can be iterated over, and is one value
_ABSENT = ("NaTType", "NAType")


def array_of_python(values: list[Any], target: pa.DataType, cast: CastArray) -> pa.Array:
    """
    Atomic values in a type, None as null; `cast` gets an array for each kind of them, in Arrow's type for it.

    ArrowException, ValueError, TypeError or OverflowError if one does not fit, from here or from `cast`.
    """
    classes = set(map(type, values)) - {type(None)}
    if not classes:
        return pa.nulls(len(values), target)
    are_typed = any(issubclass(one, _TYPED) for one in classes)
    if len(classes) == 1 and not are_typed:
        return _of_class(classes.pop(), values, target, cast)
    kinds = list(map(_kind if are_typed else type, values))
    parts = []
    for kind in dict.fromkeys(kinds):
        if kind is not type(None):
            some = [value if one == kind else None for value, one in zip(values, kinds, strict=True)]
            parts.append(_of_class(kind[0] if isinstance(kind, tuple) else kind, some, target, cast))
    return pc.coalesce(*parts)


def _kind(value: Any) -> Any:
    """The class of a value, with its own type if that says more."""
    if isinstance(value, _TYPED):
        return type(value), value.dtype.str if isinstance(value, np.datetime64) else value.type
    return type(value)


def _of_class(one: type, values: list[Any], target: pa.DataType, cast: CastArray) -> pa.Array:
    """Values of one kind, and None."""
    if one.__name__ in _ABSENT:
        raise ValueError("a null in a list is None")
    if issubclass(one, Decimal) and pa.types.is_decimal(target):
        return decimals_of_python(values, target)
    if one is int and pa.types.is_decimal(target):  # of which Arrow takes those of 64 bits
        return decimals_of_python([None if value is None else Decimal(value) for value in values], target)
    if issubclass(one, dt.datetime):
        return cast(_times(one, values, target))
    if issubclass(one, np.datetime64):  # of which Arrow takes fewer one by one than in an array
        return cast(pa.array(np.array(values, next(value.dtype for value in values if value is not None))))
    if hasattr(one, "__iter__") and not issubclass(one, _ATOMS):  # what is in it may be a mixture
        raise TypeError(f"there is no conversion from {one.__name__} to {target}")
    return cast(one_array(pa.array(values)))


def _times(one: type, values: list[Any], target: pa.DataType) -> pa.Array:
    """Datetimes; with a zone if the target or one of them has one, since Arrow would give all the zone of the first."""
    if hasattr(one, "nanosecond") and any(value is not None and value.nanosecond for value in values):
        raise ValueError("it has nanoseconds, and a column has microseconds")  # Arrow takes a time of pandas for a datetime
    is_zoned = getattr(target, "tz", None) is not None or any(value is not None and value.tzinfo is not None for value in values)
    return pa.array(values, pa.timestamp("us", "UTC" if is_zoned else None))
