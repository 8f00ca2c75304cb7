"""Aggregation by users' functions: `reduce`, `aggregate` and `cogroup`, per window if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from streamkit.data_type import struct_of
from streamkit.errors import TopologyError
from streamkit.plan.building import Building
from streamkit.plan.demands import WITH_OLD_VALUES
from streamkit.plan.expression import PythonCall, Reference, TypedExpression
from streamkit.plan.expression_text import named_text
from streamkit.plan.keys import make_schema
from streamkit.plan.node import Node, check_distinct
from streamkit.plan.operator import Key
from streamkit.plan.operators.aggregate import Aggregate, FunctionFold, Grouping, GroupKey, grouped, kept_in
from streamkit.plan.operators.emit import port_step
from streamkit.plan.python_function import PythonFunction
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.windows import WindowKind
from streamkit.schema import Schema, SchemaColumn


@dataclass(frozen=True)
class Folding:
    """
    How users' functions fold records into the state of a group.

    `updates` has a function for each stream. Without `initial` the first value is the state: a reduction, whose state has the
    value columns of the stream. `merge` joins the states of sessions. `tombstones`: within windows, records without a value are given to
    the functions, as Kafka Streams does.
    """

    updates: tuple[PythonFunction, ...]
    initial: PythonFunction | None = None
    schema: str | None = None
    merge: PythonFunction | None = None
    tombstones: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class FunctionAggregateNode(Grouping):
    """A table: what users' functions make of the records of each group, of one stream or of several."""

    kind: ClassVar[str] = "function_aggregate"
    sources: tuple[Node, ...]
    keys: tuple[GroupKey, ...]
    folding: Folding
    window: WindowKind | None = None
    store: str | None = None
    grouped_at: tuple[int | None, ...] = field(default=(), kw_only=True, compare=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for stream, key in zip(self.sources, self.keys, strict=True):
            self.check_group(stream, key)

    @property
    def streams(self) -> tuple[Node, ...]:
        return self.sources

    @property
    def group_key(self) -> GroupKey:
        return self.keys[0]

    @property
    def generated_name(self) -> str:
        return f"{self._verb}-{self.subject}"

    def text(self) -> str:
        store = f" → store {self.store}" if self.store else ""
        return f"{self._by()}: {self._functions()}{store}"

    def label(self) -> tuple[str, ...]:
        return (self._by(), self._functions())

    def lower(self, building: Building) -> Step:
        self._check_merge()
        inputs = [self._input(place, building) for place in range(len(self.sources))]
        rows, key = inputs[0]
        for other, other_key in inputs[1:]:
            self._check_alike(rows.schema.select(key), other.schema.select(other_key))
        columns = self._columns(rows.schema, key)
        check_distinct((*key, *self.bounds, *(column.name for column in columns)), "result column", self.at)
        window = self.delayed_window()
        store = building.store_name(self)
        windowing = self.windowing(window, building) if window else None
        building.add_store(kept_in(store, rows.schema.select(key), columns, window), building.naming(self))
        functions = self._typed_functions([step.schema for step, _ in inputs], columns, building)
        fold = FunctionFold(*functions, self.folding.tombstones)
        ids, keys = tuple(step.id for step, _ in inputs), tuple(own for _, own in inputs)
        modes = building.demands[self].modes_in_order
        operator = Aggregate(building.name(self), UNSTAGED, ids, keys, store, fold, modes, windowing)
        bounds = [SchemaColumn(name, "timestamp", False) for name in self.bounds]
        schema = make_schema([*rows.schema.select(key), *bounds, *columns], self.at)
        return building.add(Step(operator, schema, (*key, *self.bounds), key, True, self.at), grouped_at=self.grouped_at)

    def with_old_values(self, building: Building) -> Step:
        kept = building.lower(self)
        return port_step(kept, WITH_OLD_VALUES, f"{kept.id}:old-and-new", building)

    def _check_merge(self) -> None:
        """TopologyError if a record may make one window of two, and no function makes one state of two."""
        if self.window is not None and self.window.merges and self.folding.initial is not None and self.folding.merge is None:
            raise TopologyError(
                "a record may connect two sessions, and aggregate() was given no function that makes one state of two; "
                "expected merge=function",
                self.at,
            )

    def _input(self, place: int, building: Building) -> tuple[Step, Key]:
        rows = building.lower(self.sources[place])
        group = f"{building.name(self)}:group" + (f"-{place}" if place else "")
        return grouped(self, self.keys[place], rows, group, building, place)

    def _check_alike(self, one: Schema, other: Schema) -> None:
        """TopologyError unless the groups of two streams have keys of the same types, so that equal ones meet."""
        if [column.type for column in one] != [column.type for column in other]:
            raise TopologyError(
                "streams that are grouped together have keys of the same types; expected a cast before\n"
                f"  the one:   {one}\n"
                f"  the other: {other}",
                self.at,
            )

    def _columns(self, rows: Schema, key: Key) -> Schema:
        """The columns of the state, all of which may be null."""
        if self.folding.schema is None:
            columns = [column for column in rows if column.name not in key]
            if not columns:
                raise TopologyError(
                    f"reduce() needs value columns, and the {self.grouped_relation} has none beside the group's", self.at
                )
        else:
            columns = list(Schema.parse(self.folding.schema))
        return make_schema([SchemaColumn(column.name, column.type) for column in columns], self.at)

    def _typed_functions(
        self, rows: Sequence[Schema], columns: Schema, building: Building
    ) -> tuple[TypedExpression | None, tuple[TypedExpression, ...], TypedExpression | None]:
        """The calls of the functions: initial, updates, merge."""
        declared = struct_of((column.name, column.type) for column in columns)

        def typed(function: PythonFunction, schema: Schema) -> TypedExpression:
            call = PythonCall(
                replace(function, type=declared, parameters=schema.names), tuple(Reference(name) for name in schema.names)
            )
            return building.analyzer.project(schema, [("_", call)], self.at)[0][1]

        nothing, folding = Schema(()), self.folding
        initial = typed(folding.initial, nothing) if folding.initial is not None else None
        merge = typed(folding.merge, nothing) if folding.merge is not None else None
        return initial, tuple(map(typed, folding.updates, rows)), merge

    @property
    def _verb(self) -> str:
        if len(self.sources) > 1:
            return "cogroup"
        return "aggregate" if self.folding.initial is not None else "reduce"

    def _by(self) -> str:
        key = named_text(self.group_key) if self.group_key else "key"
        return f"group by {key}" + (f", {self.window}" if self.window else "")

    def _functions(self) -> str:
        return f"{self._verb} {', '.join(one.name for one in self.folding.updates)}"
