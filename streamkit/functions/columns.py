"""Columns, constants and SQL text."""

from __future__ import annotations

from streamkit.dsl.column import Column, to_literal
from streamkit.plan.expression import Reference, SqlText

__all__ = ["col", "column", "expr", "lit"]


def col(name: str) -> Column:
    """The column of that name."""
    return Column(Reference(name))


def lit(value: object) -> Column:
    """A constant."""
    return Column(to_literal(value))


def expr(text: str) -> Column:
    """An expression in Spark SQL."""
    return Column(SqlText(text))


column = col
