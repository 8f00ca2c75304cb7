"""Nulls of JSON objects under a JSON Schema that has none: they are left out where a property may be missing, and are refused elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson
import pyarrow as pa

from streamkit.errors import SchemaError
from streamkit.formats.json_schema import object_within, resolved_within

_DEPTH_MAX = 64


def without_refused_nulls(text: str, rows: pa.RecordBatch, written: pa.Array) -> pa.Array:
    """
    What was written of rows, without the properties that are null where the schema has no null.

    SchemaError names the first row with a null that has to be there: of a property that is required, an element of an array, a value of a map.
    """
    refusing = _refusing(text)
    if not any(name in refusing and _has_nulls(column) for name, column in zip(rows.schema.names, rows.columns, strict=True)):
        return written
    root = json.loads(text)
    found = []
    for number, data in enumerate(written.to_pylist()):
        value = orjson.loads(data)
        try:
            pruned = _pruned(value, root, root)
        except ValueError as error:
            raise SchemaError(f"row {number}: it does not fit the JSON Schema: {error}", (number,)) from None
        found.append(data if pruned == value else orjson.dumps(pruned))
    return pa.array(found, pa.binary())


@lru_cache(maxsize=64)
def _refusing(text: str) -> frozenset[str]:
    """The properties that have no null, or have none somewhere within them."""
    root = json.loads(text)
    return frozenset(name for name, schema in object_within(root)["properties"].items() if _refuses_within(schema, root, 0))


def _refuses_within(schema: Any, root: Mapping[str, Any], depth: int) -> bool:
    if depth > _DEPTH_MAX or _refuses_null(schema, root):
        return True
    found = _present(schema, root)
    parts = [*found.get("properties", {}).values(), found.get("items"), found.get("additionalProperties")]
    return any(_refuses_within(one, root, depth + 1) for one in parts if isinstance(one, dict))


def _has_nulls(column: pa.Array) -> bool:
    """Whether a column has a null at any depth."""
    if column.null_count or pa.types.is_null(column.type):
        return True
    if pa.types.is_struct(column.type):
        return any(map(_has_nulls, column.flatten()))
    if pa.types.is_map(column.type):
        return _has_nulls(column.items)
    return pa.types.is_list(column.type) and _has_nulls(column.flatten())


def _pruned(value: Any, schema: Any, root: Mapping[str, Any]) -> Any:
    """A value that is not null, without the nulls that may be left out."""
    schema = _present(schema, root)
    if isinstance(value, list):
        return [_kept(one, schema.get("items"), root, "an element of an array") for one in value]
    if not isinstance(value, dict):
        return value
    properties, required, others = schema.get("properties", {}), schema.get("required", ()), schema.get("additionalProperties")
    return {
        name: _kept(one, properties.get(name, others), root, f"the property {name!r}")
        for name, one in value.items()
        if one is not None or name not in properties or name in required or not _refuses_null(properties[name], root)
    }


def _kept(value: Any, schema: Any, root: Mapping[str, Any], what: str) -> Any:
    if value is not None:
        return _pruned(value, schema, root)
    if _refuses_null(schema, root):
        raise ValueError(f"{what} is null, which the schema does not have there; expected a value")
    return None


def _present(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """What a schema says of values that are not null; nothing if that is several things."""
    schema = resolved_within(schema, root, 0)
    if not isinstance(schema, dict):
        return {}
    if branches := schema.get("oneOf", schema.get("anyOf")):
        others = [one for one in branches if resolved_within(one, root, 0) != {"type": "null"}]
        return _present(others[0], root) if len(others) == 1 else {}
    return schema


def _refuses_null(schema: Any, root: Mapping[str, Any]) -> bool:
    """Whether null is no value of a schema."""
    schema = resolved_within(schema, root, 0)
    if not isinstance(schema, dict):
        return False
    kinds = schema.get("type", "null")
    if "null" not in ([kinds] if isinstance(kinds, str) else kinds) or None not in schema.get("enum", (None,)):
        return True
    return any(all(_refuses_null(one, root) for one in schema[word]) for word in ("oneOf", "anyOf") if schema.get(word))
