"""Branches, nulls and comparisons of several values."""

from __future__ import annotations

from streamkit.dsl.column import Column, to_literal
from streamkit.errors import TopologyError
from streamkit.functions.recording import recorded
from streamkit.plan.expression import Call
from streamkit.plan.location import user_location

__all__ = [
    "coalesce",
    "equal_null",
    "greatest",
    "ifnull",
    "isnan",
    "isnotnull",
    "isnull",
    "least",
    "nullif",
    "nvl",
    "nvl2",
    "typeof",
    "when",
]


def when(condition: Column, value: object) -> Column:
    """`value` where the condition is true; add branches with `.when(...)` and `.otherwise(...)`."""
    if not isinstance(condition, Column):
        raise TopologyError(f"the condition of when() must be a column; found {condition!r}", user_location())
    return Column(Call("when", (condition.expression, to_literal(value))))


def isnull(column: Column | str) -> Column:
    """True where the value is null."""
    return recorded("isnull", column)


def isnotnull(column: Column | str) -> Column:
    """True where the value is not null."""
    return recorded("isnotnull", column)


def isnan(column: Column | str) -> Column:
    """True where the value is NaN."""
    return recorded("isnan", column)


def coalesce(*columns: Column | str) -> Column:
    """The first value that is not null."""
    return recorded("coalesce", *columns)


def nvl(value: Column | str, default: Column | str) -> Column:
    """`default` where the value is null."""
    return recorded("nvl", value, default)


def nvl2(value: Column | str, not_null: Column | str, null: Column | str) -> Column:
    """`not_null` where the value is not null, else `null`."""
    return recorded("nvl2", value, not_null, null)


def nullif(value: Column | str, other: Column | str) -> Column:
    """Null where both are equal, else the value."""
    return recorded("nullif", value, other)


def equal_null(left: Column | str, right: Column | str) -> Column:
    """True where both are equal, or both null; never null."""
    return recorded("equal_null", left, right)


def greatest(*columns: Column | str) -> Column:
    """The largest value, nulls skipped."""
    return recorded("greatest", *columns)


def least(*columns: Column | str) -> Column:
    """The smallest value, nulls skipped."""
    return recorded("least", *columns)


def typeof(column: Column | str) -> Column:
    """The name of the column's type, as text."""
    return recorded("typeof", column)


ifnull = nvl
