"""Project: computes the columns of a row by expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from streamkit.engine.context import Context
from streamkit.engine.kernels import Rows, kernel
from streamkit.engine.rows import of_live_rows, record_columns, rows_of
from streamkit.expressions.arrow import evaluate
from streamkit.names import DELETED
from streamkit.plan.operators.project import Project


@kernel(Project)
def project(operator: Project, inputs: Sequence[Rows], context: Context) -> pa.RecordBatch:
    """The row's own columns replaced by the operator's; record columns stay. A deletion computes its key only."""
    (batch,) = inputs
    assert batch is not None
    of_rows = of_live_rows if DELETED in batch.schema.names else _of_all_rows
    columns = {}
    for name, expression in operator.columns:
        of = _of_all_rows if name in operator.key else of_rows
        columns[name] = of(batch, lambda rows, wanted=expression: evaluate(wanted, rows))  # type: ignore[misc]
    return rows_of({**columns, **record_columns(batch)})


def _of_all_rows(batch: pa.RecordBatch, compute: Callable[[pa.RecordBatch], pa.Array]) -> pa.Array:
    return compute(batch)
