"""Two streams: records of the same key whose event times are close to each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from streamkit.errors import TopologyError
from streamkit.names import ALONE, TIMESTAMP
from streamkit.plan.building import Building
from streamkit.plan.demands import Demands
from streamkit.plan.duration import duration_text
from streamkit.plan.join_window import JoinWindow
from streamkit.plan.joining import (
    PRESERVED_SIDES,
    SIDES,
    ColumnSources,
    common_key_types,
    joined_names,
    narrowed_join,
    sources_text,
)
from streamkit.plan.keys import check_columns, make_schema
from streamkit.plan.node import Node, check_distinct, shortened, words
from streamkit.plan.operator import Exchange, Key, Names, Operator, listed
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.operators.project import add_widened
from streamkit.plan.program import Program, ProgramStore
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.traits import STREAM, Traits
from streamkit.plan.window_kinds.hopping import INSTANT
from streamkit.plan.windows import Windowing
from streamkit.schema import Schema, SchemaColumn

STREAM_JOIN_KINDS = ("inner", "left", "outer")
BUCKET_MS_MIN = 1_000


@dataclass(frozen=True, eq=False, repr=False)
class StreamStreamJoin(Node):
    """
    The records of two streams that have the same key, side by side, if their event times are within the window.

    `on` are pairs of (left column, right column); None joins the streams by their keys. `suffix` is appended to those of the
    right stream's columns whose names the left one has too.
    """

    kind: ClassVar[str] = "stream_stream_join"
    left: Node
    right: Node
    within: JoinWindow
    how: str = "inner"
    on: tuple[tuple[str, str], ...] | None = None
    suffix: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.how not in STREAM_JOIN_KINDS:
            raise TopologyError(
                f"two streams cannot be joined how={self.how!r}; expected one of {', '.join(STREAM_JOIN_KINDS)}", self.at
            )
        if self.left.relation != STREAM or self.right.relation != STREAM:
            raise TopologyError(
                f"a {words(self.left.relation)} and a {words(self.right.relation)} cannot be joined within a window; "
                "expected two streams",
                self.at,
            )
        if self.on == ():
            raise TopologyError(
                "on= is empty; expected a column's name, a list of names, or {left column: right column}", self.at
            )
        for names in zip(*(self.on or ()), strict=True):
            check_distinct(names, "join column", self.at)

    @cached_property
    def subject(self) -> str:
        return self.name or shortened(f"{self.left.subject}-{self.right.subject}")

    @cached_property
    def delay_of_inputs_ms(self) -> int:
        """How far the records of either stream may stand behind stream time because they are final results."""
        return max(one.traits.delay.ms(INSTANT) for one in (self.left, self.right))

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        """Rows with nulls come when their records' windows close, and carry the records' own times."""
        waits = [wait_ms(self.within, side) + self.delay_of_inputs_ms + 1 for side in PRESERVED_SIDES[self.how]]
        rows = super().traits_over(below)
        return replace(rows, delay=rows.delay.at_least(max(waits, default=0)))

    def demands_below(self, above: Demands) -> Iterable[tuple[Node, Demands]]:
        return super().demands_below(replace(above, null_keys=above.null_keys or self.how != "inner"))

    def text(self) -> str:
        on = ", ".join(left if left == right else f"{left} = {right}" for left, right in self.on) if self.on else "key"
        return f"{self.how} join {self.right.short_text()} on {on} {self.within}"

    def lower(self, building: Building) -> Step:
        if self.traits.depends_on_cut:
            raise TopologyError(
                "a join of streams over emit('latest') of a table would depend on how the input is cut into epochs; "
                "expected emit('every') or emit('final') before join",
                self.at,
            )
        name, rows = building.name(self), [building.lower(self.left), building.lower(self.right)]
        keys = self._join_columns(*rows)
        types = common_key_types(self, rows[0].schema, keys[0], rows[1].schema, keys[1], ("left stream", "right stream"))
        left, right = (
            add_widened(one, dict(zip(key, types, strict=True)), f"{name}:widen-{side}", building)
            for one, key, side in zip(rows, keys, SIDES, strict=True)
        )
        columns = joined_names(self, left.schema, right.schema, keys[1], "right stream")
        operator = StreamStreamJoinRows(
            name, UNSTAGED, (left.id, right.id), self.how, *keys, columns, self.within, self.delay_of_inputs_ms,
            tuple(sorted({*building.streams(self.left), *building.streams(self.right)})), self.traits.may_lead,
        )  # fmt: skip
        for store in stores_of(operator, (left.schema, right.schema)):
            building.add_store(store, building.naming(self))
        schema = _joined_schema(self, columns, left.schema, right.schema, keys)
        return building.add(Step(operator, schema, keys[0], keys[0], False, self.at))

    def _join_columns(self, left: Step, right: Step) -> tuple[Key, Key]:
        """The columns that are compared, of either side; TopologyError if there are none, or they are not there."""
        if self.on is not None:
            check_columns((name for name, _ in self.on), left.schema, self.at, " in the left stream")
            check_columns((name for _, name in self.on), right.schema, self.at, " in the right stream")
            return tuple(name for name, _ in self.on), tuple(name for _, name in self.on)
        if not left.key or len(left.key) != len(right.key):
            raise TopologyError(
                f"the left stream's key {list(left.key)} and the right stream's key {list(right.key)} cannot be joined; "
                "expected on=, such as {left column: right column}",
                self.at,
            )
        return left.key, right.key


@dataclass(frozen=True)
class StreamStreamJoinRows(Operator):
    """
    Join the rows of two streams whose keys are equal and whose times are within the window.

    `left_key` and `right_key` are the columns compared, in the same order; `columns` is what the result holds. `delay_ms` is how
    far rows may stand behind stream time without being late. `streams` are the inputs that move its stream time; rows `may_lead` it.
    """

    kind: ClassVar[str] = "stream_stream_join"
    traits: ClassVar[OperatorTraits] = OperatorTraits(stage_min=1, keeps_lists=True)
    how: str  # inner, left or outer
    left_key: Key
    right_key: Key
    columns: ColumnSources
    within: JoinWindow
    delay_ms: int
    streams: tuple[int, ...]
    may_lead: bool = False

    @property
    def stores(self) -> tuple[str, ...]:
        """The rows of either side, then those that wait for a partner, of the sides that are kept without one."""
        return (*(buffer_of(self.id, side) for side in SIDES), *(waiting_of(self.id, side) for side in self.preserved))

    @property
    def dated_stores(self) -> tuple[str, ...]:
        """The rows of either side; those that wait for a partner go when they get none, which a drain may bring about."""
        return () if self.may_lead else self.stores[: len(SIDES)]

    @property
    def preserved(self) -> tuple[str, ...]:
        """The sides whose rows give a result even if they meet none."""
        return PRESERVED_SIDES[self.how]

    @property
    def keys(self) -> tuple[Key, Key]:
        """The columns compared, of the left side and of the right."""
        return self.left_key, self.right_key

    @property
    def bucket_ms(self) -> int:
        """The length of time whose rows of one key lie together in a store: a row's partners are in two of them at most."""
        return max(self.within.size_ms + 1, BUCKET_MS_MIN)

    def keep_ms(self, side: str) -> int:
        """
        How long after its time a row of a side can be met.

        Kafka Streams keeps both sides for before + after + grace. A row must also stay as long as one that is not late may meet it.
        """
        within = self.within
        return max(within.size_ms + within.grace_ms, wait_ms(within, side) + 1) + self.delay_ms

    def close_ms(self, side: str) -> int:
        """How long after the time of a row without a partner its result with nulls is due."""
        return wait_ms(self.within, side) + self.delay_ms + 1

    @property
    def longest_wait_ms(self) -> int:
        return max(self.waits_ms, default=0)

    @property
    def waits_ms(self) -> tuple[int, ...]:
        return tuple(self.close_ms(side) for side in self.preserved)

    @property
    def stored_waits_ms(self) -> Mapping[str, int]:
        return {waiting_of(self.id, side): self.close_ms(side) for side in self.preserved}

    @property
    def windowing(self) -> Windowing:
        return Windowing(self.within.size_ms, 1, self.within.grace_ms, self.streams, self.stores[0])

    @property
    def declared_times(self) -> Mapping[str, str]:
        before, after = self.within.before_ms, self.within.after_ms
        return {"the time within which records meet": f"{duration_text(before)} before to {duration_text(after)} after"}

    @property
    def keeps_ahead(self) -> bool:
        return self.may_lead

    def keeping_ahead(self) -> Operator:
        return replace(self, may_lead=True)

    @property
    def closing(self) -> Windowing | None:
        """
        Results with nulls are due at any millisecond; `close_ms` says when.

        Rows that are final results stand behind stream time; what it was there, the same reports say.
        """
        return Windowing(0, 1, 0, self.streams, self.stores[0]) if self.preserved or self.delay_ms else None

    def exchange(self, place: int, rows: Step) -> Exchange:
        is_self_join = len(set(self.inputs)) == len(set(self.keys)) == 1
        return Exchange(self.keys[place], bool(self.preserved) if is_self_join else SIDES[place] in self.preserved)

    def partitioning(self, inputs: Sequence[Key | None]) -> Key:
        return self.left_key

    def rekeys(self, before: Key, after: Key) -> bool:
        return before != after

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        """All columns: what a store holds must not depend on who reads the result today."""
        return frozenset(rows.names)

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        return narrowed_join(step, self.columns, needed | frozenset(self.left_key))

    def text(self) -> str:
        on = listed(left if left == right else f"{left} = {right}" for left, right in zip(self.left_key, self.right_key))
        delay = f", {duration_text(self.delay_ms)} later for final results" if self.delay_ms else ""
        inputs = ", ".join(map(str, self.streams))
        times = f"{self.within}{delay}, stream time of input {inputs}"
        return f"stream stream join: {self.how}, on {on}, {times}, gives {sources_text(self.columns)}"

    def faults(self, program: Program) -> list[str]:
        kept = {store.name for store in program.stores if store.stage == self.stage}
        return [f"{self.id} has no store {name!r} in its stage" for name in self.stores if name not in kept]


