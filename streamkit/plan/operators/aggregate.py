"""Grouped aggregation: the aggregates of each group of a stream's records, per window if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

from streamkit.errors import Location, TopologyError
from streamkit.names import RESERVED_COLUMNS, WINDOW_END, WINDOW_START, check_name
from streamkit.plan.building import Building
from streamkit.plan.delay import NO_DELAY
from streamkit.plan.demands import WITH_OLD_VALUES
from streamkit.plan.dotted_name import parts_of
from streamkit.plan.expression import Expression, Reference, TypedAggregate
from streamkit.plan.expression_text import aggregates_text, named_text
from streamkit.plan.keys import check_columns, check_key_types, make_schema, typed
from streamkit.plan.naming import name_part
from streamkit.plan.node import CYLINDER, Node, check_distinct, shortened, words
from streamkit.plan.on_error import FAIL
from streamkit.plan.operator import Exchange, Key, Names, Operator, listed
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.operators.check import Check
from streamkit.plan.operators.emit import port_step
from streamkit.plan.operators.exchange import Receive
from streamkit.plan.operators.fold import Fold, arguments
from streamkit.plan.operators.materialize import store_faults
from streamkit.plan.operators.project import Project
from streamkit.plan.operators.session_aggregate import SessionAggregate
from streamkit.plan.operators.sliding_aggregate import SlidingAggregate
from streamkit.plan.program import Program, ProgramStore
from streamkit.plan.steps import UNSTAGED, Step, column_of, typed_columns
from streamkit.plan.traits import STREAM, TABLE, Traits
from streamkit.plan.windows import INSTANT, SessionWindow, Settling, SlidingWindow, Window, Windowing, closing_for
from streamkit.schema import Schema, SchemaColumn

GroupKey: TypeAlias = tuple[tuple[str, Expression], ...] | None  # names and expressions; None for the stream's own key


class Grouping(Node):
    """
    A table: something of each group of a stream's records, per window if there is one.

    `streams` are what is grouped, `group_key` the columns of the first by which it is: None for the stream's own key. `grouped_at` says when
    each stream was grouped by another key, if it was: there Kafka Streams gives its rows that key.
    """

    shape: ClassVar[str] = CYLINDER
    kept_variant: ClassVar[str] = "-results"
    grouped_relation: ClassVar[str] = STREAM
    window: Window | None
    store: str | None
    grouped_at: tuple[int | None, ...]

    @property
    def streams(self) -> tuple[Node, ...]:
        raise NotImplementedError

    @property
    def group_key(self) -> GroupKey:
        raise NotImplementedError

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        """
        A table that keeps its rows; its windows have final results.

        A final result of [start, end) comes when stream time reaches end + grace. Its own time may be as early as start, so it is
        size + grace behind, and by what the records of the window were. For a wider window that covers these, grace + 1 is enough: the
        one that holds start does not end before end.
        """
        rows = super().traits_over(below)
        final_delay = None if self.window is None else NO_DELAY.longer(rows.delay.ms(self.window), self.window)
        return replace(rows, relation=TABLE, knows_old_values=True, window=self.window, final_delay=final_delay, keeps_store=True)

    @property
    def bounds(self) -> tuple[str, ...]:
        """The columns that tell a result's window."""
        return (WINDOW_START, WINDOW_END) if self.window else ()

    @property
    def subject(self) -> str:
        if self.store or self.name:
            return self.store or str(self.name)
        key = [name_part(name) for name, _ in self.group_key or ()] or ["key"]
        window = [word.replace(" ", "-") for word in self.window.words] if self.window else []
        return shortened("-".join([*(one.subject for one in self.streams), "by", *key, *window]))

    def delayed_window(self) -> Window | None:
        """
        The windows as they close in stream time: as much later as the rows are behind.

        Without that, final results that are grouped into windows again could all be late. Which newest rows (`latest`) there are, and
        which of them are late, would depend on how the input was cut: TopologyError.
        """
        if self.window is None:
            return None
        if self.traits.depends_on_cut:
            raise TopologyError(
                "windows over emit('latest') of a table would depend on how the input is cut into epochs; "
                "expected emit('every') or emit('final') before windowed_by",
                self.at,
            )
        delay = self.traits.delay.ms(self.window)
        return replace(self.window, grace_ms=self.window.grace_ms + delay, retention_ms=self.window.retention_ms + delay)

    def settlings(self, building: Building) -> tuple[Settling, ...]:
        """Windows change as long as their store keeps them."""
        window = self.delayed_window()
        return () if window is None else (Settling(self.windowing(window, building), window.kept_ms),)

    def windowing(self, window: Window, building: Building) -> Windowing:
        """How the operator applies its windows."""
        streams = building.streams(self)
        may_lag = len(streams) > 1 and self.traits.delay.ms(INSTANT) > 0
        return replace(window.windowing(streams, building.store_name(self), self.traits.may_lead), may_lag=may_lag)

    def changes(self, building: Building) -> Step:
        kept = building.lower(self)
        return port_step(kept, "every", f"{kept.id}:changes", building)

    def check_group(self, stream: Node, key: GroupKey) -> None:
        """TopologyError unless the records of `stream` can be grouped so, or the rows of a table if that is what the step groups."""
        if self.store is not None:
            check_name(self.store, "store", self.at)
        if stream.relation != self.grouped_relation:
            raise TopologyError(
                f"group_by of a {words(stream.relation)} is not supported; expected a {self.grouped_relation}", self.at
            )
        if key == ():
            raise TopologyError("group_by() was given no columns; expected at least one, or group_by_key()", self.at)
        check_distinct((name for name, _ in key or ()), "group column", self.at)


