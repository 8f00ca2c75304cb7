"""What the paths are, in OpenAPI 3.1: made of the table of routes and of dataclasses. As a program it prints that."""

from __future__ import annotations

import dataclasses
import json
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from streamkit.serve.forms import ARROW, EVENTS, JSON, LINES
from streamkit.serve.resource import Parameter, Resource
from streamkit.serve.routes import RESOURCES

PATH = "/openapi.json"
API_VERSION = "1"
_PLAIN: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_ERROR = "Error"
_STATUSES = {
    "400": "a parameter that is not known, or has an impossible value",
    "401": "without the token",
    "403": "from a web page of another server; or a change, and this server allows none",
    "404": "there is no such thing",
    "409": "another one has changed it meanwhile",
    "410": "what is asked for is damaged or gone",
    "413": "more than an answer may have",
    "415": "a body in a form that the path does not read",
    "422": "a record that cannot be decoded, or does not fit",
    "429": "too many streams are open",
    "503": "the log cannot be read now, or there are too many requests",
    "504": "it takes too long",
}


def openapi(resources: Sequence[Resource] = RESOURCES) -> dict[str, Any]:
    """The description."""
    schemas: dict[str, Any] = {
        _ERROR: {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("error", "message", "hint")},
            "required": ["error", "message", "hint"],
        }
    }
    paths: dict[str, Any] = {}
    for one in resources:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "StreamKit",
            "version": API_VERSION,
            "description": "What a StreamKit log and its applications hold and do.",
        },
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "responses": {_ERROR: _error()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _error() -> dict[str, Any]:
    said = "; ".join(f"{status}: {doc}" for status, doc in _STATUSES.items())
    return {"description": f"{said}.", "content": {JSON: {"schema": {"$ref": f"#/components/schemas/{_ERROR}"}}}}


def _operation(resource: Resource, schemas: dict[str, Any]) -> dict[str, Any]:
    names = [part.partition("}")[0] for part in resource.path.split("{")[1:]]
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    parameters += [_parameter(one) for one in resource.every_parameter]
    if resource.takes_others is not None:
        parameters.append(
            {
                "name": "key",
                "in": "query",
                "description": resource.takes_others,
                "style": "form",
                "explode": True,
                "schema": {"type": "object", "additionalProperties": {"type": "string"}},
            }
        )
    content = {form: {"schema": _schema_of_form(form, resource.gives, schemas)} for form in resource.forms}
    errors = {status: {"$ref": f"#/components/responses/{_ERROR}"} for status in ("4XX", "5XX")}
    found: dict[str, Any] = {
        "summary": resource.doc,
        "operationId": resource.answer.__name__,
        "parameters": parameters,
        "responses": {"200": {"description": "The answer.", "content": content}, **errors},
    }
    if resource.method != "GET":
        found["requestBody"] = _request_body(resource)
    return found if resource.is_open else {**found, "security": [{}, {"token": []}]}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _PLAIN[parameter.type]}
    if parameter.least is not None:
        schema["minimum"] = parameter.least
    if parameter.default is not None:
        schema["default"] = parameter.default
    if parameter.is_list:
        schema = {"type": "array", "items": schema}
    return {"name": parameter.name, "in": "query", "description": parameter.doc, "schema": schema}


def _request_body(resource: Resource) -> dict[str, Any]:
    """Fields of a JSON object, or records in one of several forms."""
    if resource.body_forms:
        content = {form: {"schema": {"description": doc}} for form, doc in resource.body_forms.items()}
        return {"required": True, "content": content}
    described = {one.name: _field(one) for one in resource.fields}
    required = [one.name for one in resource.fields if one.is_required]
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": described,
        **({"required": required} if required else {}),
    }
    return {"required": bool(required), "content": {JSON: {"schema": schema}}}


def _field(field: Parameter) -> dict[str, Any]:
    found = _parameter(field)
    schema = found["schema"]
    if field.type is str:  # an offset may be written as a number
        schema = (
            {**schema, "items": {"type": ["string", "integer"]}} if field.is_list else {**schema, "type": ["string", "integer"]}
        )
    return {**schema, **({"minItems": 1} if field.is_list else {}), "description": found["description"]}


def _schema_of_form(form: str, gives: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    if form == JSON:
        return schema_of(gives, schemas)
    return {"type": "string", **({"format": "binary"} if form in (ARROW, LINES, EVENTS) else {})}


def schema_of(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type; dataclasses are put beside each other under their names."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [schema_of(one, schemas) for one in arguments]}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        _put_dataclass(kind, schemas)
        return {"$ref": f"#/components/schemas/{kind.__name__}"}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema_of(arguments[1], schemas)}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return {"type": "array", "items": schema_of(arguments[0], schemas)}
    return {}


def _put_dataclass(kind: type[Any], schemas: dict[str, Any]) -> None:
    if kind.__name__ in schemas:
        return
    found = schemas[kind.__name__] = dict[str, Any](type="object")
    hints = typing.get_type_hints(kind)
    fields = [one.name for one in dataclasses.fields(kind)]
    found["description"] = (kind.__doc__ or "").strip().partition("\n")[0]
    found["properties"] = {name: schema_of(hints[name], schemas) for name in fields}
    found["required"] = fields


def openapi_text() -> str:
    """The description as the file in the repository has it."""
    return json.dumps(openapi(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(openapi_text())
