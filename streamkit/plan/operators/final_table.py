"""A table of the final results of windows: each row comes once, when its window closes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from streamkit.plan.building import Building
from streamkit.plan.demands import WITH_OLD_VALUES
from streamkit.plan.node import CYLINDER, Node, shortened
from streamkit.plan.operator import Key, Names, Operator
from streamkit.plan.operator_traits import DROPPED, OperatorTraits
from streamkit.plan.operators.emit import EmitNode, port_step
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.traits import TABLE, Traits
from streamkit.plan.windows import Settling
from streamkit.schema import Schema


@dataclass(frozen=True, eq=False, repr=False)
class FinalTableNode(Node):
    """A table: the final results that `child` emits. The store of the windows has what is held back, so it needs none of its own."""

    kind: ClassVar[str] = "final_table"
    shape: ClassVar[str] = CYLINDER
    child: EmitNode

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        """Final results replace nothing, so it knows old values."""
        windows = self.child.child.traits
        return replace(
            super().traits_over(below),
            relation=TABLE,
            knows_old_values=True,
            changes_once=True,
            window=windows.window,
            final_delay=windows.final_delay,
        )

    @cached_property
    def subject(self) -> str:
        return self.name or shortened(f"{self.child.subject}-final")

    def text(self) -> str:
        return "suppress until its window closes"

    def short_text(self) -> str:
        return f"table {self.subject}"

    def settlings(self, building: Building) -> tuple[Settling, ...]:
        return self.child.child.settlings(building)

    def lower(self, building: Building) -> Step:
        rows = building.lower(self.child)
        operator = FinalTable(building.name(self), UNSTAGED, (rows.id,), rows.key)
        return building.add(replace(rows, operator=operator, table=True, at=self.at))

    def changes(self, building: Building) -> Step:
        results = building.lower(self)
        return port_step(results, "every", f"{results.id}:changes", building)

    def with_old_values(self, building: Building) -> Step:
        results = building.lower(self)
        return port_step(results, WITH_OLD_VALUES, f"{results.id}:old-and-new", building)


@dataclass(frozen=True)
class FinalTable(Operator):
    """Final results as the changes of a table; each key has one, so that all emissions give the same, and none replaces a row."""

    kind: ClassVar[str] = "final_table"
    traits: ClassVar[OperatorTraits] = OperatorTraits(stage_min=1, headers=DROPPED)
    key: Key

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return frozenset(rows.names)
