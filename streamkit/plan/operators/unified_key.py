"""The rows of a table with one value for keys that are equal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.data_type import FLOATS, atomic_types
from streamkit.plan.building import Building
from streamkit.plan.operator import Key, Names, Operator, listed
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.stateless import passed
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.schema import Schema


@dataclass(frozen=True)
class UnifiedKey(Operator):
    """
    Pass the rows with 0.0 for -0.0, and one NaN, in the floats of the key, `columns`.

    The store of a table has keys so. A row that is taken away again is made of its stored key, and must be the row that was added.
    """

    kind: ClassVar[str] = "unified_key"
    traits: ClassVar[OperatorTraits] = OperatorTraits(is_view=True)
    columns: Key

    @property
    def reads_order(self) -> bool:
        return False

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        return passed(step, rows)

    def text(self) -> str:
        return f"unified key: {listed(self.columns)}"


def with_unified_key(rows: Step, name: str, building: Building) -> Step:
    """The rows that a table called `name` is made of, added with one value for keys that are equal; as they are if no key column is a float."""
    floats = tuple(column for column in rows.key if not atomic_types(rows.schema[column].type).isdisjoint(FLOATS))
    return (
        building.add(replace(rows, operator=UnifiedKey(f"{name}:unified_key", UNSTAGED, (rows.id,), floats))) if floats else rows
    )
