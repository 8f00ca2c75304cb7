"""A table that keeps history: the newest row of each key, and which rows it had before, for a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from streamkit.names import DELETED, TIMESTAMP
from streamkit.plan.duration import duration_text
from streamkit.plan.operator import Exchange, FormerRows, Names, Operator
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.program import Program, ProgramStore
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.windows import Windowing
from streamkit.schema import Schema, SchemaColumn

BUCKETS = 4  # of the time that history covers: what is written with each change is a part of a key's history
ACCEPTED = "every"  # the port of all changes; the main one leaves out those that are older than the row of their key


@dataclass(frozen=True)
class VersionedTable(Operator):
    """
    Keep the newest row per key, by event time, in `store`, and in `history` the rows before it that were valid since `history_ms`.

    Changes that came in order pass on; `every` has those out of order, too. `streams` are the inputs that move its stream time.
    """

    kind: ClassVar[str] = "versioned_table"
    traits: ClassVar[OperatorTraits] = OperatorTraits(
        is_view=True, stage_min=1, is_looked_up=True, follows_rows=True, passes_rows=True, store_fields=("store", "history")
    )
    store: str
    history: str
    history_ms: int
    streams: tuple[int, ...]

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store, self.history)

    @property
    def newest_rows(self) -> str:
        return self.store

    def history_of(self, store: str) -> FormerRows | None:
        return FormerRows(self.history, self.history_ms) if store == self.store else None

    @property
    def forgets_after_ms(self) -> int:
        """How far stream time is past a moment that the history goes back to no more; a change of that time is late then."""
        return self.history_ms + 1

    @property
    def windowing(self) -> Windowing:
        return Windowing(0, 1, self.history_ms, self.streams, self.history)

    @property
    def closing(self) -> Windowing:
        """Nothing is due; but joins look rows up as of a stream time, which these reports tell."""
        return Windowing(0, 1, 0, self.streams, self.history)

    def exchange(self, place: int, rows: Step) -> Exchange:
        return Exchange(rows.partition_by, keep_null_keys=False)

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        """All columns: what a store holds must not depend on who reads it today."""
        return frozenset(rows.names)

    def text(self) -> str:
        inputs = ", ".join(map(str, self.streams))
        return f"versioned table: store {self.store}, history of {duration_text(self.history_ms)}, stream time of input {inputs}"

    def faults(self, program: Program) -> list[str]:
        kept = {store.name for store in program.stores if store.stage == self.stage > 0}
        return [f"{self.id} has no store {name!r} in its stage" for name in self.stores if name not in kept]


def history_store(name: str, key: Schema, value: Schema, history_ms: int) -> ProgramStore:
    """The store of former rows: lists by key and by the bucket of time in which each was replaced."""
    bucket_ms = history_ms // BUCKETS + 1
    listed = (SchemaColumn(one.name, f"array<{one.type}>", one.nullable) for one in value)
    columns = (SchemaColumn(TIMESTAMP, "array<bigint>", False), *listed, SchemaColumn(DELETED, "array<boolean>", False))
    return ProgramStore(name, 0, UNSTAGED, key, Schema(columns), bucket_ms, bucket_ms + history_ms, "window")
