"""A table whose updates are held back for a time, so that each key gives fewer of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, TypeAlias

from streamkit.errors import TopologyError
from streamkit.names import DELETED, ROW_TIME, SINCE
from streamkit.plan.building import Building
from streamkit.plan.demands import WITH_OLD_VALUES, Demands, emission
from streamkit.plan.duration import duration_text
from streamkit.plan.location import by_language
from streamkit.plan.node import CYLINDER, NEWER, Node, shortened
from streamkit.plan.operator import Exchange, Key, Names, Operator
from streamkit.plan.operator_traits import DROPPED, OperatorTraits
from streamkit.plan.operators.emit import port_step
from streamkit.plan.operators.materialize import store_faults
from streamkit.plan.operators.net_change import net_changes
from streamkit.plan.operators.old_values import with_old_values
from streamkit.plan.operators.windowed_table import bounds_of
from streamkit.plan.program import Program, ProgramStore
from streamkit.plan.stateless import knows_what_is_dropped, mode_of_changes
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.traits import TABLE, Traits
from streamkit.plan.windows import Settling, Windowing
from streamkit.schema import Schema, SchemaColumn

FULL_MODES = ("emit", "stop")


@dataclass(frozen=True)
class TimeLimit:
    """Until stream time is `limit_ms` past the first update that was held back."""

    limit_ms: int

    def __str__(self) -> str:
        return f"until {duration_text(self.limit_ms)} after the first update"


@dataclass(frozen=True)
class WindowCloses:
    """Until the window of a row closes: windows of a topic by their bounds, those of an aggregation as it knows them to be closed."""

    def __str__(self) -> str:
        return "until its window closes"


Until: TypeAlias = TimeLimit | WindowCloses


@dataclass(frozen=True, eq=False, repr=False)
class SuppressNode(Node):
    """
    A table: the rows of another, the updates of each key held back for `limit_ms` of stream time from the first of them.

    If it waits `until_closed`, the limit counts from the end of the key's window, and deletions are dropped. `rows_max` bounds how many
    rows each key group holds back (None: no bound), and `when_full` says what happens beyond that.
    """

    kind: ClassVar[str] = "suppress"
    shape: ClassVar[str] = CYLINDER
    kept_variant: ClassVar[str] = "-emitted"
    child: Node
    limit_ms: int
    rows_max: int | None = None
    when_full: str = "emit"
    until_closed: bool = field(default=False, metadata=NEWER)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.when_full not in FULL_MODES:
            raise TopologyError(f"found when_full={self.when_full!r}; expected one of {', '.join(FULL_MODES)}", self.at)
        if self.rows_max is not None and self.rows_max < 0:
            raise TopologyError(f"found max_rows={self.rows_max}; expected 0 or more rows for each key group", self.at)

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        """
        A table that knows old values: what was given last can be kept.

        Updates stand behind stream time by as long as they were held back, final results by what their windows waited.
        """
        table, rows = below[0], super().traits_over(below)
        finals = (table.window,) if self.until_closed and table.window is not None else ()
        delay = rows.delay.longer(0 if finals else self.limit_ms, *finals)
        return replace(
            rows,
            relation=TABLE,
            delay=delay,
            knows_old_values=True,
            newest_are_last=True,
            window=table.window,
            reads_windows=table.reads_windows,
            keeps_store=True,
        )

    def demands_below(self, above: Demands) -> Iterable[tuple[Node, Demands]]:
        yield from super().demands_below(above)
        yield self.child, emission(mode_of_changes(self.child), old_values=True, is_looked_up=True)

    @cached_property
    def subject(self) -> str:
        return self.name or shortened(f"{self.child.subject}-{'final' if self.until_closed else 'suppressed'}")

    def settlings(self, building: Building) -> tuple[Settling, ...]:
        """The last change of a window is held back, too."""
        before = self.child.settlings(building)
        window = self._windowing(building)
        return (*before, *(Settling(window, one.wait_ms + self.limit_ms) for one in before))

    def _windowing(self, building: Building) -> Windowing:
        return Windowing(self.limit_ms, 1, 0, building.streams(self.child), building.store_name(self))

    def text(self) -> str:
        bound = "" if self.rows_max is None else f", at most {self.rows_max:,} rows a key group, then {self.when_full}"
        return f"suppress {WindowCloses() if self.until_closed else TimeLimit(self.limit_ms)}{bound}"

    def short_text(self) -> str:
        return f"table {self.subject}"

    def _changes(self, building: Building) -> Step:
        """Every change of the table; no deletion of what was not there, though nobody else needs to know that."""
        is_known = WITH_OLD_VALUES in building.demands[self.child.traits.maker].modes
        if is_known or not knows_what_is_dropped(self.child, building):
            return building.changes(self.child)
        name = f"{building.name(self)}:net-changes"
        return net_changes(with_old_values(self.child, building), name, "every", True, (), self.at, building)

    def lower(self, building: Building) -> Step:
        rows, store = self._changes(building), building.store_name(self)
        self._check_names(rows.schema)
        key = rows.schema.select(rows.key)
        values = [column for column in rows.schema if column.name not in rows.key]
        row_time = (SchemaColumn(ROW_TIME, "bigint"),) if rows.has_row_times else ()
        held = Schema((SchemaColumn(SINCE, "bigint", False), SchemaColumn(DELETED, "boolean", False), *values, *row_time))
        index = f"{store}-since"
        building.add_store(ProgramStore(store, 0, UNSTAGED, key, held), building.naming(self))
        building.add_store(ProgramStore(index, 0, UNSTAGED, key, Schema(()), layout="since"), building.naming(self))
        window = self._windowing(building)
        operator = Suppress(
            building.name(self), UNSTAGED, (rows.id,), store, index, window, self.rows_max, self.when_full == "stop"
        )
        if self.until_closed:
            assert self.traits.window is not None, "only windows close"
            operator = replace(operator, bounds=bounds_of(rows), span_ms=self.traits.window.shown_size_ms or 0)
        return building.add(replace(rows, operator=operator, table=True, at=self.at))

    def _check_names(self, schema: Schema) -> None:
        """TopologyError if a column is called like the one which says since when a row is held back."""
        for name in schema.names:
            if name.lower() == SINCE:
                raise TopologyError(
                    f"suppress() cannot hold back rows with the column {name!r}, because its store has one of that name; expected "
                    f"another name, as in {by_language(self.at, f'select(since=F.col({name!r}))', f'{name} AS since')}",
                    self.at,
                )

    def changes(self, building: Building) -> Step:
        held = building.lower(self)
        return port_step(held, "every", f"{held.id}:changes", building)


@dataclass(frozen=True)
class Suppress(Operator):
    """
    Hold back the updates of a table, each key's from the first on for the size of `window`; then give the newest as `every`.

    With `bounds`, the columns of a window's start and end, they are held back from the end on, and deletions are not given; a row's
    own time is at most `span_ms` before the end. `store` has the rows that are held back by key, `index` by the moment since which they
    are. `rows_max` bounds them for each key group; beyond that the oldest are given early, or the application stops if it `stops`.
    """

    kind: ClassVar[str] = "suppress"
    traits: ClassVar[OperatorTraits] = OperatorTraits(stage_min=1, holds_back=True, headers=DROPPED)
    store: str
    index: str
    window: Windowing
    rows_max: int | None = None
    stops: bool = False
    bounds: Key = ()
    span_ms: int = 0

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store, self.index)

    @property
    def longest_wait_ms(self) -> int:
        return self.window.size_ms + self.span_ms

    @property
    def waits_ms(self) -> tuple[int, ...]:
        return (self.window.size_ms,)

    @property
    def waits_for_more(self) -> bool:
        return not self.bounds

    @property
    def waits_for_windows(self) -> bool:
        return bool(self.bounds)

    @property
    def holds_max(self) -> int | None:
        return None if self.stops else self.rows_max

    @property
    def stored_waits_ms(self) -> Mapping[str, int]:
        return {self.index: self.window.size_ms}

    @property
    def windowing(self) -> Windowing:
        return self.window

    @property
    def declared_times(self) -> Mapping[str, str]:
        since = "the end of a window" if self.bounds else "the first update"
        return {f"how long it holds rows back from {since} on": duration_text(self.window.size_ms)}

    @property
    def closing(self) -> Windowing:
        return self.window

    def exchange(self, place: int, rows: Step) -> Exchange:
        return Exchange(rows.partition_by, keep_null_keys=False)

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        """All columns: what a store holds must not depend on who reads it today."""
        return frozenset(rows.names)

    def text(self) -> str:
        bound = (
            ""
            if self.rows_max is None
            else f", at most {self.rows_max} rows a key group, then {'stop' if self.stops else 'emit'}"
        )
        since = "the end of the window" if self.bounds else "the first update"
        return f"suppress: {duration_text(self.window.size_ms)} from {since}, store {self.store}{bound}"

    def faults(self, program: Program) -> list[str]:
        return store_faults(self, program)
