"""Avro schemas that name types of other schemas in a registry, as one schema that has them all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_NAMED = ("record", "error", "enum", "fixed")
_PRIMITIVE = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def inlined(text: str, imports: Mapping[str, str]) -> str:
    """The schema with the definition of each imported type where it is named first, as a file of Avro has them."""
    known: dict[str, Any] = {}
    for imported in imports.values():
        known |= _definitions(json.loads(imported), "")
    return json.dumps(_with(json.loads(text), "", known, set()))


def _definitions(schema: Any, space: str) -> dict[str, Any]:
    """The named types of a schema by their whole names, each with that name."""
    if isinstance(schema, list):
        return {name: one for part in schema for name, one in _definitions(part, space).items()}
    if not isinstance(schema, dict):
        return {}
    found: dict[str, Any] = {}
    if schema.get("type") in _NAMED:
        name, space = _whole_name(schema, space)
        found[name] = {**schema, "name": name, "namespace": space}
    for part in _parts(schema):
        found |= _definitions(part, space)
    return found


def _with(schema: Any, space: str, known: Mapping[str, Any], seen: set[str]) -> Any:
    """The schema with definitions for names; `seen` are the types that stand further to the front."""
    if isinstance(schema, list):
        return [_with(one, space, known, seen) for one in schema]
    if isinstance(schema, str):
        name = next((one for one in (f"{space}.{schema}" if space else schema, schema) if one in known), schema)
        if schema in _PRIMITIVE or name in seen or name not in known:
            return name if name in seen else schema
        return _with(known[name], "", known, seen)
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") in _NAMED:
        name, space = _whole_name(schema, space)
        if name in seen:
            return name
        seen.add(name)
    changed = {key: _with(schema[key], space, known, seen) for key in ("type", "items", "values") if key in schema}
    if isinstance(schema.get("fields"), list):
        changed["fields"] = [{**one, "type": _with(one["type"], space, known, seen)} for one in schema["fields"]]
    return {**schema, **changed}


def _whole_name(schema: Mapping[str, Any], space: str) -> tuple[str, str]:
    """The name with its namespace, and the namespace, which holds for the types within."""
    name = str(schema["name"])
    if "." in name:
        return name, name.rpartition(".")[0]
    space = str(schema.get("namespace", space) or "")
    return (f"{space}.{name}" if space else name), space


def _parts(schema: Mapping[str, Any]) -> list[Any]:
    fields = schema.get("fields")
    inner = [schema[key] for key in ("type", "items", "values") if key in schema]
    return [*inner, *((one["type"] for one in fields) if isinstance(fields, list) else ())]
