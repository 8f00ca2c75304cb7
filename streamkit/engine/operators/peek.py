"""Peek and foreach: call a user's function with each row."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamkit.engine.rows.place import has_place, in_canonical_order
from streamkit.engine.rows.rows import OptionalBatch, deletions_of, with_columns
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.names import DELETED
from streamkit.plan.operators.peek import Foreach, Peek


@kernel(Peek)
def peek(operator: Peek, inputs: Sequence[OptionalBatch], context: Context) -> pa.RecordBatch:
    """The rows as they came."""
    (batch,) = inputs
    assert batch is not None
    evaluate(operator.call, _marked(batch))
    return batch


@kernel(Foreach)
def foreach(operator: Foreach, inputs: Sequence[OptionalBatch], context: Context) -> None:
    """Nothing; the function has seen the rows in their order."""
    (batch,) = inputs
    assert batch is not None
    rows = in_canonical_order(batch) if has_place(batch) else batch
    evaluate(operator.call, _marked(rows))


def _marked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, each with the mark that tells a tombstone."""
    return batch if DELETED in batch.schema.names else with_columns(batch, {DELETED: pa.array(deletions_of(batch))})
