"""The columns of a row: chosen, added, renamed, left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.data_type import fields_of
from streamkit.errors import Location, TopologyError
from streamkit.plan.analysis import Analyzer
from streamkit.plan.building import Building
from streamkit.plan.dotted_name import part
from streamkit.plan.expression import Cast, Expression, Reference, TypedExpression
from streamkit.plan.expression_text import named_text, shown_text
from streamkit.plan.keys import NamedColumns, check_columns, check_table_key, make_schema, typed
from streamkit.plan.node import check_distinct
from streamkit.plan.operator import Key, Names, Operator, RowStep, all_names, listed, referenced
from streamkit.plan.operator_traits import EACH_ALONE, OperatorTraits
from streamkit.plan.origin import Origin
from streamkit.plan.stateless import StatelessStep
from streamkit.plan.steps import UNSTAGED, Step, column_of, typed_columns, with_operator
from streamkit.plan.traits import STREAM, Traits
from streamkit.schema import Schema


@dataclass(frozen=True, eq=False, repr=False)
class ProjectNode(StatelessStep):
    """A step that changes the columns of each row; key columns are always kept."""

    @property
    def naming_words(self) -> str:
        """The keywords of its verb are columns."""
        return ".named({!r})"

    def columns_of(self, rows: Step, analyzer: Analyzer) -> NamedColumns:
        """The columns of the result."""
        raise NotImplementedError

    def key_of(self, key: Key) -> Key:
        """The names of the key's columns behind the step."""
        return key

    def check_key(self, columns: NamedColumns, key: Key) -> None:
        """TopologyError if a key column of a table gets other values."""
        check_table_key(self, columns, key)

    def step(self, rows: Step, step_id: str, analyzer: Analyzer) -> Step:
        columns = self.columns_of(rows, analyzer)
        if self.relation != STREAM:
            self.check_key(columns, rows.key)
        schema = make_schema(typed_columns(columns, rows.schema), self.at)
        key = self.key_of(rows.key)
        former_key = tuple(
            name for name, found in columns if found.name == "column" and found.value in rows.key and name not in key
        )
        operator = Project(step_id, UNSTAGED, (rows.id,), columns, key, rows.table, former_key)
        return replace(rows, operator=operator, schema=schema, key=key, partition_by=self.key_of(rows.partition_by), at=self.at)


