"""Aggregation: rows are folded into groups, in their windows if there are any, by aggregates of columns or by users' functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamkit.engine.folding.assigned import columns as assigned_columns
from streamkit.engine.folding.assigned import functions as assigned_functions
from streamkit.engine.folding.session import columns as session_columns
from streamkit.engine.folding.session import functions as session_functions
from streamkit.engine.folding.sliding import columns as sliding_columns
from streamkit.engine.folding.sliding import functions as sliding_functions
from streamkit.engine.rows.rows import OptionalBatch
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import OperatorFunction, OperatorResult, kernel
from streamkit.plan.operators.aggregate import Aggregate, ColumnFold, FunctionFold
from streamkit.plan.windows import ASSIGNED, SESSION, SLIDING

# What is folded, and how rows come into windows, are two questions. Aggregates of columns fold all rows of an epoch at once, functions
# one row after another; and windows that depend on the rows are found out before anything is folded.
WAYS: Mapping[tuple[type, str], OperatorFunction] = {
    (ColumnFold, ASSIGNED): assigned_columns.fold_columns,
    (ColumnFold, SLIDING): sliding_columns.fold_columns,
    (ColumnFold, SESSION): session_columns.fold_columns,
    (FunctionFold, ASSIGNED): assigned_functions.fold_functions,
    (FunctionFold, SLIDING): sliding_functions.fold_functions,
    (FunctionFold, SESSION): session_functions.fold_functions,
}


@kernel(Aggregate, runs_empty=True)
def aggregate(operator: Aggregate, inputs: Sequence[OptionalBatch], context: Context) -> OperatorResult:
    """Fold the rows into the store, and return the results that were asked for, by mode."""
    return WAYS[type(operator.fold), operator.assigner](operator, inputs, context)
