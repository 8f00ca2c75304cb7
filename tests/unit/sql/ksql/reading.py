"""Expressions of the ksql dialect, as the reader of scripts reads them in SELECT."""

from __future__ import annotations

from streamkit.plan.expression import Expression
from streamkit.sql.reader.script import read_script
from streamkit.sql.tree.query import SelectColumn
from streamkit.sql.tree.statements import SelectStatement


def read(text: str) -> Expression:
    """The tree of an expression."""
    (statement,) = read_script(f"SELECT {text} FROM S;", "ksql")
    assert isinstance(statement, SelectStatement)
    (item,) = statement.query.items
    assert isinstance(item, SelectColumn)
    return item.written.expression
