"""
Formats of opaque topics: what the bytes of a record mean, and Python values to such bytes and back.

An opaque topic has the columns `key binary, value binary`, for data that arrive encoded. Its format is that of the values:
`json` (any JSON value, UTF-8), `avro` (schemaless binary encoding under a schema that the topic has), `string` (UTF-8
text) or `bytes` (as they are). Keys are text in UTF-8, as Kafka's string serializer writes them; in a `bytes` topic they
are bytes. None is no value, whatever the format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from streamkit.errors import ConfigError, SchemaError
from streamkit.log.topic.avro import avro_codec, check_avro_schema
from streamkit.log.values.python_values import python_values
from streamkit.schema import Schema

FORMATS = ("json", "avro", "string", "bytes")
KEY, VALUE = "key", "value"
OPAQUE_SCHEMA = Schema.parse(f"{KEY} binary, {VALUE} binary")
_REFUSED = (ValueError, TypeError, LookupError, EOFError, ArithmeticError, AttributeError, RecursionError)

Encoder = Callable[[Any], bytes]
Decoder = Callable[[bytes], Any]


@dataclass(frozen=True)
class Format:
    """A format by its name; `schema` is Avro's, as JSON text."""

    name: str
    schema: str | None = None


def declare_format(name: str | None, schema: str | Mapping[str, Any] | Sequence[Any] | None = None) -> Format:
    """
    The format of that name, checked; `schema` is an Avro schema as JSON text, dict or list.

    ConfigError for a format that does not exist, or a schema where none belongs; SchemaError for one that Avro refuses.
    """
    if name == "protobuf":
        raise ConfigError(
            f"the format protobuf is not supported yet; expected one of {', '.join(FORMATS)}: bytes takes any value"
        )
    if name not in FORMATS:
        raise ConfigError(f"there is no format {name!r}; expected one of {', '.join(FORMATS)}")
    if (schema is None) == (name == "avro"):
        raise ConfigError(f"found format={name!r} and format_schema={schema!r}; expected a schema for avro, and for avro only")
    return Format(name, None if schema is None else check_avro_schema(schema))


def encode(format: Format, values: Sequence[Any], column: str = VALUE) -> pa.Array:
    """Python values of a column as a binary array; SchemaError names the first row that the format cannot hold."""
    encoder = _codec(format, column)[0]
    return pa.array([_coded(encoder, format, column, row, value) for row, value in enumerate(values)], pa.binary())


def decode(format: Format, data: pa.Array | pa.ChunkedArray, column: str = VALUE) -> list[Any]:
    """The Python values of a binary column; SchemaError names the first row whose bytes are not of the format."""
    decoder = _codec(format, column)[1]
    return [_coded(decoder, format, column, row, value) for row, value in enumerate(data.to_pylist())]


def rows_of(format: Format | None, data: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """
    The rows as dicts of Python values, keys and values of a format decoded: what a producer's `send` takes.

    Times outside the years 1 to 9999, which no datetime can be, are numpy's datetime64, in UTC.
    """
    opaque = OPAQUE_SCHEMA.names if format else ()
    columns = [
        decode(format, data[name], name) if format and name in opaque else python_values(data[name]) for name in data.schema.names
    ]
    return [dict(zip(data.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _coded(code: Callable[[Any], Any], format: Format, column: str, row: int, value: Any) -> Any:
    try:
        return None if value is None else code(value)
    except _REFUSED as error:
        shown = repr(value) if len(repr(value)) <= 80 else f"{repr(value)[:77]}..."
        expected = f"a value of format {format.name}" if column == VALUE else f"a key of a topic of format {format.name}"
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SchemaError(f"row {row}, column {column!r}: found {shown}, expected {expected}: {reason}", (row,)) from error


def _codec(format: Format, column: str) -> tuple[Encoder, Decoder]:
    name = format.name if column == VALUE or format.name == "bytes" else "string"
    if name == "avro":
        assert format.schema is not None
        return avro_codec(format.schema)
    return {"json": (_to_json, _from_json), "string": (_to_text, _from_text), "bytes": (_to_bytes, _as_is)}[name]


def _to_json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


def _from_json(data: bytes) -> Any:
    return json.loads(data.decode(), parse_constant=_refuse_constant)


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _to_text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"it is a {type(value).__name__}, not text")
    return value.encode()


def _from_text(data: bytes) -> str:
    return data.decode()


def _to_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"it is a {type(value).__name__}, not bytes")
    return bytes(value)


def _as_is(data: bytes) -> bytes:
    return data
