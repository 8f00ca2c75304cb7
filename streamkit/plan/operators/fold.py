"""Rows combined into aggregate state before they travel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from streamkit.plan.expression import TypedAggregate
from streamkit.plan.expression_text import aggregates_text
from streamkit.plan.operator import Key, Names, Operator, all_names, listed, referenced
from streamkit.plan.operator_traits import DROPPED, OperatorTraits
from streamkit.plan.windows import Windowing, closing_for
from streamkit.schema import Schema


@dataclass(frozen=True)
class Fold(Operator):
    """Combine the rows of a key, in each of their windows that is still open, into one row of aggregate state."""

    kind: ClassVar[str] = "fold"
    traits: ClassVar[OperatorTraits] = OperatorTraits(ends_place=True, headers=DROPPED)
    key: Key
    aggregates: tuple[TypedAggregate, ...]
    window: Windowing | None = None

    @property
    def closing(self) -> Windowing | None:
        """Nothing is due; but which rows are late may depend on what other inputs have closed."""
        return None if self.window is None else closing_for(self.window, ())

    @property
    def reads_order(self) -> bool:
        """Only with windows: the order key says which of them are closed."""
        return self.window is not None

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return arguments(self.aggregates) | frozenset(self.key)

    def text(self) -> str:
        window = f" and window ({self.window})" if self.window else ""
        return f"fold: by {listed(self.key)}{window}: {aggregates_text(self.aggregates)}"


def arguments(aggregates: Sequence[TypedAggregate]) -> Names:
    """The columns that aggregates read."""
    return all_names(referenced(one.argument) for one in aggregates if one.argument is not None)
