"""A stream divided into branches: each record goes to the first whose condition is true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.plan.analysis import Analyzer
from streamkit.plan.building import Building
from streamkit.plan.expression import Expression, TypedExpression
from streamkit.plan.expression_text import expression_text, shown_text
from streamkit.plan.node import Node, shortened
from streamkit.plan.operator import PORT, Names, Operator, port_of, referenced
from streamkit.plan.operator_traits import EACH_ALONE, OperatorTraits
from streamkit.plan.origin import Origin
from streamkit.plan.stateless import StatelessStep, passed
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.schema import Schema


@dataclass(frozen=True, eq=False, repr=False)
class SplitNode(StatelessStep):
    """The records of a stream, divided by conditions; a branch takes those of one, or those for which none is true."""

    kind: ClassVar[str] = "split"
    conditions: tuple[Expression, ...]

    def text(self) -> str:
        return f"split by {'; '.join(map(expression_text, self.conditions))}"

    def step(self, rows: Step, step_id: str, analyzer: Analyzer) -> Step:
        predicates = tuple(analyzer.predicate(rows.schema, condition, self.at) for condition in self.conditions)
        return replace(rows, operator=SplitRows(step_id, UNSTAGED, (rows.id,), predicates), at=self.at)


@dataclass(frozen=True, eq=False, repr=False)
class BranchNode(Node):
    """The records of one branch: those that come to condition `number`, or to none if there is no such number."""

    kind: ClassVar[str] = "branch"
    child: SplitNode
    branch: str
    number: int

    @property
    def subject(self) -> str:
        return self.name or shortened(f"{self.child.subject}-{self.branch}")

    def text(self) -> str:
        conditions = self.child.conditions
        return (
            f"branch {self.branch}: {expression_text(conditions[self.number]) if self.number < len(conditions) else 'the rest'}"
        )

    def lower(self, building: Building) -> Step:
        rows = building.lower(self.child)
        operator = Branch(building.name(self), UNSTAGED, (f"{rows.id}{PORT}{self.number}",))
        return building.add(replace(rows, operator=operator, at=self.at))


@dataclass(frozen=True)
class SplitRows(Operator):
    """Hand each row to the port with the number of the first predicate that is true; to the port behind the last if none is."""

    kind: ClassVar[str] = "split"
    traits: ClassVar[OperatorTraits] = OperatorTraits(leaves_out=EACH_ALONE)
    predicates: tuple[TypedExpression, ...]

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return needed.union(*map(referenced, self.predicates))

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        return passed(step, rows)

    def origin(self, above: Sequence[Origin], name: str) -> Origin:
        (rows,) = above
        return rows.but(f"{rows.rows} split by {'; '.join(map(rows.text, self.predicates))}, branch {port_of(name)}")

    def text(self) -> str:
        return f"split: {'; '.join(map(shown_text, self.predicates))}"


@dataclass(frozen=True)
class Branch(Operator):
    """The rows of one port of a split."""

    kind: ClassVar[str] = "branch"

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        return passed(step, rows)

    def text(self) -> str:
        return f"branch: {port_of(self.inputs[0])}"
