"""Grouped aggregation: the aggregates of each group of a stream's records, per window if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.errors import TopologyError
from streamkit.names import WINDOW_END, WINDOW_START, check_name
from streamkit.plan.building import Building
from streamkit.plan.duration import duration_text
from streamkit.plan.expression import Expression, Reference, TypedAggregate
from streamkit.plan.expression_text import aggregates_text, named_text
from streamkit.plan.keys import check_columns, check_key_types, make_schema, typed
from streamkit.plan.naming import name_part
from streamkit.plan.node import CYLINDER, STREAM, TABLE, Node, check_distinct, shortened, words
from streamkit.plan.operator import Exchange, Key, Names, Operator, listed
from streamkit.plan.operators.emit import port_step
from streamkit.plan.operators.exchange import Receive
from streamkit.plan.operators.fold import Fold, arguments
from streamkit.plan.operators.materialize import store_faults
from streamkit.plan.operators.project import Project
from streamkit.plan.program import Program, Store
from streamkit.plan.steps import UNSTAGED, Step, column_of, typed_columns
from streamkit.plan.windows import TimeWindow, Windowing
from streamkit.schema import Column, Schema


@dataclass(frozen=True, eq=False, repr=False)
class AggregateNode(Node):
    """
    A table: the aggregates of each group of a stream's records, per window if there is one.

    `key` are pairs of (name, expression); None groups by the stream's own key.
    """

    kind: ClassVar[str] = "aggregate"
    shape: ClassVar[str] = CYLINDER
    is_settled_per_epoch: ClassVar[bool] = True
    kept_variant: ClassVar[str] = "-results"
    child: Node
    key: tuple[tuple[str, Expression], ...] | None
    aggregates: tuple[tuple[str, Expression], ...]
    window: TimeWindow | None = None
    store: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.store is not None:
            check_name(self.store, "store")
        if self.child.relation != STREAM:
            raise TopologyError(f"group_by of a {words(self.child.relation)} is not supported yet; expected a stream", self.at)
        if self.key == ():
            raise TopologyError("group_by() was given no columns; expected at least one, or group_by_key()", self.at)
        if not self.aggregates:
            raise TopologyError("agg() was given no aggregates; expected name=aggregate, such as flights=F.count('*')", self.at)
        key = tuple(name for name, _ in self.key or ())
        check_distinct(key, "group column", self.at)
        check_distinct((*key, *self.bounds, *(name for name, _ in self.aggregates)), "result column", self.at)

    @property
    def relation(self) -> str:
        return TABLE

    @property
    def bounds(self) -> tuple[str, ...]:
        """The columns that tell a result's window."""
        return (WINDOW_START, WINDOW_END) if self.window else ()

    @property
    def subject(self) -> str:
        if self.store or self.name:
            return self.store or str(self.name)
        key = [name_part(name) for name, _ in self.key or ()] or ["key"]
        window = ["per", duration_text(self.window.size_ms).replace(" ", "-")] if self.window else []
        return shortened("-".join([self.child.subject, "by", *key, *window]))

    def text(self) -> str:
        key = named_text(self.key) if self.key else "key"
        window = f", {self.window}" if self.window else ""
        store = f" → store {self.store}" if self.store else ""
        return f"group by {key}{window}: {named_text(self.aggregates)}{store}"

    def label(self) -> tuple[str, ...]:
        by = named_text(self.key) if self.key else "key"
        window = f", {self.window}" if self.window else ""
        return (f"group by {by}{window}", *(named_text([aggregate]) for aggregate in self.aggregates))

    @property
    def keeps_store(self) -> bool:
        return True

    def final_delay_ms(self, window: TimeWindow | None) -> int | None:
        """
        How far a final result stands behind stream time, for a wider `window` over it.

        A final result of [start, end) comes when stream time reaches end + grace. Its own time may be as early as start, so it is
        size + grace behind. If `window` covers these windows, grace + 1 is enough: the one that holds start does not end before end.
        """
        if self.window is None:
            return None
        is_covered = window is not None and window.covers(self.window)
        own = self.window.grace_ms + (1 if is_covered else self.window.size_ms)
        return self.child.delay_ms(self.window) + own

    def delayed_window(self) -> TimeWindow | None:
        """
        The windows as they close in stream time: as much later as the rows are behind.

        Without that, final results that are grouped into windows again could all be late. Newest results (`latest`) stand at the
        end of their epoch, so which of them are late would depend on how the input was cut: TopologyError.
        """
        if self.window is None:
            return None
        if self.child.depends_on_cut:
            raise TopologyError(
                "windows over emit('latest') of an aggregation would depend on how the input is cut into epochs; "
                "expected emit('every') or emit('final') before windowed_by",
                self.at,
            )
        delay = self.child.delay_ms(self.window)
        return replace(self.window, grace_ms=self.window.grace_ms + delay, retention_ms=self.window.retention_ms + delay)

    def lower(self, building: Building) -> Step:
        rows, key = _grouped(self, building.lower(self.child), building)
        for name in self.bounds:
            if name in key:
                raise TopologyError(
                    f"the group column {name!r} has the name of a window's bound; expected another: rename it before", self.at
                )
        aggregates = building.analyzer.aggregates(rows.schema, self.aggregates, self.at)
        window = self.delayed_window()
        store, streams = building.store_name(self), building.streams(self.child)
        windowing = (
            Windowing(window.size_ms, window.advance_ms, window.grace_ms, streams, store, window.close_after_idle_ms)
            if window
            else None
        )
        operator = Aggregate(
            building.name(self), UNSTAGED, (rows.id,), key, store, aggregates, False, building.modes_of(self), windowing
        )
        _add_store(self, store, window, rows.schema.select(key), aggregates, building)
        bounds = [Column(name, "timestamp", False) for name in self.bounds]
        results = [Column(one.name, one.type, one.nullable) for one in aggregates]
        schema = make_schema([*rows.schema.select(key), *bounds, *results], self.at)
        return building.add(Step(operator, schema, (*key, *self.bounds), key, True, self.at))

    def changes(self, building: Building) -> Step:
        kept = building.lower(self)
        return port_step(kept, "every", f"{kept.id}:changes", building)


