"""
JSON of ksqlDB read a column at a time, as far as its values are of their columns' types just as they are written.

orjson reads each document, and Arrow gets the values of a column all at once. What orjson does not read as Python's json does, or what a column
does not hold as it is, is left to `ksql_json`, row by row: numbers in texts and texts of numbers, numbers that are cut off or do not fit,
decimals with more digits than a double keeps, halves of characters, damaged documents.
"""

from __future__ import annotations

import base64
import decimal
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import decimal_of, element_of, entry_of, fields_of, to_arrow
from streamkit.decimals import decimals_of_texts
from streamkit.formats.json_documents import DEPTH_MAX, may_be_deep
from streamkit.formats.ksql_values import BIGINT_BITS, INT_BITS, MOMENT_MS_MAX, MOMENTS, fitting_decimal, is_moment
from streamkit.recast import recast
from streamkit.schema import Schema

_MANY_DIGITS = re.compile(rb"[0-9.]{16}|[0-9][eE]-")  # a double may not say which decimal was written
_SHAPES_MAX = 1_000  # which are remembered of a batch
_WHOLE_BITS = {"int": INT_BITS, "date": INT_BITS, "bigint": BIGINT_BITS, **dict.fromkeys(MOMENTS, BIGINT_BITS)}
_AS_THEY_ARE: dict[str, set[type]] = {"string": {str}, "boolean": {bool}, "double": {float}, "float": {float}}


_type_of = type  # whose name the types of columns have here
_NONE = _type_of(None)


class OddValueError(ValueError):
    """A value is not as its column holds it."""


def read_alike(values: Sequence[bytes], columns: Schema, *, is_bare: bool) -> tuple[list[pa.Array], list[int]]:
    """
    The columns of documents, and the rows that are to be read another way, which have any values here.

    The documents are objects, or the values of the one column if they are `is_bare`.
    """
    documents: list[Any] = []
    odd: set[int] = set()
    has_decimals = any("decimal" in column.type for column in columns)
    for row, data in enumerate(values):
        try:
            found = orjson.loads(data)
        except ValueError:
            found = None
        is_read = found is not None if is_bare else type(found) is dict
        if not is_read or (len(data) > DEPTH_MAX and may_be_deep(data)) or (has_decimals and _MANY_DIGITS.search(data)):
            odd.add(row)
            found = None if is_bare else {}
        documents.append(found)
    cells = [documents] if is_bare else _cells(documents, columns.names)
    arrays = [_typed(found, column.type, odd) for found, column in zip(cells, columns, strict=True)]
    return arrays, sorted(odd)


