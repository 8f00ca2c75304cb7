"""Columns, constants and SQL text."""

from __future__ import annotations

from streamkit.dsl.column import Column, sql_text, to_literal
from streamkit.plan.expression import Reference

__all__ = ["col", "column", "expr", "lit"]


def col(name: str) -> Column:
    """The column of that name."""
    return Column(Reference(name))


def lit(value: object) -> Column:
    """A constant."""
    return Column(to_literal(value))


def expr(text: str) -> Column:
    """An expression in Spark SQL; TopologyError if the text cannot be read, or calls a function that does not exist."""
    return Column(sql_text(text))


column = col
