"""The streams and tables that a query may read once, by their names."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from streamkit.dsl.topology import Topology
from streamkit.sql.lowering.scope import AnyRows, Scope, ScopeColumn
from streamkit.sql.pull.one_row import COLUMN, TYPE
from streamkit.sql.pull.source import ReadRows


@dataclass(frozen=True)
class PullRelation:
    """A stream or table: a handle of it, and where its rows come from; `timed` are those of a table with the times of its rows, too."""

    rows: AnyRows
    source: ReadRows
    timed: Callable[[Sequence[str]], ReadRows] | None = None


class PullRelations(Protocol):
    """The streams and tables that there are."""

    def relation(self, name: str) -> PullRelation | None:
        """That of a name, whatever its case if none is spelt so; None if there is none."""
        ...

    def names(self) -> Sequence[str]:
        """All names, for messages."""
        ...


@cache
def rows_of_query(time_zone: str) -> Scope:
    """Rows that no topic has: those of a query, of a join, or the one row without FROM."""
    rows = Topology("query", time_zone=time_zone).table("rows", schema="row int", key="row")
    return Scope(rows, (), (ScopeColumn("", COLUMN, COLUMN, TYPE, is_shown=False),), None)


def no_relation(name: str, names: Sequence[str]) -> str:
    """The message that there is no stream, table or topic of a name, with the names that there are, and the nearest one."""
    close = difflib.get_close_matches(name.lower(), [one.lower() for one in names], 1)
    nearest = next((one for one in names if close and one.lower() == close[0]), None)
    there = ", ".join(names) or "none"
    return f"there is no stream, table or topic {name!r}; there are {there}" + (f"; did you mean {nearest!r}?" if nearest else "")
