"""What users' functions make of the rows of a table by another key: one adds a row to its group, one takes it away."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.plan.building import Building
from streamkit.plan.demands import WITH_OLD_VALUES, Demands, emission
from streamkit.plan.keys import make_schema
from streamkit.plan.node import Node, check_distinct
from streamkit.plan.operator import listed
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.operators.aggregate import Aggregate, FunctionFold
from streamkit.plan.operators.emit import port_step
from streamkit.plan.operators.function_aggregate import FunctionAggregateNode
from streamkit.plan.operators.regroup import regrouped
from streamkit.plan.origin import Origin
from streamkit.plan.program import ProgramStore
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.traits import TABLE


@dataclass(frozen=True, eq=False, repr=False)
class TableFunctionAggregateNode(FunctionAggregateNode):
    """A table: what users' functions make of the rows of each group of a table; they are an adder and a subtractor."""

    kind: ClassVar[str] = "table_function_aggregate"
    grouped_relation: ClassVar[str] = TABLE

    def demands_below(self, above: Demands) -> Iterable[tuple[Node, Demands]]:
        return [(table, emission(WITH_OLD_VALUES, null_keys=above.null_keys)) for table in self.sources]

    def lower(self, building: Building) -> Step:
        rows, key = regrouped(self, building)
        columns = self._columns(rows.schema, key)
        check_distinct((*key, *columns.names), "result column", self.at)
        store = building.store_name(self)
        building.add_store(ProgramStore(store, 0, UNSTAGED, rows.schema.select(key), columns), building.naming(self))
        fold = FunctionFold(*self._typed_functions([rows.schema, rows.schema], columns, building))
        modes = building.demands[self].modes_in_order
        operator = TableFunctionAggregate(building.name(self), UNSTAGED, (rows.id,), (key,), store, fold, modes)
        schema = make_schema([*rows.schema.select(key), *columns], self.at)
        return building.add(Step(operator, schema, key, key, True, self.at))

    def with_old_values(self, building: Building) -> Step:
        kept = building.lower(self)
        return port_step(kept, WITH_OLD_VALUES, f"{kept.id}:old-and-new", building)


@dataclass(frozen=True)
class TableFunctionAggregate(Aggregate):
    """Add rows to the groups of `store` by the first function, and take rows away by the second, as `_change` says."""

    kind: ClassVar[str] = "table_function_aggregate"
    traits: ClassVar[OperatorTraits] = replace(Aggregate.traits, takes_rows_away=True, follows_rows=True)

    @property
    def stored_kind(self) -> str:
        return self.kind

    def definition(self, rows: Origin) -> dict[str, str]:
        calls = (self.functions.initial, *self.functions.updates)
        return {"its functions": listed(rows.text(call) for call in calls if call is not None)}

    def text(self) -> str:
        return f"table {super().text()}"
