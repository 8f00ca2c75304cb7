"""Steps that look at one row at a time: of a stream they make a stream, of a table a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from streamkit.plan.analysis import Analyzer
from streamkit.plan.building import Building
from streamkit.plan.demands import WITH_OLD_VALUES, Demands
from streamkit.plan.node import Node
from streamkit.plan.steps import Step
from streamkit.plan.traits import Traits
from streamkit.plan.windows import Settling
from streamkit.schema import Schema


@dataclass(frozen=True, eq=False, repr=False)
class StatelessStep(Node):
    """A step that looks at one row at a time."""

    lowers_children: ClassVar[bool] = True
    child: Node

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        """What the step below it is; the store of that is not its own."""
        return replace(below[0], keeps_store=False)

    def demands_below(self, above: Demands) -> Iterable[tuple[Node, Demands]]:
        """What is demanded of its rows can only be had of those below; how they are kept is its own affair."""
        yield self.child, replace(above, ports=frozenset(), partners=frozenset(), is_looked_up=False)

    @cached_property
    def subject(self) -> str:
        return self.name or self.child.subject

    @property
    def generated_store(self) -> str:
        return self.name or self.generated_name

    def short_text(self) -> str:
        return self.traits.maker.short_text()

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


def steps_above_maker(node: Node) -> tuple[StatelessStep, ...]:
    """The stateless steps between a table and its maker, in the order they apply."""
    steps: list[StatelessStep] = []
    while isinstance(node, StatelessStep):
        steps.append(node)
        node = node.child
    return tuple(reversed(steps))


def mode_of_changes(table: Node) -> str:
    """The emission that gives every change of a table. Behind a filter that is with old values, if the table's maker knows them."""
    return WITH_OLD_VALUES if table.traits.is_filtered and table.traits.knows_old_values else "every"


def knows_what_is_dropped(table: Node, building: Building) -> bool:
    """
    Whether filters above a table's maker drop rows, and old values are known: so that no row is deleted which was not there.

    They are known if a step needs them, or if the table keeps its rows anyway. Of a table with history every change counts.
    """
    if not _filters_newest_rows(table):
        return False
    maker, traits = table.traits.maker, table.traits
    return building.demands[maker].old_values or traits.knows_old_values or maker.keys_tell_old_values(building)


def deletes_nothing(table: Node, building: Building) -> bool:
    """Whether the changes of a table hold deletions of what was not there: filters make them, unless they know old values."""
    return _filters_newest_rows(table) and WITH_OLD_VALUES not in building.demands[table.traits.maker].modes


def _filters_newest_rows(table: Node) -> bool:
    return table.traits.is_filtered and table.traits.history_ms is None


def passed(step: Step, rows: Schema | None) -> Step:
    """A step that passes on all columns of its input."""
    assert rows is not None, f"{step.id} has no input"
    return replace(step, schema=step.schema.select(name for name in step.schema.names if name in rows))
