"""Merge: the rows of several streams."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamkit.engine.context import Context
from streamkit.engine.kernels import Rows, kernel
from streamkit.engine.place import behind_inputs
from streamkit.engine.rows import concatenate, record_columns, rows_of
from streamkit.plan.operators.merge import Merge


@kernel(Merge)
def merge(operator: Merge, inputs: Sequence[Rows], context: Context) -> pa.RecordBatch:
    """
    The rows of all inputs, with the same columns; each keeps its place, by which later operators sort.

    Where one record reaches several inputs, rows that would stand at one place stand in the order of the inputs.
    """
    return concatenate([_alike(operator, rows, number) for number, rows in enumerate(inputs) if rows is not None])


def _alike(operator: Merge, rows: pa.RecordBatch, number: int) -> pa.RecordBatch:
    """The rows of an input, with the columns in one order."""
    columns = {name: rows[name] for name in operator.columns}
    return rows_of({**columns, **record_columns(rows), **(behind_inputs(rows, number) if operator.shares_records else {})})
