"""
JSON objects as columns, by Arrow's reader, which takes them as lines.

Each value must begin with `{` and end with `}`, so that no two that are no JSON are one together. What Arrow does not know (times, bytes
in base 64, maps) is read as text and then converted, maps by way of Python.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from streamkit.data_type import fields_of, has_map, inner_types, to_arrow
from streamkit.formats.decimal_texts import decimals_of_texts, wide_decimal
from streamkit.formats.decoded import Decoded, empty_rows, halved, nullable, put_back
from streamkit.schema import Column, Schema

ROWS_NAMED = 100
_BLOCK_BYTES = 1 << 20
_ZONED = re.compile(r"(Z|[+-]\d\d:?\d\d)$")
_OBJECT = re.compile(rb"\s*\{.*\}\s*", re.DOTALL)
_AS_TEXT = ("timestamp", "timestamp_ntz", "date", "binary")


def read_objects(values: pa.Array, columns: Schema) -> Decoded:
    """The columns of JSON objects, none of which is null; a field that is missing is null, one without a column is left out."""
    try:
        return Decoded(_rows(values, columns))
    except pa.ArrowException:
        pass
    except ValueError:
        pass
    failures = halved(len(values), lambda start, end: _reason(values.slice(start, end - start), columns), ROWS_NAMED)
    good = np.array([row for row in range(len(values)) if row not in failures], np.int64)
    try:
        rows = _rows(values.take(pa.array(good)), columns)
    except (pa.ArrowException, ValueError):  # more fail than are named
        return Decoded(empty_rows(columns, len(values)), failures)
    return Decoded(put_back([(good, rows)], columns, len(values)), failures)


def _reason(values: pa.Array, columns: Schema) -> str | None:
    """Why values do not fit, if they do not; the reason is good for one value alone."""
    try:
        _rows(values, columns)
    except (pa.ArrowException, ValueError) as error:
        return _why(values[0].as_py(), columns, error) if len(values) == 1 else "some"
    return None


def _why(data: bytes, columns: Schema, error: Exception) -> str:
    shown = f"found {data[:80]!r}{'…' if len(data) > 80 else ''}"
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as refused:
        return f"{shown}, which is not JSON: {refused}"
    if not isinstance(found, dict):
        return f"{shown}, expected a JSON object"
    for column in columns:
        try:
            _rows(pa.array([data], pa.binary()), Schema((column,)))
        except (pa.ArrowException, ValueError):
            value = repr(found.get(column.name))
            return f"column {column.name!r}: found {value if len(value) <= 80 else value[:80] + '…'}, expected {column.type}"
    return f"{shown}: {error}"


def _rows(values: pa.Array, columns: Schema) -> pa.RecordBatch:
    if not len(values) or not len(columns):
        return empty_rows(columns, len(values))
    text = Schema(tuple(column for column in columns if not has_map(column.type)))
    parsed = _table(values, text) if len(text) or not len(columns) else None
    has_decimals = any("decimal" in column.type for column in columns if has_map(column.type))
    objects = _objects(values, _exact if has_decimals else orjson.loads) if len(text) < len(columns) else []
    arrays = [_mapped(objects, column) if has_map(column.type) else _converted(parsed, column) for column in columns]
    return nullable(pa.RecordBatch.from_arrays(arrays, names=list(columns.names)))


def _table(values: pa.Array, columns: Schema) -> pa.Table:
    """The columns as Arrow's reader gives them."""
    if not all(_are_objects(values)):
        raise ValueError("a value is no JSON object")
    lines = b"\n".join(values.to_pylist())
    if len(values) > 1 and lines.count(b"\n") != len(values) - 1:
        lines = b"\n".join(_one_line(value) for value in values.to_pylist())
    lines.decode()  # Arrow's reader takes what is not UTF-8
    wanted = pa.schema([pa.field(column.name, _physical(column.type)) for column in columns])
    read = pa.json.ReadOptions(use_threads=False, block_size=max(_BLOCK_BYTES, len(lines) + 1))
    parse = pa.json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")
    table = pa.json.read_json(pa.BufferReader(lines), read, parse)
    if table.num_rows != len(values):
        raise ValueError("a value is not one JSON object")
    return table.combine_chunks()


