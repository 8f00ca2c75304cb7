"""Repartition: the rows of the keys that a task owns."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamkit.engine.rows.place import as_moved
from streamkit.engine.rows.rows import OptionalBatch, without_null_keys
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.plan.operators.repartition import Repartition


@kernel(Repartition)
def repartition(operator: Repartition, inputs: Sequence[OptionalBatch], context: Context) -> pa.RecordBatch:
    """The rows that arrived; an exchange that was there already may have kept null keys, which go here."""
    (batch,) = inputs
    assert batch is not None
    batch = as_moved(batch, context.turn(operator.id).owns)
    if operator.keep_null_keys:
        return batch
    kept, dropped = without_null_keys(batch, operator.key)
    context.count("null_key", operator.id, dropped)
    return kept
