"""
What a user may give as a value of a key column: one rule, for all verbs of a view.

It is stricter than Arrow, which makes a date of a datetime or a decimal, null of NaN, 1.0 of True, and "1" of 1: a look-up by such a value
would answer for a key that nobody asked for, or that there is none where the column of keys is the wrong one.
An array is what the list of its values is. A struct is a mapping with just its fields, since one that is forgotten would be a null.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Mask
from streamkit.chunks import one_array
from streamkit.errors import ConfigError
from streamkit.expressions.python.python_functions import exact_array
from streamkit.recast import recast
from streamkit.schema import SchemaColumn

_KINDS: Mapping[Callable[[pa.DataType], bool], tuple[type, ...]] = {  # of columns, and the classes of their values
    pa.types.is_boolean: (bool, np.bool_),
    pa.types.is_integer: (int, float, decimal.Decimal, np.integer, np.floating),  # a fraction is refused further on
    pa.types.is_floating: (int, float, np.integer, np.floating),
    pa.types.is_decimal: (int, decimal.Decimal),
    pa.types.is_string: (str,),
    pa.types.is_binary: (bytes, bytearray, memoryview),
    pa.types.is_date: (dt.date,),
    pa.types.is_timestamp: (dt.datetime, int, np.integer),
}
_ARRAYS: Mapping[Callable[[pa.DataType], bool], tuple[Callable[[pa.DataType], bool], ...]] = {  # and the types of their arrays
    pa.types.is_boolean: (pa.types.is_boolean,),
    pa.types.is_integer: (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    pa.types.is_floating: (pa.types.is_floating, pa.types.is_integer),
    pa.types.is_decimal: (pa.types.is_decimal, pa.types.is_integer),
    pa.types.is_string: (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    pa.types.is_binary: (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary),
    pa.types.is_date: (pa.types.is_date,),
    pa.types.is_timestamp: (pa.types.is_timestamp, pa.types.is_integer),
}
_ONE_BY_ONE = (  # arrays that Arrow would cast to other values than Python's: the type of the column, and theirs
    (pa.types.is_timestamp, pa.types.is_integer),  # for it microseconds
    (pa.types.is_integer, pa.types.is_floating),
    (pa.types.is_integer, pa.types.is_decimal),
    (pa.types.is_float32, pa.types.is_float64),  # beyond the greatest float infinity
)
UNFIT = (pa.ArrowException, TypeError, ValueError, OverflowError, ArithmeticError)


@dataclass(frozen=True, eq=False)
class GivenValues:
    """
    Values of a key column, as its type.

    `is_cut` says of which the column holds no equal, because they have nanoseconds: these lie just behind what is in `values`.
    """

    values: pa.Array
    is_cut: Mask


def key_values(given: Any, column: SchemaColumn, store: str) -> GivenValues:
    """The values of a list or an array; ConfigError names the first that is none of the column's type. `store` is named there, too."""
    if isinstance(given, list):
        return _of_list(given, column, store)
    array = one_array(given, column.name)
    array = array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array
    type = column.arrow.type
    is_cut = np.zeros(len(array), bool)
    if array.null_count == len(array):
        return GivenValues(pa.nulls(len(array), type), is_cut)
    if not _may_become(array.type, type):
        raise ConfigError(
            f"found keys with {column.name} as {array.type}; {store} has {column.name} {column.type}: expected that type"
        )
    is_other_nested = pa.types.is_nested(type) and array.type != type
    if is_other_nested or any(is_kind(type) and is_found(array.type) for is_kind, is_found in _ONE_BY_ONE):
        return _of_list(array.to_pylist(), column, store)
    if pa.types.is_timestamp(type) and array.type.unit == "ns":
        cut = pc.floor_temporal(array, unit="microsecond")
        is_cut = pc.not_equal(cut, array).fill_null(False).to_numpy(zero_copy_only=False)
        array = cut
    try:
        return GivenValues(array if array.type == type else recast(array, type), is_cut)
    except UNFIT as error:
        raise ConfigError(
            f"the keys do not fit; {store} has {column.name} {column.type}, expected values of that type: {error}"
        ) from error


def _of_list(given: list[Any], column: SchemaColumn, store: str) -> GivenValues:
    type = column.arrow.type
    is_cut = np.zeros(len(given), bool)
    if pa.types.is_timestamp(type):
        given, is_cut = _in_microseconds(given)
    try:
        if all(_fits(value, type) for value in given):
            return GivenValues(exact_array(given, type), is_cut)
    except UNFIT as error:
        reason: Exception | None = error
    else:
        reason = None
    wrong = next(value for value in given if not _is_value(value, type))
    raise ConfigError(
        f"found the key {column.name} = {wrong!r} ({wrong.__class__.__name__}); {store} has {column.name} {column.type}: "
        "expected a value of that type"
    ) from reason


def _fits(value: Any, type: pa.DataType) -> bool:
    """Whether a value is of a class that the column's values have."""
    if value is None:
        return True
    if pa.types.is_struct(type):
        has_fields = isinstance(value, Mapping) and value.keys() == set(type.names)
        return has_fields and all(_fits(value[field.name], field.type) for field in type)
    if pa.types.is_list(type):
        return isinstance(value, list | tuple | np.ndarray) and all(_fits(one, type.value_type) for one in value)
    classes = next((classes for is_kind, classes in _KINDS.items() if is_kind(type)), (object,))
    if not isinstance(value, classes) or isinstance(value, np.timedelta64):
        return False
    if isinstance(value, bool):
        return bool in classes or classes == (object,)
    if isinstance(value, dt.datetime):
        is_time = not pa.types.is_date(type) and not math.isnan(value.year)  # that of NaT, which pandas calls a datetime
        return is_time and (value.tzinfo is None or type.tz is not None)
    return True


def _is_value(value: Any, type: pa.DataType) -> bool:
    try:
        return _fits(value, type) and len(exact_array([value], type)) == 1
    except UNFIT:
        return False


def _in_microseconds(given: list[Any]) -> tuple[list[Any], Mask]:
    """Times as they were given, those of numpy as datetimes, and which of them have nanoseconds beside these."""
    is_cut = np.array([getattr(value, "nanosecond", 0) > 0 for value in given], bool)  # pandas has them
    values = list(given)
    for place, value in enumerate(given):
        if isinstance(value, np.datetime64) and not np.isnat(value):
            cut = value.astype("M8[us]")
            if isinstance(near := cut.item(), dt.datetime):  # within the years 1 to 9999
                values[place], is_cut[place] = near, cut != value
    return values, is_cut


def _may_become(found: pa.DataType, type: pa.DataType) -> bool:
    if found == type:
        return True
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(type) and found.tz is not None and type.tz is None:
        return False
    kinds = next((kinds for is_kind, kinds in _ARRAYS.items() if is_kind(type)), None)
    return kinds is None or any(is_kind(found) for is_kind in kinds)
