"""Merge: the rows of several streams."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamkit.engine.context import Context
from streamkit.engine.kernels import Rows, kernel
from streamkit.engine.rows import concatenate, record_columns, rows_of
from streamkit.plan.operators.merge import Merge


@kernel(Merge)
def merge(operator: Merge, inputs: Sequence[Rows], context: Context) -> pa.RecordBatch:
    """The rows of all inputs, with the same columns; each keeps its place, by which later operators sort."""
    batches = [rows for rows in inputs if rows is not None]
    alike = [rows_of({**{name: rows[name] for name in operator.columns}, **record_columns(rows)}) for rows in batches]
    return concatenate(alike)
