"""Bytes: values as they are, in one column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from streamkit.formats.decoded import Decoded, nullable
from streamkit.formats.format import Format
from streamkit.schema import Schema


def read(format: Format, text: str | None, values: pa.Array, columns: Schema, skipped: int) -> Decoded:
    """The one column."""
    return Decoded(nullable(pa.RecordBatch.from_arrays([values], names=list(columns.names))))


def write(format: Format, text: str | None, rows: pa.RecordBatch) -> pa.Array:
    """The one column as bytes; of another type than binary, its text."""
    found = rows.column(0)
    return found if pa.types.is_binary(found.type) else found.cast(pa.string()).cast(pa.binary())


def value_to_bytes(value: Any) -> bytes:
    """Bytes of any of Python's kinds."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"it is a {type(value).__name__}, not bytes")
    return bytes(value)


def value_from_bytes(data: bytes) -> bytes:
    """The bytes themselves."""
    return data
