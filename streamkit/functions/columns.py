"""Columns, constants and SQL text."""

from __future__ import annotations

from streamkit.dsl.condition import sql_text
from streamkit.errors import TopologyError
from streamkit.expressions.core.column import Column, to_literal
from streamkit.plan.expression import Reference
from streamkit.plan.location import user_location

__all__ = ["col", "column", "expr", "lit"]


def col(name: str) -> Column:
    """The column of that name; TopologyError if it is not a text."""
    if not isinstance(name, str):
        raise TopologyError(f"found {name!r}; expected the name of a column; F.lit(…) is a constant", user_location())
    return Column(Reference(name))


def lit(value: object) -> Column:
    """A constant."""
    return Column(to_literal(value))


def expr(text: str) -> Column:
    """An expression in Spark SQL; TopologyError if the text cannot be read, or calls a function that does not exist."""
    return Column(sql_text(text))


column = col
