"""Grouped aggregation: the aggregates of each group of a stream's records, per window if there is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

from streamkit.errors import Location, TopologyError
from streamkit.names import RESERVED_COLUMNS, WINDOW_END, WINDOW_START, check_name
from streamkit.plan.building import Building
from streamkit.plan.delay import NO_DELAY
from streamkit.plan.demands import LATE, WITH_OLD_VALUES
from streamkit.plan.dotted_name import parts_of
from streamkit.plan.expression import Expression, Reference, TypedAggregate, TypedExpression
from streamkit.plan.expression_text import aggregates_text, named_text, shown_text
from streamkit.plan.keys import check_columns, check_key_types, make_schema, typed
from streamkit.plan.location import by_language
from streamkit.plan.naming import name_part
from streamkit.plan.node import CYLINDER, Node, check_distinct, shortened, words
from streamkit.plan.on_error import FAIL
from streamkit.plan.operator import KINDS, Exchange, Key, Names, Operator, listed
from streamkit.plan.operator_traits import IN_ORDER, OperatorTraits
from streamkit.plan.operators.check import Check
from streamkit.plan.operators.emit import port_step
from streamkit.plan.operators.empty_groups import EmptyGroups
from streamkit.plan.operators.exchange import Receive
from streamkit.plan.operators.fold import Fold, arguments
from streamkit.plan.operators.materialize import store_faults
from streamkit.plan.operators.project import Project
from streamkit.plan.plain import from_plain, to_plain
from streamkit.plan.program import Program, ProgramStore
from streamkit.plan.steps import UNSTAGED, Step, column_of, typed_columns
from streamkit.plan.traits import STREAM, TABLE, Traits
from streamkit.plan.window_kinds.hopping import INSTANT
from streamkit.plan.windows import ASSIGNED, ASSIGNERS, Settling, Windowing, WindowKind
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
    window: WindowKind | None
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
        window = [name_part(word) for word in self.window.words] if self.window else []
        return shortened("-".join([*(one.subject for one in self.streams), "by", *key, *window]))

    def delayed_window(self) -> WindowKind | None:
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
        return self.window.delayed(self.traits.delay.ms(self.window))

    def settlings(self, building: Building) -> tuple[Settling, ...]:
        """Windows change as long as their store keeps them."""
        window = self.delayed_window()
        return () if window is None else (Settling(self.windowing(window, building).plain, window.kept_ms),)

    def windowing(self, window: WindowKind, building: Building) -> Windowing:
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
    window: WindowKind | None = None
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
        aggregates = building.analyzer_of(self.child).aggregates(rows.schema, self.aggregates, self.at)
        window, store = self.delayed_window(), building.store_name(self)
        windowing = self.windowing(window, building) if window else None
        value = make_schema([column for one in aggregates for column in building.state_columns(one)], self.at)
        building.add_store(kept_in(store, rows.schema.select(key), value, window), building.naming(self))
        operator = Aggregate(
            building.name(self),
            UNSTAGED,
            (rows.id,),
            (key,),
            store,
            ColumnFold(aggregates),
            building.demands[self].modes_in_order,
            windowing,
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
                example = by_language(self.at, f"group_by(other=F.col({f'`{name}`'!r}))", f"SELECT {name} AS other")
                raise TopologyError(
                    f"the group's column {name!r} is called like the column {taken[name.lower()]!r}, in which the state of an aggregate is "
                    f"kept; expected another name, as in {example}, or another name of the aggregate",
                    self.at,
                )

    def with_old_values(self, building: Building) -> Step:
        kept = building.lower(self)
        return port_step(kept, WITH_OLD_VALUES, f"{kept.id}:old-and-new", building)

    def after_empty_groups(self, pairs: Step, building: Building) -> Step:
        """As in ksqlDB, whose sessions and groups of tables have no row before the first one."""
        if self.grouped_relation != STREAM or (self.window is not None and self.window.merges):
            return pairs
        aggregates = building.analyzer_of(self.child).aggregates(building.lower(self.child).schema, self.aggregates, self.at)
        operator = EmptyGroups(f"{building.name(self)}:after-empty-groups", UNSTAGED, (pairs.id,), pairs.key, aggregates)
        return building.add(replace(pairs, operator=operator))


@dataclass(frozen=True)
class ColumnFold:
    """Rows are folded by aggregates of columns."""

    prefix: ClassVar[str] = ""
    leaves_out: ClassVar[str] = ""
    aggregates: tuple[TypedAggregate, ...]


@dataclass(frozen=True)
class FunctionFold:
    """
    Rows are folded by users' functions, those of each input by its own of `updates`.

    A group begins with what `initial` gives, or with its first value; `merge` makes one state of two. With `tombstones` records without a
    value are given to the functions, where windows take them.
    """

    prefix: ClassVar[str] = "function_"
    leaves_out: ClassVar[str] = IN_ORDER
    aggregates: ClassVar[tuple[TypedAggregate, ...]] = ()
    initial: TypedExpression | None
    updates: tuple[TypedExpression, ...]
    merge: TypedExpression | None = None
    tombstones: bool = False


@dataclass(frozen=True)
class Aggregate(Operator):
    """
    Fold rows (or rows of state, if `folded`) into `store`; `modes` lists the emissions asked of it, which are its ports.

    `keys` has the columns by which each input is grouped; those of the first name the key of the result. It puts rows into their windows,
    if it has windows; rows of state are in theirs already.
    """

    kind: ClassVar[str] = "aggregate"
    traits: ClassVar[OperatorTraits] = OperatorTraits(closes_windows=True, keeps_results=True, stage_min=1)
    keys: tuple[Key, ...]
    store: str
    fold: ColumnFold | FunctionFold
    modes: tuple[str, ...]  # of latest, every, final, old_and_new, and late
    window: Windowing | None = None
    folded: bool = False

    @property
    def key(self) -> Key:
        """The columns of the result's key, beside those of the window."""
        return self.keys[0]

    @property
    def aggregates(self) -> tuple[TypedAggregate, ...]:
        """The aggregates of columns; none if functions fold."""
        return self.fold.aggregates

    @property
    def functions(self) -> FunctionFold:
        """The functions that fold."""
        assert isinstance(self.fold, FunctionFold), f"{self.id} has no functions"
        return self.fold

    @property
    def assigner(self) -> str:
        """How rows come into its windows."""
        return ASSIGNED if self.window is None else self.window.assigner

    @property
    def stored_kind(self) -> str:
        """Such as `session_aggregate`: programs tell by the kind how rows are folded, and how they come into windows."""
        return f"{self.fold.prefix}{self.assigner}{'_' if self.assigner else ''}{self.kind}"

    def to_json(self) -> dict[str, Any]:
        """The operator as plain values, under its stored kind: what folds stands beside the rest, and of one input its key alone."""
        plain = to_plain(self)
        keys, fold, folded = (plain.pop(name) for name in ("keys", "fold", "folded"))
        if isinstance(self.fold, ColumnFold):
            fold |= {"key": keys[0], **({} if self.assigner else {"folded": folded})}
        else:
            fold["keys"] = keys
        return {**plain, **fold, "kind": self.stored_kind}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Aggregate:
        """The inverse of `to_json`."""
        fold, assigner = _OF_STORED_KIND[value["kind"].removeprefix("table_")]
        window = None if value.get("window") is None else Windowing.from_json(value["window"]).of_assigner(assigner)
        return cls(
            value["id"],
            value["stage"],
            tuple(value["inputs"]),
            tuple(map(tuple, value["keys"] if "keys" in value else [value["key"]])),
            value["store"],
            from_plain(fold, value),
            tuple(value["modes"]),
            window,
            value.get("folded", False),
        )

    @property
    def leaves_out(self) -> str:
        return self.fold.leaves_out

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    @property
    def newest_rows(self) -> str:
        return self.store

    @property
    def dated_stores(self) -> tuple[str, ...]:
        return (self.store,) if self.window is not None and not self.window.may_lead else ()

    @property
    def assigned(self) -> Windowing | None:
        """The windows that rows are put into before they are folded; None if they have none, or it depends on the rows before."""
        return None if self.assigner else self.window

    @property
    def takes_tombstones(self) -> bool:
        """Whether records without a value are given to the functions."""
        return self.functions.tombstones and self.window is not None and self.window.takes_tombstones

    @property
    def longest_wait_ms(self) -> int:
        return self.window.size_ms + self.window.grace_ms if self.window else 0

    @property
    def waits_ms(self) -> tuple[int, ...]:
        return (self.window.grace_ms,) if self.window is not None and "final" in self.modes else ()

    @property
    def waits_for_windows(self) -> bool:
        return bool(self.waits_ms)

    @property
    def rows_per_record(self) -> int:
        return self.window.rows_per_record(self.modes) if self.window and not self.folded else 1

    def aggregates_in(self, store: str) -> tuple[TypedAggregate, ...]:
        return self.aggregates

    def with_aggregates(self, aggregates: tuple[TypedAggregate, ...]) -> Operator:
        return replace(self, fold=ColumnFold(aggregates))

    @property
    def windowing(self) -> Windowing | None:
        return self.window

    @property
    def closing(self) -> Windowing | None:
        return None if self.window is None else self.window.closing(self.modes)

    @property
    def gives_each(self) -> bool:
        """Whether it gives a result for every record."""
        return "every" in self.modes or WITH_OLD_VALUES in self.modes

    @property
    def folds(self) -> bool:
        """True unless functions fold, it gives a result for every record, or depends on the order of the records or on those before."""
        if self.gives_each or self.assigner or not self.aggregates:
            return False
        return not any(one.ordered for one in self.aggregates)

    def early_fold(self, step: Step, source: Step, state: Schema) -> Step:
        operator = Fold(f"{self.id}:fold", source.stage, (source.id,), self.key, self.aggregates, self.window)
        schema = Schema((*source.schema.select(self.key), *state))
        return replace(source, operator=operator, schema=schema, key=self.key, partition_by=self.key, table=False, at=step.at)

    def exchange(self, place: int, rows: Step) -> Exchange:
        return Exchange(self.keys[place], keep_null_keys=False)

    def partitioning(self, inputs: Sequence[Key | None]) -> Key:
        return self.key

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        """All columns for functions, which may look at any; late rows go on with those that are read from them."""
        if self.folded or not self.aggregates:
            return frozenset(rows.names)
        late = needed.intersection(rows.names) if LATE in self.modes else frozenset()
        return arguments(self.aggregates) | frozenset(self.key) | late

    def text(self) -> str:
        emitted = f", emits {listed(self.modes)}" if self.modes else ""
        by = f"by {listed(self.key)}"
        if isinstance(self.fold, FunctionFold):
            window = f" and window ({self.window})" if self.window else ""
            calls = ", ".join(map(shown_text, self.fold.updates))
            return f"function aggregate: {by}{window}, store {self.store}{emitted}: {calls}"
        window = f"{'' if self.assigner else ' and window'} ({self.window})" if self.window else ""
        name = self.stored_kind.replace("_", " ")
        return f"{name}: {by}{window}, store {self.store}{emitted}: {aggregates_text(self.aggregates)}"

    def faults(self, program: Program) -> list[str]:
        takes_state = _gives_state(program.operator(self.inputs[0]))
        wrong = [] if takes_state == self.folded else [f"{self.id} {'does not take' if self.folded else 'takes'} rows of state"]
        return [*store_faults(self, program), *wrong]


_OF_STORED_KIND: dict[str, tuple[type[ColumnFold | FunctionFold], str]] = {
    f"{fold.prefix}{assigner}{'_' if assigner else ''}aggregate": (fold, assigner)
    for fold in (ColumnFold, FunctionFold)
    for assigner in ASSIGNERS
}
KINDS.update(dict.fromkeys(_OF_STORED_KIND, Aggregate))


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
    grouped_rows = node.streams[place] if node.grouped_relation == STREAM else node.grouped_relation
    computed = typed(
        [pair for pair in group_key if pair[0] not in plain], rows.schema, building.analyzer_of(grouped_rows), node.at
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


def kept_in(name: str, key: Schema, value: Schema, window: WindowKind | None) -> ProgramStore:
    """The store of groups with this key and state."""
    if window is None:
        return ProgramStore(name, 0, UNSTAGED, key, value)
    return ProgramStore(name, 0, UNSTAGED, key, value, window.shown_size_ms, window.kept_ms, window.layout)
