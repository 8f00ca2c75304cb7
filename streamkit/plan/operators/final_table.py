"""A table of the final results of windows: each row comes once, when its window closes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from streamkit.plan.building import OLD_AND_NEW, Building
from streamkit.plan.node import CYLINDER, TABLE, Node, shortened
from streamkit.plan.operator import Key, Names, Operator
from streamkit.plan.operators.emit import EmitNode, port_step
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.windows import Settling, Window
from streamkit.schema import Schema


@dataclass(frozen=True, eq=False, repr=False)
class FinalTableNode(Node):
    """A table: the final results that `child` emits. The store of the windows has what is held back, so it needs none of its own."""

    kind: ClassVar[str] = "final_table"
    shape: ClassVar[str] = CYLINDER
    changes_once: ClassVar[bool] = True
    child: EmitNode

    @property
    def relation(self) -> str:
        return TABLE

    @cached_property
    def subject(self) -> str:
        return self.name or shortened(f"{self.child.subject}-final")

    def text(self) -> str:
        return "suppress until its window closes"

    def short_text(self) -> str:
        return f"table {self.subject}"

    @property
    def knows_old_values(self) -> bool:
        """Final results replace nothing."""
        return True

    @property
    def key_window(self) -> Window | None:
        return self.child.child.key_window

    def settlings(self, building: Building) -> tuple[Settling, ...]:
        return self.child.child.settlings(building)

    def final_delay_ms(self, window: Window | None) -> int | None:
        return self.child.child.origin.final_delay_ms(window)

    def lower(self, building: Building) -> Step:
        rows = building.lower(self.child)
        operator = FinalTable(building.name(self), UNSTAGED, (rows.id,), rows.key)
        return building.add(replace(rows, operator=operator, table=True, at=self.at))

    def changes(self, building: Building) -> Step:
        results = building.lower(self)
        return port_step(results, "every", f"{results.id}:changes", building)

    def old_and_new(self, building: Building) -> Step:
        results = building.lower(self)
        return port_step(results, OLD_AND_NEW, f"{results.id}:old-and-new", building)


@dataclass(frozen=True)
class FinalTable(Operator):
    """Final results as the changes of a table; each key has one, so that all emissions give the same, and none replaces a row."""

    kind: ClassVar[str] = "final_table"
    stage_min: ClassVar[int] = 1
    key: Key

    def needs_headers(self, place: int, are_needed: bool) -> bool:
        return False

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return frozenset(rows.names)
