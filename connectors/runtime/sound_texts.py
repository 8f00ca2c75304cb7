"""Texts that are no UTF-8: rows that have one are refused before anything looks at them, and dead letters show them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.connectors.runtime.pipeline import PipelineStep
from streamkit.errors import SchemaError
from streamkit.log.values.python_values import python_values
from streamkit.log.values.validation import validate_column


def refuse_unsound_texts(name: str, rows: pa.Table) -> dict[str, pa.Table]:
    """The rows; SchemaError with `rows` for those whose texts are not UTF-8, which nothing in Python could read."""
    for column in rows.column_names:
        refused = _unsound(rows[column]) if _has_texts(rows[column].type) else []
        if refused:
            raise SchemaError(f"column {column!r}: it is not UTF-8", tuple(refused))
    return {name: rows}


SOUND_TEXTS = PipelineStep("VALUE_CONVERTER", refuse_unsound_texts)


def shown_value(column: pa.ChunkedArray) -> Any:
    """The value of a column of one row, as Python has it; bytes of a text that are no UTF-8 as escapes."""
    try:
        return python_values(column)[0]
    except UnicodeDecodeError:
        as_bytes = pa.concat_arrays([chunk.cast(_of_bytes(column.type)) for chunk in column.chunks])
        return _escaped(python_values(as_bytes)[0], column.type)


def _unsound(column: pa.ChunkedArray) -> list[int]:
    found, first = [], 0
    for chunk in column.chunks:
        if not _is_sound(chunk):
            found += [first + row for row in _unsound_rows(chunk, 0, len(chunk))]
        first += len(chunk)
    return found


def _unsound_rows(array: pa.Array, start: int, end: int) -> list[int]:
    if _is_sound(array.take(pa.array(np.arange(start, end)))):  # of a slice all that is nested would be checked
        return []
    half = (start + end) // 2
    return [start] if end - start == 1 else [*_unsound_rows(array, start, half), *_unsound_rows(array, half, end)]


def _is_sound(array: pa.Array) -> bool:
    try:
        validate_column(array)
    except pa.ArrowInvalid:
        return False
    return True


def _has_texts(kind: pa.DataType) -> bool:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return True
    return any(_has_texts(kind.field(number).type) for number in range(kind.num_fields))


def _of_bytes(kind: pa.DataType) -> pa.DataType:
    """The type with bytes in place of texts."""
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_large_string(kind):
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_of_bytes(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_of_bytes(kind.key_type), _of_bytes(kind.item_type))
    return pa.list_(kind.value_field.with_type(_of_bytes(kind.value_type))) if pa.types.is_list(kind) else kind


def _escaped(value: Any, kind: pa.DataType) -> Any:
    """The value with texts in place of bytes, where the type has texts."""
    if value is None or not _has_texts(kind):
        return value
    if pa.types.is_struct(kind):
        return {field.name: _escaped(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else value
        return {str(_escaped(key, kind.key_type)): _escaped(one, kind.item_type) for key, one in pairs}
    if pa.types.is_list(kind):
        return [_escaped(one, kind.value_type) for one in value]
    return value.decode(errors="backslashreplace")
