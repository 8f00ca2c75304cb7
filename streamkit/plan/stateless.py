"""Steps that look at one row at a time: of a stream they make a stream, of a table a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from streamkit.plan.analysis import Analyzer
from streamkit.plan.building import OLD_AND_NEW, Building
from streamkit.plan.node import Node
from streamkit.plan.steps import Step
from streamkit.plan.windows import Settling, Window
from streamkit.schema import Schema


@dataclass(frozen=True, eq=False, repr=False)
class StatelessStep(Node):
    """A step that looks at one row at a time."""

    lowers_children: ClassVar[bool] = True
    child: Node

    @cached_property
    def relation(self) -> str:
        return self.child.relation

    @cached_property
    def subject(self) -> str:
        return self.name or self.child.subject

    @property
    def generated_store(self) -> str:
        return self.name or self.generated_name

    @cached_property
    def has_old_values(self) -> bool:
        return self.child.has_old_values

    @cached_property
    def origin(self) -> Node:
        return self.child.origin

    def has_row_times(self, building: Building) -> bool:
        return self.child.has_row_times(building)

    @cached_property
    def history_kept_ms(self) -> int | None:
        return self.child.history_kept_ms

    @cached_property
    def key_window(self) -> Window | None:
        return self.child.key_window

    @cached_property
    def reads_windows(self) -> bool:
        return self.child.reads_windows

    def short_text(self) -> str:
        return self.origin.short_text()

    def settlings(self, building: Building) -> tuple[Settling, ...]:
        return self.child.settlings(building)

    def lower(self, building: Building) -> Step:
        return building.add(self.step(building.lower(self.child), building.name(self), building.analyzer_of(self)))

    def changes(self, building: Building) -> Step:
        return building.add(
            self.step(building.changes(self.child), building.name(self), building.analyzer_of(self)), of_table=self
        )

    def step(self, rows: Step, step_id: str, analyzer: Analyzer) -> Step:
        """The step over these rows."""
        raise NotImplementedError


def steps_above_origin(node: Node) -> tuple[StatelessStep, ...]:
    """The stateless steps between a table and its origin, in the order they apply."""
    steps: list[StatelessStep] = []
    while isinstance(node, StatelessStep):
        steps.append(node)
        node = node.child
    return tuple(reversed(steps))


def mode_of_changes(table: Node) -> str:
    """The emission that gives every change of a table. Behind a filter that is with old values, if the table's origin knows them."""
    may_delete = any(step.may_delete for step in steps_above_origin(table))
    return OLD_AND_NEW if may_delete and table.origin.knows_old_values else "every"


def knows_what_is_dropped(table: Node, building: Building) -> bool:
    """
    Whether filters above a table's origin drop rows, and it is known which rows there were: so that no row is deleted which was not there.

    It is known if a step needs it, or if the table keeps its rows anyway. Of a table with history every change counts.
    """
    origin = table.origin
    return _filters_newest_rows(table) and (origin in building.compared or origin.tells_old_values(building))


def deletes_nothing(table: Node, building: Building) -> bool:
    """Whether the changes of a table hold deletions of what was not there: filters make them, unless they know which rows there were."""
    return _filters_newest_rows(table) and OLD_AND_NEW not in building.modes_of(table.origin)


def _filters_newest_rows(table: Node) -> bool:
    return table.origin.history_kept_ms is None and any(above.may_delete for above in steps_above_origin(table))


def passed(step: Step, rows: Schema | None) -> Step:
    """A step that passes on all columns of its input."""
    assert rows is not None, f"{step.id} has no input"
    return replace(step, schema=step.schema.select(name for name in step.schema.names if name in rows))
