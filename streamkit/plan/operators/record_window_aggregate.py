"""What aggregations share whose windows depend on the records: sessions and sliding windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from streamkit.plan.demands import LATE
from streamkit.plan.expression import TypedAggregate
from streamkit.plan.expression_text import aggregates_text
from streamkit.plan.operator import Exchange, Key, Names, Operator, listed
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.operators.fold import arguments
from streamkit.plan.operators.materialize import store_faults
from streamkit.plan.program import Program
from streamkit.plan.steps import Step
from streamkit.plan.windows import Windowing, closing_for
from streamkit.schema import Schema


@dataclass(frozen=True)
class RecordWindowAggregate(Operator):
    """Put rows into windows that rows make, and keep their aggregates in `store`; nothing is folded before it travels."""

    traits: ClassVar[OperatorTraits] = OperatorTraits(stage_min=1, closes_windows=True)
    key: Key
    store: str
    aggregates: tuple[TypedAggregate, ...]
    modes: tuple[str, ...]  # of latest, every, final, old_and_new, and late
    window: Windowing

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    @property
    def longest_wait_ms(self) -> int:
        return self.window.size_ms + self.window.grace_ms

    def aggregates_in(self, store: str) -> tuple[TypedAggregate, ...]:
        return self.aggregates

    @property
    def windowing(self) -> Windowing:
        return self.window

    @property
    def closing(self) -> Windowing | None:
        return closing_for(self.window, self.modes)

    def exchange(self, place: int, rows: Step) -> Exchange:
        return Exchange(self.key, keep_null_keys=False)

    def partitioning(self, inputs: Sequence[Key | None]) -> Key:
        return self.key

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        late = needed.intersection(rows.names) if LATE in self.modes else frozenset()
        return arguments(self.aggregates) | frozenset(self.key) | late

    def text(self) -> str:
        emitted = f", emits {listed(self.modes)}" if self.modes else ""
        return f"{super().text()}: by {listed(self.key)} ({self.window}), store {self.store}{emitted}: {aggregates_text(self.aggregates)}"

    def faults(self, program: Program) -> list[str]:
        return store_faults(self, program)
