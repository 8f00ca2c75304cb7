"""
From JSON documents to columns of a schema, as `from_json` reads them.

Documents whose values are of the schema's kinds become Arrow arrays at once. The others are read again, value by value: a value of another
kind is null, and its document is broken (it is `partial`), as in Spark's mode PERMISSIVE.
"""

from __future__ import annotations

import base64
import binascii
import decimal
import re
from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from typing import Any

import pyarrow as pa

from streamkit.data_type import (
    INTEGERS,
    array_of,
    decimal_of,
    element_of,
    entry_of,
    fields_of,
    is_nested,
    map_of,
    struct_of,
    to_arrow,
)
from streamkit.decimals import DECIMAL_CONTEXT, power_of_ten
from streamkit.expressions.casts.casts import family_of
from streamkit.expressions.casts.nested_casts import convert_nested
from streamkit.expressions.casts.reading import READERS
from streamkit.expressions.core.literals import moment_text
from streamkit.expressions.json.documents import JsonObject, storable, write_value

_NONE = type(None)
_MOMENTS = ("date", "timestamp", "timestamp_ntz")
_CLEAN: dict[str, set[type]] = {
    "boolean": {bool},
    "float": {float},
    "double": {float},
    "string": {str},
    **{name: {int} for name in INTEGERS},
}
_FLOAT_NAMES = {
    "NaN": "nan",
    "Infinity": "inf",
    "+Infinity": "inf",
    "INF": "inf",
    "+INF": "inf",
    "-Infinity": "-inf",
    "-INF": "-inf",
}
_MISSING = object()
_BLANKS = re.compile(r"[\x00-\x20]+")
_ZONED = re.compile(r":[\d.]*[^\d.:\s]|:\d\S*\s+\S")  # something behind the time of day


class BrokenError(ValueError):
    """A value that the schema does not take; `partial` is what could be read of it, if anything."""

    def __init__(self, partial: Any = _MISSING) -> None:
        super().__init__()
        self.partial = partial


def raw_type(type: str) -> str:
    """The type in which values of JSON are collected: dates and timestamps are texts."""
    if type in _MOMENTS:
        return "string"
    if element := element_of(type):
        return array_of(raw_type(element))
    if entry := entry_of(type):
        return map_of(entry[0], raw_type(entry[1]))
    if fields := fields_of(type):
        return struct_of((name, raw_type(inner)) for name, inner in fields)
    return type


def is_clean(values: list[Any], type: str) -> bool:
    """Whether all values are null or of the very kind that the type has in JSON, so that Arrow takes them as they are; maps never are."""
    kinds = set(map(_kind, values)) - {_NONE}
    if fields := fields_of(type):
        return kinds <= {dict} and all(is_clean([value.get(name) for value in values if value], inner) for name, inner in fields)
    if element := element_of(type):
        return kinds <= {list} and is_clean(list(chain.from_iterable(filter(None, values))), element)
    return kinds <= _CLEAN.get(type, set())


_kind = type


def as_array(values: list[Any], type: str) -> pa.Array:
    """Clean values as an array; ArrowInvalid if one does not fit, or is no moment."""
    raw = raw_type(type)
    try:
        array = pa.array(values, to_arrow(raw))
    except (pa.ArrowTypeError, UnicodeEncodeError, OverflowError) as error:
        raise pa.ArrowInvalid(str(error)) from error
    return _with_moments(array, raw, type)


def _with_moments(values: pa.Array, source: str, target: str) -> pa.Array:
    if source == target:
        return values
    if is_nested(source):
        return convert_nested(values, source, target, _with_moments)
    return READERS[family_of(target)](values, target)


Converter = Callable[[Any], Any]


@lru_cache(maxsize=256)
def converter(type: str) -> Converter:
    """What reads one value of an exact document; it raises BrokenError for a value that the type does not take."""
    if fields := fields_of(type):
        return _struct_converter({name: converter(inner) for name, inner in fields})
    if element := element_of(type):
        return _array_converter(converter(element))
    if entry := entry_of(type):
        return _map_converter(converter(entry[1]))
    return lambda value: None if value is None else _atom(value, type)


def _attempt(convert: Converter, value: Any, broken: list[bool]) -> Any:
    """A value of a struct: what could be read of it, or null."""
    try:
        return convert(value)
    except BrokenError as error:
        broken.append(True)
        return None if error.partial is _MISSING else error.partial


