"""Global join: a stream with a table that every task has whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamkit.engine.folding.joining import joined, live_rows
from streamkit.engine.rows.rows import OptionalBatch, is_null_key
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.plan.operators.global_join import GlobalJoin


@kernel(GlobalJoin)
def global_join(operator: GlobalJoin, inputs: Sequence[OptionalBatch], context: Context) -> pa.RecordBatch:
    """Each stream row with the matching row of the global table, as of the position in the plan."""
    (batch,) = inputs
    assert batch is not None
    left = live_rows(operator, batch, context)
    rows, found = context.global_table(operator).match([left[name] for name in operator.on])
    if len(operator.on):
        found = np.where(is_null_key(left, operator.on).to_numpy(zero_copy_only=False), -1, found)
    return joined(operator.how, operator.columns, left, rows, found)
