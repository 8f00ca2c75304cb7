"""Whether a format can read or write records of some columns at all: what a connector's settings alone get wrong is no failure of a record."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from streamkit.errors import ConfigError, StreamKitError
from streamkit.formats.codec import Codec, schema_made_of
from streamkit.formats.format import MESSAGE, Format
from streamkit.schema import Schema

OF_ONE = ("string", "bytes")  # formats whose values are one column
_SPEAK_THROUGH_SCHEMAS = ("avro", "protobuf")  # nothing reads them without the schema that wrote them


def check_readable(connector: str, codec: Codec) -> None:
    """
    ConfigError for a format by which no record becomes the columns; nothing is asked of a registry.

    Columns that only the registry or the topic says are not looked at.
    """
    format, said = codec.format, f"connector {connector}: {codec.part}.format={codec.format.name}"
    if format.schema is None and format.name in _SPEAK_THROUGH_SCHEMAS and not format.has_registry:
        raise ConfigError(f"{said} has no schema by which it could be read; expected schema.registry.url, whose registry has it")
    if format.has_registry and format.schema is None:
        return
    columns = _columns(said, codec)
    if columns is None:
        return
    _check_count(said, format, columns)
    for column in columns:
        if format.name == "csv" and pa.types.is_nested(column.arrow.type):
            raise ConfigError(
                f"{said} reads no column of lists, maps or structs; found {column.name} {column.type}, expected a string"
            )
        if format.name == "bytes" and column.type != "binary":
            raise ConfigError(
                f"{said} reads a column of binary; found {column.name} {column.type}, expected that or the format string"
            )
    if not format.has_registry:
        _tried(said, f"read the columns {columns}", lambda: codec.decode(pa.array([], pa.binary())))


def check_writable(connector: str, codec: Codec) -> None:
    """ConfigError for a format that no row of the columns can be written by; nothing is asked of a registry."""
    format, said = codec.format, f"connector {connector}: {codec.part}.format={codec.format.name}"
    columns = _columns(said, codec)
    if columns is None:
        return
    _check_count(said, format, columns)
    doing = f"write the columns {columns}"
    if format.has_registry:
        if format.schema is None:
            _tried(said, doing, lambda: schema_made_of(format.name, columns))
        return
    rows = pa.RecordBatch.from_pylist([], schema=columns.arrow)
    _tried(said, doing, lambda: codec.encode(rows))


def _columns(said: str, codec: Codec) -> Schema | None:
    """The columns that the settings say, by SQL text or the format's own schema; None where they say none."""
    written: list[Schema] = []
    if codec.format.schema is not None:
        message = codec.format.setting(MESSAGE)
        _tried(said, f"use its schema{f' with the message {message}' if message else ''}", lambda: written.append(codec.written))
    elif codec.format.name in OF_ONE:
        written.append(codec.written)
    return codec.declared or (written[0] if written else None)


def _check_count(said: str, format: Format, columns: Schema) -> None:
    if format.name in OF_ONE and len(columns) != 1:
        raise ConfigError(
            f"{said} has one column, and found {', '.join(columns.names)}; expected one, or another format such as json"
        )


def _tried(said: str, doing: str, attempt: Callable[[], object]) -> None:
    """Do it once without records: whatever is wrong then is wrong with the settings."""
    try:
        attempt()
    except (StreamKitError, pa.ArrowException) as error:
        raise ConfigError(f"{said} cannot {doing}: {' '.join(str(error).split())}") from error
