"""Two tables by their keys: a change of either side is joined with the other side's row."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from streamkit.errors import TopologyError
from streamkit.names import check_name
from streamkit.plan.building import Building
from streamkit.plan.demands import Demands, emission
from streamkit.plan.joining import (
    PRESERVED_SIDES,
    SIDES,
    ColumnSources,
    common_key_types,
    joined_names,
    joined_schema,
    narrowed_join,
    sources_text,
)
from streamkit.plan.node import CYLINDER, Node, shortened, words
from streamkit.plan.operator import Key, Names, Operator, listed
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.operators.changes_by_key import by_key
from streamkit.plan.operators.emit import port_step
from streamkit.plan.operators.foreign_key_join import joined_by_foreign_key
from streamkit.plan.operators.materialize import kept_table, materialized
from streamkit.plan.operators.windowed_table import bounds_of
from streamkit.plan.origin import Origin, joined_origin
from streamkit.plan.stateless import deletes_nothing, knows_what_is_dropped, mode_of_changes
from streamkit.plan.steps import UNSTAGED, Step, with_operator
from streamkit.plan.traits import TABLE, Traits
from streamkit.plan.windows import Settling, WindowKind, settled_together
from streamkit.schema import Schema

TABLE_JOIN_KINDS = ("inner", "left", "outer")
OPTIONAL_SIDES = {"inner": (), "left": ("right",), "outer": ("left", "right")}


@dataclass(frozen=True, eq=False, repr=False)
class TableTableJoin(Node):
    """
    A table: the rows of two tables that have the same key, side by side.

    `on` are pairs of (left column, right key column), None for the keys as they are. If the left columns are not the left key, they
    are a foreign key (see `streamkit.plan.operators.foreign_key_join`). `store` makes the result queryable.
    """

    kind: ClassVar[str] = "table_table_join"
    shape: ClassVar[str] = CYLINDER
    left: Node
    right: Node
    how: str = "inner"
    on: tuple[tuple[str, str], ...] | None = None
    suffix: str | None = None
    store: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.store is not None:
            check_name(self.store, "store", self.at)
        if self.how not in TABLE_JOIN_KINDS:
            raise TopologyError(
                f"two tables cannot be joined how={self.how!r}; expected one of {', '.join(TABLE_JOIN_KINDS)}", self.at
            )
        if self.left.relation != TABLE or self.right.relation != TABLE:
            raise TopologyError(
                f"a join of a {words(self.left.relation)} with a {words(self.right.relation)} is not supported; expected two tables: "
                "a stream joins a table or a global table by stream.join(table)",
                self.at,
            )

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        """With `on`, which may be a foreign key, a join without a store does not know old values: its results are not kept anywhere."""
        left, right = below
        return replace(
            super().traits_over(below),
            relation=TABLE,
            knows_old_values=self.store is not None or self.on is None,
            newest_are_last=True,
            window=left.window,
            reads_windows=left.reads_windows or right.reads_windows,
            joined_tables=(self.left, self.right),
            keeps_store=self.store is not None,
        )

    def demands_below(self, above: Demands) -> Iterable[tuple[Node, Demands]]:
        """Old values must be known of sides whose rows are kept without a row of the other side, and of both if those of the join must be."""
        yield from super().demands_below(above)
        for side, table in zip(SIDES, self.traits.joined_tables, strict=True):
            demands = emission(mode_of_changes(table), partners=frozenset(self.traits.joined_tables), is_looked_up=True)
            yield table, demands | Demands(old_values=above.old_values or side in PRESERVED_SIDES[self.how])

    @cached_property
    def subject(self) -> str:
        return self.store or self.name or shortened(f"{self.left.subject}-join-{self.right.subject}")

    @property
    def naming_words(self) -> str:
        """With store= its result is kept, which is another store than those that it needs."""
        return "name={!r}" if self.store is None else "store={!r}"

    def text(self) -> str:
        on = ", ".join(left if left == right else f"{left} = {right}" for left, right in self.on) if self.on else "key"
        return f"{self.how} join {self.right.short_text()} on {on}" + (f" → store {self.store}" if self.store else "")

    def keys_tell_old_values(self, building: Building) -> bool:
        return not self._is_by_foreign_key(building.changes(self.left))

    def settlings(self, building: Building) -> tuple[Settling, ...]:
        """A change of either side changes the window."""
        return settled_together(table.settlings(building) for table in self.traits.joined_tables)

    def short_text(self) -> str:
        return f"table {self.subject}"

    def lower(self, building: Building) -> Step:
        """The join, its result kept if its store has a name."""
        if self.store is not None:
            return materialized(self, building.changes(self), building)
        left, right = self._sides(building)
        if self._is_by_foreign_key(left):
            return by_key(joined_by_foreign_key(self, left, right, building), f"{building.name(self)}:by-key", building)
        return self._joined(left, right, building)

    def changes(self, building: Building) -> Step:
        left, right = self._sides(building)
        if self._is_by_foreign_key(left):
            return joined_by_foreign_key(self, left, right, building)
        joined = self._joined(left, right, building)
        return port_step(joined, "every", f"{joined.id}:changes", building)

    def _is_by_foreign_key(self, left: Step) -> bool:
        return self.on is not None and {name for name, _ in self.on} not in (set(left.key), set(left.partition_by))

    def _sides(self, building: Building) -> tuple[Step, Step]:
        """The changes of both tables, which are joined by their whole keys, with windows or without, or by a foreign key without windows."""
        left, right = building.changes(self.left), building.changes(self.right)
        if self._is_by_foreign_key(left):
            if bounds_of(left) or bounds_of(right):
                raise TopologyError(
                    "a join by a foreign key needs tables whose keys have no windows; expected on= to name the key columns of both tables, "
                    "or tables without windows",
                    self.at,
                )
            return left, right
        self._check_windows(left, right)
        _check_keys(self, self._pairs(left, right), left, right)
        return left, right

    def _check_windows(self, left: Step, right: Step) -> None:
        """TopologyError unless both tables have windows of one kind and length, or none."""
        windows = (self.left.traits.window, self.right.traits.window)
        is_alike = bool(bounds_of(left)) == bool(bounds_of(right)) and (
            None in windows or _identity(windows[0]) == _identity(windows[1])
        )
        if not is_alike:
            found = " and ".join(_window_text(*side) for side in zip((left, right), windows, strict=True))
            raise TopologyError(
                f"tables are joined by their keys and windows, and these have other windows: found {found}; expected windows of the same "
                "kind and length on both sides, or none",
                self.at,
            )

    def _pairs(self, left: Step, right: Step) -> tuple[tuple[str, str], ...]:
        """The columns of both keys that are compared; the windows are, whether on= names them or not."""
        if self.on is None:
            return tuple(zip(left.key, right.key, strict=False))
        named = {name for name, _ in self.on}
        windows = zip(bounds_of(left), bounds_of(right), strict=False)
        return (*self.on, *(pair for pair in windows if pair[0] not in named))

    def _skips(self, building: Building, known: Container[Node] = ()) -> tuple[str, ...]:
        """The sides of which filters drop rows, where old values are known (of tables from `known`, too), and the filters do not say so."""
        return tuple(
            side
            for side, table in zip(SIDES, self.traits.joined_tables, strict=True)
            if deletes_nothing(table, building) and (table.traits.maker in known or knows_what_is_dropped(table, building))
        )

    def _skip_more(self, building: Building) -> None:
        """Skip what filters of both sides drop, if a join by a foreign key needs to know old values of this one."""
        if self in building.old_values_of:
            step = building.steps[building.name(self)]
            building.steps[step.id] = with_operator(step, skips=self._skips(building, building.old_values_of))

    def _joined(self, left: Step, right: Step, building: Building) -> Step:
        pairs = dict(self._pairs(left, right))
        right_on = tuple(pairs[name] for name in left.key)
        types = common_key_types(self, left.schema, left.key, right.schema, right_on, ("left table", "right table"))
        kept_left = kept_table(self.left, left, types, building)
        in_order = dict(zip(right_on, types, strict=True))
        kept_right = kept_table(self.right, right, tuple(in_order[name] for name in right.key), building)
        columns = joined_names(self, kept_left.schema, kept_right.schema, right.key, "right table")
        # without a store a row is made again of the rows that are left, with the greatest of their times, as in Kafka Streams
        may_lose_partner = self.how != "inner" or left.has_row_times or right.has_row_times
        operator = TableTableJoinRows(
            building.name(self), UNSTAGED, (kept_left.id, kept_right.id), self.how, left.key, right_on, columns,
            bounds_of(left), self._skips(building),
            self.store is None and may_lose_partner,
        )  # fmt: skip
        schema = joined_schema(columns, kept_left.schema, kept_right.schema, OPTIONAL_SIDES[self.how], self.at, left.key)
        building.when_all_stand.append(lambda: self._skip_more(building))
        return building.add(
            Step(operator, schema, left.key, left.partition_by, True, self.at, has_row_times=operator.has_row_times)
        )


@dataclass(frozen=True)
class TableTableJoinRows(Operator):
    """
    Join the changes of two materialized tables, each with the other's row as of its own place in the order.

    `left_key` and `right_key` are the key columns of either side, in the same order; `columns` is what the result holds.
    `bounds` are the windows' columns in the left key.
    Of the sides in `skips` a deletion of what was not there is no change. If it `has_row_times`, a change says which time its row has
    that is not its own.
    """

    kind: ClassVar[str] = "table_table_join"
    traits: ClassVar[OperatorTraits] = OperatorTraits(is_view=True, stage_min=1, looks_up=(0, 1))
    how: str  # inner, left or outer
    left_key: Key
    right_key: Key
    columns: ColumnSources
    bounds: Key = ()
    skips: tuple[str, ...] = ()
    has_row_times: bool = False

    def partitioning(self, inputs: Sequence[Key | None]) -> Key:
        return tuple(name for name in self.left_key if name not in self.bounds)

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return frozenset(rows.names)

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        return narrowed_join(step, self.columns, needed | frozenset(self.left_key))

    def origin(self, above: Sequence[Origin], name: str) -> Origin:
        pairs = zip(map(above[0].of, self.left_key), map(above[1].of, self.right_key), strict=True)
        return joined_origin(
            f"{self.how} join on {listed(f'{left} = {right}' for left, right in pairs)} with", self.columns, above
        )

    def text(self) -> str:
        on = listed(left if left == right else f"{left} = {right}" for left, right in zip(self.left_key, self.right_key))
        return f"table table join: {self.how}, on {on}, gives {sources_text(self.columns)}"


def _check_keys(node: TableTableJoin, pairs: ColumnSources, left: Step, right: Step) -> None:
    """TopologyError unless the whole key of one table is joined with the whole key of the other."""
    is_whole = {a for a, _ in pairs} == set(left.key) and {b for _, b in pairs} == set(right.key)
    if (
        len(left.key) != len(right.key)
        or not is_whole
        or {dict(pairs)[name] for name in left.partition_by} != set(right.partition_by)
    ):
        raise TopologyError(
            f"tables are joined by their whole keys, here {list(left.key)} and {list(right.key)}; found on={dict(node.on or ())}; "
            "expected on= to name all columns of either key, or, by a foreign key, {column of this table: key column of the other}",
            node.at,
        )


def _identity(window: WindowKind | None) -> Hashable:
    """What windows have in common that can be equal; None where there are no windows."""
    return None if window is None else window.identity


def _window_text(side: Step, window: WindowKind | None) -> str:
    return str(window) if window is not None else f"the key {', '.join(side.key)}" if bounds_of(side) else "no windows"
