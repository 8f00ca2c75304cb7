"""Values as texts that tell them apart: by bit (-0.0 from 0.0), but for the many kinds of NaN."""

from __future__ import annotations

import pyarrow as pa

from streamkit.errors import EvaluationError
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.expressions.core.operation import columns_of

FAILED = "failed"
ALL_FAILED = "failed with other rows, though not alone"


def cells(array):
    """One text a value; dates and timestamps as numbers, so that any year can be written."""
    return [repr(cell) for cell in _plain(array).to_pylist()]


def _plain(array):
    type = array.type
    if pa.types.is_date(type):
        return array.cast(pa.int32())
    if pa.types.is_timestamp(type):
        return array.cast(pa.timestamp("us")).cast(pa.int64())
    plain_type = _plain_type(type)
    return array if plain_type == type else array.cast(plain_type)


def _plain_type(type):
    """The type with numbers in place of dates and timestamps, at any depth."""
    if pa.types.is_date(type):
        return pa.int32()
    if pa.types.is_timestamp(type):
        return pa.int64()
    if pa.types.is_list(type):
        return pa.list_(_plain_type(type.value_type))
    if pa.types.is_map(type):
        return pa.map_(_plain_type(type.key_type), _plain_type(type.item_type))
    if pa.types.is_struct(type):
        return pa.struct([pa.field(field.name, _plain_type(field.type)) for field in type])
    return type


def in_arrow(typed, batch):
    """The cells of a typed expression, FAILED where a row by itself raises; ALL_FAILED if the batch raises and no row does."""
    assert len(evaluate(typed, batch.slice(0, 0))) == 0  # without a row nothing raises
    try:
        return cells(evaluate(typed, batch))
    except EvaluationError:
        found = _row_by_row(typed, batch)
        return found if FAILED in found else [ALL_FAILED] * len(found)


def _row_by_row(typed, batch):
    """One batch a row, for each row that differs from those before in what the expression reads."""
    known = {}
    rows = list(zip(*(cells(batch.column(name)) for name in sorted(columns_of(typed))))) or [()] * batch.num_rows
    for row, key in enumerate(rows):
        if key not in known:
            known[key] = _one_cell(typed, batch.slice(row, 1))
    return [known[key] for key in rows]


def _one_cell(typed, row):
    try:
        return cells(evaluate(typed, row))[0]
    except EvaluationError:
        return FAILED
