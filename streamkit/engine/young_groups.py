"""
Groups of tables that a program has and the one before it had not.

A row that leaves a group must have been added to it. So a group that comes to a table with rows is filled with them, or refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from streamkit.engine.definition import original_of
from streamkit.plan.operator import Operator
from streamkit.plan.program import Program
from streamkit.state.layout import LAYOUTS


@dataclass(frozen=True)
class Filling:
    """
    How the first state of a group is made of its table's rows.

    `source` is the store that has them, `table` the one that the program looks them up in: the same, or a copy of it. `operators`
    are those from the changes of the table to the group, which is the last.
    """

    source: str
    table: str
    operators: tuple[Operator, ...]

    @property
    def group(self) -> Operator:
        """The operator that keeps the groups."""
        return self.operators[-1]


def young_groups(program: Program, before: Program) -> list[Operator]:
    """The operators that keep groups of tables and had no store before."""
    known = {store.name for store in before.stores}
    return [one for one in program.operators if one.takes_rows_away and one.stores[0] not in known]


def filling_of(program: Program, before: Program, group: Operator) -> Filling | None:
    """How a group is filled; None if its table does not keep its rows as they are, each under its key."""
    way = [group]
    while len(way[0].sources) == 1:
        above = program.operator(way[0].sources[0])
        if above.tells_replaced_rows:
            table = program.operator(above.inputs[0])
            (store, *others) = table.stores
            is_plain = program.store(store).layout in _PLAIN and not others and len(above.inputs) == 1
            return Filling(_source(program, before, store), store, tuple(way)) if is_plain else None
        if above.stores:
            return None
        way.insert(0, above)
    return None


def tables_below(program: Program, group: Operator) -> Iterator[str]:
    """The stores that tell which rows a group's changes replace."""
    pending = list(group.sources)
    while pending:
        operator = program.operator(pending.pop())
        if operator.stores:
            yield operator.stores[0]
        else:
            pending += operator.sources


def _source(program: Program, before: Program, store: str) -> str:
    if any(one.name == store for one in before.stores):
        return store
    return original_of(program, store) or store


_PLAIN = tuple(name for name, layout in LAYOUTS.items() if not layout.before + layout.after)
