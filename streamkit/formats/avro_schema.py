"""Avro schemas: read and checked, as columns, and made from columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from streamkit.data_type import array_of, decimal_of, element_of, entry_of, field_names, fields_of, map_of, struct_of
from streamkit.errors import SchemaError
from streamkit.schema import Schema, SchemaColumn

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
VALUE = "value"  # the column of values that are no records
_ATOMIC = {
    "null": "void",
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
_TIMES = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "timestamp-nanos": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
    "local-timestamp-nanos": "timestamp_ntz",
}
UNITS = {"millis": 1_000, "micros": 1, "nanos": -1_000}  # microseconds in one; negative: how many make a microsecond
_WRITTEN: Mapping[str, Any] = {
    "void": "null",
    "boolean": "boolean",
    "tinyint": "int",
    "smallint": "int",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "binary": "bytes",
    "string": "string",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}


def check_avro_names(columns: Schema) -> None:
    """SchemaError for a column, or a field of a struct, whose name is none of Avro, by its specification: other programs would not read the schema."""
    for column in columns:
        for name in (column.name, *field_names(column.type)):
            if not _NAME.fullmatch(name):
                raise SchemaError(
                    f"the column {name!r} has a name that Avro does not accept; expected letters of ASCII, digits and _, and no digit in front"
                )


def check_avro_schema(schema: str | Mapping[str, Any] | Sequence[Any]) -> str:
    """
    A schema, given as JSON text, dict or list, as JSON text; SchemaError if Avro does not read it.

    An array of items that take no bytes is refused too: the few bytes of its length could ask for any amount of memory.
    """
    try:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        text = json.dumps(_json(text))
        parsed, named = parsed_schema(text)
        empty = [array for array in _arrays([parsed, *named.values()]) if _is_empty(array["items"], named)]
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # what fastavro raises has no common root
        raise SchemaError(f"the Avro schema {schema!r} cannot be read: {type(error).__name__}: {error}") from error
    if empty:
        raise SchemaError(f"the Avro schema {schema!r} has an array of items that take no bytes; expected items with a value")
    return text


@lru_cache(maxsize=256)
def parsed_schema(text: str) -> tuple[Any, dict[str, Any]]:
    """The schema as fastavro has it, and those in it that have names."""
    import fastavro

    named: dict[str, Any] = {}
    return fastavro.parse_schema(_json(text), named), named


@lru_cache(maxsize=256)
def columns_of_avro(text: str) -> Schema:
    """
    The columns of an Avro schema: the fields of a record, else the one column `value`.

    Enums are strings, fixed is binary, a union with null is its other branch, `int` and `long` together are bigint, `float` and
    `double` double; any other union is a struct of its branches, `member0` and on, of which one is there. SchemaError for a type
    that holds itself.
    """
    parsed, named = parsed_schema(text)
    schema = resolved(parsed, named)
    if isinstance(schema, dict) and schema["type"] in ("record", "error"):
        columns = [(field["name"], type_of(field["type"], named, (schema["name"],))) for field in schema["fields"]]
    else:
        columns = [(VALUE, type_of(parsed, named))]
    return Schema(tuple(SchemaColumn(name, type) for name, type in columns))


def is_record(text: str) -> bool:
    """Whether values of a schema have its fields as columns, and are not the one column `value`."""
    return kind_of(resolved(*parsed_schema(text))) in ("record", "error")


def resolved(schema: Any, named: Mapping[str, Any]) -> Any:
    """The schema behind a name, and the plain name of an atomic type that is written as a dict without a logical type."""
    while isinstance(schema, str) and schema in named:
        schema = named[schema]
    if isinstance(schema, dict) and isinstance(schema["type"], dict):
        return resolved(schema["type"], named)
    return schema


def kind_of(schema: Any) -> str:
    """Avro's name of the type."""
    return "union" if isinstance(schema, list) else schema["type"] if isinstance(schema, dict) else schema


def branches_of(union: Sequence[Any]) -> list[int]:
    """The numbers of the branches that are not null."""
    return [number for number, branch in enumerate(union) if kind_of(branch) != "null"]


def branch_name(branch: Any) -> str:
    """What fastavro calls a branch of a union beside a value of it."""
    is_named = isinstance(branch, Mapping) and "name" in branch
    return str(branch["name"]) if is_named else kind_of(branch)


def chosen_branches(union: Sequence[Any], names: Iterable[str]) -> dict[str, int] | None:
    """
    The numbers of a union's branches by the names of a struct's fields, where these are members of the union, of which a value has one.

    None of a struct that is a value of one of the branches, and of a union of one type beside null.
    """
    branches = branches_of(union)
    members = {f"member{number}": branch for number, branch in enumerate(branches)}
    return {name: members[name] for name in names} if len(branches) > 1 and members.keys() >= set(names) else None


def decimal_type(schema: Any) -> str | None:
    """The type of a decimal that a column can hold; None of another schema."""
    if isinstance(schema, dict) and schema.get("logicalType") == "decimal" and schema["type"] in ("bytes", "fixed"):
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if isinstance(precision, int) and isinstance(scale, int) and 1 <= precision <= 38 and 0 <= scale <= precision:
            return f"decimal({precision},{scale})"
    return None


