"""Aggregates: what group_by(...).agg(...) folds."""

from __future__ import annotations

from streamkit.dsl.column import Column
from streamkit.functions.recording import recorded
from streamkit.plan.expression import Call, Literal

__all__ = ["avg", "count", "count_if", "max", "mean", "min", "sum"]


def count(column: Column | str) -> Column:
    """How many values are not null; of "*", how many rows."""
    return Column(Call("count", (Literal(1),))) if isinstance(column, str) and column == "*" else recorded("count", column)


def count_if(column: Column | str) -> Column:
    """In how many rows the condition is true."""
    return recorded("count_if", column)


def sum(column: Column | str) -> Column:
    """The sum of the values that are not null."""
    return recorded("sum", column)


def avg(column: Column | str) -> Column:
    """The mean of the values that are not null."""
    return recorded("avg", column)


def min(column: Column | str) -> Column:
    """The smallest value."""
    return recorded("min", column)


def max(column: Column | str) -> Column:
    """The largest value."""
    return recorded("max", column)


mean = avg
