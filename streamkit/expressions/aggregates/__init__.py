"""
Aggregates as folds: the state of a row, how states merge, and the result of a state.

Each function is a value in a file of its own (`count`, `sum`, `first` …), entered by `register`, with the handle that users call right before it.
A new one is a new file, and its line in `families`.
`folding` applies them to the rows, states and results of several aggregates at once.
"""

from __future__ import annotations

from streamkit.expressions.aggregates import families  # noqa: F401 - enters the functions
from streamkit.expressions.aggregates.folding import (
    after_rows,
    combine,
    fold,
    has_order,
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

__all__ = [
    "AGGREGATES",
    "AggregateFunction",
    "AggregateResult",
    "Members",
    "after_rows",
    "aggregate_named",
    "combine",
    "fold",
    "has_order",
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
