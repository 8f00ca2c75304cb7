"""Filter and project: what an expression alone decides, row by row, without anything else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.engine.rows import record_columns, rows_of, with_columns
from streamkit.expressions.arrow import evaluate, mask
from streamkit.names import DELETED
from streamkit.plan.program import Filter, Project


def filter_rows(operator: Filter, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows whose predicate is true; of a table, the others become deletions of their key."""
    if operator.table and DELETED in batch.schema.names:
        kept = _of_live_rows(batch, lambda live: mask(operator.predicate, live))
        return with_columns(batch, {DELETED: pc.invert(kept.fill_null(False))})
    kept = mask(operator.predicate, batch)
    return batch if pc.all(kept).as_py() else batch.filter(kept)


def project(operator: Project, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The row's own columns replaced by the operator's; record columns stay. A deleted row of a table has its key only."""
    of_rows = _of_live_rows if operator.table and DELETED in batch.schema.names else _of_all_rows
    columns = {}
    for name, expression in operator.columns:
        of = _of_all_rows if name in operator.key else of_rows
        columns[name] = of(batch, lambda rows, wanted=expression: evaluate(wanted, rows))  # type: ignore[misc]
    return rows_of({**columns, **record_columns(batch)})


def _of_all_rows(batch: pa.RecordBatch, compute: Callable[[pa.RecordBatch], pa.Array]) -> pa.Array:
    return compute(batch)


def _of_live_rows(batch: pa.RecordBatch, compute: Callable[[pa.RecordBatch], pa.Array]) -> pa.Array:
    """What is computed of the rows that are not deleted; null for the others, whose values may be what a filter kept away."""
    live = pc.invert(batch[DELETED])
    if live.true_count == batch.num_rows:
        return compute(batch)
    is_live = live.to_numpy(zero_copy_only=False)
    return compute(batch.filter(live)).take(pa.array(np.cumsum(is_live) - 1, mask=~is_live))
