"""JSON: objects as rows of columns, and any value one by one."""

from __future__ import annotations

import base64
import json
from typing import Any

import orjson
import pyarrow as pa

from streamkit.errors import SchemaError
from streamkit.formats.decoded import Decoded
from streamkit.formats.format import Format
from streamkit.formats.json_columns import read_objects
from streamkit.schema import Schema


def read(format: Format, text: str | None, values: pa.Array, columns: Schema, skipped: int) -> Decoded:
    """The columns of JSON objects; a column that an object lacks is null."""
    if skipped:
        values = pa.array([value[skipped:] for value in values.to_pylist()], pa.binary())
    return read_objects(values, columns)


def write(format: Format, text: str | None, rows: pa.RecordBatch) -> pa.Array:
    """
    The rows as JSON objects on one line: times as ISO 8601 has them, decimals as texts, bytes in base 64, NaN as null.

    SchemaError for a time outside the years 1 to 9999.
    """
    try:
        found = rows.to_pylist(maps_as_pydicts="strict")
        options = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS
        return pa.array([orjson.dumps(row, _written, options) for row in found], pa.binary())
    except (ValueError, OverflowError, TypeError) as error:
        raise SchemaError(f"rows cannot be written as JSON: {error}") from error


def value_to_json(value: Any) -> bytes:
    """A value as JSON, without blanks; NaN and infinities are refused."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


def value_from_json(data: bytes) -> Any:
    """The value of a JSON text; NaN and infinities, which only Python writes, are refused."""
    return json.loads(data.decode(), parse_constant=_refuse_constant)


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _written(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
