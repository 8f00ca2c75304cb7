"""JSON Schema: as columns, and made from columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from streamkit.data_type import FieldPath, array_of, decimal_of, element_of, entry_of, fields_of, map_of, struct_of
from streamkit.errors import SchemaError
from streamkit.schema import Schema, SchemaColumn

_ATOMIC = {"boolean": "boolean", "integer": "bigint", "number": "double", "null": "void"}
_TEXTS = {"date-time": "timestamp", "date": "date"}
_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null", list: "array", dict: "object"}
_WRITTEN: Mapping[str, Any] = {
    "boolean": {"type": "boolean"},
    "float": {"type": "number"},
    "double": {"type": "number"},
    "string": {"type": "string"},
    "binary": {"type": "string", "contentEncoding": "base64"},
    "date": {"type": "string", "format": "date"},
    "timestamp": {"type": "string", "format": "date-time"},
    "timestamp_ntz": {"type": "string"},
    "void": {"type": "null"},
}
_DEPTH_MAX = 64


def check_json_schema(schema: Any) -> str:
    """A schema, as JSON text or dict, as JSON text; SchemaError if it is not one whose values are columns."""
    try:
        text = json.dumps(json.loads(schema) if isinstance(schema, str) else schema)
    except (ValueError, TypeError) as error:
        raise SchemaError(f"the JSON Schema {schema!r} cannot be read: {error}") from error
    columns_of_json_schema(text)
    return text


@lru_cache(maxsize=256)
def columns_of_json_schema(text: str) -> Schema:
    """
    The columns of an object's properties.

    Whole numbers are bigint, others double, enums strings, an object without properties a map; what may also be null is its other
    type. SchemaError for a property of no one type.
    """
    root = json.loads(text)
    return Schema(tuple(SchemaColumn(name, _type(inner, root, name, 0)) for name, inner in _properties(root).items()))


def defaults_of_json_schema(text: str) -> dict[str, Any]:
    """The defaults of an object's properties, by name; properties without a default are left out."""
    root = json.loads(text)
    found = {name: resolved_within(inner, root, 0) for name, inner in _properties(root).items()}
    return {name: inner["default"] for name, inner in found.items() if isinstance(inner, dict) and "default" in inner}


def optional_of_json_schema(text: str) -> list[FieldPath]:
    """The fields that an object may leave out, at any depth, so that readers have null; in their paths an element is `""`."""
    root = json.loads(text)
    found = list(_fields(object_within(root), root, (), 0))
    required = {path for path, is_required in found if is_required}
    return [path for path, _ in found if path not in required]


def object_within(root: Any) -> dict[str, Any]:
    """The part of a schema that says its properties, behind a reference too; SchemaError if it has none."""
    found: Any = resolved_within(root, root, 0) if isinstance(root, dict) else root
    if not isinstance(found, dict) or not isinstance(found.get("properties"), dict) or not found["properties"]:
        raise SchemaError("the JSON Schema describes no object with properties; expected one, since each property is a column")
    return found


def _properties(root: Any) -> dict[str, Any]:
    properties: dict[str, Any] = object_within(root)["properties"]
    return properties


def _fields(found: Any, root: Mapping[str, Any], path: FieldPath, depth: int) -> Iterator[tuple[FieldPath, bool]]:
    """The fields of an object, those within them behind each, and whether the object must have them."""
    for name, inner in found["properties"].items():
        yield (*path, name), name in found.get("required", ())
        yield from _fields_within(inner, root, (*path, name), depth + 1)


def _fields_within(schema: Any, root: Mapping[str, Any], path: FieldPath, depth: int) -> Iterator[tuple[FieldPath, bool]]:
    """The fields of objects that values of a schema are, or have in them."""
    schema = resolved_within(schema, root, depth)
    if not isinstance(schema, dict):
        return
    if "oneOf" in schema or "anyOf" in schema:
        for one in schema.get("oneOf") or schema["anyOf"]:
            yield from _fields_within(one, root, path, depth + 1)
    elif schema.get("properties"):
        yield from _fields(schema, root, path, depth)
    else:
        yield from _fields_within(schema.get("items", schema.get("additionalProperties")), root, (*path, ""), depth + 1)


