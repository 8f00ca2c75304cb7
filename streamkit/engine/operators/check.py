"""Check: computes what an aggregation will, to find the rows that fail."""

from __future__ import annotations

from collections.abc import Sequence

from streamkit.engine.rows.rows import OptionalBatch, without_deletions
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.plan.operators.check import Check


@kernel(Check)
def check(operator: Check, inputs: Sequence[OptionalBatch], context: Context) -> OptionalBatch:
    """The rows as they came; EvaluationError, once something has failed, if an expression does. An aggregation takes no deletions."""
    (batch,) = inputs
    assert batch is not None
    if context.is_leaving_out:
        live, _ = without_deletions(batch)
        for expression in operator.expressions if live.num_rows else ():
            evaluate(expression, live)
    return batch
