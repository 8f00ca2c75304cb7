"""
Values to the types of a schema, without loss; an error names the row.

Allowed: widening, narrowing of numbers that fit, other units of time, other layouts of texts and bytes, dictionaries.
What Arrow trusts without a look is checked first: texts are UTF-8, decimals within their precision, indexes within their
dictionary.
A timestamp without zone counts as UTC, a whole number for a timestamp as milliseconds since 1970.
A date that no timestamp can hold is refused: its column may become one.
Values from Python and pandas may also go from double to float, and from whole doubles to integers, since that is how both hold
such columns. What becomes of one does not depend on those beside it.
A column of pandas without a value fits any type: pandas has no type for nothing, so an empty column of a CSV is one of doubles.
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
from streamkit.data_type import is_nested
from streamkit.errors import SchemaError
from streamkit.formats.counted_times import times_of_numbers
from streamkit.log.rows.nested_conversion import Conversion, convert_nested
from streamkit.log.rows.python_columns import array_of_python
from streamkit.log.slab.frame import HEADERS_TYPE
from streamkit.log.values.validation import validate_column
from streamkit.names import HEADERS
from streamkit.recast import recast
from streamkit.schema import SchemaColumn

DAYS_MAX = ((1 << 63) - 1) // 86_400_000_000  # from 1970, of what a timestamp in microseconds can hold
_PLAIN = {bool, bytes, dt.date, float, str}  # one of them alone is in Arrow what pandas says; integers may have more than 64 bits
_REFUSED = (pa.ArrowException, ValueError, TypeError, OverflowError)


def convert_arrow(column: SchemaColumn, values: pa.Array, first_row: int = 0) -> pa.Array:
    """An Arrow array in the type of a column; SchemaError names the first row that does not fit, and the path in a nested column."""
    if is_nested(column.type):
        return convert_nested(column, values, Conversion(convert_arrow, convert_arrow), first_row)
    target = column.arrow.type
    return _with_row(column, values, lambda part: _cast(_sound(part), target, is_loose=False), first_row)


def convert_python(column: SchemaColumn, values: Any) -> pa.Array:
    """A pandas Series or a list in the type of a column, NaN of a Series as null; SchemaError as in `convert_arrow`."""
    if is_nested(column.type):
        return convert_nested(column, _objects(values), Conversion(convert_python, convert_python))
    target = column.arrow.type
    if not len(values):
        return pa.array([], target)  # whatever type pandas gives to nothing
    values = _objects_of_mixtures(values)
    return _with_row(column, values, lambda part: _python_cast(part, target), 0)


def convert_headers(values: Any, first_row: int = 0) -> pa.Array:
    """Headers as they are stored, from an Arrow array or from lists of pairs of a name and bytes; SchemaError as above."""
    what, expected = HEADERS, "pairs of a name and bytes"
    values = values if isinstance(values, pa.Array) else _objects(values)
    if isinstance(values, pa.Array):
        return _naming_row(what, expected, values, lambda part: _named(_sound(part).cast(HEADERS_TYPE)), first_row)
    return _naming_row(what, expected, values, lambda part: _named(pa.array(map(_pairs, part), HEADERS_TYPE)), first_row)


def _with_row(column: SchemaColumn, values: Any, convert: Callable[[Any], pa.Array], first_row: int) -> pa.Array:
    return _naming_row(column.name, column.type, values, convert, first_row)


def _naming_row(name: str, expected: str, values: Any, convert: Callable[[Any], pa.Array], first_row: int) -> pa.Array:
    try:
        return convert(values)
    except _REFUSED as error:
        if not len(values):
            raise SchemaError(f"column {name!r}: found no rows of {values.type}, expected {expected}; {error}") from error
        row = _first_refused(values, convert)
        value, kind = _shown(values, row)
        raise SchemaError(
            f"row {first_row + row}, column {name!r}: found {value} ({kind}), expected {expected}; {_reason(error, expected)}",
            (first_row + row,),
        ) from error


def _first_refused(values: Any, convert: Callable[[Any], pa.Array]) -> int:
    sound, refused = 0, len(values)
    while refused - sound > 1:
        middle = (sound + refused) // 2
        try:
            convert(values[:middle])
            sound = middle
        except _REFUSED:
            refused = middle
    return sound


def _shown(values: Any, row: int) -> tuple[str, str]:
    value = values[row] if isinstance(values, pa.Array | list) else _element(values, row)
    kind = str(value.type) if isinstance(value, pa.Scalar) else type(value).__name__
    text = repr(_python(value) if isinstance(value, pa.Scalar) else value)
    return text if len(text) <= 80 else f"{text[:77]}...", kind


def _element(series: Any, row: int) -> Any:
    try:
        return series.iloc[row]
    except (UnicodeDecodeError, pa.ArrowException):
        return _array(series.iloc[row : row + 1])[0]


def _python(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return (value.value if isinstance(value, pa.DictionaryScalar) else value).as_buffer().to_pybytes()
    except pa.ArrowIndexError:
        return value.index.as_py()
    except (OverflowError, ValueError, LookupError):  # a time beyond Python's, or of a zone that it does not know
        return _python(value.value) if isinstance(value, pa.DictionaryScalar) else getattr(value, "value", value.type)


def _reason(error: BaseException, expected: str) -> str:
    """Why a value was refused; in words of our own where the library speaks of its own types."""
    reason = str(error).splitlines()[0]
    if "UTF8" in reason:
        return "it is not UTF-8"
    if isinstance(error, OverflowError) or "was truncated" in reason:
        return f"it is not an integer that fits {expected}"
    return reason


def _objects(values: Any) -> Any:
    """A Series as a list, what pandas takes for null as None; as an Arrow array if it is kept in one, and has a value."""
    if isinstance(values, list):
        return values
    if hasattr(values.dtype, "pyarrow_dtype"):
        found = _array(values)
        return found if found.null_count < len(found) else [None] * len(found)
    return _without_missing(values)


def _objects_of_mixtures(values: Any) -> Any:
    """A Series that may hold values of several classes as a list, what pandas takes for null as None; anything else as it is."""
    if isinstance(values, list | pa.Array):
        return values
    categories = getattr(values.dtype, "categories", None)
    if values.dtype != object and not (
        categories is not None and categories.dtype == object and len(set(map(type, categories))) > 1
    ):
        return values
    import pandas as pd

    classes = set(map(type, values.tolist())) - {type(None)}
    if len(classes) <= 1 and classes <= _PLAIN:
        return values
    if classes == {str, float} and pd.api.types.infer_dtype(values, skipna=True) == "string":  # all of these floats are NaN
        return values
    return _without_missing(values)


def _without_missing(series: Any) -> list[Any]:
    """The values of a Series, what pandas takes for null as None."""
    objects = series.to_numpy(dtype=object, copy=True)
    try:
        missing = series.isna()
    except ArithmeticError:  # pandas cannot compare a signalling NaN
        objects[[isinstance(one, Decimal) and one.is_snan() for one in objects]] = None
        missing = type(series)(objects, dtype=object).isna()
    objects[missing.to_numpy()] = None
    found: list[Any] = objects.tolist()
    return found


def _array(series: Any) -> pa.Array:
    """A Series in the type that Arrow has for it."""
    return one_array(pa.array(series, from_pandas=True))


def _python_cast(values: Any, target: pa.DataType) -> pa.Array:
    def cast(part: pa.Array) -> pa.Array:
        return _cast(_sound(part), target, is_loose=True)

    if isinstance(values, list):
        return array_of_python(values, target, cast)
    found = _sound(_array(values))
    return pa.nulls(len(found), target) if found.null_count == len(found) else _cast(found, target, is_loose=True)


def _sound(values: pa.Array) -> pa.Array:
    """The array without a dictionary, if all its values are what their type promises; else ArrowInvalid or ValueError."""
    if pa.types.is_dictionary(values.type):
        _check_indexes(values)
        values = values.dictionary_decode()
    validate_column(values)
    return values


def _check_indexes(values: pa.DictionaryArray) -> None:
    bounds = pc.min_max(values.indices).as_py()
    if bounds["min"] is not None and not 0 <= bounds["min"] <= bounds["max"] < len(values.dictionary):
        raise ValueError(f"its index is outside of its dictionary of {len(values.dictionary)} values")


def _pairs(headers: Any) -> list[tuple[str, Any]] | None:
    """The headers of a row, if they are none or pairs of a name and bytes or null."""
    if headers is None:
        return None
    if isinstance(headers, list | tuple | np.ndarray):
        pairs = [_pair(one) for one in headers]
        if all(isinstance(name, str) and isinstance(value, bytes | bytearray | memoryview | None) for name, value in pairs):
            return pairs
    raise TypeError("a header is a text and bytes, or a text and None")


def _pair(header: Any) -> tuple[Any, Any]:
    """A header as a tuple: Arrow takes dicts, but none beside tuples."""
    name, value = (header.get("key"), header.get("value")) if isinstance(header, dict) else header
    return name, value


def _named(headers: pa.Array) -> pa.Array:
    if headers.flatten().field("key").null_count:
        raise ValueError("a header has no name")
    return headers


def _cast(values: pa.Array, target: pa.DataType, *, is_loose: bool) -> pa.Array:
    source = values.type
    if source == target:
        return _within_times(values) if pa.types.is_date(target) else values
    if pa.types.is_null(source):
        return pa.nulls(len(values), target)
    if pa.types.is_integer(source) and pa.types.is_timestamp(target):
        return times_of_numbers(values, target)
    if not _is_allowed(source, target, is_loose=is_loose):
        raise TypeError(f"there is no conversion without loss from {source} to {target}")
    cast = recast(values, target)
    is_narrowed = pa.types.is_float32(target) and pa.types.is_float64(source)
    if is_narrowed and not pc.is_inf(cast).equals(pc.is_inf(values)):
        raise ValueError("it is beyond the greatest float, 3.4028234663852886e+38")
    return _within_times(cast) if pa.types.is_date(target) else cast


def _within_times(dates: pa.Array) -> pa.Array:
    """The dates; ValueError if no timestamp can hold one of them."""
    bounds = pc.min_max(dates.view(pa.int32()))
    if dates.null_count < len(dates) and not -DAYS_MAX <= bounds["min"].as_py() <= bounds["max"].as_py() <= DAYS_MAX:
        raise ValueError(f"no timestamp can hold it; a date lies at most {DAYS_MAX} days before or after 1970-01-01")
    return dates


def _is_allowed(source: pa.DataType, target: pa.DataType, *, is_loose: bool) -> bool:
    for is_source, is_target in (_ALLOWED + _LOOSE) if is_loose else _ALLOWED:
        if is_source(source) and is_target(target):
            return is_loose or is_source is not pa.types.is_floating or bool(source.bit_width <= target.bit_width)
    are_times = bool(pa.types.is_timestamp(source) and pa.types.is_timestamp(target))
    return are_times and (source.tz is None or target.tz is not None)


def _is_text(source: pa.DataType) -> bool:
    return any(is_kind(source) for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def _is_bytes(source: pa.DataType) -> bool:
    kinds = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    return any(is_kind(source) for is_kind in kinds)


_TypeCheck: TypeAlias = Callable[[pa.DataType], bool]
_ALLOWED: tuple[tuple[_TypeCheck, _TypeCheck], ...] = (
    (pa.types.is_integer, pa.types.is_integer),
    (pa.types.is_integer, pa.types.is_floating),
    (pa.types.is_integer, pa.types.is_decimal),
    (pa.types.is_floating, pa.types.is_floating),
    (pa.types.is_decimal, pa.types.is_decimal),
    (pa.types.is_date, pa.types.is_date),
    (_is_text, pa.types.is_string),
    (_is_bytes, pa.types.is_binary),
)
_LOOSE: tuple[tuple[_TypeCheck, _TypeCheck], ...] = ((pa.types.is_floating, pa.types.is_integer),)
