"""Records without their duplicates: of those that are the same in some columns, within a time, the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.errors import TopologyError
from streamkit.plan.building import Building
from streamkit.plan.duration import duration_text
from streamkit.plan.keys import check_key_types
from streamkit.plan.node import Node
from streamkit.plan.operator import Exchange, Key, Names, Operator, listed
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.operators.materialize import store_faults
from streamkit.plan.operators.repartition import Repartition
from streamkit.plan.program import Program, ProgramStore
from streamkit.plan.stateless import passed
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.windows import Windowing
from streamkit.schema import Schema

SEEN = Schema(())  # the time that each value begins with, that of the record which passed, is all


@dataclass(frozen=True, eq=False, repr=False)
class DistinctNode(Node):
    """
    The first of the records of a stream that are the same in `columns` (empty: in all), as long as others are within `within_ms` of it.

    Records may be `grace_ms` later than that.
    """

    kind: ClassVar[str] = "distinct"
    child: Node
    columns: Key
    within_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.within_ms <= 0:
            raise TopologyError("within= is 0; expected a positive length of time, in which records are duplicates", self.at)
        if self.child.traits.depends_on_cut:
            raise TopologyError(
                "which records of emit('latest') there are depends on how the input is cut into epochs; expected emit('every') or "
                "emit('final') before drop_duplicates()",
                self.at,
            )

    @property
    def subject(self) -> str:
        return self.name or self.child.subject

    def text(self) -> str:
        columns = listed(self.columns) if self.columns else "all columns"
        return f"drop duplicates by {columns} within {duration_text(self.within_ms)}, grace {duration_text(self.grace_ms)}"

    def lower(self, building: Building) -> Step:
        rows = building.lower(self.child)
        columns = self._compared(rows)
        stays = bool(rows.partition_by) and set(rows.partition_by) <= set(columns)
        name, by = building.name(self), rows.partition_by if stays else columns
        store = f"{name}-seen"
        size_ms = self.within_ms + 1  # both ends are near enough, so there is one record in each of these at most
        kept_ms = size_ms + 2 * self.within_ms + self.grace_ms
        building.add_store(
            ProgramStore(store, 0, UNSTAGED, rows.schema.select(columns), SEEN, size_ms, kept_ms, "window"), building.naming(self)
        )
        window = Windowing(size_ms, size_ms, self.grace_ms, building.streams(self.child), store, None, self.traits.may_lead)
        found = replace(rows, operator=Distinct(name, UNSTAGED, (rows.id,), columns, window, store, by), at=self.at)
        if stays or not rows.partition_by:
            return building.add(found)
        back = Repartition(f"{name}:back", UNSTAGED, (name,), rows.partition_by, keep_null_keys=True)
        building.add(replace(found, partition_by=by))
        return building.add(replace(found, operator=back))

    def _compared(self, rows: Step) -> Key:
        """The columns that are compared, in the order of the rows'."""
        missing = [name for name in self.columns if name not in rows.schema]
        if missing:
            raise TopologyError(
                f"drop_duplicates() was given {missing[0]!r}, which is no column; there are {listed(rows.schema.names)}", self.at
            )
        columns = tuple(name for name in rows.schema.names if not self.columns or name in self.columns)
        check_key_types(columns, rows.schema, self.at)
        return columns


@dataclass(frozen=True)
class Distinct(Operator):
    """
    Pass a row unless one that passed is the same in `columns`, and near in time: at most a millisecond less than the size of `window`.

    `store` has the times of rows that passed, by the window that they are in. Rows come by the columns `by`.
    """

    kind: ClassVar[str] = "distinct"
    traits: ClassVar[OperatorTraits] = OperatorTraits(stage_min=1)
    columns: Key
    window: Windowing
    store: str
    by: Key

    @property
    def within_ms(self) -> int:
        """How far apart duplicates are at most."""
        return self.window.size_ms - 1

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    @property
    def dated_stores(self) -> tuple[str, ...]:
        return () if self.window.may_lead else self.stores

    @property
    def windowing(self) -> Windowing:
        return self.window

    @property
    def declared_times(self) -> Mapping[str, str]:
        return {"the time within which it drops duplicates": duration_text(self.within_ms)}

    def exchange(self, place: int, rows: Step) -> Exchange:
        """By the key, if it is compared; rows without one then come together by all columns that are."""
        return Exchange(self.by, keep_null_keys=True, null_keys_by=() if self.by == self.columns else self.columns)

    def partitioning(self, inputs: Sequence[Key | None]) -> Key:
        return self.by

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return needed | frozenset(self.columns)

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        return passed(step, rows)

    def text(self) -> str:
        return f"distinct: by {listed(self.columns)} within {duration_text(self.within_ms)}, store {self.store}"

    def faults(self, program: Program) -> list[str]:
        return store_faults(self, program)
