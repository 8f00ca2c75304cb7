"""Values as texts, as Connect writes them into headers and casts to string."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.files.record_lines import json_text
from streamkit.connectors.transforms.simple_date_format import SimpleDateFormat
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.expressions.analysis.sql import parse_sql
from streamkit.log.values.python_values import is_list_map_or_struct, python_values
from streamkit.schema import Schema

_DAY_MS = 86_400_000
_DATE = SimpleDateFormat("yyyy-MM-dd")
_TIME = SimpleDateFormat("HH:mm:ss.SSS'Z'")
_BOTH = SimpleDateFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")


def texts(column: pa.Array) -> pa.Array:
    """
    Each value as text: numbers as Java writes them, bytes in base 64, nested values as JSON.

    A time is its date if it is midnight, its time of day on the first day of 1970, and else both.
    """
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_null(kind):
        return pc.cast(column, pa.string())
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _moments(milliseconds(column))
    if is_list_map_or_struct(kind):
        return pa.array([None if value is None else _compact(value) for value in python_values(column)], pa.string())
    if pa.types.is_decimal(kind):
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
    return evaluated("base64(v)" if pa.types.is_binary(kind) else "cast(v as string)", column)


def _compact(value: Any) -> str:
    """JSON without spaces, as Connect has it."""
    return json.dumps(json.loads(json_text(value)), ensure_ascii=False, separators=(",", ":"))


def milliseconds(column: pa.Array) -> pa.Array:
    """Times and dates as milliseconds since 1970, cut towards zero."""
    if pa.types.is_date(column.type):
        return pc.multiply(pc.cast(pc.cast(column, pa.int32()), pa.int64()), _DAY_MS)
    divisor = {"s": None, "ms": 1, "us": 1_000, "ns": 1_000_000}[column.type.unit]
    numbers = pc.cast(column, pa.int64())
    return pc.multiply(numbers, 1_000) if divisor is None else pc.divide(numbers, divisor)


def evaluated(text: str, column: pa.Array) -> pa.Array:
    """An SQL expression of one column, which it calls `v`."""
    schema = Schema.parse(pa.schema([pa.field("v", column.type)]))
    ((_, expression),) = ExpressionAnalyzer().project(schema, [("result", parse_sql(text))])
    return evaluate(expression, pa.record_batch([column], ["v"]))


def _moments(numbers: pa.Array) -> pa.Array:
    filled = np.asarray(numbers.fill_null(0))
    is_time, is_date = pa.array((filled >= 0) & (filled < _DAY_MS)), pa.array(filled % _DAY_MS == 0)
    dated = pc.if_else(is_date, _DATE.formatted(numbers), _BOTH.formatted(numbers))
    return pc.if_else(is_time, _TIME.formatted(numbers), dated)
