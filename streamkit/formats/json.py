"""JSON: objects as rows of columns, and any value one by one."""

from __future__ import annotations

import base64
import json
import math
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.errors import SchemaError
from streamkit.formats.decoded import Decoded
from streamkit.formats.format import Format
from streamkit.formats.json_columns import read_objects
from streamkit.formats.json_numbers import refuse_constant
from streamkit.schema import Schema


def read(format: Format, text: str | None, values: pa.Array, columns: Schema, skipped: int) -> Decoded:
    """The columns of JSON objects; a column that an object lacks is null."""
    if skipped:
        values = pa.array([value[skipped:] for value in values.to_pylist()], pa.binary())
    return read_objects(values, columns)


def write(format: Format, text: str | None, rows: pa.RecordBatch) -> pa.Array:
    """
    The rows as JSON objects on one line: times as ISO 8601 has them, decimals as texts, bytes in base 64, NaN
    and the infinities as the texts that `read` takes.

    SchemaError for a time outside the years 1 to 9999.
    """
    try:
        found = rows.to_pylist(maps_as_pydicts="strict")
        if any(_is_no_json(column) for column in rows.columns):
            found = [_as_json(row) for row in found]
        options = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS
        return pa.array([orjson.dumps(row, _written, options) for row in found], pa.binary())
    except (ValueError, OverflowError, TypeError) as error:
        raise SchemaError(f"rows cannot be written as JSON: {error}") from error


def _is_no_json(column: pa.Array) -> bool:
    """Whether a column has a number that JSON has not, at any depth, or keys of maps that are written as other texts."""
    kind = column.type
    if pa.types.is_floating(kind):
        return bool(pc.any(pc.invert(pc.is_finite(column))).as_py())
    if pa.types.is_map(kind):
        is_text = pa.types.is_binary(kind.key_type) or pa.types.is_decimal(kind.key_type)
        return is_text or _is_no_json(column.keys) or _is_no_json(column.items)
    if pa.types.is_list(kind) or pa.types.is_struct(kind):
        return any(map(_is_no_json, [column.values] if pa.types.is_list(kind) else column.flatten()))
    return False


def _as_json(value: Any) -> Any:
    """A value in which texts stand for numbers that JSON has not, and for keys that are bytes or decimals."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {
            _written(name) if isinstance(name, bytes | Decimal) else _as_json(name): _as_json(one) for name, one in value.items()
        }
    return [_as_json(one) for one in value] if isinstance(value, list) else value


def value_to_json(value: Any) -> bytes:
    """A value as JSON, without blanks; NaN and infinities are refused."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except ValueError as error:
        if _as_json(value) == value:
            raise
        raise ValueError(
            'JSON has no NaN and no infinities; write null, or the texts "NaN", "Infinity" and "-Infinity", which a column of numbers reads'
        ) from error


def value_from_json(data: bytes) -> Any:
    """The value of a JSON text; NaN and infinities, which only Python writes, are refused, and so is an object with a name twice."""
    return json.loads(data.decode(), parse_constant=refuse_constant, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"found the name {next(name for name in names if names.count(name) > 1)!r} twice in an object")
    return found


def _written(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
