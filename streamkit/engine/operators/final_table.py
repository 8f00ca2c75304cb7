"""Final table: final results as the changes of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from streamkit.engine.folding.changes import with_old_values
from streamkit.engine.rows.rows import OptionalBatch, own_columns, with_columns
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.names import DELETED
from streamkit.plan.demands import WITH_OLD_VALUES
from streamkit.plan.operators.final_table import FinalTable


@kernel(FinalTable)
def final_table(operator: FinalTable, inputs: Sequence[OptionalBatch], context: Context) -> Mapping[str, OptionalBatch]:
    """The results, none of which deletes or replaces anything, under the names of all emissions."""
    (batch,) = inputs
    assert batch is not None
    return as_changes(batch, operator.key)


def as_changes(batch: pa.RecordBatch, key: Sequence[str]) -> dict[str, OptionalBatch]:
    """Final results as changes that delete and replace nothing."""
    rows = with_columns(batch, {DELETED: pa.array(np.zeros(batch.num_rows, bool))})
    values = {name: rows[name] for name in own_columns(rows) if name not in key}
    pairs = with_old_values(rows, values, np.full(rows.num_rows, -1, np.int64))
    return {"": rows, "every": rows, "latest": rows, "final": rows, WITH_OLD_VALUES: pairs}
