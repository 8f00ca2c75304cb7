"""The changes of a table, each as two rows: the one it replaces, then the new one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.errors import TopologyError
from streamkit.plan.building import Building
from streamkit.plan.node import Node
from streamkit.plan.operator import Names, Operator
from streamkit.plan.operators.materialize import kept_table
from streamkit.plan.stateless import steps_above_origin
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.schema import Schema


@dataclass(frozen=True)
class OldValues(Operator):
    """
    Each change of a kept table as two rows at its place: the row it replaces, then the new one.

    A row that is not there is a deletion. So stateless steps work on both alike, and no row loses its partner.
    """

    kind: ClassVar[str] = "old_values"
    stage_min: ClassVar[int] = 1
    key: tuple[str, ...]

    def looks_up(self, place: int) -> bool:
        return True

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return needed | frozenset(self.key)

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        wanted = needed | frozenset(self.key)
        return replace(step, schema=step.schema.select(name for name in step.schema.names if name in wanted))

    def text(self) -> str:
        return "old values: each change as the row it replaces and the new one"


def old_and_new(table: Node, building: Building) -> Step:
    """The step that gives each change of a table as two rows; the stateless steps above its origin take both."""
    rows = table.origin.old_and_new(building) or _of_kept_table(table.origin, building)
    for above in steps_above_origin(table):
        rows = building.add(above.step(rows, f"{building.name(above)}:old-and-new", building.analyzer))
    return rows


def _of_kept_table(table: Node, building: Building) -> Step:
    changes = building.changes(table)
    if changes.key != changes.partition_by:
        raise TopologyError(
            f"old values of {table.short_text()} are not known, because it has windows; expected a table whose key has no windows",
            table.at,
        )
    kept = kept_table(table, changes, tuple(changes.schema[name].type for name in changes.key), building)
    operator = OldValues(f"{building.name(table)}:old-values", UNSTAGED, (kept.id,), kept.key)
    return building.add(replace(kept, operator=operator))
