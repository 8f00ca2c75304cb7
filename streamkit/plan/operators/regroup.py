"""The changes of a table on their way to other groups: what is taken from one group, and what is added to one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.plan.building import Building
from streamkit.plan.operator import Key, Names, Operator, listed
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.operators.aggregate import Grouping, grouped
from streamkit.plan.operators.old_values import with_old_values
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.schema import Schema


@dataclass(frozen=True)
class Regroup(Operator):
    """Of the two rows of each change, those that are there, marked: taken away or added; rows whose group is null are dropped."""

    kind: ClassVar[str] = "regroup"
    traits: ClassVar[OperatorTraits] = OperatorTraits(waits_for_record=True)
    key: Key

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return needed | frozenset(self.key)

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        wanted = needed | frozenset(self.key)
        return replace(step, schema=step.schema.select(name for name in step.schema.names if name in wanted))

    def text(self) -> str:
        return f"regroup: by {listed(self.key)}"


def regrouped(node: Grouping, building: Building) -> tuple[Step, Key]:
    """The rows that the changes of a table take from its groups and add to them, and the columns of the group."""
    (table,) = node.streams
    rows, key = grouped(node, node.group_key, with_old_values(table, building), f"{building.name(node)}:group", building)
    operator = Regroup(f"{building.name(node)}:regroup", UNSTAGED, (rows.id,), key)
    return building.add(replace(rows, operator=operator, key=key, partition_by=key, table=False, at=node.at)), key
