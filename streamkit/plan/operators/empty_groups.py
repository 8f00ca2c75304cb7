"""The changes of groups with their old values, as ksqlDB has them: a new group was an empty one before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from streamkit.plan.expression import TypedAggregate
from streamkit.plan.operator import Key, Names, Operator, listed
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.stateless import passed
from streamkit.plan.steps import Step
from streamkit.schema import Schema


@dataclass(frozen=True)
class EmptyGroups(Operator):
    """
    Of the two rows of each change, an old one that is not there becomes that of a group without rows: its key is null.

    So a filter behind it deletes the first row of a group that it does not keep where it would have kept the empty one.
    """

    kind: ClassVar[str] = "empty_groups"
    traits: ClassVar[OperatorTraits] = OperatorTraits(is_view=True)
    key: Key
    aggregates: tuple[TypedAggregate, ...]

    @property
    def passes_on(self) -> bool:
        return True

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return needed | frozenset(self.key)

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        return passed(step, rows)

    def text(self) -> str:
        return f"empty groups: before new ones, by {listed(self.key)}"
