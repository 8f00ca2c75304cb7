"""The records that made an operator fail, on their way to their topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from streamkit.plan.operator import Names, Operator
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.schema import Schema


@dataclass(frozen=True)
class DeadLetters(Operator):
    """The records that made the operator before fail, as rows of a dead-letter topic."""

    kind: ClassVar[str] = "dead_letters"
    traits: ClassVar[OperatorTraits] = OperatorTraits(ends_place=True)  # a record gets its place when it has failed

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return frozenset()

    def text(self) -> str:
        return f"dead letters of {self.sources[0]}"
