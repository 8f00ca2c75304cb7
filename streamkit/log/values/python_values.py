"""
Columns as Python values, times among them that Python's own types cannot hold.

A struct is a dict, an array a list, a map a dict; a map whose keys are nested, and so cannot be a dict's, is a list of pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.chunks import one_array
from streamkit.log.values.columns import valid_rows
from streamkit.log.values.nested_columns import entries, fields

_BOUNDS = {  # the first and the last number of a unit in the years 1 to 9999
    unit: (int(np.datetime64("0001-01-01", unit).astype(np.int64)), int(np.datetime64("10000-01-01", unit).astype(np.int64)) - 1)
    for unit in ("D", "s", "ms", "us")
}


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column; times outside the years 1 to 9999, which no datetime can hold, as numpy's datetime64 in UTC."""
    if is_list_map_or_struct(column.type):
        return _nested_values(one_array(column))
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
    """Whether a column has times outside the years 1 to 9999, also within nested values."""
    if is_list_map_or_struct(column.type):
        column = one_array(column)
        return any(map(has_far_times, fields(column) if pa.types.is_struct(column.type) else [entries(column)[1]]))
    unit = _unit(column.type)
    if unit not in _BOUNDS:
        return False
    found, (least, most) = pc.min_max(_numbers(column)), _BOUNDS[unit]
    return bool(found["min"].is_valid) and bool(found["min"].as_py() < least or found["max"].as_py() > most)


def is_list_map_or_struct(kind: pa.DataType) -> bool:
    """Whether a column is of a nested type, in the layout of `data_type.to_arrow`."""
    return bool(pa.types.is_list(kind) or pa.types.is_map(kind) or pa.types.is_struct(kind))


def _nested_values(column: pa.Array) -> list[Any]:
    valid = valid_rows(column)
    found = _structs(column) if pa.types.is_struct(column.type) else _lists(column)
    return (
        found if valid is None else [value if is_valid else None for value, is_valid in zip(found, valid.tolist(), strict=True)]
    )


def _structs(column: pa.StructArray) -> list[Any]:
    names = column.type.names
    if not names:
        return [{} for _ in range(len(column))]
    return [dict(zip(names, row, strict=True)) for row in zip(*map(python_values, column.flatten()), strict=True)]


def _lists(column: pa.Array) -> list[Any]:
    counts, content = entries(column)
    ends = np.cumsum(counts)
    bounds = list(zip((ends - counts).tolist(), ends.tolist(), strict=True))
    if not pa.types.is_map(column.type):
        values = python_values(content)
        return [values[start:end] for start, end in bounds]
    pairs = list(zip(*map(python_values, fields(content)), strict=True))
    make: Any = list if pa.types.is_nested(column.type.key_type) else dict
    return [make(pairs[start:end]) for start, end in bounds]


def _unit(kind: pa.DataType) -> str | None:
    if pa.types.is_date32(kind):
        return "D"
    return kind.unit if pa.types.is_timestamp(kind) else None


def _numbers(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
