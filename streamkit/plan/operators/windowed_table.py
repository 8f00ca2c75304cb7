"""A table that is kept and whose keys have windows: the newest row of each key and window, until the windows are settled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from streamkit.plan.operator import Exchange, Key, Names, Operator
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.program import Program, ProgramStore
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.windows import Settling, Windowing, WindowKind
from streamkit.schema import Schema


@dataclass(frozen=True)
class WindowedTable(Operator):
    """
    Keep the newest row per key and window in `store`; the rows pass on as `every`, the newest of an epoch as `latest`.

    `bounds` are the columns with the start and the end of a window. A window is deleted once all `settlings` say that nobody changes it
    any more, neither in this table nor in one that is joined with it; without any it stays. `has_row_times` is that of `Materialize`.
    """

    kind: ClassVar[str] = "windowed_table"
    traits: ClassVar[OperatorTraits] = OperatorTraits(
        is_view=True, stage_min=1, is_looked_up=True, follows_rows=True, passes_rows=True, store_fields=("store",)
    )
    store: str
    bounds: Key
    settlings: tuple[Settling, ...] = ()
    has_row_times: bool = False

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    @property
    def newest_rows(self) -> str:
        return self.store

    @property
    def expires_by(self) -> tuple[Windowing, ...]:
        return tuple(one.window for one in self.settlings)

    @property
    def window_columns(self) -> tuple[str, ...]:
        return self.bounds

    def exchange(self, place: int, rows: Step) -> Exchange:
        return Exchange(rows.partition_by, keep_null_keys=False)

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        """All columns: what a store holds must not depend on who reads it today."""
        return frozenset(rows.names)

    def text(self) -> str:
        waits = [one.text() for one in self.settlings]
        return f"windowed table: store {self.store}, kept {' and '.join(waits) or 'for good'}"

    def faults(self, program: Program) -> list[str]:
        stages = [store.stage for store in program.stores if store.name == self.store]
        return [] if stages == [self.stage] and self.stage > 0 else [f"{self.id} has no store {self.store!r} in its stage"]


def bounds_of(rows: Step) -> Key:
    """The part of the key that chooses no partition: the start and the end of a window; empty if the key has none."""
    return tuple(name for name in rows.key if name not in rows.partition_by)


def windowed_store(name: str, rows: Step, window: WindowKind, is_read: bool = False) -> ProgramStore:
    """The store of a table with these windows; those that are read from a topic (`is_read`) may have any length."""
    values = [column for column in rows.schema.names if column not in rows.key]
    has_both = is_read or not window.has_one_length
    layout, size_ms = ("kept_session", None) if has_both else ("window", window.shown_size_ms)
    return ProgramStore(
        name, 0, UNSTAGED, rows.schema.select(rows.partition_by), rows.schema.select(values), size_ms, None, layout
    )
