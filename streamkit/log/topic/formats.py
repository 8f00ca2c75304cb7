"""
Formats of opaque topics: what the bytes of a record mean, and Python values to such bytes and back.

An opaque topic has the columns `key binary, value binary`, for data that arrive encoded. Its format is that of the values:
`json` (any JSON value, UTF-8), `avro` (binary encoding under a schema that the topic has), `protobuf`, `csv`, `string` (UTF-8 text)
or `bytes` (as they are); the first three also in the wire format of a schema registry. Keys are text in UTF-8, as Kafka's string
serializer writes them; in a `bytes` topic they are bytes. None is not a value in any format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from streamkit.errors import RegistryUnavailableError, SchemaError
from streamkit.formats import windowed_keys
from streamkit.formats.codec import Codec, declare_format, format_of_keys, schema_made_of
from streamkit.formats.format import FORMATS, KEY_FORMAT, KEY_SCHEMA, NULLS, OF_KSQLDB, WINDOW, Format
from streamkit.formats.json import value_to_json
from streamkit.log.values.python_values import python_values
from streamkit.schema import Schema

KEY, VALUE = "key", "value"
OPAQUE_SCHEMA = Schema.parse(f"{KEY} binary, {VALUE} binary")
_REFUSED = (
    ValueError,
    TypeError,
    LookupError,
    EOFError,
    ArithmeticError,
    AttributeError,
    RecursionError,
    SchemaError,
    pa.ArrowException,
)

Encoder = Callable[[Any], bytes]
Decoder = Callable[[bytes], Any]

__all__ = [
    "FORMATS",
    "KEY",
    "OPAQUE_SCHEMA",
    "VALUE",
    "Format",
    "declare_format",
    "decode",
    "encode",
    "register_schema",
    "rows_of",
]


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

    Times outside the years 1 to 9999, which no datetime can hold, are numpy's datetime64, in UTC.
    """
    opaque = OPAQUE_SCHEMA.names if format else ()
    columns = [
        decode(format, data[name], name) if format and name in opaque else python_values(data[name]) for name in data.schema.names
    ]
    return [dict(zip(data.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def register_schema(format: Format | None) -> None:
    """Make the schema of a format known to its registry, if it has both; SchemaError if that refuses it, with the one it has."""
    if format is not None and format.has_registry and format.schema is not None:
        Codec(format, topic=format.topic).register()


def _coded(code: Callable[[Any], Any], format: Format, column: str, row: int, value: Any) -> Any:
    try:
        return None if value is None else code(value)
    except RegistryUnavailableError:
        raise
    except _REFUSED as error:
        shown = repr(value) if len(repr(value)) <= 80 else f"{repr(value)[:77]}..."
        expected = f"a value of format {format.name}" if column == VALUE else f"a key of a topic of format {format.name}"
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SchemaError(f"row {row}, column {column!r}: found {shown}, expected {expected}: {reason}", (row,)) from error


@lru_cache(maxsize=64)
def _codec(format: Format, column: str) -> tuple[Encoder, Decoder]:
    is_of_ksqldb = bool(format.setting(KEY_FORMAT) or format.setting(NULLS))
    takes_bytes = is_of_ksqldb or (column != VALUE and format.name in OF_KSQLDB)
    if column != VALUE:
        format = _format_of_keys(format)
    windowed = format.setting(WINDOW)
    if column != VALUE:
        format = _with_schema_of_columns(format)
    if windowed:
        format = windowed_keys.inner_format(format)
    codec = Codec(format, topic=format.topic, part=column)
    write, read = _writer(codec), codec.value_reader()
    if windowed:
        write, read = windowed_keys.value_coders(windowed, write, read)
    if takes_bytes:  # bytes are written as they are
        return lambda value: value if isinstance(value, bytes) else write(value), read
    return write, read


def _writer(codec: Codec) -> Encoder:
    """What writes values of Python; who only reads asks no registry."""
    if codec.part == VALUE or not codec.format.has_registry:
        return codec.value_writer()
    found: list[Encoder] = []

    def write(value: Any) -> bytes:
        if not found:
            found.append(_under_subject(codec).value_writer())
        return found[0](value)

    return write


def _under_subject(keys: Codec) -> Codec:
    """What writes keys under the schema that a topic says, if somebody has written under it, or nobody under another; else under the newest."""
    if keys.format.schema is None:
        return keys
    if keys.is_registered():
        return replace(keys, format=keys.format.under_its_own())
    newest = replace(keys, format=replace(keys.format, schema=None)).newest()
    return keys if newest is None else replace(keys, format=newest)


@dataclass(frozen=True)
class KeyColumns:
    """
    The columns of a topic's keys under a schema of a registry, and what writes them as SQL and programs do.

    They are not the topic's own where nobody has written under their schema, and others have another one.
    """

    columns: Schema
    codec: Codec
    is_own: bool

    def as_read(self, keys: Sequence[Any]) -> pa.RecordBatch | None:
        """The columns of keys that are dicts as JSON has them, with texts for times and decimals; None if one is none."""
        try:
            texts = pa.array([value_to_json(one) for one in keys], pa.binary())
            return Codec(Format("json"), self.columns).decode(texts)
        except _REFUSED:
            return None


@lru_cache(maxsize=64)
def key_columns_of(format: Format) -> KeyColumns | None:
    """The columns of keys under a schema of a registry; None if the topic's format does not say them, or has windows behind them."""
    keys = _format_of_keys(format)
    if keys.schema is None or not keys.has_registry or keys.setting(WINDOW):
        return None
    codec = Codec(_with_schema_of_columns(keys), topic=keys.topic, part=KEY)
    written = _under_subject(codec)
    return KeyColumns(Schema.from_ddl(keys.schema), written, is_own=written.format.schema == codec.format.schema)


def _with_schema_of_columns(keys: Format) -> Format:
    """The format of keys whose schema is that of their columns, which they may have in its place."""
    if keys.schema is None:
        return keys
    columns = Schema.from_ddl(keys.schema)
    columns = windowed_keys.without_bounds(columns) if keys.setting(WINDOW) else columns
    return replace(keys, schema=schema_made_of(keys.name, columns) or columns.ddl())


def _format_of_keys(format: Format) -> Format:
    """The format of keys: of their own if the topic says so, else texts."""
    if name := format.setting(KEY_FORMAT):
        keys = format_of_keys(name, format, dict(format.settings))
        return replace(keys, schema=format.setting(KEY_SCHEMA) or None, topic=format.topic)
    return format if format.name == "bytes" else Format("string")
