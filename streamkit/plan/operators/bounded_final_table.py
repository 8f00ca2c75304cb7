"""A table of final results that stops the application if too many windows are open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.errors import TopologyError
from streamkit.plan.building import Building
from streamkit.plan.operator import Exchange, Key, Names, Operator
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.operators.emit import EmitNode
from streamkit.plan.operators.final_table import FinalTableNode
from streamkit.plan.operators.windowed_table import bounds_of, windowed_store
from streamkit.plan.program import Program
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.traits import Traits
from streamkit.plan.windows import Windowing, closing_for
from streamkit.schema import Schema


@dataclass(frozen=True, eq=False, repr=False)
class BoundedFinalTableNode(FinalTableNode):
    """As `FinalTableNode`, of at most `rows_max` windows in each key group that have changed and not closed; `updates` are the changes."""

    kind: ClassVar[str] = "bounded_final_table"
    updates: EmitNode
    rows_max: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rows_max < 0:
            raise TopologyError(f"found max_rows={self.rows_max}; expected 0 or more windows for each key group", self.at)

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        return replace(super().traits_over(below), keeps_store=True)

    def text(self) -> str:
        return f"{super().text()}, at most {self.rows_max:,} windows a key group, then stop"

    def lower(self, building: Building) -> Step:
        results, updates, store = building.lower(self.child), building.lower(self.updates), building.store_name(self)
        window, windowing = self.traits.window, self.settlings(building)[0].window
        assert window is not None, "only windows have final results"
        nothing = replace(updates, schema=updates.schema.select(updates.key))
        building.add_store(windowed_store(store, nothing, window), building.naming(self))
        operator = BoundedFinalTable(
            building.name(self),
            UNSTAGED,
            (results.id, updates.id),
            results.key,
            store,
            bounds_of(results),
            windowing,
            self.rows_max,
        )
        return building.add(replace(results, operator=operator, table=True, at=self.at))


@dataclass(frozen=True)
class BoundedFinalTable(Operator):
    """
    Final results (first input) as the changes of a table; the second input are all changes of the windows.

    `store` has the windows that have changed and not closed. More than `rows_max` of them in a key group are an error.
    """

    kind: ClassVar[str] = "bounded_final_table"
    traits: ClassVar[OperatorTraits] = OperatorTraits(stage_min=1)
    key: Key
    store: str
    bounds: Key
    window: Windowing
    rows_max: int

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    @property
    def closing(self) -> Windowing | None:
        """Nothing is due; but how many windows are open may depend on what other inputs have closed."""
        return closing_for(self.window, ())

    @property
    def window_columns(self) -> tuple[str, ...]:
        return self.bounds

    def exchange(self, place: int, rows: Step) -> Exchange:
        return Exchange(rows.partition_by, keep_null_keys=False)

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return frozenset(rows.names) if place == 0 else frozenset(self.key)

    def text(self) -> str:
        return f"final table: at most {self.rows_max} windows a key group, store {self.store}"

    def faults(self, program: Program) -> list[str]:
        stages = [store.stage for store in program.stores if store.name == self.store]
        return [] if stages == [self.stage] and self.stage > 0 else [f"{self.id} has no store {self.store!r} in its stage"]