def time_type(schema: Any) -> str | None:
    """The type of a date or a moment; None of another schema."""
    if not isinstance(schema, dict):
        return None
    logical = schema.get("logicalType", "")
    fits = schema["type"] == ("int" if logical == "date" else "long")
    return _TIMES.get(logical) if fits else None


def type_of(schema: Any, named: Mapping[str, Any], inside: tuple[str, ...] = ()) -> str:
    """The type of a column that holds values of the schema; `inside` are the records around it."""
    schema = resolved(schema, named)
    kind = kind_of(schema)
    if special := decimal_type(schema) or time_type(schema):
        return special
    if kind in _ATOMIC:
        return _ATOMIC[kind]
    if kind == "union":
        return _union_type(schema, named, inside)
    if kind in ("array", "map"):
        inner = type_of(schema["items" if kind == "array" else "values"], named, inside)
        return array_of(inner) if kind == "array" else map_of("string", inner)
    if kind in ("enum", "fixed"):
        return "string" if kind == "enum" else "binary"
    if schema["name"] in inside:
        raise SchemaError(
            f"the Avro record {schema['name']} contains itself, which no column can; expected a type that is not recursive"
        )
    return struct_of((field["name"], type_of(field["type"], named, (*inside, schema["name"]))) for field in schema["fields"])


def times_in_micros(text: str) -> list[str]:
    """The fields of a record that are times of the day in microseconds, or hold some: columns have whole numbers there."""
    parsed, named = parsed_schema(text)
    schema = resolved(parsed, named)
    fields = schema["fields"] if isinstance(schema, dict) and "fields" in schema else []
    return [field["name"] for field in fields if '"time-micros"' in json.dumps(field["type"])]


def union_common(types: Sequence[str]) -> str | None:
    """The one type that values of these types have in a column; None if they need a member each."""
    if len(set(types)) == 1:
        return types[0]
    for narrow, wide in (("int", "bigint"), ("float", "double")):
        if set(types) == {narrow, wide}:
            return wide
    return None


def _union_type(union: Sequence[Any], named: Mapping[str, Any], inside: tuple[str, ...]) -> str:
    types = [type_of(union[number], named, inside) for number in branches_of(union)]
    if not types:
        return "void"
    return union_common(types) or struct_of((f"member{number}", type) for number, type in enumerate(types))


def avro_of(columns: Schema, name: str = "Record") -> str:
    """An Avro schema, as JSON text, whose records hold rows of these columns; a column that may be null is a union with null."""
    return json.dumps({"type": "record", "name": name, "fields": avro_fields_of(columns, name)})


def avro_fields_of(columns: Schema, owner: str, first: int = 1) -> list[dict[str, Any]]:
    """The fields of a record for columns; records within are called as the `owner`, with numbers from the `first` one on."""
    names = iter(range(first, 1 << 30))
    return [_field(column.name, column.type, column.nullable, owner, names) for column in columns]


def _field(name: str, type: str, nullable: bool, owner: str, names: Iterator[int]) -> dict[str, Any]:
    written = _written(type, owner, names)
    if not nullable or type == "void":
        return {"name": name, "type": written}
    return {"name": name, "type": ["null", written], "default": None}


def _written(type: str, owner: str, names: Iterator[int]) -> Any:
    def nullable(inner: str) -> Any:
        return inner if inner == "null" else ["null", _written(inner, owner, names)]

    if decimal := decimal_of(type):
        return {"type": "bytes", "logicalType": "decimal", "precision": decimal[0], "scale": decimal[1]}
    if element := element_of(type):
        return {"type": "array", "items": nullable(element)}
    if entry := entry_of(type):
        if entry[0] != "string":
            raise SchemaError(f"Avro has no type for {type}: keys of its maps are strings")
        return {"type": "map", "values": nullable(entry[1])}
    if fields := fields_of(type):
        record = f"{owner}_{next(names)}"
        return {"type": "record", "name": record, "fields": [_field(name, inner, True, record, names) for name, inner in fields]}
    if type not in _WRITTEN:
        raise SchemaError(f"Avro has no type for {type}; expected one of {', '.join(_WRITTEN)}, decimal, array, map, struct")
    return _WRITTEN[type]


def _json(text: str) -> Any:
    """A schema's JSON; the bare name of a type is one too, as registries give it."""
    return text if text in _ATOMIC else json.loads(text)


def _arrays(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if schema.get("type") == "array":
            yield schema
        schema = [schema.get(part) for part in ("type", "items", "values", "fields")]
    if isinstance(schema, list):
        for part in schema:
            yield from _arrays(part)


def _is_empty(schema: Any, named: Mapping[str, Any]) -> bool:
    """Whether every value of a schema takes no bytes."""
    if isinstance(schema, str):
        return schema == "null" or (schema in named and _is_empty(named[schema], named))
    if isinstance(schema, list):
        return False  # a union writes which of its parts it is
    if schema["type"] in ("record", "error"):
        return all(_is_empty(field["type"], named) for field in schema["fields"])
    return bool(schema["size"] == 0) if schema["type"] == "fixed" else _is_empty(schema["type"], named)
