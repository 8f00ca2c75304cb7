"""A stream with the row that a kept table has for its key, as of the record's place in the order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from streamkit.errors import TopologyError
from streamkit.plan.building import Building
from streamkit.plan.joining import (
    ColumnSources,
    common_key_types,
    join_columns,
    joined_names,
    joined_schema,
    narrowed_join,
    read_of,
    sources_text,
)
from streamkit.plan.operator import Exchange, Key, Names, Operator, listed
from streamkit.plan.operator_traits import OF_FIRST_INPUT, OperatorTraits
from streamkit.plan.operators.materialize import kept_table
from streamkit.plan.operators.project import add_widened
from streamkit.plan.operators.windowed_table import bounds_of
from streamkit.plan.origin import Origin, joined_origin
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.windows import Settling, Windowing, closing_for
from streamkit.schema import Schema

if TYPE_CHECKING:
    from streamkit.plan.operators.join import Join


@dataclass(frozen=True)
class TableJoin(Operator):
    """
    Join a stream (first input) with a materialized table (second input) as of the stream record's place in the order.

    `on` are the stream's columns, in the order of the table's key columns; `columns` is what the result holds. Of `on`, `bounds` are the
    start and the end of windows, which choose no partition. Windows are found until they are `settled`, by the stream's time.
    """

    kind: ClassVar[str] = "table_join"
    traits: ClassVar[OperatorTraits] = OperatorTraits(stage_min=1, first_gives_rows=True, looks_up=(1,), headers=OF_FIRST_INPUT)
    how: str  # inner or left
    on: Key
    columns: ColumnSources
    bounds: Key = ()
    settled: Settling | None = None

    @property
    def closing(self) -> Windowing | None:
        """Nothing is due; but which windows a row finds may depend on what other inputs have closed."""
        return None if self.settled is None else closing_for(self.settled.window, ())

    def exchange(self, place: int, rows: Step) -> Exchange | None:
        return Exchange(partition_key(self.on, self.bounds), self.how == "left") if place == 0 else None

    def partitioning(self, inputs: Sequence[Key | None]) -> Key:
        return partition_key(self.on, self.bounds)

    def rekeys(self, before: Key, after: Key) -> bool:
        return before != after

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return read_of("left", self.columns, needed) | frozenset(self.on) if place == 0 else frozenset(rows.names)

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        return narrowed_join(step, self.columns, needed)

    def origin(self, above: Sequence[Origin], name: str) -> Origin:
        return joined_origin(f"{self.how} join on {listed(map(above[0].of, self.on))} with", self.columns, above)

    def text(self) -> str:
        until = "" if self.settled is None else f", windows until {self.settled.text()}"
        return f"table join: {self.how}, on {listed(self.on)}{until}, gives {sources_text(self.columns)}"


def table_join(node: Join, left: Step, building: Building) -> Step:
    """The steps of a join with a kept table."""
    left, kept, on, columns = kept_sides(node, left, building)
    bounds, settled = bounds_on(on, kept), next(iter(node.settlings(building)), None)
    operator = TableJoin(building.name(node), UNSTAGED, (left.id, kept.id), node.how, on, columns, bounds, settled)
    schema = joined_schema(columns, left.schema, kept.schema, ("right",) if node.how == "left" else (), node.at)
    return building.add(Step(operator, schema, on, partition_key(on, bounds), False, node.at))


def kept_sides(node: Join, left: Step, building: Building) -> tuple[Step, Step, Key, ColumnSources]:
    """
    Both sides widened to common types of the key, the table kept in its store.

    With them the stream's columns that are compared, in the order of the table's key, and the columns of the result.
    """
    right = building.changes(node.right)
    _check_windows(node, left, right)
    on = join_columns(node, left.schema, left.key, right.key)
    types = common_key_types(node, left.schema, on, right.schema, right.key)
    left = add_widened(left, dict(zip(on, types, strict=True)), f"{building.name(node)}:widen-stream", building)
    kept = kept_table(node.right, right, types, building)
    return left, kept, on, joined_names(node, left.schema, kept.schema, kept.key)


def bounds_on(on: Key, table: Step) -> Key:
    """Of the stream's columns that are compared with a table's key, those that hold the bounds of windows."""
    return tuple(name for name, other in zip(on, table.key, strict=True) if other in bounds_of(table))


def partition_key(on: Key, bounds: Key) -> Key:
    """The columns by which the rows of a join are partitioned: windows choose no partition."""
    return tuple(name for name in on if name not in bounds)


def _check_windows(node: Join, left: Step, table: Step) -> None:
    """TopologyError if a table's windows are not named: each of them has a row of its own."""
    bounds = bounds_of(table)
    if node.on is None:
        is_named, found = not bounds or len(left.key) >= len(table.key), f"the stream's key {list(left.key)} does not hold"
    else:
        is_named, found = {right for _, right in node.on}.issuperset(bounds), "on= does not name"
    if not is_named:
        raise TopologyError(
            f"the table's keys have windows, and {found} their bounds {', '.join(bounds)}; expected on= with all columns of the table's key "
            f"{list(table.key)}, and such columns in the stream: results of windows have them",
            node.at,
        )
