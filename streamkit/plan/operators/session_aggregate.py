"""Aggregation per session: the aggregates of records of a group that follow each other without a long gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from streamkit.plan.building import OLD_AND_NEW
from streamkit.plan.expression import TypedAggregate
from streamkit.plan.expression_text import aggregates_text
from streamkit.plan.operator import Exchange, Key, Names, Operator, listed
from streamkit.plan.operators.fold import arguments
from streamkit.plan.operators.materialize import store_faults
from streamkit.plan.program import Program
from streamkit.plan.steps import Step
from streamkit.plan.windows import Windowing
from streamkit.schema import Schema


@dataclass(frozen=True)
class SessionAggregate(Operator):
    """Put rows into the sessions of their keys, merge sessions that a row connects, and keep their aggregates in `store`."""

    kind: ClassVar[str] = "session_aggregate"
    stage_min: ClassVar[int] = 1
    key: Key
    store: str
    aggregates: tuple[TypedAggregate, ...]
    modes: tuple[str, ...]  # of latest, every, final, and old_and_new
    window: Windowing

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    @property
    def longest_wait_ms(self) -> int:
        return self.window.size_ms + self.window.grace_ms

    @property
    def kept_aggregates(self) -> tuple[TypedAggregate, ...]:
        return self.aggregates

    @property
    def windowing(self) -> Windowing:
        return self.window

    @property
    def rows_per_record(self) -> int:
        """A row that connects two sessions gives two deletions and a result; with old values each is two rows."""
        return 6 if OLD_AND_NEW in self.modes else 3 if "every" in self.modes else 1

    @property
    def closing(self) -> Windowing | None:
        return session_closing(self.window, self.modes)

    def exchange(self, place: int, rows: Step) -> Exchange:
        return Exchange(self.key, keep_null_keys=False)

    def partitioning(self, inputs: Sequence[Key | None]) -> Key:
        return self.key

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return arguments(self.aggregates) | frozenset(self.key)

    def text(self) -> str:
        emitted = f", emits {listed(self.modes)}" if self.modes else ""
        return f"session aggregate: by {listed(self.key)} ({self.window}), store {self.store}{emitted}: {aggregates_text(self.aggregates)}"

    def faults(self, program: Program) -> list[str]:
        return store_faults(self, program)


def session_closing(window: Windowing, modes: Sequence[str]) -> Windowing | None:
    """
    The sessions that stream time closes, if that must be known.

    It must for final results. Without grace it must also be known which records move stream time: such a record still extends a
    session that is just the gap away, and another record of the same time does not.
    """
    return window if "final" in modes or window.grace_ms == 0 else None
