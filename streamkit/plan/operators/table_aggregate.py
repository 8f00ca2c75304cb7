"""Aggregates of the rows of a table by another key: a row that changes is taken from its old group and added to its new one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from streamkit.errors import TopologyError
from streamkit.plan.building import Building
from streamkit.plan.demands import WITH_OLD_VALUES, Demands, emission
from streamkit.plan.expression import TypedAggregate
from streamkit.plan.expression_text import function_text
from streamkit.plan.keys import make_schema
from streamkit.plan.location import by_language
from streamkit.plan.node import Node
from streamkit.plan.on_error import DeadLetterTopic
from streamkit.plan.operator import gives_null_on_failure
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.operators.aggregate import Aggregate, AggregateNode, ColumnFold, kept_in
from streamkit.plan.operators.check import Check
from streamkit.plan.operators.regroup import regrouped
from streamkit.plan.program import ProgramStore
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.traits import TABLE
from streamkit.schema import Schema, SchemaColumn

AGGREGATE, MEMBER, COUNT = "aggregate", "member", "count"  # columns of the store of members, unless groups have such columns


@dataclass(frozen=True, eq=False, repr=False)
class TableAggregateNode(AggregateNode):
    """
    A table: the aggregates of each group of a table's rows.

    `key` are pairs of (name, expression); None groups by the table's own key.
    """

    kind: ClassVar[str] = "table_aggregate"
    grouped_relation: ClassVar[str] = TABLE

    def demands_below(self, above: Demands) -> Iterable[tuple[Node, Demands]]:
        yield self.child, emission(WITH_OLD_VALUES, null_keys=above.null_keys)

    def lower(self, building: Building) -> Step:
        rows, key = regrouped(self, building)
        asked = building.analyzer.aggregates(rows.schema, self.aggregates, self.at)
        rows = _noted(building.name(self), rows, asked, self, building)
        aggregates, with_members = self._kept(asked, building)
        store = building.store_name(self)
        members = f"{store}-members" if with_members else None
        operator = TableAggregate(
            building.name(self),
            UNSTAGED,
            (rows.id,),
            (key,),
            store,
            ColumnFold(aggregates),
            building.demands[self].modes_in_order,
            members=members,
        )
        if members is not None:
            member = make_schema(_with_member(rows.schema.select(key)), self.at)
            count = Schema((SchemaColumn(COUNT, "bigint", False),))
            building.add_store(ProgramStore(members, 0, UNSTAGED, member, count, is_spread=True), building.naming(self))
        value = make_schema([column for one in aggregates for column in building.state_columns(one)], self.at)
        building.add_store(kept_in(store, rows.schema.select(key), value, None), building.naming(self))
        results = [SchemaColumn(one.name, one.type, one.nullable) for one in asked]
        schema = make_schema([*rows.schema.select(key), *results], self.at)
        return building.add(Step(operator, schema, key, key, True, self.at))

    def _kept(self, asked: tuple[TypedAggregate, ...], building: Building) -> tuple[tuple[TypedAggregate, ...], bool]:
        """The aggregates as they are kept, and whether members are; TopologyError for one from which no row can be taken away."""
        kept, with_members = [], False
        for one in asked:
            try:
                aggregate, has_members = building.of_table(one)
            except ValueError as error:
                in_python = by_language(self.at, ", or aggregate(initial, adder, subtractor, schema)", "")
                raise TopologyError(
                    f"{one.name} = {function_text(one.function)}(…) cannot be kept for groups of a table: {error}{in_python}",
                    self.at,
                ) from None
            kept.append(aggregate)
            with_members |= has_members
        return tuple(kept), with_members


@dataclass(frozen=True)
class TableAggregate(Aggregate):
    """
    Add rows to the groups of `store`, and take rows away from them, as `_change` says; each change of a group gives a result.

    `members` is the store with the values that each group has now, by aggregate, and how often; None if no aggregate needs them.
    """

    kind: ClassVar[str] = "table_aggregate"
    traits: ClassVar[OperatorTraits] = replace(Aggregate.traits, takes_rows_away=True, follows_rows=True)
    members: str | None = None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Aggregate:
        return replace(super().from_json(value), members=value.get("members"))  # type: ignore[call-arg]

    @property
    def stored_kind(self) -> str:
        return self.kind

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,) if self.members is None else (self.store, self.members)

    def aggregates_in(self, store: str) -> tuple[TypedAggregate, ...]:
        return self.aggregates if store == self.store else ()

    @property
    def folds(self) -> bool:
        """False: what is taken away must find what was added."""
        return False

    def text(self) -> str:
        kept = "" if self.members is None else f", members in store {self.members}"
        return f"{super().text()}{kept}"


def _noted(name: str, rows: Step, asked: tuple[TypedAggregate, ...], node: Node, building: Building) -> Step:
    """
    The rows, behind a check that tells the processing log which of those that are added have null because an expression failed.

    It is behind the step that knows which rows are added: a row that is taken away had its entry when it came.
    """
    failing = tuple(one.argument for one in asked if one.argument is not None and gives_null_on_failure(one.argument))
    if not failing or not isinstance(building.on_error, DeadLetterTopic):
        return rows
    check = Check(f"{name}:check", UNSTAGED, (rows.id,), failing)
    return building.add(replace(rows, operator=check, at=node.at))


def _with_member(group: Schema) -> list[SchemaColumn]:
    """The key of the store of members: a group's columns, and two under names that none of them has, in any case."""
    columns = list(group)
    for name, type in ((AGGREGATE, "string"), (MEMBER, "binary")):
        while name in {column.name.lower() for column in columns}:
            name += "_"
        columns.append(SchemaColumn(name, type, False))
    return columns
