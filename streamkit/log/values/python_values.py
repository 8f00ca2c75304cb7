"""Columns as Python values, times among them that Python's own types cannot hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_BOUNDS = {  # the first and the last number of a unit in the years 1 to 9999
    unit: (int(np.datetime64("0001-01-01", unit).astype(np.int64)), int(np.datetime64("10000-01-01", unit).astype(np.int64)) - 1)
    for unit in ("D", "s", "ms", "us")
}


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column; times outside the years 1 to 9999, which no datetime can be, as numpy's datetime64 in UTC."""
    if not has_far_times(column):
        values: list[Any] = column.to_pylist()
        return values
    unit, numbers = str(_unit(column.type)), _numbers(column)
    least, most = _BOUNDS[unit]
    far = pc.or_(pc.less(numbers, least), pc.greater(numbers, most))
    near = pc.if_else(far, pa.scalar(None, column.type), column).to_pylist()
    return [
        np.int64(number).astype(f"M8[{unit}]") if is_far else value
        for value, number, is_far in zip(near, numbers.to_pylist(), far.to_pylist(), strict=True)
    ]


def has_far_times(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether a column has times outside the years 1 to 9999."""
    unit = _unit(column.type)
    if unit not in _BOUNDS:
        return False
    found, (least, most) = pc.min_max(_numbers(column)), _BOUNDS[unit]
    return bool(found["min"].is_valid) and bool(found["min"].as_py() < least or found["max"].as_py() > most)


def _unit(kind: pa.DataType) -> str | None:
    if pa.types.is_date32(kind):
        return "D"
    return kind.unit if pa.types.is_timestamp(kind) else None


def _numbers(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