def _partly(convert: Converter, value: Any, broken: list[bool]) -> Any:
    """A value of an array or map: one of which nothing can be read breaks the whole."""
    try:
        return convert(value)
    except BrokenError as error:
        if error.partial is _MISSING:
            raise
        broken.append(True)
        return error.partial


def _whole(result: Any, broken: list[bool]) -> Any:
    if broken:
        raise BrokenError(result)
    return result


def _struct_converter(fields: dict[str, Converter]) -> Converter:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, JsonObject):
            raise BrokenError
        broken: list[bool] = []
        result = {name: _attempt(fields[name], inner, broken) for name, inner in value.pairs if name in fields}
        return _whole(result, broken)

    return convert


def _array_converter(element: Converter) -> Converter:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, list):
            raise BrokenError
        broken: list[bool] = []
        return _whole([_partly(element, inner, broken) for inner in value], broken)

    return convert


def _map_converter(item: Converter) -> Converter:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, JsonObject):
            raise BrokenError
        broken: list[bool] = []
        return _whole([(storable(name), _partly(item, inner, broken)) for name, inner in value.pairs], broken)

    return convert


def _atom(value: Any, type: str) -> Any:
    family = family_of(type)
    if family == "string":
        return storable(value) if isinstance(value, str) else storable(write_value(value))
    return _READ[family](value, type)


def _expect(condition: bool) -> None:
    if not condition:
        raise BrokenError


def _integer(value: Any, type: str) -> int:
    half = 1 << (to_arrow(type).bit_width - 1)
    top = 2 * half if type == "tinyint" else half  # Spark's parser takes bytes without sign as well
    _expect(isinstance(value, int) and not isinstance(value, bool) and -half <= value < top)
    return int(value) - (2 * half if value >= half else 0)


def _boolean(value: Any, type: str) -> bool:
    _expect(isinstance(value, bool))
    return bool(value)


def _float(value: Any, type: str) -> float:
    if isinstance(value, str):
        _expect(value in _FLOAT_NAMES)
        return float(_FLOAT_NAMES[value])
    _expect(isinstance(value, (int, float, decimal.Decimal)) and not isinstance(value, bool))
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _decimal(value: Any, type: str) -> decimal.Decimal | None:
    _expect(isinstance(value, (int, decimal.Decimal, str)) and not isinstance(value, bool))
    precision, scale = decimal_of(type) or (0, 0)
    with decimal.localcontext(DECIMAL_CONTEXT, rounding=decimal.ROUND_HALF_UP):
        try:
            number = decimal.Decimal(value, DECIMAL_CONTEXT)
            _expect(number.is_finite() and not (isinstance(value, str) and (value != value.strip() or "_" in value)))
            rounded = number.quantize(power_of_ten(-scale))
        except decimal.InvalidOperation:
            raise BrokenError from None
    return rounded if len(rounded.as_tuple().digits) <= precision else None


def _binary(value: Any, type: str) -> bytes:
    _expect(isinstance(value, str))
    try:
        return base64.b64decode(_BLANKS.sub("", value), validate=True)
    except (binascii.Error, ValueError):
        raise BrokenError from None


def _moment(value: Any, type: str) -> str:
    """The text of a moment, if it is one; a whole number counts seconds."""
    if type == "timestamp" and isinstance(value, int) and not isinstance(value, bool):
        return _seconds_text(value)
    _expect(isinstance(value, str))
    if type == "date" and value.isascii() and value.isdigit() and len(value) < 10 and not _is_readable(value, type):
        return moment_text(int(value), type)
    _expect(_is_readable(value, type) and not (type == "timestamp_ntz" and _ZONED.search(value)))
    return str(value)


def _seconds_text(seconds: int) -> str:
    _expect(abs(seconds) < 1 << 43)
    return moment_text(seconds * 1_000_000, "timestamp")


@lru_cache(maxsize=4096)
def _is_readable(text: str, type: str) -> bool:
    try:
        return bool(READERS[type](pa.array([text]), type)[0].is_valid)
    except pa.ArrowInvalid:
        return False


_READ: dict[str, Callable[[Any, str], Any]] = {
    "integer": _integer,
    "boolean": _boolean,
    "float": _float,
    "decimal": _decimal,
    "binary": _binary,
    **dict.fromkeys(_MOMENTS, _moment),
}
