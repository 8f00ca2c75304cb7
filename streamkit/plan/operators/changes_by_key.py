"""The changes of a table that is not kept, brought together by its key: every one, or the newest of each key."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.plan.building import Building
from streamkit.plan.operator import Exchange, Names, Operator
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.schema import Schema


@dataclass(frozen=True)
class ChangesByKey(Operator):
    """All changes of a key in one task, in canonical order: they pass on as `every`, the newest of an epoch as `latest`."""

    kind: ClassVar[str] = "changes_by_key"
    traits: ClassVar[OperatorTraits] = OperatorTraits(is_view=True, stage_min=1)
    key: tuple[str, ...]

    def exchange(self, place: int, rows: Step) -> Exchange:
        return Exchange(rows.partition_by, keep_null_keys=False)

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return needed | frozenset(self.key)

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        wanted = needed | frozenset(self.key)
        return replace(step, schema=step.schema.select(name for name in step.schema.names if name in wanted))


def by_key(changes: Step, step_id: str, building: Building) -> Step:
    """The step that brings the changes of a table together by its key."""
    return building.add(replace(changes, operator=ChangesByKey(step_id, UNSTAGED, (changes.id,), changes.key)))
