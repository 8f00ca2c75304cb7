"""Merge: the rows of several streams."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamkit.engine.rows.place import as_they_come
from streamkit.engine.rows.rows import OptionalBatch, concatenate, record_columns, rows_of
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.plan.operators.merge import Merge


@kernel(Merge)
def merge(operator: Merge, inputs: Sequence[OptionalBatch], context: Context) -> pa.RecordBatch:
    """
    The rows of all inputs, with the same columns; each keeps its place, by which later operators sort.

    Where one record reaches several inputs, its rows stand in the order in which they reach them.
    """
    rows = as_they_come(inputs, context.turn(operator.id))
    return concatenate([_alike(operator, one) for one in rows if one is not None])


def _alike(operator: Merge, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of an input, with the columns in one order."""
    return rows_of({**{name: rows[name] for name in operator.columns}, **record_columns(rows)})
