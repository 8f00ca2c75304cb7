"""Filter and project: what an expression alone decides, row by row, without anything else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.engine.rows import own_columns, record_columns, rows_of, with_columns
from streamkit.expressions.arrow import evaluate, mask
from streamkit.names import DELETED
from streamkit.plan.program import Filter, Project


def filter_rows(operator: Filter, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows whose predicate is true; of a table, the others become deletions of their key."""
    if operator.table and DELETED in batch.schema.names:
        return _with_deletions(operator, batch)
    kept = mask(operator.predicate, batch)
    return batch if pc.all(kept).as_py() else batch.filter(kept)


def project(operator: Project, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The row's own columns replaced by the operator's; record columns stay. A deletion computes its key only."""
    of_rows = _of_live_rows if DELETED in batch.schema.names else _of_all_rows
    columns = {}
    for name, expression in operator.columns:
        of = _of_all_rows if name in operator.key else of_rows
        columns[name] = of(batch, lambda rows, wanted=expression: evaluate(wanted, rows))  # type: ignore[misc]
    return rows_of({**columns, **record_columns(batch)})


def _with_deletions(operator: Filter, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a table, those that are not kept turned into deletions, of which nothing but the key is left to compute from."""
    kept = _of_live_rows(batch, lambda live: mask(operator.predicate, live)).fill_null(False)
    if kept.true_count == batch.num_rows:
        return batch
    values = [name for name in own_columns(batch) if name not in operator.key]
    emptied = {name: pc.if_else(kept, batch[name], pa.scalar(None, batch[name].type)) for name in values}
    return with_columns(batch, {**emptied, DELETED: pc.invert(kept)})


def _of_all_rows(batch: pa.RecordBatch, compute: Callable[[pa.RecordBatch], pa.Array]) -> pa.Array:
    return compute(batch)


def _of_live_rows(batch: pa.RecordBatch, compute: Callable[[pa.RecordBatch], pa.Array]) -> pa.Array:
    """What is computed of the rows that delete nothing; null for the others, which have no values to compute from."""
    live = pc.invert(batch[DELETED])
    if live.true_count == batch.num_rows:
        return compute(batch)
    is_live = live.to_numpy(zero_copy_only=False)
    return compute(batch.filter(live)).take(pa.array(np.cumsum(is_live) - 1, mask=~is_live))
