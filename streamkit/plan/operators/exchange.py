"""The two ends of an exchange: rows leave one stage by key, and arrive at the tasks that own their keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.names import HEADERS
from streamkit.plan.operator import Key, Names, Operator, listed
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.program import Program
from streamkit.plan.steps import Step, with_operator
from streamkit.schema import Schema


@dataclass(frozen=True)
class Send(Operator):
    """
    Hand the rows to edge `edge`.

    `keep_null_keys` says whether rows whose key is null travel or are dropped, and `null_keys_by` by which columns they do, if they are not
    spread. `headers` says whether those of the records travel.
    """

    kind: ClassVar[str] = "send"
    traits: ClassVar[OperatorTraits] = OperatorTraits(moves_rows=True, narrows_input=True)
    edge: int
    key: Key
    keep_null_keys: bool
    headers: bool = False
    null_keys_by: Key = ()

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return needed | frozenset(self.key) | frozenset(self.null_keys_by)

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        moved_by = frozenset((*self.key, *self.null_keys_by))
        return _selected(with_operator(step, headers=HEADERS in needed), needed | moved_by)

    def text(self) -> str:
        by = f" by {listed(self.null_keys_by)}" if self.null_keys_by else ""
        return f"send: edge {self.edge}" + (f", null keys too{by}" if self.keep_null_keys else "")

    def faults(self, program: Program) -> list[str]:
        return _faults(self, self.edge, [edge.from_stage for edge in program.edges], program)


@dataclass(frozen=True)
class Receive(Operator):
    """The rows that arrived by edge `edge`, in canonical order unless they are folded; `key` is what they came by."""

    kind: ClassVar[str] = "receive"
    traits: ClassVar[OperatorTraits] = OperatorTraits(moves_rows=True)
    edge: int
    key: Key
    folded: bool = False

    def partitioning(self, inputs: Sequence[Key | None]) -> Key:
        return self.key

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        return _selected(step, needed)

    def text(self) -> str:
        return f"receive: edge {self.edge}" + (", folded" if self.folded else "")

    def faults(self, program: Program) -> list[str]:
        return _faults(self, self.edge, [edge.to_stage for edge in program.edges], program)


def _selected(step: Step, needed: Names) -> Step:
    return replace(step, schema=step.schema.select(name for name in step.schema.names if name in needed))


def _faults(operator: Operator, edge: int, stages: list[int], program: Program) -> list[str]:
    if not 0 <= edge < len(stages):
        return [f"{operator.id} names edge {edge}, and there are {len(stages)}"]
    is_forward = program.edges[edge].from_stage < program.edges[edge].to_stage
    return [] if operator.stage == stages[edge] and is_forward else [f"{operator.id} is not at its end of edge {edge}"]
