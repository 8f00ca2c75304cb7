"""A table that is kept: the newest row of each key, in a store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.plan.building import Building
from streamkit.plan.node import Node
from streamkit.plan.operator import Exchange, Names, Operator
from streamkit.plan.operators.project import add_widened
from streamkit.plan.program import Program, Store
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.schema import Schema


@dataclass(frozen=True)
class Materialize(Operator):
    """Keep the newest row per key of a table in `store`; its rows pass on as `every`, the newest of an epoch as `latest`."""

    kind: ClassVar[str] = "materialize"
    stage_min: ClassVar[int] = 1
    is_looked_up: ClassVar[bool] = True
    store: str

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    def exchange(self, place: int, rows: Step) -> Exchange:
        return Exchange(rows.partition_by, keep_null_keys=False)

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        """All columns: what a store holds must not depend on who reads it today."""
        return frozenset(rows.names)

    def text(self) -> str:
        return f"materialize: store {self.store}"

    def faults(self, program: Program) -> list[str]:
        return store_faults(self, program)


def materialized(table: Node, rows: Step, building: Building, variant: str = "") -> Step:
    """The step that keeps a table's rows in its store; `variant` tells apart what is kept beside it, such as copies with wider keys."""
    name = building.store_name(table) + variant
    values = [column for column in rows.schema.names if column not in rows.key]
    building.add_store(Store(name, 0, UNSTAGED, rows.schema.select(rows.key), rows.schema.select(values)))
    operator = Materialize(f"{building.name(table)}{variant}:materialize", UNSTAGED, (rows.id,), name)
    return building.add(replace(rows, operator=operator, at=table.at))


def kept_table(table: Node, rows: Step, types: tuple[str, ...], building: Building) -> Step:
    """The step that keeps a table for a join: in its own store, or in another if the join's key types are wider."""
    wanted = "-".join(types)
    cast = add_widened(rows, dict(zip(rows.key, types, strict=True)), f"{building.name(table)}:widen-{wanted}", building)
    return materialized(table, cast, building, table.kept_variant + ("" if cast is rows else f"-{wanted}"))


def store_faults(operator: Operator, program: Program) -> list[str]:
    """What is wrong with the stores that an operator keeps."""
    stages = [[store.stage for store in program.stores if store.name == name] for name in operator.stores]
    is_sound = operator.stage > 0 and all(found == [operator.stage] for found in stages)
    return [] if is_sound else [f"{operator.id} has no store {operator.stores[0]!r} in its stage"]
