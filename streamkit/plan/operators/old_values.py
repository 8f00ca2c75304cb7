"""The changes of a table with their old values, each as two rows: the row before, then the new one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.plan.building import Building
from streamkit.plan.node import Node
from streamkit.plan.operator import PORT, Names, Operator
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.operators.materialize import kept_table
from streamkit.plan.operators.versioned_table import ACCEPTED
from streamkit.plan.stateless import steps_above_maker
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.schema import Schema

WITH_FORMER = "-with-former"
AFTER_EMPTY_GROUPS = "-after-empty-groups"


@dataclass(frozen=True)
class OldValues(Operator):
    """
    Each change of a kept table as two rows at its place: its old value, then the new one.

    A row that is not there is a deletion. So stateless steps work on both alike, and no row loses its partner. Of a table with history the
    first input may be all its changes, those out of order too; the second is then those that came in order, which replace rows.
    """

    kind: ClassVar[str] = "old_values"
    traits: ClassVar[OperatorTraits] = OperatorTraits(is_view=True, stage_min=1, first_gives_rows=True, looks_up=(0, 1))
    key: tuple[str, ...]

    @property
    def passes_on(self) -> bool:
        return True

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return needed | frozenset(self.key)

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        wanted = needed | frozenset(self.key)
        return replace(step, schema=step.schema.select(name for name in step.schema.names if name in wanted))

    def text(self) -> str:
        return "old values: each change as its old value and the new one"


def with_old_values(table: Node, building: Building, with_former: bool = False, *, after_empty_groups: bool = False) -> Step:
    """
    The step that gives each change of a table as two rows; the stateless steps above its maker take both.

    `with_former` asks for changes of former rows, too, if the table has history. `after_empty_groups` asks for an empty group before each
    new one.
    """
    maker, with_former = table.traits.maker, with_former and table.traits.history_ms is not None
    rows = maker.with_old_values(building) or _of_kept_table(maker, building, with_former)
    variant = WITH_FORMER if with_former else ""
    if after_empty_groups:
        rows, variant = maker.after_empty_groups(rows, building), AFTER_EMPTY_GROUPS
    for above in steps_above_maker(table):
        building.check_fails(above, "whose old values must be known, which are computed of the row that failed")
        step_id = f"{building.name(above)}:old-and-new{variant}"
        rows = building.add(above.step(rows, step_id, building.analyzer), declared_with=above)
    return rows


def _of_kept_table(table: Node, building: Building, with_former: bool) -> Step:
    changes = building.changes(table)
    kept = kept_table(table, changes, tuple(changes.schema[name].type for name in changes.key), building)
    step_id = f"{building.name(table)}:old-values"
    operator = OldValues(step_id, UNSTAGED, (kept.id,), kept.key)
    if with_former:
        operator = OldValues(f"{step_id}{WITH_FORMER}", UNSTAGED, (f"{kept.id}{PORT}{ACCEPTED}", kept.id), kept.key)
    return building.add(replace(kept, operator=operator))
