"""Check: computes what an aggregation will, to find the rows that fail."""

from __future__ import annotations

from collections.abc import Sequence

from streamkit.engine.rows.rows import OptionalBatch, without_deletions
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.plan.on_error import DEAD_LETTER
from streamkit.plan.operator import gives_null_on_failure
from streamkit.plan.operators.check import Check


@kernel(Check)
def check(operator: Check, inputs: Sequence[OptionalBatch], context: Context) -> OptionalBatch:
    """
    The rows unchanged; EvaluationError, once something has failed, if an expression does. Deletions do not go into an aggregation.

    What is null where it fails never raises an error, so it is computed at once if somebody wants to know.
    """
    (batch,) = inputs
    assert batch is not None
    is_noting = context.program.on_error.get(operator.id) == DEAD_LETTER
    wanted = [one for one in operator.expressions if context.is_leaving_out or (is_noting and gives_null_on_failure(one))]
    if wanted:
        live, _ = without_deletions(batch)
        for expression in wanted if live.num_rows else ():
            evaluate(expression, live)
    return batch
