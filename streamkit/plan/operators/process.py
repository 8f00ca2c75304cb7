"""A processor of the user: it sees each record, keeps stores, schedules calls, and forwards what it likes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import ClassVar

from streamkit.errors import TopologyError
from streamkit.names import check_name
from streamkit.plan.building import Building
from streamkit.plan.demands import Demands
from streamkit.plan.expression import PythonCall, Reference, TypedExpression
from streamkit.plan.keys import make_schema
from streamkit.plan.node import CYLINDER, Node, check_distinct, shortened
from streamkit.plan.operator import PORT, Exchange, Key, Names, Operator, listed, port_of
from streamkit.plan.operator_traits import IN_ORDER, READ, OperatorTraits
from streamkit.plan.operators.materialize import store_faults
from streamkit.plan.operators.split import Branch
from streamkit.plan.origin import Origin
from streamkit.plan.processing import STREAM_TIME, WALL_CLOCK, Schedule
from streamkit.plan.program import Naming, Program, ProgramStore
from streamkit.plan.python_function import PythonFunction
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.store_definition import StoreDefinition
from streamkit.plan.traits import STREAM, Traits
from streamkit.plan.windows import Windowing
from streamkit.schema import Schema, SchemaColumn

ROW, BATCH = "row", "batch"
BEGUN = (
    -1
)  # the number under which a key group notes that it has had a record; schedules that were cancelled have their `schedule_keys`
SCHEDULES_KEY = Schema((SchemaColumn("schedule", "int", False),))


@dataclass(frozen=True, eq=False, repr=False)
class ProcessNode(Node):
    """
    What a processor forwards of a stream.

    `function` is the class, factory or function (`is_function`). `columns` are those that it forwards; with `keeps_key` they are
    value columns, else `key` names the new key, None the old one. `by` says whether it takes rows or batches.
    """

    kind: ClassVar[str] = "process"
    shape: ClassVar[str] = CYLINDER
    child: Node
    function: PythonFunction
    columns: Schema
    key: Key | None
    keeps_key: bool
    is_function: bool
    by: str
    stores: tuple[StoreDefinition, ...]
    schedules: tuple[Schedule, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_distinct((one.name for one in self.stores), "store", self.at)
        if self.by not in (ROW, BATCH):
            raise TopologyError(f"{self.verb}(by={self.by!r}); expected {ROW!r} or {BATCH!r}", self.at)
        if self.child.relation != STREAM:
            raise TopologyError(f"{self.verb}() of a table; expected a stream, such as emit('every') gives", self.at)

    @property
    def verb(self) -> str:
        """What users call the step."""
        return "process_values" if self.keeps_key else "process"

    @property
    def subject(self) -> str:
        return self.name or self.child.subject

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        """Code with schedules may well give times that are stream time."""
        return replace(super().traits_over(below), may_lead=True, timed_by=None if self.schedules else self.function)

    @property
    def given_store(self) -> None:
        return None  # a processor's stores have names of their own

    def text(self) -> str:
        stores = f", stores {listed(one.name for one in self.stores)}" if self.stores else ""
        return f"{self.verb.replace('_', ' ')} by {self.function.name}{stores}"

    def lower(self, building: Building) -> Step:
        rows = building.lower(self.child)
        key = self._key_of(rows)
        kept = tuple(name for name in rows.schema.names if name in key and name not in self.columns)
        schema = make_schema([*(rows.schema[name] for name in kept), *self.columns], self.at)
        step_id = building.name(self)
        for one in self.stores:
            building.add_store(one.store(), Naming("{!r} as the name of the store", one.name))
        schedule_store = f"{step_id}-schedules" if self.schedules else None
        if schedule_store is not None:
            building.add_store(
                ProgramStore(schedule_store, 0, UNSTAGED, SCHEDULES_KEY, Schema(()), is_spread=True), building.naming(self)
            )
        function = replace(self.function, parameters=rows.schema.names)
        call = PythonCall(function, tuple(Reference(name) for name in rows.schema.names))
        operator = Process(
            step_id,
            UNSTAGED,
            (rows.id,),
            building.analyzer.project(rows.schema, [("_", call)], self.at)[0][1],
            schema,
            kept,
            key,
            rows.key,
            rows.partition_by,
            self.keeps_key,
            self.is_function,
            self.by,
            self.stores,
            self.schedules,
            schedule_store,
            tuple(sorted(building.demands[self].ports)),
            building.streams(self.child),
        )
        partition_by = rows.partition_by if self.keeps_key or self.key is None else key
        return building.add(Step(operator, schema, key, partition_by, False, self.at))

    def _key_of(self, rows: Step) -> Key:
        """The names of the key behind the step."""
        if self.keeps_key:
            taken = [name for name in self.columns.names if name in rows.key]
            if taken:
                raise TopologyError(
                    f"process_values() declares the column {taken[0]!r}, which is part of the key {list(rows.key)}; expected value columns "
                    "only, or process(…)",
                    self.at,
                )
            return rows.key
        key = rows.key if self.key is None else self.key
        for name in key:
            if name not in self.columns and name not in rows.key:
                raise TopologyError(
                    f"process() has the key column {name!r}, which its schema does not declare; expected some of "
                    f"{listed(dict.fromkeys((*self.columns.names, *rows.key)))}",
                    self.at,
                )
        return key


@dataclass(frozen=True, eq=False, repr=False)
class ProcessChild(Node):
    """What a processor forwards to one child, by its name, beside what it forwards to all."""

    kind: ClassVar[str] = "child"
    child: ProcessNode
    port: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.port, "child", self.at)

    def demands_below(self, above: Demands) -> Iterable[tuple[Node, Demands]]:
        yield self.child, Demands(ports=frozenset({self.port}), null_keys=above.null_keys)

    @property
    def subject(self) -> str:
        return self.name or shortened(f"{self.child.subject}-{self.port}")

    def text(self) -> str:
        return f"child {self.port}"

    def lower(self, building: Building) -> Step:
        rows = building.lower(self.child)
        operator = Branch(building.name(self), UNSTAGED, (f"{rows.id}{PORT}{self.port}",))
        return building.add(replace(rows, operator=operator, at=self.at))


@dataclass(frozen=True)
class Process(Operator):
    """
    Run a processor for each key group, on its rows in canonical order.

    `call` names the processor. `columns` are those of the result, `kept` the key columns among them that rows take from their record.
    `children` are its ports, beside the main one. `schedule_store` notes which key groups have had a record, and the schedules
    cancelled in each. `streams` are the inputs that move its stream time.
    """

    kind: ClassVar[str] = "process"
    traits: ClassVar[OperatorTraits] = OperatorTraits(leaves_out=IN_ORDER, stage_min=1, headers=READ)
    call: TypedExpression
    columns: Schema
    kept: Key
    key: Key
    input_key: Key
    input_partitioning: Key
    keeps_key: bool
    is_function: bool
    by: str
    definitions: tuple[StoreDefinition, ...]
    schedules: tuple[Schedule, ...]
    schedule_store: str | None
    children: Key
    streams: tuple[int, ...]

    def origin(self, above: Sequence[Origin], name: str) -> Origin:
        """Of one without stores; where there is one, rows are those of it."""
        (rows,) = above
        kept = {column: rows.of(column) for column in self.kept}
        port = f", child {port_of(name)}" if PORT in name else ""
        return rows.but(f"{rows.rows} by {rows.text(self.call)}{port}", kept)

    @property
    def stores(self) -> tuple[str, ...]:
        return (*(one.name for one in self.definitions), *([self.schedule_store] if self.schedule_store is not None else []))

    def definition_of(self, store: str) -> StoreDefinition | None:
        return next((one for one in self.definitions if one.name == store), None)

    @property
    def stream_clock(self) -> Windowing:
        """Its stream time, cut into the steps at which something may be scheduled."""
        steps = [one.interval_ms for one in self.schedules if one.clock == STREAM_TIME]
        return Windowing(0, gcd(*steps) or 1, 0, self.streams, self.id)

    @property
    def expires_by(self) -> tuple[Windowing, ...]:
        return (self.stream_clock,)

    @property
    def closing(self) -> Windowing | None:
        """Its grid of stream time, so that readers report the records that pass its points."""
        return self.stream_clock if any(one.clock == STREAM_TIME for one in self.schedules) else None

    @property
    def calls_by_schedule(self) -> bool:
        return bool(self.schedules)

    @property
    def ticks_ms(self) -> tuple[int, ...]:
        return tuple(sorted({one.interval_ms for one in self.schedules if one.clock == WALL_CLOCK}))

    def exchange(self, place: int, rows: Step) -> Exchange:
        return Exchange(self.input_partitioning, keep_null_keys=True)

    def partitioning(self, inputs: Sequence[Key | None]) -> Key | None:
        before = inputs[0]
        return before if before is not None and set(self.kept).issuperset(before) else None

    def rekeys(self, before: Key, after: Key) -> bool:
        return before != after or not set(after).issubset(self.kept)

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return frozenset(rows.names)

    def text(self) -> str:
        schedules = f", calls {'; '.join(map(str, self.schedules))}" if self.schedules else ""
        stores = f", stores {listed(self.stores)}" if self.stores else ""
        children = f", children {listed(self.children)}" if self.children else ""
        return f"process by {str(self.call.value).partition(':')[0]}, gives {listed(self.columns.names)}{stores}{children}{schedules}"

    def faults(self, program: Program) -> list[str]:
        return store_faults(self, program) if self.stores else []
