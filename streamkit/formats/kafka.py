"""KAFKA: one value as Kafka's own serializers write it: big-endian numbers, UTF-8, bytes as they are."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa

from streamkit.errors import SchemaError
from streamkit.formats.decoded import Decoded
from streamkit.formats.format import Format
from streamkit.formats.ksql_values import rows_of_values
from streamkit.schema import Schema

PACKED = {"int": ">i", "bigint": ">q", "double": ">d", "float": ">f", "smallint": ">h"}
TYPES = (*PACKED, "string", "binary")


def check_kafka_schema(schema: Any) -> str:
    """The one column, as SQL text, or none; SchemaError for several, or one of another type."""
    found = Schema.parse(schema) if schema != "" else Schema(())
    other = next((column for column in found if column.type not in TYPES), None)
    if len(found) > 1 or other is not None:
        raise SchemaError(f"a value of the format kafka is one of {', '.join(TYPES)}; found {found}")
    return found.ddl()


def read(format: Format, text: str | None, values: pa.Array, columns: Schema, skipped: int) -> Decoded:
    """The one column."""
    (column,) = columns
    return rows_of_values(values.to_pylist(), columns, lambda data: (value_of(data, column.type),))


def write(format: Format, text: str | None, rows: pa.RecordBatch) -> pa.Array:
    """The one column as bytes; a null has none, nor has a row without columns."""
    if not rows.num_columns:
        return pa.nulls(rows.num_rows, pa.binary())
    (column,) = Schema.parse(rows.schema)
    return pa.array([None if one is None else bytes_of(one, column.type) for one in rows.column(0).to_pylist()], pa.binary())


def value_of(data: bytes, type: str) -> Any:
    """The value of bytes; ValueError if there are too few or too many."""
    if form := PACKED.get(type):
        if len(data) != struct.calcsize(form):
            raise ValueError(f"{type.upper()} has {struct.calcsize(form)} bytes, and these are {len(data)}")
        return struct.unpack(form, data)[0]
    if type == "string":
        return data.decode(errors="replace")  # as Java's deserializer reads bytes that are not UTF-8
    if type == "binary":
        return data
    raise ValueError(f"{type} has no form in the format kafka")


def bytes_of(value: Any, type: str) -> bytes:
    """The bytes of a value."""
    if isinstance(value, bytes):
        return value
    if form := PACKED.get(type):
        try:
            return struct.pack(form, value)
        except struct.error as error:
            raise ValueError(f"{value!r} is not {type}: {error}") from None
    if isinstance(value, str):
        return value.encode()
    raise TypeError(f"found {value!r}, expected {type}")


def value_writer(format: Format, text: str) -> Any:
    """What writes one value of Python."""
    if not text:
        return lambda value: value if isinstance(value, bytes) else None
    (column,) = Schema.from_ddl(text)
    return lambda value: bytes_of(value, column.type)


def value_reader(format: Format, text: str) -> Any:
    """What reads one value."""
    if not text:
        return lambda data: data
    (column,) = Schema.from_ddl(text)
    return lambda data: value_of(data, column.type)