@dataclass(frozen=True, eq=False, repr=False)
class Select(ProjectNode):
    """These columns, and the key."""

    kind: ClassVar[str] = "select"
    columns: tuple[tuple[str, Expression], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_distinct((name for name, expression in self.columns if not _is_star(expression)), "column", self.at)

    def columns_of(self, rows: Step, analyzer: Analyzer) -> NamedColumns:
        chosen = dict(_expanded(self.columns, rows.schema, analyzer, self.at))
        kept = {name: Reference(name) for name in rows.key if name not in chosen}
        return typed({**kept, **chosen}.items(), rows.schema, analyzer, self.at)

    def text(self) -> str:
        return f"select {named_text(self.columns)}"


@dataclass(frozen=True, eq=False, repr=False)
class WithColumns(ProjectNode):
    """The columns so far, with these added or replaced."""

    kind: ClassVar[str] = "with_columns"
    columns: tuple[tuple[str, Expression], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_distinct((name for name, _ in self.columns), "column", self.at)
        if not self.columns:
            raise TopologyError("with_columns() was given no columns; expected name=expression", self.at)

    def columns_of(self, rows: Step, analyzer: Analyzer) -> NamedColumns:
        chosen = {**{name: Reference(name) for name in rows.schema.names}, **dict(self.columns)}
        return typed(chosen.items(), rows.schema, analyzer, self.at)

    def text(self) -> str:
        return f"with columns {named_text(self.columns)}"


@dataclass(frozen=True, eq=False, repr=False)
class SelectKey(ProjectNode):
    """The columns so far, with these added or replaced, which are the stream's key from here on; none make a stream without a key."""

    kind: ClassVar[str] = "select_key"
    columns: tuple[tuple[str, Expression], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_distinct((name for name, _ in self.columns), "key column", self.at)

    def columns_of(self, rows: Step, analyzer: Analyzer) -> NamedColumns:
        chosen = {**{name: Reference(name) for name in rows.schema.names}, **dict(self.columns)}
        return typed(chosen.items(), rows.schema, analyzer, self.at)

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        return replace(super().traits_over(below), has_own_key=bool(self.columns), offsets_order_keys=False)

    def key_of(self, key: Key) -> Key:
        return tuple(name for name, _ in self.columns)

    def text(self) -> str:
        return f"select key {named_text(self.columns)}" if self.columns else "without key"


@dataclass(frozen=True, eq=False, repr=False)
class Rename(ProjectNode):
    """Columns under other names: pairs of (old, new)."""

    kind: ClassVar[str] = "rename"
    names: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_distinct((new for _, new in self.names), "column", self.at)
        if not self.names:
            raise TopologyError("rename() was given no names; expected old=new", self.at)

    def columns_of(self, rows: Step, analyzer: Analyzer) -> NamedColumns:
        names = dict(self.names)
        check_columns(names, rows.schema, self.at)
        return tuple((names.get(name, name), column_of(rows.schema, name)) for name in rows.schema.names)

    def key_of(self, key: Key) -> Key:
        names = dict(self.names)
        return tuple(names.get(name, name) for name in key)

    def check_key(self, columns: NamedColumns, key: Key) -> None:
        """Other names for key columns are no change."""

    def text(self) -> str:
        return "rename " + ", ".join(f"{old} to {new}" for old, new in self.names)


@dataclass(frozen=True, eq=False, repr=False)
class Drop(ProjectNode):
    """The columns so far without these; key columns stay."""

    kind: ClassVar[str] = "drop"
    columns: tuple[str, ...]

    def columns_of(self, rows: Step, analyzer: Analyzer) -> NamedColumns:
        check_columns(self.columns, rows.schema, self.at)
        kept = [name for name in rows.schema.names if name not in self.columns or name in rows.key]
        return tuple((name, column_of(rows.schema, name)) for name in kept)

    def text(self) -> str:
        return f"drop {', '.join(self.columns)}"


@dataclass(frozen=True)
class Project(Operator):
    """
    Replace the row's own columns by these, in this order; a deleted row computes its key columns only.

    `former_key` are columns that were part of the key in front of it, and are values behind it, so that a deleted row has null there.
    """

    kind: ClassVar[str] = "project"
    traits: ClassVar[OperatorTraits] = OperatorTraits(is_view=True, leaves_out=EACH_ALONE)
    columns: tuple[tuple[str, TypedExpression], ...]
    key: Key = ()
    table: bool = False
    former_key: Key = ()

    @property
    def reads_order(self) -> bool:
        return False

    @property
    def row_step(self) -> RowStep | None:
        return RowStep(columns=self.columns) if self.table else None

    @property
    def passes_on(self) -> bool:
        return all(expression.name == "column" for _, expression in self.columns)

    def partitioning(self, inputs: Sequence[Key | None]) -> Key | None:
        """The columns that the rows are partitioned by, under their new names; None if one is dropped or computed."""
        before = inputs[0]
        if before is None:
            return None
        renamed = {str(expression.value): name for name, expression in self.columns if expression.name == "column"}
        return tuple(renamed[name] for name in before) if all(name in renamed for name in before) else None

    def rekeys(self, before: Key, after: Key) -> bool:
        computed = {name: (expression.name, expression.value) for name, expression in self.columns}
        return [computed[name] for name in after] != [("column", name) for name in before]

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return all_names(referenced(expression) for name, expression in self.columns if name in needed)

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        kept = tuple(pair for pair in self.columns if pair[0] in needed)
        return with_operator(step, step.schema.select(name for name, _ in kept), columns=kept)

    def origin(self, above: Sequence[Origin], name: str) -> Origin:
        (rows,) = above
        return rows.but(rows.rows, {column: rows.text(expression) for column, expression in self.columns})

    def text(self) -> str:
        texts = ((name, shown_text(expression)) for name, expression in self.columns)
        columns = listed(name if text == name else f"{name} = {text}" for name, text in texts)
        return f"project{' (table)' if self.table else ''}: {columns}"


def widened(rows: Step, types: dict[str, str], step_id: str, analyzer: Analyzer) -> Step:
    """The rows with columns cast to these types; the same rows if they have them."""
    narrow = {name for name, type_name in types.items() if rows.schema[name].type != type_name}
    if not narrow:
        return rows
    expressions: list[tuple[str, Expression]] = [
        (name, Cast(Reference(name), types[name]) if name in narrow else Reference(name)) for name in rows.schema.names
    ]
    columns = typed(expressions, rows.schema, analyzer, rows.at)
    schema = make_schema(typed_columns(columns, rows.schema), rows.at)
    return replace(rows, operator=Project(step_id, UNSTAGED, (rows.id,), columns, rows.key, rows.table), schema=schema)


def add_widened(rows: Step, types: dict[str, str], step_id: str, building: Building) -> Step:
    """`widened`, the step added to the building if there is one."""
    cast = widened(rows, types, step_id, building.analyzer)
    return rows if cast is rows else building.add(cast)


def _is_star(expression: Expression) -> bool:
    return isinstance(expression, Reference) and expression.name.split(".")[-1] == "*"


def _expanded(
    columns: tuple[tuple[str, Expression], ...], schema: Schema, analyzer: Analyzer, at: Location | None
) -> list[tuple[str, Expression]]:
    """The columns, and in the place of `*` all there are; in that of `struct.*` the struct's fields, whose names must be new."""
    expanded: list[tuple[str, Expression]] = []
    has_fields = False
    for name, expression in columns:
        if expression == Reference("*"):
            expanded += [(each, Reference(each)) for each in schema.names]
        elif isinstance(expression, Reference) and _is_star(expression):
            expanded += _fields(expression.name.removesuffix(".*"), schema, analyzer, at)
            has_fields = True
        else:
            expanded.append((name, expression))
    if has_fields:
        check_distinct((name for name, _ in expanded), "column", at)
    return expanded


def _fields(name: str, schema: Schema, analyzer: Analyzer, at: Location | None) -> list[tuple[str, Expression]]:
    """The fields of a struct, under their own names; TopologyError if it is none."""
    ((_, struct),) = analyzer.project(schema, [(name, Reference(name))], at)
    fields = fields_of(struct.type)
    if fields is None:
        raise TopologyError(f"{name}.* stands for the fields of a struct; {name} is {struct.type}", at)
    return [(field, Reference(f"{name}.{part(field)}")) for field, _ in fields]
