"""Avro values as bytes and back: the schemaless binary encoding, under a schema that both sides know."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from typing import Any

from streamkit.errors import SchemaError

Codec = tuple[Callable[[Any], bytes], Callable[[bytes], Any]]


def check_avro_schema(schema: str | Mapping[str, Any] | Sequence[Any]) -> str:
    """
    A schema, given as JSON text, dict or list, as JSON text; SchemaError if Avro does not read it.

    An array of what takes no bytes is refused too: the few bytes of its length could ask for any amount of memory.
    """
    try:
        text = json.dumps(json.loads(schema) if isinstance(schema, str) else schema)
        parsed, named = _parsed(text)
        empty = [array for array in _arrays([parsed, *named.values()]) if _is_empty(array["items"], named)]
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # what fastavro raises has no common root
        raise SchemaError(f"the Avro schema {schema!r} cannot be read: {type(error).__name__}: {error}") from error
    if empty:
        raise SchemaError(f"the Avro schema {schema!r} has an array of items that take no bytes; expected items with a value")
    return text


@lru_cache(maxsize=64)
def avro_codec(text: str) -> Codec:
    """The functions that encode and decode values of a schema; they raise errors of many kinds, none of which fastavro shares."""
    import fastavro
    from fastavro.validation import ValidationError

    schema, _ = _parsed(text)

    def encode(value: Any) -> bytes:
        sink = BytesIO()
        try:
            fastavro.validate(value, schema)  # the writer alone would take numbers out of range
        except ValidationError as error:
            raise ValueError(str(error)) from error
        fastavro.schemaless_writer(sink, schema, value, strict_allow_default=True)
        return sink.getvalue()

    def decode(data: bytes) -> Any:
        source = BytesIO(data)
        value = fastavro.schemaless_reader(source, schema, None)
        if source.tell() != len(data):
            raise ValueError(f"{len(data) - source.tell()} bytes are left over")
        return value

    return encode, decode


def _parsed(text: str) -> tuple[Any, dict[str, Any]]:
    """The schema as fastavro has it, and those in it that have names."""
    import fastavro

    named: dict[str, Any] = {}
    return fastavro.parse_schema(json.loads(text), named), named


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
    return schema["size"] == 0 if schema["type"] == "fixed" else _is_empty(schema["type"], named)
