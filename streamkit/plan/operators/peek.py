"""A look at each row by a user's function, which changes nothing: in the middle of a stream, or at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.names import DELETED
from streamkit.plan.analysis import Analyzer
from streamkit.plan.building import Building
from streamkit.plan.expression import PythonCall, Reference, TypedExpression
from streamkit.plan.expression_text import shown_text
from streamkit.plan.node import ROUNDED, Node, shortened
from streamkit.plan.operator import Key, Names, Operator
from streamkit.plan.operator_traits import EACH_ONCE, OperatorTraits
from streamkit.plan.python_function import PythonFunction
from streamkit.plan.stateless import StatelessStep, passed
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.traits import Traits
from streamkit.schema import Schema, SchemaColumn


@dataclass(frozen=True, eq=False, repr=False)
class PeekNode(StatelessStep):
    """The rows as they are; `function` is called with each."""

    kind: ClassVar[str] = "peek"
    function: PythonFunction

    def step(self, rows: Step, step_id: str, analyzer: Analyzer) -> Step:
        return replace(rows, operator=Peek(step_id, UNSTAGED, (rows.id,), look(self, rows, analyzer)), at=self.at)

    def text(self) -> str:
        return f"peek {self.function.name}"


@dataclass(frozen=True, eq=False, repr=False)
class ForeachNode(Node):
    """The end of a stream: `function` is called with each row."""

    kind: ClassVar[str] = "foreach"
    shape: ClassVar[str] = ROUNDED
    child: Node
    function: PythonFunction

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        return replace(super().traits_over(below), is_sink=True)

    @property
    def subject(self) -> str:
        return self.name or shortened(f"{self.child.subject}-{self.function.name}")

    def text(self) -> str:
        return f"foreach {self.function.name}"

    def lower(self, building: Building) -> Step:
        rows = building.lower(self.child)
        call = look(self, rows, building.analyzer)
        operator = Foreach(building.name(self), UNSTAGED, (rows.id,), call)
        return building.add(replace(rows, operator=operator, at=self.at))


def look(node: PeekNode | ForeachNode, rows: Step, analyzer: Analyzer) -> TypedExpression:
    """The call of the node's function with all columns of a row, and whether it is a tombstone."""
    schema = Schema((*rows.schema, SchemaColumn(DELETED, "boolean", False)))
    call = PythonCall(replace(node.function, parameters=schema.names), tuple(Reference(name) for name in schema.names))
    return analyzer.project(schema, [("_", call)], node.at)[0][1]


@dataclass(frozen=True)
class Peek(Operator):
    """Call a function with each row, and pass the rows on."""

    kind: ClassVar[str] = "peek"
    traits: ClassVar[OperatorTraits] = OperatorTraits(leaves_out=EACH_ONCE)
    call: TypedExpression

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return frozenset(rows.names)

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        return passed(step, rows)

    def text(self) -> str:
        return f"{self.kind}: {shown_text(self.call)}"


@dataclass(frozen=True)
class Foreach(Peek):
    """Call a function with each row, in a kernel, where rows of one key come in order."""

    kind: ClassVar[str] = "foreach"
    traits: ClassVar[OperatorTraits] = replace(Peek.traits, stage_min=1)

    def partitioning(self, inputs: Sequence[Key | None]) -> Key | None:
        return inputs[0]