def wait_ms(within: JoinWindow, side: str) -> int:
    """How far stream time may be ahead of a row of a side before a partner that comes is late by more than the grace."""
    return (within.after_ms if side == "left" else within.before_ms) + within.grace_ms


def buffer_of(join: str, side: str) -> str:
    """The store of a side's rows."""
    return f"{join}-{side}"


def waiting_of(join: str, side: str) -> str:
    """The store of a side's rows that have no partner yet."""
    return f"{join}-{side}-waiting"


def stores_of(operator: StreamStreamJoinRows, schemas: tuple[Schema, Schema]) -> list[ProgramStore]:
    """
    The stores of a join: lists of rows by a time and a key.

    In a buffer the time is the begin of a bucket; of rows that wait for a partner it is their own. The buffer of a kept side also
    says which rows found no partner when they came: only they may be among those that wait.
    """
    stores = []
    for side, key, schema in zip(SIDES, operator.keys, schemas, strict=True):
        values = (SchemaColumn(TIMESTAMP, "array<bigint>", False), *(_listed(one) for one in schema if one.name not in key))
        keys, bucket, keep = schema.select(key), operator.bucket_ms, operator.keep_ms(side)
        is_kept = side in operator.preserved
        kept = Schema((*values, SchemaColumn(ALONE, "array<boolean>", False))) if is_kept else Schema(values)
        stores.append(ProgramStore(buffer_of(operator.id, side), 0, UNSTAGED, keys, kept, bucket, bucket + keep - 1, "window"))
        if is_kept:
            close = max(operator.close_ms(side), 1)
            stores.append(ProgramStore(waiting_of(operator.id, side), 0, UNSTAGED, keys, Schema(values), 1, close, "window"))
    return sorted(stores, key=lambda store: operator.stores.index(store.name))


def _listed(column: SchemaColumn) -> SchemaColumn:
    """The column of a list of rows that holds this column of each; nullable if the rows' may be null."""
    return SchemaColumn(column.name, f"array<{column.type}>", column.nullable)


def _joined_schema(node: StreamStreamJoin, columns: ColumnSources, left: Schema, right: Schema, keys: tuple[Key, Key]) -> Schema:
    """The columns of the result; those of a side that may be missing may be null, the key if it may be null on a kept side."""
    sides, partners = {"left": left, "right": right}, dict(zip(*keys, strict=True))
    missing = {"inner": (), "left": ("right",), "outer": ("left", "right")}[node.how]
    joined = []
    for name, source in columns:
        side, _, column = source.partition(".")
        found = sides[side][column]
        is_key = side == "left" and column in partners
        other = is_key and node.how == "outer" and right[partners[column]].nullable
        joined.append(SchemaColumn(name, found.type, found.nullable or other or (side in missing and not is_key)))
    return make_schema(joined, node.at)
