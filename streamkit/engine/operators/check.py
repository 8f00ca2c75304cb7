"""Check: computes what an aggregation will, to find the rows that fail."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from streamkit.engine.folding.changes import ADDED
from streamkit.engine.rows.rows import OptionalBatch, without_deletions
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.names import CHANGE
from streamkit.plan.on_error import DEAD_LETTER, NOTE
from streamkit.plan.operator import gives_null_on_failure
from streamkit.plan.operators.check import Check


@kernel(Check)
def check(operator: Check, inputs: Sequence[OptionalBatch], context: Context) -> OptionalBatch:
    """
    The rows unchanged; EvaluationError, once something has failed, if an expression does. Deletions do not go into an aggregation.

    What is null where it fails never raises an error, so it is computed at once if somebody wants to know. A row that a table takes away from
    its group was computed when it was added.
    """
    (batch,) = inputs
    assert batch is not None
    policy = context.program.on_error.get(operator.id)
    looks_for_all = context.is_leaving_out and policy != NOTE
    is_noting = policy in (DEAD_LETTER, NOTE)
    wanted = [one for one in operator.expressions if looks_for_all or (is_noting and gives_null_on_failure(one))]
    if wanted:
        live, _ = without_deletions(batch)
        if CHANGE in live.schema.names:
            live = live.filter(pc.equal(live[CHANGE], ADDED))
        for expression in wanted if live.num_rows else ():
            evaluate(expression, live)
    return batch