def json_schema_of(columns: Schema, title: str = "Record") -> str:
    """A JSON Schema, as text, of objects that hold rows of these columns."""
    properties = {column.name: _written(column.type, column.nullable) for column in columns}
    required = [column.name for column in columns if not column.nullable]
    found: dict[str, Any] = {
        "$schema": "http://json-schema.org/draft-07/schema#", "title": title, "type": "object", "properties": properties,
    }  # fmt: skip
    return json.dumps(found | ({"required": required} if required else {}))


def title_of(text: str) -> str:
    """The name that a schema gives itself."""
    found = json.loads(text)
    return str(found.get("title", "")) if isinstance(found, dict) else ""


def _written(type: str, nullable: bool = True) -> dict[str, Any]:
    if element := element_of(type):
        found: dict[str, Any] = {"type": "array", "items": _written(element)}
    elif entry := entry_of(type):
        found = {"type": "object", "additionalProperties": _written(entry[1])}
    elif fields := fields_of(type):
        found = {"type": "object", "properties": {name: _written(inner) for name, inner in fields}}
    elif decimal_of(type):
        found = {"type": "string"}
    else:
        found = dict(_WRITTEN.get(type, {"type": "integer"}))
    if nullable and found["type"] != "null":
        found["type"] = ["null", found["type"]]
    return found


def resolved_within(schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    """The schema behind a reference within the file."""
    if depth > _DEPTH_MAX:
        raise SchemaError("the JSON Schema refers to itself, which no column can; expected types that end")
    if not isinstance(schema, dict) or "$ref" not in schema:
        return schema
    found: Any = root
    reference = schema["$ref"]
    if not reference.startswith("#"):
        raise SchemaError(f"the JSON Schema refers to {reference}; expected a reference within it, as in #/definitions/Address")
    for part in reference[1:].strip("/").split("/"):
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if part and isinstance(found, dict) else found
    return resolved_within(found, root, depth + 1)


def _type(schema: Any, root: Mapping[str, Any], name: str, depth: int) -> str:
    schema = resolved_within(schema, root, depth)
    if isinstance(schema, dict):
        for word in ("oneOf", "anyOf"):
            if word in schema:
                return _one_type([_type(one, root, name, depth + 1) for one in schema[word]], name)
        kinds = schema.get("type", "object" if "properties" in schema else None)
        if "type" not in schema and "enum" in schema:
            kinds = sorted({_KINDS[type(value)] for value in schema["enum"]})
        if isinstance(kinds, list):
            return _one_type([_type({**schema, "type": kind}, root, name, depth + 1) for kind in kinds], name)
        if kinds in _ATOMIC:
            return _ATOMIC[kinds]
        if kinds == "string":
            return "binary" if schema.get("contentEncoding") == "base64" else _TEXTS.get(schema.get("format", ""), "string")
        if kinds == "array" and isinstance(schema.get("items"), dict):
            return array_of(_type(schema["items"], root, name, depth + 1))
        if kinds == "object" and schema.get("properties"):
            return struct_of((part, _type(one, root, part, depth + 1)) for part, one in schema["properties"].items())
        if kinds == "object" and isinstance(schema.get("additionalProperties"), dict):
            return map_of("string", _type(schema["additionalProperties"], root, name, depth + 1))
    raise SchemaError(
        f"the property {name!r} of the JSON Schema has no one type: {json.dumps(schema)[:120]}; expected a type, or "
        "names of columns without it"
    )


def _one_type(types: list[str], name: str) -> str:
    found = sorted(set(types) - {"void"})
    if found == ["bigint", "double"]:
        return "double"
    if len(found) > 1:
        raise SchemaError(
            f"the property {name!r} of the JSON Schema is {' or '.join(found)}; expected one type, or null beside it"
        )
    return found[0] if found else "void"