@dataclass(frozen=True)
class Aggregate(Operator):
    """
    Fold rows (or rows of state, if `folded`) into `store`; `modes` lists the emissions asked of it, which are its ports.

    It puts rows into their windows, if it has windows; rows of state are in theirs already.
    """

    kind: ClassVar[str] = "aggregate"
    stage_min: ClassVar[int] = 1
    key: Key
    store: str
    aggregates: tuple[TypedAggregate, ...]
    folded: bool
    modes: tuple[str, ...]  # of latest, every, final
    window: Windowing | None = None

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    @property
    def longest_wait_ms(self) -> int:
        return self.window.size_ms + self.window.grace_ms if self.window else 0

    @property
    def rows_per_record(self) -> int:
        return self.window.per_record if self.window and not self.folded else 1

    @property
    def kept_aggregates(self) -> tuple[TypedAggregate, ...]:
        return self.aggregates

    @property
    def windowing(self) -> Windowing | None:
        return self.window

    @property
    def closing(self) -> Windowing | None:
        return self.window if "final" in self.modes else None

    @property
    def shares_exchange(self) -> bool:
        """False if its rows are folded before they travel."""
        return not self.folds

    @property
    def folds(self) -> bool:
        """True unless it gives a result for every record."""
        return "every" not in self.modes

    def fold(self, step: Step, source: Step, state: Schema) -> Step:
        operator = Fold(f"{self.id}:fold", source.stage, (source.id,), self.key, self.aggregates, self.window)
        schema = Schema((*source.schema.select(self.key), *state))
        return replace(source, operator=operator, schema=schema, key=self.key, partition_by=self.key, table=False, at=step.at)

    def exchange(self, place: int, rows: Step) -> Exchange:
        return Exchange(self.key, keep_null_keys=False)

    def partitioning(self, inputs: Sequence[Key | None]) -> Key:
        return self.key

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return frozenset(rows.names) if self.folded else arguments(self.aggregates) | frozenset(self.key)

    def text(self) -> str:
        emitted = f", emits {listed(self.modes)}" if self.modes else ""
        window = f" and window ({self.window})" if self.window else ""
        return f"aggregate: by {listed(self.key)}{window}, store {self.store}{emitted}: {aggregates_text(self.aggregates)}"

    def faults(self, program: Program) -> list[str]:
        takes_state = _gives_state(program.operator(self.inputs[0]))
        wrong = [] if takes_state == self.folded else [f"{self.id} {'does not take' if self.folded else 'takes'} rows of state"]
        return [*store_faults(self, program), *wrong]


def _gives_state(operator: Operator) -> bool:
    """Whether an operator's rows are rows of aggregate state."""
    return isinstance(operator, Fold) or (isinstance(operator, Receive) and operator.folded)


def _grouped(node: AggregateNode, rows: Step, building: Building) -> tuple[Step, Key]:
    """The rows with the columns they are grouped by, and the names of those."""
    if node.key is None:
        if not rows.key:
            raise TopologyError("group_by_key() needs a key, and the stream has none; expected group_by(…)", node.at)
        return rows, rows.key
    plain = [name for name, expression in node.key if expression == Reference(name)]
    check_columns(plain, rows.schema, node.at)
    check_key_types(plain, rows.schema, node.at)
    key = tuple(name for name, _ in node.key)
    if len(plain) == len(key):
        return rows, key
    for name in key:
        if name in rows.schema and name not in plain:
            raise TopologyError(
                f"the group column {name!r} would hide the stream's column of that name; expected another name", node.at
            )
    computed = typed([pair for pair in node.key if pair[0] not in plain], rows.schema, building.analyzer, node.at)
    columns = (*((name, column_of(rows.schema, name)) for name in rows.schema.names), *computed)
    schema = make_schema(typed_columns(columns, rows.schema), node.at)
    operator = Project(f"{building.name(node)}:group", UNSTAGED, (rows.id,), columns, key)
    return building.add(Step(operator, schema, key, key, False, node.at)), key


def _add_store(
    node: AggregateNode,
    name: str,
    window: TimeWindow | None,
    key: Schema,
    aggregates: tuple[TypedAggregate, ...],
    building: Building,
) -> None:
    value = make_schema([column for one in aggregates for column in building.state_columns(one)], node.at)
    size_ms, retention_ms = (window.size_ms, window.retention_ms) if window else (None, None)
    building.add_store(Store(name, 0, UNSTAGED, key, value, size_ms, retention_ms, "window" if window else "key"))
