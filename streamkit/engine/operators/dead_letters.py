"""Dead letters: the records that made an operator fail, which it gives as a port of its own."""

from __future__ import annotations

from collections.abc import Sequence

from streamkit.engine.rows.rows import OptionalBatch
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.plan.operators.dead_letters import DeadLetters


@kernel(DeadLetters)
def dead_letters(operator: DeadLetters, inputs: Sequence[OptionalBatch], context: Context) -> OptionalBatch:
    """The rows of the port."""
    return inputs[0]
