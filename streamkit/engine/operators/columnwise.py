"""Filter and project: what an expression alone decides, row by row, without anything else."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.engine.rows import record_columns, rows_of, with_columns
from streamkit.expressions.arrow import evaluate, mask
from streamkit.names import DELETED
from streamkit.plan.program import Filter, Project


def filter_rows(operator: Filter, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows whose predicate is true; of a table, the others become deletions of their key."""
    kept = mask(operator.predicate, batch)
    if not (operator.table and DELETED in batch.schema.names):
        return batch if pc.all(kept).as_py() else batch.filter(kept)
    deleted = pc.or_(batch[DELETED], pc.invert(kept))
    return with_columns(batch, {DELETED: deleted})


def project(operator: Project, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The row's own columns replaced by the operator's; record columns stay."""
    columns = {name: evaluate(expression, batch) for name, expression in operator.columns}
    return rows_of({**columns, **record_columns(batch)})
