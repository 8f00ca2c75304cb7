"""The changes of a table, of the two rows that each is with its old value: the new row, with columns of the old one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from streamkit.errors import Location
from streamkit.plan.building import Building
from streamkit.plan.keys import make_schema
from streamkit.plan.operator import Key, Names, Operator, listed
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.steps import UNSTAGED, Step, with_operator
from streamkit.schema import Schema, SchemaColumn

OLD = "old_"


@dataclass(frozen=True)
class NetChange(Operator):
    """
    Of the two rows of each change, the new one, with the columns `old` of the old one, named `old_…`.

    With the mode `latest` the changes of a key within an epoch are one. `skips` says that a deletion of what was not there is left out.
    """

    kind: ClassVar[str] = "net_change"
    traits: ClassVar[OperatorTraits] = OperatorTraits(is_view=True)
    key: Key
    values: tuple[str, ...]
    old: tuple[str, ...]
    mode: str
    skips: bool

    @property
    def passes_on(self) -> bool:
        return True

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return frozenset((*self.key, *self.values, *self.old))

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        values = tuple(name for name in self.values if name in needed)
        old = tuple(name for name in self.old if OLD + name in needed)
        schema = step.schema.select((*self.key, *values, *(OLD + name for name in old)))
        return with_operator(step, schema, values=values, old=old)

    def text(self) -> str:
        return f"net change: {self.mode}, old values of {listed(self.old)}"


def net_changes(
    rows: Step, step_id: str, mode: str, skips: bool, old: tuple[str, ...], at: Location | None, building: Building
) -> Step:
    """The step that makes one row of the two of each change, with the old values of some columns."""
    values = tuple(name for name in rows.schema.names if name not in rows.key)
    before = [SchemaColumn(OLD + name, rows.schema[name].type) for name in old]
    schema = make_schema([*rows.schema.select(rows.key), *rows.schema.select(values), *before], at)
    operator = NetChange(step_id, UNSTAGED, (rows.id,), rows.key, values, old, mode, skips)
    return building.add(Step(operator, schema, rows.key, rows.partition_by, True, at, has_row_times=rows.has_row_times))