def _cells(documents: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[list[Any]]:
    """The values of each column; which field is whose is found out once for objects whose names are the same in the same order."""
    shapes: dict[tuple[str, ...], list[str | None]] = {}
    found: list[list[str | None]] = []
    for document in documents:
        shape = tuple(document)
        fields = shapes.get(shape)
        if fields is None:
            if len(shapes) == _SHAPES_MAX:
                shapes.clear()
            fields = shapes[shape] = [field_of(shape, name) for name in names]
        found.append(fields)
    if found and all(fields is found[0] for fields in found):
        return [[None] * len(documents) if field is None else [document[field] for document in documents] for field in found[0]]
    return [
        [None if (field := fields[place]) is None else document[field] for document, fields in zip(documents, found, strict=True)]
        for place in range(len(names))
    ]


def field_of(fields: Iterable[str], name: str) -> str | None:
    """The field of an object that a name means: the one that is called so, or the last that is in capitals; None if there is none."""
    found = None
    for field in fields:
        if field == name:
            return field
        if field.upper() == name:
            found = field
    return found


def _typed(found: list[Any], type: str, odd: set[int]) -> pa.Array:
    """The values in the column's type; the rows of values that are not of it as they are written go to the odd ones."""
    known, arrow = set(map(_type_of, found)) - {_NONE}, to_arrow(type)
    if known <= _AS_THEY_ARE.get(type, set()):
        return pa.array(found, arrow)
    if type in _WHOLE_BITS and known == {int}:
        end = MOMENT_MS_MAX + 1 if type in MOMENTS else 1 << (_WHOLE_BITS[type] - 1)
        if _lie_within(found, end):
            return recast(pc.multiply(pa.array(found, pa.int64()), 1000), arrow) if type in MOMENTS else pa.array(found, arrow)
    if decimal_of(type) and known <= {int, float}:
        try:
            return decimals_of_texts(pa.array([None if value is None else repr(value) for value in found], pa.string()), arrow)
        except pa.ArrowInvalid:
            pass
    read = _reader_of(type)
    typed = list[Any]()
    for row, value in enumerate(found):
        try:
            typed.append(None if value is None else read(value))
        except OddValueError:
            odd.add(row)
            typed.append(None)
    return pa.array(typed, arrow)


def _lie_within(found: Sequence[Any], end: int) -> bool:
    """Whether all whole numbers lie between the negative end and the end."""
    whole = found if None not in found else [value for value in found if value is not None]
    return bool(-end <= min(whole) and max(whole) < end)


def _reader_of(type: str) -> Callable[[Any], Any]:
    """What gives a value that is not null as Arrow has it in the type, and raises OddValueError for one that is not as it is written."""
    if (element := element_of(type)) is not None:
        return _list_reader(_reader_of(element))
    if entry := entry_of(type):
        return _map_reader(_reader_of(entry[1])) if entry[0] == "string" else _refuse
    if fields := fields_of(type):
        return _struct_reader([(name, _reader_of(one)) for name, one in fields])
    if type in _WHOLE_BITS:
        return _time if type in MOMENTS else _whole_reader(1 << (_WHOLE_BITS[type] - 1))
    if decimal_of(type):
        return lambda value: _decimal(value, type)
    return {"string": _text, "boolean": _truth, "double": _double, "float": _double, "binary": _bytes}.get(type, _refuse)


def _list_reader(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read_list(value: Any) -> Any:
        return [None if one is None else read(one) for one in value] if _type_of(value) is list else _refuse(value)

    return read_list


def _map_reader(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read_map(value: Any) -> Any:
        if _type_of(value) is not dict:
            return _refuse(value)
        return [(name, None if one is None else read(one)) for name, one in value.items()]

    return read_map


def _struct_reader(readers: Sequence[tuple[str, Callable[[Any], Any]]]) -> Callable[[Any], Any]:
    def read_struct(value: Any) -> Any:
        if _type_of(value) is not dict:
            return _refuse(value)
        found = {}
        for name, read in readers:
            field = name if name in value else field_of(value, name)
            one = None if field is None else value[field]
            found[name] = None if one is None else read(one)
        return found

    return read_struct


def _whole_reader(end: int) -> Callable[[Any], Any]:
    return lambda value: value if _type_of(value) is int and -end <= value < end else _refuse(value)


def _time(value: Any) -> Any:
    return value * 1000 if _type_of(value) is int and is_moment(value) else _refuse(value)


def _text(value: Any) -> Any:
    return value if _type_of(value) is str else _refuse(value)


def _truth(value: Any) -> Any:
    return value if _type_of(value) is bool else _refuse(value)


def _double(value: Any) -> Any:
    """A double; zero that is written as a whole number may have had a sign, which orjson does not keep."""
    if _type_of(value) is float:
        return value
    return float(value) if _type_of(value) is int and value else _refuse(value)


def _bytes(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True) if _type_of(value) is str else _refuse(value)
    except ValueError:
        return _refuse(value)


def _decimal(value: Any, type: str) -> Any:
    """A decimal: a double of at most fifteen digits is written as Python writes it."""
    if _type_of(value) not in (int, float):
        return _refuse(value)
    try:
        return fitting_decimal(decimal.Decimal(repr(value)), type)
    except (ValueError, ArithmeticError):
        return _refuse(value)


def _refuse(value: Any) -> Any:
    raise OddValueError
