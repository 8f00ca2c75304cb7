"""
Which tables must give a new store every change that they had, and not only the rows that they have now.

The newest rows of a table lead to those of a table that follows from it by steps of tables. Behind `to_stream()` a record that is left out
leaves the row before it in place, and another key keeps rows that the table no longer has: there all changes count.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamkit.plan.operator import Operator
from streamkit.plan.operators.explode import Explode
from streamkit.plan.operators.filter import Filter
from streamkit.plan.operators.merge import Merge
from streamkit.plan.operators.project import Project
from streamkit.plan.operators.row_function import RowFunction
from streamkit.plan.operators.split import SplitRows
from streamkit.plan.program import Program

_OF_STREAMS = (
    Explode,
    Merge,
    SplitRows,
)  # they come behind `to_stream()` alone, and leave rows out, make several, or mix them with others


def tables_of_changes(keeper: Operator, program: Program, kept: frozenset[str]) -> set[str]:
    """The ids of the operators with stores among `kept` whose every change the new store of `keeper` depends on."""
    found: set[str] = set()
    pending: list[tuple[Operator, tuple[str, ...] | None, bool]] = [(keeper, None, False)]
    seen = set()
    while pending:
        operator, key, counts = pending.pop()
        if (operator.id, key, counts) in seen:
            continue
        seen.add((operator.id, key, counts))
        if operator.stores and operator is not keeper and not kept.isdisjoint(operator.stores):
            if counts or (key is not None and set(key) != set(program.store(operator.stores[0]).key.names)):
                found.add(operator.id)
            continue
        if operator.traits.is_looked_up and operator.stores:
            key = program.store(operator.stores[0]).key.names
        elif operator.stores:
            key = None  # of groups, of joins by another key: they take rows of tables with the ones before them
        else:
            key, is_told = _above(operator, key, program)
            counts = counts or is_told
        pending += [(program.operator(name), key, counts) for name in operator.sources]
    return found


def source_of_changes(table: Operator, program: Program) -> Operator | None:
    """The operator that reads the topic whose records are the table's changes; None if they follow from anything else."""
    above = list(_all_above(table, program))
    readers = [one for one in above if one.input_read is not None]
    are_steps = all(not one.stores and len(one.inputs) <= 1 and one.input_read_whole is None for one in above)
    if not table.traits.is_looked_up or len(readers) != 1 or not are_steps:
        return None
    return readers[0]


def _above(operator: Operator, key: tuple[str, ...] | None, program: Program) -> tuple[tuple[str, ...] | None, bool]:
    """The columns that a key has in front of an operator, and whether what follows from it depends on every change."""
    if operator.id in program.on_error:
        return key, True
    if isinstance(operator, Project) and key is not None:
        before = dict(operator.columns)
        names = [str(before[name].value) for name in key if name in before and before[name].name == "column"]
        return tuple(names), len(names) < len(key)
    if isinstance(operator, RowFunction):
        return key, operator.is_many or (key is not None and not set(key).isdisjoint(operator.given))
    if isinstance(operator, Filter):
        return key, not operator.table
    return key, isinstance(operator, _OF_STREAMS)


def _all_above(operator: Operator, program: Program) -> Iterator[Operator]:
    pending, seen = list(operator.sources), set()
    while pending:
        if (name := pending.pop()) not in seen:
            seen.add(name)
            yield program.operator(name)
            pending += program.operator(name).sources