def _are_objects(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Which values begin and end as objects do."""
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4)
    content = np.frombuffer(data, np.uint8)
    long = bounds[1:] - bounds[:-1] >= 2
    if not long.all():
        return long
    found: npt.NDArray[np.bool_] = (content[bounds[:-1]] == ord("{")) & (content[bounds[1:] - 1] == ord("}"))
    for row in np.flatnonzero(~found):
        found[row] = _OBJECT.fullmatch(values[int(row)].as_py()) is not None
    return found


def _one_line(value: bytes) -> bytes:
    """The value without line ends, which JSON has only between its parts."""
    return orjson.dumps(orjson.loads(value)) if b"\n" in value else value


def _physical(type: str) -> pa.DataType:
    """The type in which Arrow's reader gives it."""
    if type in _AS_TEXT:
        return pa.string()
    if fields := fields_of(type):
        return pa.struct([pa.field(name, _physical(inner)) for name, inner in fields])
    if inner := inner_types(type):
        return pa.list_(_physical(inner[0]))
    return wide_decimal(to_arrow(type)) if type.startswith("decimal") else to_arrow(type)


def _converted(table: pa.Table | None, column: Column) -> pa.Array:
    assert table is not None
    found = table[column.name]
    return _from_text(found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found, column.type)


def _from_text(found: pa.Array, type: str) -> pa.Array:
    if isinstance(found, pa.ChunkedArray):
        found = found.chunk(0) if found.num_chunks else pa.array([], found.type)
    if fields := fields_of(type):
        arrays = [_from_text(pc.struct_field(found, name), inner) for name, inner in fields]
        return pa.StructArray.from_arrays(arrays, fields=list(to_arrow(type)), mask=found.is_null())
    if pa.types.is_list(found.type) and found.type != to_arrow(type):
        inner = _from_text(found.values, inner_types(type)[0])
        lists = pa.ListArray.from_arrays(found.offsets, inner, type=to_arrow(type))
        return pc.if_else(found.is_valid(), lists, pa.scalar(None, lists.type)) if found.null_count else lists
    if type == "binary":
        return pa.array([None if one is None else _from_base64(one) for one in found.to_pylist()], pa.binary())
    if type == "timestamp":
        return _moments(found)
    if type.startswith("decimal") and pa.types.is_string(found.type):
        return decimals_of_texts(found, to_arrow(type))
    return found if found.type == to_arrow(type) else found.cast(to_arrow(type))


def _moments(texts: pa.Array) -> pa.Array:
    """Moments as ISO 8601 has them; without a zone they are in UTC."""
    try:
        return texts.cast(pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid:
        zoned = [text if text is None or _ZONED.search(text) else f"{text}Z" for text in texts.to_pylist()]
        return pa.array(zoned, pa.string()).cast(pa.timestamp("us", "UTC"))


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


class _Written(float):
    """A number with the digits that it was written with."""

    text: str

    def __init__(self, text: str) -> None:
        self.text = text


def _exact(value: bytes) -> Any:
    """A value of JSON; slower, and decimals lose no digits."""
    return json.loads(value, parse_float=_Written, parse_constant=_refuse_constant)


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _objects(values: pa.Array, read: Callable[[bytes], Any]) -> list[dict[str, Any]]:
    found = [read(value) for value in values.to_pylist()]
    if not all(isinstance(one, dict) for one in found):
        raise ValueError("a value is no JSON object")
    return found


def _mapped(objects: list[dict[str, Any]], column: Column) -> pa.Array:
    """A column with maps, by way of Python."""
    found = pa.array([_python(one.get(column.name), column.type) for one in objects], _with_texts(column.type))
    return _cast(found, column.type)


def _with_texts(type: str) -> pa.DataType:
    if fields := fields_of(type):
        return pa.struct([pa.field(name, _with_texts(inner)) for name, inner in fields])
    if type.startswith("map<"):
        return pa.map_(pa.string(), _with_texts(inner_types(type)[1]))
    if inner := inner_types(type):
        return pa.list_(_with_texts(inner[0]))
    return pa.string() if type in _AS_TEXT or type.startswith("decimal") else to_arrow(type)


def _python(value: Any, type: str) -> Any:
    """A value as Arrow takes it: of a map its pairs, of a decimal its digits."""
    if value is None:
        return None
    if fields := fields_of(type):
        return {name: _python(_field(value, name), inner) for name, inner in fields}
    if type.startswith("map<"):
        _, values = inner_types(type)
        return [(name, _python(one, values)) for name, one in _mapping(value).items()]
    if inner := inner_types(type):
        if not isinstance(value, list):
            raise ValueError(f"found {value!r}, expected a list")
        return [_python(one, inner[0]) for one in value]
    if isinstance(value, bool) != (type == "boolean"):
        raise ValueError(f"found {value!r}, expected {type}")
    if type.startswith("decimal"):
        return value.text if isinstance(value, _Written) else str(value)
    return value


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _unfit(value, "an object")
    return value


def _unfit(value: Any, expected: str) -> ValueError:
    return ValueError(f"found {value!r}, expected {expected}")


def _field(value: Any, name: str) -> Any:
    return _mapping(value).get(name)


def _cast(found: pa.Array, type: str) -> pa.Array:
    if type.startswith("map<"):
        key, value = inner_types(type)
        maps = pa.MapArray.from_arrays(
            found.offsets, found.keys.cast(to_arrow(key)), _cast(found.items, value), type=to_arrow(type)
        )
        return pc.if_else(found.is_valid(), maps, pa.scalar(None, maps.type)) if found.null_count else maps
    return _from_text_or_map(found, type)


def _from_text_or_map(found: pa.Array, type: str) -> pa.Array:
    if fields := fields_of(type):
        arrays = [_cast(pc.struct_field(found, name), inner) for name, inner in fields]
        return pa.StructArray.from_arrays(arrays, fields=list(to_arrow(type)), mask=found.is_null())
    if pa.types.is_list(found.type):
        lists = pa.ListArray.from_arrays(found.offsets, _cast(found.values, inner_types(type)[0]), type=to_arrow(type))
        return pc.if_else(found.is_valid(), lists, pa.scalar(None, lists.type)) if found.null_count else lists
    return _from_text(found, type)
