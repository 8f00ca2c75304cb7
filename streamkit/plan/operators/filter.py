"""Rows for which a condition is true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from streamkit.plan.analysis import Analyzer
from streamkit.plan.building import Building
from streamkit.plan.demands import WITH_OLD_VALUES
from streamkit.plan.expression import Expression, TypedExpression
from streamkit.plan.expression_text import expression_text, shown_text
from streamkit.plan.node import NEWER
from streamkit.plan.operator import Key, Names, Operator, RowStep, referenced
from streamkit.plan.operator_traits import EACH_ALONE, OperatorTraits
from streamkit.plan.operators.net_change import net_changes
from streamkit.plan.operators.old_values import with_old_values
from streamkit.plan.origin import Origin
from streamkit.plan.stateless import StatelessStep, passed
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.traits import STREAM, Traits
from streamkit.schema import Schema


@dataclass(frozen=True, eq=False, repr=False)
class FilterNode(StatelessStep):
    """Rows for which `predicate` is true; of a stream that `drops_deletions`, none that delete."""

    kind: ClassVar[str] = "filter"
    predicate: Expression
    drops_deletions: bool = field(default=False, metadata=NEWER)

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        return replace(super().traits_over(below), is_filtered=True)

    def text(self) -> str:
        return "filter rows that do not delete" if self.drops_deletions else f"filter {expression_text(self.predicate)}"

    def changes(self, building: Building) -> Step:
        """Every change; no deletion of what was not there, if the old values of the table are known."""
        if WITH_OLD_VALUES not in building.demands[self.traits.maker].modes:
            return super().changes(building)
        return net_changes(
            with_old_values(self, building), f"{building.name(self)}:changes", "every", True, (), self.at, building
        )

    def step(self, rows: Step, step_id: str, analyzer: Analyzer) -> Step:
        predicate = analyzer.predicate(rows.schema, self.predicate, self.at)
        is_table = rows.table and self.relation != STREAM  # a stream's filter drops rows, also among a table's changes
        operator = Filter(step_id, UNSTAGED, (rows.id,), predicate, is_table, rows.key, self.drops_deletions)
        return replace(rows, operator=operator, at=self.at)


@dataclass(frozen=True)
class Filter(Operator):
    """Keep rows whose predicate is true; of a table, turn the others into deletions, which hold only the `key` columns."""

    kind: ClassVar[str] = "filter"
    traits: ClassVar[OperatorTraits] = OperatorTraits(is_view=True, leaves_out=EACH_ALONE)
    predicate: TypedExpression
    table: bool = False
    key: Key = ()
    drops_deletions: bool = False

    @property
    def reads_order(self) -> bool:
        return False

    @property
    def row_step(self) -> RowStep | None:
        return RowStep(condition=self.predicate) if self.table else None

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return needed | referenced(self.predicate)

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        return passed(step, rows)

    def origin(self, above: Sequence[Origin], name: str) -> Origin:
        (rows,) = above
        return rows.but(f"{rows.rows} where {rows.text(self.predicate)}")

    def text(self) -> str:
        return f"filter{' (table)' if self.table else ''}: {shown_text(self.predicate)}"
