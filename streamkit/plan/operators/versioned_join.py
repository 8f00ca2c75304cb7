"""A stream with the row that a versioned table had for its key at the record's event time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from streamkit.errors import TopologyError
from streamkit.names import TIMESTAMP
from streamkit.plan.building import Building
from streamkit.plan.duration import duration_text
from streamkit.plan.joining import ColumnSources, joined_schema, narrowed_join, read_of, sources_text
from streamkit.plan.operator import PORT, Exchange, Key, Names, Operator, listed
from streamkit.plan.operator_traits import OF_FIRST_INPUT, OperatorTraits
from streamkit.plan.operators.table_join import bounds_on, kept_sides, partition_key
from streamkit.plan.operators.versioned_table import ACCEPTED
from streamkit.plan.origin import Origin, joined_origin
from streamkit.plan.program import Program, ProgramStore
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.windows import Windowing
from streamkit.schema import Schema, SchemaColumn

if TYPE_CHECKING:
    from streamkit.plan.operators.join import Join


@dataclass(frozen=True)
class VersionedJoin(Operator):
    """
    Join a stream (first input) with a versioned table (second input) as of each record's event time.

    `on` are the stream's columns, in the order of the table's key columns; `columns` is what the result holds. With `grace_ms`
    records wait in the store `waiting` until stream time, that of the inputs `streams`, is so far past them; they `may_lead` it. Of `on`,
    `bounds` are the start and the end of windows, which choose no partition.
    """

    kind: ClassVar[str] = "versioned_join"
    traits: ClassVar[OperatorTraits] = OperatorTraits(
        stage_min=1, keeps_lists=True, first_gives_rows=True, looks_up=(1,), headers=OF_FIRST_INPUT
    )
    how: str  # inner or left
    on: Key
    columns: ColumnSources
    grace_ms: int | None
    waiting: str
    streams: tuple[int, ...]
    may_lead: bool = False
    bounds: Key = ()

    @property
    def stores(self) -> tuple[str, ...]:
        return () if self.grace_ms is None else (self.waiting,)

    @property
    def longest_wait_ms(self) -> int:
        return self.grace_ms or 0

    @property
    def waits_ms(self) -> tuple[int, ...]:
        return () if self.grace_ms is None else (self.grace_ms,)

    @property
    def stored_waits_ms(self) -> Mapping[str, int]:
        return {} if self.grace_ms is None else {self.waiting: self.grace_ms}

    @property
    def windowing(self) -> Windowing | None:
        return None if self.grace_ms is None else Windowing(0, 1, self.grace_ms, self.streams, self.waiting)

    @property
    def keeps_ahead(self) -> bool:
        return self.may_lead

    def keeping_ahead(self) -> Operator:
        return replace(self, may_lead=True)

    @property
    def closing(self) -> Windowing | None:
        """Records are due at any millisecond."""
        return None if self.grace_ms is None else Windowing(0, 1, 0, self.streams, self.waiting)

    def exchange(self, place: int, rows: Step) -> Exchange | None:
        return Exchange(partition_key(self.on, self.bounds), self.how == "left") if place == 0 else None

    def partitioning(self, inputs: Sequence[Key | None]) -> Key:
        return partition_key(self.on, self.bounds)

    def rekeys(self, before: Key, after: Key) -> bool:
        return before != after

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        """All columns if records wait: what a store holds must not depend on who reads the result today."""
        if place or self.grace_ms is not None:
            return frozenset(rows.names)
        return read_of("left", self.columns, needed) | frozenset(self.on)

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        return narrowed_join(step, self.columns, needed)

    def origin(self, above: Sequence[Origin], name: str) -> Origin:
        return joined_origin(f"{self.how} join on {listed(map(above[0].of, self.on))} with former rows of", self.columns, above)

    def text(self) -> str:
        inputs = ", ".join(map(str, self.streams))
        grace = "" if self.grace_ms is None else f", grace {duration_text(self.grace_ms)}, stream time of input {inputs}"
        return f"versioned join: {self.how}, on {listed(self.on)}{grace}, gives {sources_text(self.columns)}"

    def faults(self, program: Program) -> list[str]:
        kept = {store.name for store in program.stores if store.stage == self.stage}
        return [f"{self.id} has no store {name!r} in its stage" for name in self.stores if name not in kept]


def versioned_join(node: Join, left: Step, building: Building) -> Step:
    """The steps of a join with a versioned table, and the store of the records that wait."""
    if node.grace_ms is not None and node.left.traits.depends_on_cut:
        raise TopologyError(
            "which records of emit('latest') wait for a table would depend on how the input is cut into epochs; "
            "expected emit('every') or emit('final') before join, or a join without grace=",
            node.at,
        )
    left, kept, on, columns = kept_sides(node, left, building)
    name, bounds = building.name(node), bounds_on(on, kept)
    operator = VersionedJoin(
        name, UNSTAGED, (left.id, f"{kept.id}{PORT}{ACCEPTED}"), node.how, on, columns,
        node.grace_ms, f"{name}-waiting", building.streams(node.left), node.left.traits.may_lead, bounds,
    )  # fmt: skip
    if node.grace_ms is not None:
        building.add_store(_waiting_store(operator, left.schema, node.grace_ms), building.naming(node))
    schema = joined_schema(columns, left.schema, kept.schema, ("right",) if node.how == "left" else (), node.at)
    return building.add(Step(operator, schema, on, partition_key(on, bounds), False, node.at))


def _waiting_store(operator: VersionedJoin, schema: Schema, grace_ms: int) -> ProgramStore:
    """The store of the records that wait: lists by their time and key."""
    values = [SchemaColumn(one.name, f"array<{one.type}>", one.nullable) for one in schema if one.name not in operator.on]
    columns = (SchemaColumn(TIMESTAMP, "array<bigint>", False), *values)
    return ProgramStore(operator.waiting, 0, UNSTAGED, schema.select(operator.on), Schema(columns), 1, max(grace_ms, 1), "window")
