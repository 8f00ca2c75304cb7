"""Aggregates of the rows of a table by another key: a row that changes is taken from its old group and added to its new one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from streamkit.errors import TopologyError
from streamkit.plan.building import OLD_AND_NEW, Building
from streamkit.plan.expression import TypedAggregate
from streamkit.plan.keys import make_schema
from streamkit.plan.node import TABLE, Node
from streamkit.plan.operators.aggregate import Aggregate, AggregateNode, kept_in
from streamkit.plan.operators.regroup import regrouped
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.schema import Column


@dataclass(frozen=True, eq=False, repr=False)
class TableAggregateNode(AggregateNode):
    """
    A table: the aggregates of each group of a table's rows.

    `key` are pairs of (name, expression); None groups by the table's own key.
    """

    kind: ClassVar[str] = "table_aggregate"
    grouped_relation: ClassVar[str] = TABLE

    @property
    def asked(self) -> tuple[tuple[Node, str], ...]:
        return ((self.child, OLD_AND_NEW),)

    def lower(self, building: Building) -> Step:
        rows, key = regrouped(self, building)
        aggregates = building.analyzer.aggregates(rows.schema, self.aggregates, self.at)
        self._check(aggregates, building)
        store = building.store_name(self)
        operator = TableAggregate(
            building.name(self), UNSTAGED, (rows.id,), key, store, aggregates, False, building.modes_of(self)
        )
        value = make_schema([column for one in aggregates for column in building.state_columns(one)], self.at)
        building.add_store(kept_in(store, rows.schema.select(key), value, None))
        results = [Column(one.name, one.type, one.nullable) for one in aggregates]
        schema = make_schema([*rows.schema.select(key), *results], self.at)
        return building.add(Step(operator, schema, key, key, True, self.at))

    def _check(self, aggregates: tuple[TypedAggregate, ...], building: Building) -> None:
        """TopologyError for an aggregate from which no row can be taken away."""
        for one in aggregates:
            if not building.can_subtract(one):
                raise TopologyError(
                    f"{one.name} = {one.function}(…) cannot be kept for groups of a table, because a row that leaves its group cannot be "
                    "taken out of it; expected count, count_if, sum or avg, or aggregate(initial, adder, subtractor, schema)",
                    self.at,
                )


@dataclass(frozen=True)
class TableAggregate(Aggregate):
    """Add rows to the groups of `store`, and take rows away from them, as `_change` says; each change of a group gives a result."""

    kind: ClassVar[str] = "table_aggregate"

    @property
    def folds(self) -> bool:
        """False: what is taken away must find what was added."""
        return False

    def text(self) -> str:
        return f"table {super().text()}"