@dataclass(frozen=True, eq=False, repr=False)
class AggregateNode(Grouping):
    """
    A table: the aggregates of each group of a stream's records, per window if there is one.

    `key` are pairs of (name, expression); None groups by the stream's own key.
    """

    kind: ClassVar[str] = "aggregate"
    child: Node
    key: GroupKey
    aggregates: tuple[tuple[str, Expression], ...]
    window: Window | None = None
    store: str | None = None
    grouped_at: tuple[int | None, ...] = field(default=(), kw_only=True, compare=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_group(self.child, self.key)
        if not self.aggregates:
            raise TopologyError("agg() was given no aggregates; expected name=aggregate, such as flights=F.count('*')", self.at)
        key = tuple(name for name, _ in self.key or ())
        check_distinct((*key, *self.bounds, *(name for name, _ in self.aggregates)), "result column", self.at)

    @property
    def streams(self) -> tuple[Node, ...]:
        return (self.child,)

    @property
    def group_key(self) -> GroupKey:
        return self.key

    def text(self) -> str:
        key = named_text(self.key) if self.key else "key"
        window = f", {self.window}" if self.window else ""
        store = f" → store {self.store}" if self.store else ""
        return f"group by {key}{window}: {named_text(self.aggregates)}{store}"

    def label(self) -> tuple[str, ...]:
        by = named_text(self.key) if self.key else "key"
        window = f", {self.window}" if self.window else ""
        return (f"group by {by}{window}", *(named_text([aggregate]) for aggregate in self.aggregates))

    def lower(self, building: Building) -> Step:
        rows, key = grouped(self, self.key, building.lower(self.child), f"{building.name(self)}:group", building)
        aggregates = building.analyzer_of(STREAM).aggregates(rows.schema, self.aggregates, self.at)
        window, store = self.delayed_window(), building.store_name(self)
        windowing = self.windowing(window, building) if window else None
        value = make_schema([column for one in aggregates for column in building.state_columns(one)], self.at)
        building.add_store(kept_in(store, rows.schema.select(key), value, window), building.naming(self))
        operator = self._operator(
            building.name(self), rows, key, store, aggregates, building.demands[self].modes_in_order, windowing
        )
        if operator.folds:
            self._check_states(key, value)
        if (check := checked(operator, rows, key, aggregates, self.at, building)) is not rows:
            operator = replace(operator, inputs=(check.id,))
        bounds = [SchemaColumn(name, "timestamp", False) for name in self.bounds]
        results = [SchemaColumn(one.name, one.type, one.nullable) for one in aggregates]
        schema = make_schema([*rows.schema.select(key), *bounds, *results], self.at)
        return building.add(Step(operator, schema, (*key, *self.bounds), key, True, self.at), grouped_at=self.grouped_at)

    def _check_states(self, key: Key, states: Schema) -> None:
        """TopologyError if a column of the group is called like a state, which travels beside it when rows are folded before."""
        taken = {name.lower(): name for name in states.names}
        for name in key:
            if name.lower() in taken:
                raise TopologyError(
                    f"the group's column {name!r} is called like the column {taken[name.lower()]!r}, in which the state of an aggregate is "
                    f"kept; expected another name, as in group_by(other=F.col({f'`{name}`'!r})), or another name of the aggregate",
                    self.at,
                )

    def with_old_values(self, building: Building) -> Step:
        kept = building.lower(self)
        return port_step(kept, WITH_OLD_VALUES, f"{kept.id}:old-and-new", building)

    def _operator(
        self,
        name: str,
        rows: Step,
        key: Key,
        store: str,
        aggregates: tuple[TypedAggregate, ...],
        modes: tuple[str, ...],
        window: Windowing | None,
    ) -> Operator:
        """The operator for windows of this kind."""
        if isinstance(self.window, SessionWindow | SlidingWindow):
            assert window is not None
            kind = SessionAggregate if isinstance(self.window, SessionWindow) else SlidingAggregate
            return kind(name, UNSTAGED, (rows.id,), key, store, aggregates, modes, window)
        return Aggregate(name, UNSTAGED, (rows.id,), key, store, aggregates, False, modes, window)


@dataclass(frozen=True)
class Aggregate(Operator):
    """
    Fold rows (or rows of state, if `folded`) into `store`; `modes` lists the emissions asked of it, which are its ports.

    It puts rows into their windows, if it has windows; rows of state are in theirs already.
    """

    kind: ClassVar[str] = "aggregate"
    traits: ClassVar[OperatorTraits] = OperatorTraits(closes_windows=True, stage_min=1)
    key: Key
    store: str
    aggregates: tuple[TypedAggregate, ...]
    folded: bool
    modes: tuple[str, ...]  # of latest, every, final, and old_and_new
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

    def aggregates_in(self, store: str) -> tuple[TypedAggregate, ...]:
        return self.aggregates

    @property
    def windowing(self) -> Windowing | None:
        return self.window

    @property
    def closing(self) -> Windowing | None:
        return None if self.window is None else closing_for(self.window, self.modes)

    @property
    def folds(self) -> bool:
        """True unless it gives a result for every record, or depends on their order."""
        gives_each = "every" in self.modes or WITH_OLD_VALUES in self.modes
        return not gives_each and not any(one.ordered for one in self.aggregates)

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


def grouped(
    node: Grouping, group_key: GroupKey, rows: Step, step_id: str, building: Building, place: int = 0
) -> tuple[Step, Key]:
    """
    The rows with the columns they are grouped by, which a step of this id computes, and the names of those.

    A deletion among a table's rows has no values, so none is computed of it.
    """
    rows, key = _with_key(node, group_key, rows, step_id, building, place)
    for name in node.bounds:
        if name in key:
            raise TopologyError(
                f"the group column {name!r} has the name of a window's bound; expected another: rename it before", node.at
            )
    return rows, key


def _with_key(node: Grouping, group_key: GroupKey, rows: Step, step_id: str, building: Building, place: int) -> tuple[Step, Key]:
    if group_key is None:
        if not rows.key:
            raise TopologyError(
                f"group_by_key() needs a key, and the {node.grouped_relation} has none; expected group_by(…)", node.at
            )
        return rows, rows.key
    plain = [name for name, expression in group_key if _is_column(expression, name)]
    check_columns(plain, rows.schema, node.at)
    check_key_types(plain, rows.schema, node.at)
    key = tuple(name for name, _ in group_key)
    if len(plain) == len(key):
        return rows, key
    for name in key:
        if name in rows.schema and name not in plain:
            raise TopologyError(
                f"the group column {name!r} would hide the {node.grouped_relation}'s column of that name; expected another name",
                node.at,
            )
    computed = typed(
        [pair for pair in group_key if pair[0] not in plain], rows.schema, building.analyzer_of(node.grouped_relation), node.at
    )
    columns = (*((name, column_of(rows.schema, name)) for name in rows.schema.names), *computed)
    schema = make_schema(typed_columns(columns, rows.schema), node.at)
    operator = Project(step_id, UNSTAGED, (rows.id,), columns, key if node.grouped_relation == STREAM else ())
    return building.add(Step(operator, schema, key, key, False, node.at), grouped_at=node.grouped_at[place : place + 1]), key


def _is_column(expression: Expression, name: str) -> bool:
    """Whether an expression is the column of this name, in backticks or not."""
    if not isinstance(expression, Reference) or name in RESERVED_COLUMNS:
        return False
    return expression.name == name or parts_of(expression.name) == [name]


def checked(
    aggregate: Operator, rows: Step, key: Key, aggregates: Sequence[TypedAggregate], at: Location | None, building: Building
) -> Step:
    """The rows, behind a check of what the aggregates of the step declared there compute of them, if failing rows are left out."""
    computed = tuple(one.argument for one in aggregates if one.argument is not None and one.argument.arguments)
    if building.policy == FAIL or not computed:
        return rows
    check = Check(f"{aggregate.id}:check", UNSTAGED, (rows.id,), computed, () if aggregate.folds else key)
    return building.add(replace(rows, operator=check, at=at))


def kept_in(name: str, key: Schema, value: Schema, window: Window | None) -> ProgramStore:
    """The store of groups with this key and state."""
    if window is None:
        return ProgramStore(name, 0, UNSTAGED, key, value)
    return ProgramStore(name, 0, UNSTAGED, key, value, window.shown_size_ms, window.kept_ms, window.layout)
