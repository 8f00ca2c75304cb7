"""A look at each row before an aggregation takes it, where failing rows are left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from streamkit.plan.expression import TypedExpression
from streamkit.plan.expression_text import shown_text
from streamkit.plan.operator import Exchange, Key, Names, Operator, listed, referenced
from streamkit.plan.operator_traits import EACH_ALONE, OperatorTraits
from streamkit.plan.stateless import passed
from streamkit.plan.steps import Step
from streamkit.schema import Schema


@dataclass(frozen=True)
class Check(Operator):
    """
    Pass the rows for which the expressions of the aggregation behind can be computed.

    It computes them only once something in its stage has failed; until then it passes all rows. So it runs in the stage that computes them:
    behind the exchange by `key`, or before it if `key` is empty, because the rows are folded there, or because they are what a table adds to
    groups and takes away: of these it looks at those that are added.
    """

    kind: ClassVar[str] = "check"
    traits: ClassVar[OperatorTraits] = OperatorTraits(is_view=True, leaves_out=EACH_ALONE)
    expressions: tuple[TypedExpression, ...]
    key: Key = ()

    def exchange(self, place: int, rows: Step) -> Exchange | None:
        return Exchange(self.key, keep_null_keys=False) if self.key else None

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return needed.union(*map(referenced, self.expressions))

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        return passed(step, rows)

    def text(self) -> str:
        return f"check: {listed(map(shown_text, self.expressions))}"
