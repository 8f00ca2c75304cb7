"""A table that is kept: the newest row of each key, in a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from streamkit.errors import TopologyError
from streamkit.names import check_name
from streamkit.plan.building import Building
from streamkit.plan.duration import duration_text
from streamkit.plan.node import CYLINDER, LATER, Node, shortened
from streamkit.plan.operator import Exchange, Names, Operator
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.operators.project import add_widened
from streamkit.plan.operators.unified_key import with_unified_key
from streamkit.plan.operators.versioned_table import VersionedTable, history_store
from streamkit.plan.operators.windowed_table import WindowedTable, bounds_of, windowed_store
from streamkit.plan.program import Program, ProgramStore
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.traits import TABLE, Traits
from streamkit.plan.windows import Settling, settled_together
from streamkit.schema import Schema


@dataclass(frozen=True, eq=False, repr=False)
class ToTable(Node):
    """
    A stream read as a table: the newest record per key, in the order of the stream; a tombstone deletes.

    With `history_ms` the newest record is that of the largest event time, and the table knows which rows it had so long ago.
    """

    kind: ClassVar[str] = "to_table"
    shape: ClassVar[str] = CYLINDER
    child: Node
    store: str | None = None
    history_ms: int | None = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_history(self.history_ms, self)
        if self.store is not None:
            check_name(self.store, "store", self.at)

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        """As a topic's table it knows old values with a store that has a name, and without history."""
        return replace(
            super().traits_over(below),
            relation=TABLE,
            knows_old_values=self.store is not None and self.history_ms is None,
            newest_are_last=True,
            history_ms=self.history_ms,
            keeps_store=True,
        )

    @property
    def subject(self) -> str:
        return self.name or self.child.subject

    @property
    def generated_store(self) -> str:
        return shortened(f"{self.child.subject}-table")

    def text(self) -> str:
        return "to table" + history_text(self.history_ms) + (f", store {self.store}" if self.store else "")

    def lower(self, building: Building) -> Step:
        """The step that keeps the records."""
        return materialized(self, building.changes(self), building)

    def changes(self, building: Building) -> Step:
        """The records of the stream, before they are kept."""
        rows = building.lower(self.child)
        if not rows.key:
            raise TopologyError(
                "to_table() keeps the newest record per key, and the stream has none; expected select_key(…) before", self.at
            )
        rows = replace(rows, table=True, has_row_times=False, became_table=building.declarations[self])
        return with_unified_key(rows, building.name(self), building)


def check_history(history_ms: int | None, table: Node) -> None:
    """TopologyError if a table is to keep a history that has no length."""
    if history_ms == 0:
        raise TopologyError(
            f"the history of the table {table.subject!r} is 0 long; expected versioned= with how long former rows count, such as "
            "'1 day', or no versioned=",
            table.at,
        )


def _check_no_jumps(table: Node, building: Building) -> None:
    """TopologyError if a row of a table with history may be ahead of stream time: former rows could then be valid for ever."""
    bounded = [source for source in table.traits.feeding if building.inputs[source].jump_ms is not None]
    if bounded:
        raise TopologyError(
            f"a table with history is made of stream({building.inputs[bounded[0]].topic!r}, max_jump=…), whose records may be ahead of stream "
            "time, and history ends by stream time; expected no max_jump, or no versioned=",
            table.at,
        )


def history_text(history_ms: int | None) -> str:
    """How much history a table keeps, as a part of what it is."""
    return "" if history_ms is None else f", history of {duration_text(history_ms)}"


@dataclass(frozen=True)
class Materialize(Operator):
    """
    Keep the newest row per key of a table in `store`; its rows pass on as `every`, the newest of an epoch as `latest`.

    `has_row_times` says that changes may bring rows of another time than their own.
    """

    kind: ClassVar[str] = "materialize"
    traits: ClassVar[OperatorTraits] = OperatorTraits(
        reads_replaced=False,
        is_view=True,
        stage_min=1,
        is_looked_up=True,
        follows_rows=True,
        passes_rows=True,
        store_fields=("store",),
    )
    store: str
    has_row_times: bool = False

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    @property
    def newest_rows(self) -> str:
        return self.store

    def exchange(self, place: int, rows: Step) -> Exchange:
        return Exchange(rows.partition_by, keep_null_keys=False)

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        """All columns: what a store holds must not depend on who reads it today."""
        return frozenset(rows.names)

    def text(self) -> str:
        return f"materialize: store {self.store}"

    def faults(self, program: Program) -> list[str]:
        return store_faults(self, program)


def materialized(table: Node, rows: Step, building: Building, variant: str = "") -> Step:
    """The step that keeps a table's rows in its store; `variant` tells apart what is kept beside it, such as copies with wider keys."""
    name, naming = building.store_name(table) + variant, building.naming(table)
    step_id = f"{building.name(table)}{variant}:materialize"
    window, bounds, has_row_times = table.traits.window, bounds_of(rows), rows.has_row_times
    if window is not None and bounds:
        building.add_store(windowed_store(name, rows, window, table.traits.reads_windows), naming)
        windowed = WindowedTable(step_id, UNSTAGED, (rows.id,), name, bounds, _settlings(table, building), has_row_times)
        return building.add(replace(rows, operator=windowed, at=table.at))
    values = [column for column in rows.schema.names if column not in rows.key]
    building.add_store(ProgramStore(name, 0, UNSTAGED, rows.schema.select(rows.key), rows.schema.select(values)), naming)
    operator: Operator = Materialize(step_id, UNSTAGED, (rows.id,), name, has_row_times)
    if (history_ms := table.traits.history_ms) is not None:
        _check_no_jumps(table, building)
        history = f"{name}-history"
        kept = history_store(history, rows.schema.select(rows.key), rows.schema.select(values), history_ms)
        building.add_store(kept, naming)
        operator = VersionedTable(step_id, UNSTAGED, (rows.id,), name, history, history_ms, building.streams(table))
    return building.add(replace(rows, operator=operator, at=table.at))


def _settlings(table: Node, building: Building) -> tuple[Settling, ...]:
    """When the windows of a table, and of those that it is joined with, are settled."""
    tables = sorted({table, *building.demands[table].partners}, key=building.name)
    return settled_together(one.settlings(building) for one in tables)


def kept_table(table: Node, rows: Step, types: tuple[str, ...], building: Building) -> Step:
    """The step that keeps a table for a join: in its own store, or in another if the join's key types are wider."""
    wanted = "-".join(types)
    cast = add_widened(rows, dict(zip(rows.key, types, strict=True)), f"{building.name(table)}:widen-{wanted}", building)
    return materialized(table, cast, building, table.kept_variant + ("" if cast is rows else f"-{wanted}"))


def store_faults(operator: Operator, program: Program) -> list[str]:
    """What is wrong with the stores that an operator keeps."""
    stages = [[store.stage for store in program.stores if store.name == name] for name in operator.stores]
    is_sound = operator.stage > 0 and all(found == [operator.stage] for found in stages)
    return [] if is_sound else [f"{operator.id} has no store {operator.stores[0]!r} in its stage"]
