"""Explode: a row for each element of an array, or each entry of a map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.data_type import element_of, entry_of
from streamkit.errors import TopologyError
from streamkit.plan.analysis import Analyzer
from streamkit.plan.explosion import Explosion
from streamkit.plan.expression import Expression, TypedExpression
from streamkit.plan.expression_text import expression_text
from streamkit.plan.keys import make_schema
from streamkit.plan.location import by_language
from streamkit.plan.operator import Names, Operator, listed, referenced
from streamkit.plan.operator_traits import EACH_ALONE, OperatorTraits
from streamkit.plan.origin import Origin
from streamkit.plan.stateless import StatelessStep
from streamkit.plan.steps import UNSTAGED, Step, with_operator
from streamkit.schema import Schema, SchemaColumn

POSITION = "pos"


@dataclass(frozen=True, eq=False, repr=False)
class ExplodeNode(StatelessStep):
    """
    The columns so far, with those of an element: `names`, or else `col` of an array, `key` and `value` of a map.

    `outer` keeps a record without elements, as one row with nulls. `position` adds the index of the element, from 0, in front.
    """

    kind: ClassVar[str] = "flat_map"
    expression: Expression
    names: tuple[str, ...] = ()
    outer: bool = False
    position: bool = False

    def text(self) -> str:
        return f"flat map {expression_text(self.expression)}{' AS ' + listed(self.names) if self.names else ''}"

    def step(self, rows: Step, step_id: str, analyzer: Analyzer) -> Step:
        ((_, value),) = analyzer.project(rows.schema, [("value", self.expression)], self.at)
        types = self.types_of(value)
        names = self.names or self._default_names(len(types))
        if len(names) != len(types):
            raise TopologyError(f"flat_map() makes {len(types)} columns; found names for {len(names)}: {listed(names)}", self.at)
        if replaced := [name for name in names if name in (*rows.key, *rows.partition_by)]:
            raise TopologyError(f"flat_map() would replace the key column {replaced[0]!r}; expected another name", self.at)
        columns = {column.name: column for column in rows.schema}
        columns |= {name: SchemaColumn(name, type, True) for name, type in zip(names, types)}
        operator = Explode(step_id, UNSTAGED, (rows.id,), value, names, self.outer, self.position)
        return replace(rows, operator=operator, schema=make_schema(tuple(columns.values()), self.at), at=self.at)

    def types_of(self, value: TypedExpression) -> list[str]:
        """The types of the columns that an element makes; TopologyError unless it is one of an array or a map."""
        element = element_of(value.type)
        inner = (element,) if element else entry_of(value.type)
        if inner is None or "void" in inner:
            raise TopologyError(
                f"{by_language(self.at, 'flat_map()', 'EXPLODE')} takes an array or a map; {expression_text(self.expression)!r} is {value.type}",
                self.at,
            )
        return [*(["int"] if self.position else []), *inner]

    def _default_names(self, count: int) -> tuple[str, ...]:
        position = (POSITION,) if self.position else ()
        return (*position, *(("col",) if count - len(position) == 1 else ("key", "value")))


@dataclass(frozen=True)
class Explode(Operator):
    """
    Repeat a row for each element of an array or map, with the element in `columns`.

    Rows without elements go, unless `outer`; a tombstone stays one row. `drops` are columns that nothing reads of these rows: to repeat
    a list for each of its elements would take the square of its length.
    """

    kind: ClassVar[str] = "explode"
    traits: ClassVar[OperatorTraits] = OperatorTraits(leaves_out=EACH_ALONE)
    expression: TypedExpression
    columns: tuple[str, ...]
    outer: bool = False
    position: bool = False
    drops: tuple[str, ...] = ()

    @property
    def reads_order(self) -> bool:
        return False

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return needed.difference(self.columns) | referenced(self.expression)

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        assert rows is not None, f"{step.id} has no input"
        drops = tuple(name for name in rows.names if name not in needed or name in self.columns)
        kept = [name for name in step.schema.names if name in self.columns or (name in rows and name in needed)]
        return with_operator(step, step.schema.select(kept), drops=drops)

    def origin(self, above: Sequence[Origin], name: str) -> Origin:
        (rows,) = above
        kept = {column: text for column, text in rows.columns.items() if column not in self.columns}
        how = f"{'outer, ' if self.outer else ''}{'with positions, ' if self.position else ''}"
        return rows.but(f"{rows.rows} for each of {how}{rows.text(self.expression)}", kept)

    @property
    def explosion(self) -> Explosion:
        """What is computed of each batch."""
        return Explosion(self.expression, self.columns, self.outer, self.position, self.drops)

    def text(self) -> str:
        return self.explosion.text()
