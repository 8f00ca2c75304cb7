"""Emit: one output of an operator that has several."""

from __future__ import annotations

from collections.abc import Sequence

from streamkit.engine.rows.rows import OptionalBatch
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.plan.operators.emit import Emit


@kernel(Emit, takes_pieces=True)
def emit(operator: Emit, inputs: Sequence[OptionalBatch], context: Context) -> OptionalBatch:
    """The rows of the port that the operator's input names."""
    return inputs[0]
