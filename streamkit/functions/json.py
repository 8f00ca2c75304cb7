"""JSON texts."""

from __future__ import annotations

from collections.abc import Mapping

from streamkit.dsl.column import Column
from streamkit.functions.recording import constant, recorded
from streamkit.plan.expression import Expression
from streamkit.schema import Schema

__all__ = ["from_json", "get_json_object", "json_array_length", "json_object_keys", "to_json"]


def get_json_object(column: Column | str, path: str) -> Column:
    """What a path such as "$.a.b[0]" finds in a JSON text, as text; null if it finds nothing or the text is not JSON."""
    return recorded("get_json_object", column, constant(path))


def json_array_length(column: Column | str) -> Column:
    """How many elements a JSON array has; null if the text is none."""
    return recorded("json_array_length", column)


def json_object_keys(column: Column | str) -> Column:
    """The names in a JSON object; null if the text is none."""
    return recorded("json_object_keys", column)


def from_json(column: Column | str, schema: object, options: Mapping[str, str] | None = None) -> Column:
    """
    A JSON text as a struct, array or map.

    `schema` is a text ("a int, b array<string>", "map<string,int>"), a `Schema`, or a data type of pyspark. What a text has otherwise
    than the schema is null. Options: `mode` (PERMISSIVE or FAILFAST), `columnNameOfCorruptRecord`.
    """
    return recorded("from_json", column, _schema(schema), *_options(options))


def to_json(column: Column | str, options: Mapping[str, str] | None = None) -> Column:
    """A struct, array or map as a JSON text; fields that are null are left out, unless the option `ignoreNullFields` is "false"."""
    return recorded("to_json", column, *_options(options))


def _schema(schema: object) -> Expression:
    if isinstance(schema, Column):
        return schema.expression
    if isinstance(schema, Schema):
        return constant(schema.ddl())
    simple_string = getattr(schema, "simpleString", None)
    return constant(simple_string() if simple_string else schema)


def _options(options: Mapping[str, str] | None) -> tuple[Column, ...]:
    if not options:
        return ()
    return (recorded("map", *(constant(_text(part)) for pair in options.items() for part in pair)),)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
