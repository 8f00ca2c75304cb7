"""
Aggregates as folds: the state of a row, how states merge, and the result of a state.

Each function is a value in a file of its own (`count`, `sum`, `first` …), entered by `register`; a new one is a new file, named in FAMILIES.
`folding` applies them to the rows, states and results of several aggregates at once.
"""

from __future__ import annotations

from streamkit.expressions.aggregates import (
    approx_count_distinct,
    average,
    collection,
    count,
    extremes,
    extremes_by,
    first,
    percentiles,
    sum,
    top_k,
    variance,
)
from streamkit.expressions.aggregates.folding import (
    combine,
    fold,
    lift,
    lift_members,
    members_of,
    neutral,
    of_table,
    per_aggregate,
    result,
    result_or_null,
    running,
    state_columns,
    subtract,
    without,
)
from streamkit.expressions.aggregates.function import (
    AGGREGATES,
    AggregateFunction,
    AggregateResult,
    Members,
    aggregate_named,
    register,
)

FAMILIES = (
    count,
    sum,
    average,
    extremes,
    first,
    extremes_by,
    variance,
    collection,
    approx_count_distinct,
    percentiles,
    top_k,
)  # importing them registers their functions

__all__ = [
    "AGGREGATES",
    "FAMILIES",
    "AggregateFunction",
    "AggregateResult",
    "Members",
    "aggregate_named",
    "combine",
    "fold",
    "lift",
    "lift_members",
    "members_of",
    "neutral",
    "of_table",
    "per_aggregate",
    "register",
    "result",
    "result_or_null",
    "running",
    "state_columns",
    "subtract",
    "without",
]
