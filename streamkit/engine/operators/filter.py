"""Filter: keeps the rows for which a condition is true."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.conditionals import if_else
from streamkit.engine.rows.rows import OptionalBatch, deletions_of, of_live_rows, own_columns, with_columns
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.expressions.analysis.arrow import mask
from streamkit.names import DELETED
from streamkit.plan.operators.filter import Filter


@kernel(Filter, takes_pieces=True)
def filter_rows(operator: Filter, inputs: Sequence[OptionalBatch], context: Context) -> pa.RecordBatch:
    """Rows whose predicate is true; of a table, the others become deletions of their key."""
    (batch,) = inputs
    assert batch is not None
    if operator.table:
        return _with_deletions(operator, batch)
    if operator.drops_deletions:
        deleted = deletions_of(batch)
        return batch.filter(pa.array(~deleted)) if deleted.any() else batch
    kept = mask(operator.predicate, batch)
    return batch if pc.all(kept).as_py() else batch.filter(kept)


def _with_deletions(operator: Filter, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a table; those that are not kept become deletions, which hold only the key."""
    if DELETED not in batch.schema.names:  # results of an aggregation, which deletes nothing
        batch = with_columns(batch, {DELETED: pa.array(deletions_of(batch))})
    kept = of_live_rows(batch, lambda live: mask(operator.predicate, live)).fill_null(False)
    if kept.true_count == batch.num_rows:
        return batch
    values = [name for name in own_columns(batch) if name not in operator.key]
    emptied = {name: if_else(kept, batch[name], pa.scalar(None, batch[name].type)) for name in values}
    return with_columns(batch, {**emptied, DELETED: pc.invert(kept)})
