"""Two tables by their keys: a change of either side is joined with the other side's row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from streamkit.errors import TopologyError
from streamkit.names import check_name
from streamkit.plan.building import Building
from streamkit.plan.joining import (
    Sources,
    common_key_types,
    joined_names,
    joined_schema,
    kept_columns,
    sources_text,
)
from streamkit.plan.node import CYLINDER, TABLE, Node, shortened, words
from streamkit.plan.operator import Key, Names, Operator, listed
from streamkit.plan.operators.changes_by_key import by_key
from streamkit.plan.operators.emit import port_step
from streamkit.plan.operators.foreign_key_join import joined_by_foreign_key
from streamkit.plan.operators.materialize import kept_table, materialized
from streamkit.plan.stateless import mode_of_changes
from streamkit.plan.steps import UNSTAGED, Step, with_operator
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
            check_name(self.store, "store")
        if self.how not in TABLE_JOIN_KINDS:
            raise TopologyError(
                f"two tables cannot be joined how={self.how!r}; expected one of {', '.join(TABLE_JOIN_KINDS)}", self.at
            )
        if self.left.relation != TABLE or self.right.relation != TABLE:
            raise TopologyError(
                f"a join of a {words(self.left.relation)} with a {words(self.right.relation)} is not supported; "
                "expected two tables: join a stream with a global table instead",
                self.at,
            )

    @property
    def relation(self) -> str:
        return TABLE

    @cached_property
    def subject(self) -> str:
        return self.store or self.name or shortened(f"{self.left.subject}-join-{self.right.subject}")

    @cached_property
    def join_depth(self) -> int:
        return 1 + max(self.left.join_depth, self.right.join_depth)

    @property
    def tables(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @property
    def asked(self) -> tuple[tuple[Node, str], ...]:
        return tuple((table, mode_of_changes(table)) for table in self.tables)

    def text(self) -> str:
        on = ", ".join(left if left == right else f"{left} = {right}" for left, right in self.on) if self.on else "key"
        return f"{self.how} join {self.right.short_text()} on {on}" + (f" → store {self.store}" if self.store else "")

    @property
    def keeps_store(self) -> bool:
        return self.store is not None

    @property
    def knows_old_values(self) -> bool:
        """False with `on`, which may be a foreign key: that of a join without a store, whose results are not kept anywhere."""
        return self.store is not None or self.on is None

    def tells_old_values(self, building: Building) -> bool:
        return self.knows_old_values or not self._is_by_foreign_key(building.changes(self.left).key)

    def short_text(self) -> str:
        return f"table {self.subject}"

    def lower(self, building: Building) -> Step:
        """The join, its result kept if its store has a name."""
        if self.store is not None:
            return materialized(self, building.changes(self), building)
        left, right = self._sides(building)
        if self._is_by_foreign_key(left.key):
            return by_key(joined_by_foreign_key(self, left, right, building), f"{building.name(self)}:by-key", building)
        return self._joined(left, right, building)

    def changes(self, building: Building) -> Step:
        left, right = self._sides(building)
        if self._is_by_foreign_key(left.key):
            return joined_by_foreign_key(self, left, right, building)
        joined = self._joined(left, right, building)
        return port_step(joined, "every", f"{joined.id}:changes", building)

    def _is_by_foreign_key(self, left_key: Key) -> bool:
        return self.on is not None and {name for name, _ in self.on} != set(left_key)

    def _sides(self, building: Building) -> tuple[Step, Step]:
        """The changes of both tables, whose keys have no windows and are joined whole."""
        left, right = building.changes(self.left), building.changes(self.right)
        for side in (left, right):
            if side.key != side.partition_by:
                raise TopologyError(
                    "a join of tables with windows is not supported yet; expected tables whose keys have no windows", self.at
                )
        if not self._is_by_foreign_key(left.key):
            _check_keys(self, left.key, right.key)
        return left, right

    def _joined(self, left: Step, right: Step, building: Building) -> Step:
        pairs = dict(self.on) if self.on is not None else dict(zip(left.key, right.key, strict=True))
        right_on = tuple(pairs[name] for name in left.key)
        types = common_key_types(self, left.schema, left.key, right.schema, right_on, ("left table", "right table"))
        kept_left = kept_table(self.left, left, types, building)
        in_order = dict(zip(right_on, types, strict=True))
        kept_right = kept_table(self.right, right, tuple(in_order[name] for name in right.key), building)
        columns = joined_names(self, kept_left.schema, kept_right.schema, right.key, "right table")
        operator = TableTableJoinRows(
            building.name(self), UNSTAGED, (kept_left.id, kept_right.id), self.how, left.key, right_on, columns,
            self.right.join_depth > self.left.join_depth,
        )  # fmt: skip
        schema = joined_schema(columns, kept_left.schema, kept_right.schema, OPTIONAL_SIDES[self.how], self.at, left.key)
        return building.add(Step(operator, schema, left.key, left.key, True, self.at))


@dataclass(frozen=True)
class TableTableJoinRows(Operator):
    """
    Join the changes of two materialized tables, each with the other's row as of its own place in the order.

    `left_key` and `right_key` are the key columns of either side, in the same order; `columns` is what the result holds.
    `right_first` says which side's results come first where one record changes both.
    """

    kind: ClassVar[str] = "table_table_join"
    stage_min: ClassVar[int] = 1
    how: str  # inner, left or outer
    left_key: Key
    right_key: Key
    columns: Sources
    right_first: bool = False

    def looks_up(self, place: int) -> bool:
        return True

    def partitioning(self, inputs: Sequence[Key | None]) -> Key:
        return self.left_key

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return frozenset(rows.names)

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        kept = kept_columns(self.columns, needed | frozenset(self.left_key))
        return with_operator(step, step.schema.select(name for name, _ in kept), columns=kept)

    def text(self) -> str:
        on = listed(left if left == right else f"{left} = {right}" for left, right in zip(self.left_key, self.right_key))
        return f"table table join: {self.how}, on {on}, gives {sources_text(self.columns)}"


def _check_keys(node: TableTableJoin, left: Key, right: Key) -> None:
    """TopologyError unless the whole key of one table is joined with the whole key of the other."""
    on = node.on if node.on is not None else tuple(zip(left, right, strict=False))
    if len(left) != len(right) or {a for a, _ in on} != set(left) or {b for _, b in on} != set(right):
        raise TopologyError(
            f"tables are joined by their whole keys, here {list(left)} and {list(right)}; found on={dict(node.on or ())}; "
            "expected on= to name all columns of either key, or, by a foreign key, {column of this table: key column of the other}",
            node.at,
        )
