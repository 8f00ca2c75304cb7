"""Split: hands each row to the first branch whose condition is true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.engine.rows.rows import OptionalBatch
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.expressions.analysis.arrow import mask
from streamkit.plan.operators.split import Branch, SplitRows


@kernel(SplitRows)
def split(operator: SplitRows, inputs: Sequence[OptionalBatch], context: Context) -> Mapping[str, OptionalBatch]:
    """The rows of each branch, by its number; a condition is computed only for rows that no earlier branch took."""
    (rest,) = inputs
    assert rest is not None
    branches: dict[str, pa.RecordBatch] = {}
    for number, predicate in enumerate(operator.predicates):
        taken = mask(predicate, rest)
        branches[str(number)] = rest.filter(taken)
        rest = rest.filter(pc.invert(taken))
    return {**branches, str(len(operator.predicates)): rest}


@kernel(Branch)
def branch(operator: Branch, inputs: Sequence[OptionalBatch], context: Context) -> OptionalBatch:
    """The rows of the port that the operator's input names."""
    return inputs[0]
