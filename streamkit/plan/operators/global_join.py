"""A stream with the row that a global table has for its columns, without moving the stream's records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

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
from streamkit.plan.operator import Key, Names, Operator, listed
from streamkit.plan.operators.decode import decode_step
from streamkit.plan.operators.project import add_widened, widened
from streamkit.plan.operators.source import SourceNode, source_step
from streamkit.plan.origin import Origin, joined_origin
from streamkit.plan.stateless import steps_above_maker
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.schema import Schema

if TYPE_CHECKING:
    from streamkit.plan.operators.join import Join


@dataclass(frozen=True)
class GlobalJoin(Operator):
    """
    Join a stream with a global table read whole; `on` and `columns` as in `TableJoin`, the table is input `table_input`.

    `table` are the steps between the topic and the join, applied when the table is read; `table_key` is its key behind them.
    """

    kind: ClassVar[str] = "global_join"
    how: str
    on: Key
    table_input: int
    columns: ColumnSources
    table: tuple[Operator, ...] = ()
    table_key: Key = ()

    @property
    def input_read_whole(self) -> int:
        return self.table_input

    @property
    def steps_of_whole(self) -> tuple[Operator, ...]:
        return self.table

    def origin(self, above: Sequence[Origin], name: str) -> Origin:
        return joined_origin(f"{self.how} join on {listed(map(above[0].of, self.on))} with all of", self.columns, above)

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return read_of("left", self.columns, needed) | frozenset(self.on)

    def partitioning(self, inputs: Sequence[Key | None]) -> Key | None:
        """As the stream is, if the result has those columns under their own names."""
        before, sources = inputs[0], dict(self.columns)
        return before if before is not None and all(sources.get(name) == f"left.{name}" for name in before) else None

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        return narrowed_join(step, self.columns, needed)

    def text(self) -> str:
        steps = "".join(f"; table {step.text()}" for step in self.table)
        gives = sources_text(self.columns)
        return f"global join: {self.how}, input {self.table_input}, on {listed(self.on)}, gives {gives}{steps}"


def global_join(node: Join, left: Step, building: Building) -> Step:
    """The step of a join with a global table, which holds the steps above the table's topic."""
    maker = node.right.traits.maker
    assert isinstance(maker, SourceNode)
    right = source_step(maker, building)
    table: list[Operator] = []
    if maker.decoding is not None:
        right = decode_step(maker.decoding, building.inputs[maker], right, maker.at)
        table.append(right.operator)
    for step in steps_above_maker(node.right):
        right = step.step(right, building.name(step), building.analyzer)
        table.append(right.operator)
    on = join_columns(node, left.schema, left.key, right.key)
    types = common_key_types(node, left.schema, on, right.schema, right.key)
    left = add_widened(left, dict(zip(on, types, strict=True)), f"{building.name(node)}:widen-stream", building)
    cast = widened(right, dict(zip(right.key, types, strict=True)), f"{building.name(node)}:widen-table", building.analyzer)
    table += [cast.operator] if cast is not right else []
    columns = joined_names(node, left.schema, cast.schema, cast.key)
    number = building.input_number(maker)
    operator = GlobalJoin(building.name(node), UNSTAGED, (left.id,), node.how, on, number, columns, tuple(table), cast.key)
    schema = joined_schema(columns, left.schema, cast.schema, ("right",) if node.how == "left" else (), node.at)
    return building.add(replace(left, operator=operator, schema=schema, at=node.at))
