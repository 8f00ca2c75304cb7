"""
Defaults of an Avro schema's fields, as values of their types.

The JSON of a default is written as Avro's binary encoding first, and then read as any value of the field is. So a default of a logical
type, in milliseconds or as the bytes of a decimal, is what a writer's value with the same content is.
"""

from __future__ import annotations

import copy
import math
import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

from streamkit.data_type import FieldPath
from streamkit.formats.avro_reader import values_of
from streamkit.formats.avro_schema import branches_of, kind_of, parsed_schema, resolved, type_of, union_common
from streamkit.formats.conform import Default

_BITS = {"int": 32, "long": 64}
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@lru_cache(maxsize=256)
def defaults_of(text: str) -> dict[FieldPath, Default]:
    """The defaults of all fields of a schema, or why one has none, by their path, in which an element of an array or a map is `""`."""
    parsed, named = parsed_schema(text)
    return dict(_defaults(parsed, named, (), ()))


@lru_cache(maxsize=64)
def with_read_defaults(text: str) -> Any:
    """
    The schema as fastavro has it, with defaults as fastavro reads values of their types: it takes those of a reader's schema as they are.

    ValueError for a default that is no value of its type.
    """
    import fastavro

    parsed = copy.deepcopy(parsed_schema(text)[0])
    named: dict[str, Any] = {}
    fastavro.parse_schema(copy.deepcopy(parsed_schema(text)[0]), named)
    for field in _fields(parsed):
        if "default" in field:
            data = written_default(field["type"], named, field["default"])
            field["default"] = _read_by_fastavro(field["type"], named, data)
    return parsed


def written_default(schema: Any, named: Mapping[str, Any], value: Any) -> bytes:
    """The binary encoding of a default's JSON; ValueError if it is no value of the type. In a union it is of the first branch that takes it."""
    schema = resolved(schema, named)
    kind = kind_of(schema)
    if kind == "union":
        return _union(schema, named, value)
    if kind in ("record", "error") and isinstance(value, Mapping):
        return b"".join(_field(field, named, value) for field in schema["fields"])
    if kind == "array" and isinstance(value, list):
        return _block([written_default(schema["items"], named, one) for one in value])
    if kind == "map" and isinstance(value, Mapping):
        return _block([_text(key) + written_default(schema["values"], named, one) for key, one in value.items()])
    return _atomic(schema, kind, value)


def _atomic(schema: Any, kind: str, value: Any) -> bytes:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "null" and value is None:
        return b""
    if kind == "boolean" and isinstance(value, bool):
        return bytes([value])
    if kind in _BITS and isinstance(value, int) and is_number and -(1 << _BITS[kind] - 1) <= value < 1 << _BITS[kind] - 1:
        return _long(value)
    if kind in ("float", "double") and (is_number or value in ("NaN", "Infinity", "-Infinity")):
        return _floating(kind, _NOT_FINITE[value] if isinstance(value, str) else float(value))
    if kind == "string" and isinstance(value, str):
        return _text(value)
    if kind == "enum" and value in schema["symbols"]:
        return _long(schema["symbols"].index(value))
    if kind in ("bytes", "fixed") and isinstance(value, str) and max(map(ord, value), default=0) < 256:
        data = value.encode("iso-8859-1")
        if kind == "bytes":
            return _long(len(data)) + data
        if len(data) == schema["size"]:
            return data
    raise ValueError(f"the default {value!r} is no {kind}")


def _floating(kind: str, value: float) -> bytes:
    try:
        return struct.pack("<f" if kind == "float" else "<d", value)
    except OverflowError:
        raise ValueError(f"the default {value!r} is beyond the greatest {kind}") from None


def _union(union: list[Any], named: Mapping[str, Any], value: Any) -> bytes:
    for number, branch in enumerate(union):
        try:
            return _long(number) + written_default(branch, named, value)
        except ValueError:
            continue
    raise ValueError(f"the default {value!r} fits no branch of its union")


def _field(field: Mapping[str, Any], named: Mapping[str, Any], value: Mapping[str, Any]) -> bytes:
    """A field within the default of a record, whose own default stands for it where it is left out."""
    if field["name"] not in value and "default" not in field:
        raise ValueError(f"the default {dict(value)!r} lacks the field {field['name']!r}")
    return written_default(field["type"], named, value.get(field["name"], field.get("default")))


def _block(items: list[bytes]) -> bytes:
    return (_long(len(items)) + b"".join(items) if items else b"") + b"\0"


def _text(value: str) -> bytes:
    data = value.encode()
    return _long(len(data)) + data


def _long(value: int) -> bytes:
    raw = value << 1 if value >= 0 else (-value << 1) - 1
    written = bytearray()
    while raw >= 0x80:
        written.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*written, raw])


def _defaults(
    schema: Any, named: Mapping[str, Any], path: FieldPath, inside: tuple[str, ...]
) -> Iterator[tuple[FieldPath, Default]]:
    schema = resolved(schema, named)
    kind = kind_of(schema)
    if kind == "union":
        found = branches_of(schema)
        is_struct = len(found) > 1 and union_common([type_of(schema[number], named, inside) for number in found]) is None
        for member, number in enumerate(found):
            yield from _defaults(schema[number], named, (*path, f"member{member}") if is_struct else path, inside)
    elif kind in ("array", "map"):
        yield from _defaults(schema["items" if kind == "array" else "values"], named, (*path, ""), inside)
    elif kind in ("record", "error") and schema["name"] not in inside:
        for field in schema["fields"]:
            place = (*path, field["name"])
            yield place, _default(field, named) if "default" in field else _lacking(place)
            yield from _defaults(field["type"], named, place, (*inside, schema["name"]))


def _lacking(path: FieldPath) -> str:
    return f"the field {'.'.join(filter(None, path))} is missing, and the reader's schema has no default for it"


def _default(field: Mapping[str, Any], named: Mapping[str, Any]) -> Default:
    """The default of a field, as an array of one value, or why it is none."""
    try:
        return values_of(field["type"], named, pa.array([written_default(field["type"], named, field["default"])], pa.binary()))
    except ValueError as error:
        return f"the field {field['name']!r} of the reader's schema: {error}"


def _fields(schema: Any) -> Iterator[dict[str, Any]]:
    """The fields of all records that a schema defines, those around others first."""
    if isinstance(schema, list):
        for branch in schema:
            yield from _fields(branch)
    elif isinstance(schema, dict):
        for part in ("type", "items", "values"):
            if not isinstance(schema.get(part), str):
                yield from _fields(schema.get(part))
        for field in schema.get("fields", ()):
            yield field
            yield from _fields(field["type"])


def _read_by_fastavro(schema: Any, named: Mapping[str, Any], data: bytes) -> Any:
    from io import BytesIO

    import fastavro

    return fastavro.schemaless_reader(BytesIO(data), _alone(schema, named, set()), None)


def _alone(schema: Any, named: Mapping[str, Any], defined: set[str]) -> Any:
    """A part of a schema with the types that it names, each where it comes first."""
    if isinstance(schema, str) and schema in named and schema not in defined:
        schema = named[schema]
    if isinstance(schema, list):
        return [_alone(branch, named, defined) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if "name" in schema:
        defined.add(schema["name"])
    parts = {part: _alone(schema[part], named, defined) for part in ("type", "items", "values") if part in schema}
    if "fields" in schema:
        parts["fields"] = [{"name": one["name"], "type": _alone(one["type"], named, defined)} for one in schema["fields"]]
    return {key: value for key, value in {**schema, **parts}.items() if not key.startswith("__")}
