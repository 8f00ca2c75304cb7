"""The result of FROM and of each join: rows, and the names of their columns in the query."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from streamkit.dsl.stream import Stream
from streamkit.dsl.table import GlobalTable, Table
from streamkit.errors import Location
from streamkit.expressions.aggregates import of_table, state_columns
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.ksql.signature import without_times
from streamkit.names import WINDOW_END, WINDOW_START
from streamkit.plan.building import Building
from streamkit.plan.demands import demands_of_nodes
from streamkit.plan.expression import Expression
from streamkit.plan.inputs import is_declared, resolve_inputs, sources_of
from streamkit.plan.naming import name_steps
from streamkit.plan.node import Node
from streamkit.plan.operator import Key
from streamkit.plan.tree import walk
from streamkit.schema import Schema, SchemaColumn

BOUNDS = (WINDOW_START, WINDOW_END)
ROW_TIMES = "ROWTIME"  # the column of a table with the times of its rows, in milliseconds
OF_ROWS = {ROW_TIMES: "bigint", "ROWPARTITION": "int", "ROWOFFSET": "bigint"}  # what a row of a table knows of its record
AnyRows: TypeAlias = Stream | Table | GlobalTable


@dataclass(frozen=True)
class QuerySource:
    """
    A stream or table that a query may name, with its columns and its key; both None if they are not known.

    The type of a column is None if that alone is not known. `with_records` gives a table with more columns, those of `OF_ROWS` that are
    named; None where it cannot.
    `windows` are those in the keys of a join, as formats of keys say them; None of other rows, which say them on their own.
    `of_key` are columns beside the key that are computed of it alone, so that those of a deletion are known.
    `partitions` are those of its topic, None if they are not known.
    """

    rows: AnyRows
    columns: tuple[tuple[str, str | None], ...] | None = None
    key: Key | None = None
    with_records: Callable[[Sequence[str]], Table] | None = field(default=None, compare=False, repr=False)
    windows: str | None = None
    of_key: tuple[tuple[str, Expression], ...] = ()
    partitions: int | None = None


@dataclass(frozen=True)
class ScopeColumn:
    """
    A column as a query speaks of it, by a source and a name there; `column` is its name in the rows.

    One that is not shown was made for a join: `*` does not give it, and only a name with its source finds it, if it has one.
    `copied` is the column of a join of which it is one side's, null where that side has no row. `is_bound`: it is the start or the end of the
    window in the key, which another column may be called as.
    """

    source: str
    name: str
    column: str
    type: str | None = None
    is_shown: bool = True
    copied: str = ""
    is_bound: bool = False


@dataclass(frozen=True)
class Scope:
    """
    AnyRows, the sources that they come of, and their columns; None if the only source does not say them.

    `computed` has the columns that a clause has computed already, by the expressions that they are. `joined` has, by the name of columns
    that a join compares under one name, the column of both and the sources that have it.
    `partly_known` are sources of a join that do not say their columns, so that those alone are known which the query names with them.
    `made_up_key` says that a full join made the key, which is no source's own column, and `former_key` is that column where PARTITION BY has
    put another key in its place. `windows` are those of a source. `grouped` are the columns
    of groups and what the query has written for each.
    """

    rows: AnyRows
    sources: tuple[str, ...]
    columns: tuple[ScopeColumn, ...] | None
    key: Key | None
    joined: Mapping[str, tuple[str, frozenset[str]]] = field(default_factory=dict)
    made_up_key: bool = False
    partly_known: tuple[str, ...] = ()
    computed: Mapping[Expression, str] = field(default_factory=dict)
    windows: str | None = None
    grouped: Mapping[str, str] = field(default_factory=dict)
    former_key: str = ""

    @property
    def made_up_column(self) -> str:
        """The column of the key that a join made, also beside another key; empty if none did."""
        return self.key[0] if self.made_up_key and self.key else self.former_key

    @property
    def shown(self) -> tuple[ScopeColumn, ...]:
        """The columns that `*` gives, or that a name finds; none if they are not known."""
        return tuple(column for column in self.columns or () if column.is_shown)

    @cached_property
    def _by_name(self) -> dict[tuple[str | None, str], list[ScopeColumn]]:
        """The columns by source and name; a shown column also by its name alone. A query may ask for thousands of names."""
        found: dict[tuple[str | None, str], list[ScopeColumn]] = {}
        for column in self.columns or ():
            for source in (column.source, None) if column.is_shown else (column.source,):
                found.setdefault((source, column.name), []).append(column)
        return found

    @cached_property
    def _by_lower_name(self) -> dict[tuple[str | None, str], list[ScopeColumn]]:
        found: dict[tuple[str | None, str], list[ScopeColumn]] = {}
        for column in self.columns or ():
            for source in (column.source, None) if column.is_shown else (column.source,):
                found.setdefault((source, column.name.lower()), []).append(column)
        return found

    def named(self, name: str, source: str | None, *, keeps_case: bool) -> Sequence[ScopeColumn]:
        """
        The columns of a source, or of all those that are shown, of that name, or else those whose names differ in their case alone.

        Where quotes keep the case of a name, that is for names in capitals, which are written without quotes.
        """
        exact = self._by_name.get((source, name), ())
        return exact if exact or (keeps_case and name != name.upper()) else self._by_lower_name.get((source, name.lower()), ())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns in the rows, in order, each once."""
        return tuple(dict.fromkeys(column.column for column in self.columns or ()))

    @cached_property
    def types(self) -> dict[str, str] | None:
        """The types of the columns in the rows; None unless all are known."""
        if self.columns is None:
            return None
        found = {column.column: column.type for column in self.columns}
        known = {name: type for name, type in found.items() if type is not None}
        return known if len(known) == len(found) else None

    @cached_property
    def schema(self) -> Schema | None:
        """The types as a schema; None unless all are known."""
        types = self.types
        return None if not types else Schema(tuple(SchemaColumn(name, without_times(type)) for name, type in types.items()))

    @property
    def bounds(self) -> tuple[str, ...]:
        """The bounds of the windows in the key, by their names in the rows."""
        if self.columns is None:
            return bounds_in(self.key or (), ())
        return tuple(one.column for one in self.columns if one.is_bound)

    @property
    def analyzer(self) -> ExpressionAnalyzer:
        """What types expressions over the rows."""
        analyzer = ExpressionAnalyzer(self.rows.topology.time_zone)
        return analyzer.of_records(self.rows.node.traits.are_records) if isinstance(self.rows, Stream) else analyzer

    def type_of(self, expression: Expression, at: Location | None) -> str | None:
        """The type of an expression over the rows; None if it is not known. TopologyError at the part that is wrong."""
        if (schema := self.schema) is None:
            return None
        ((_, typed),) = self.analyzer.project(schema, [("value", expression)], at)
        return typed.type

    def check_condition(self, condition: Expression, at: Location | None) -> None:
        """TopologyError at the part that is wrong in a condition, if the columns are known."""
        if (schema := self.schema) is not None:
            self.analyzer.predicate(schema, condition, at)

    def with_rows(self, rows: AnyRows) -> Scope:
        """The same columns of other rows."""
        return replace(self, rows=rows)

    def with_column(self, column: ScopeColumn) -> Scope:
        """One more column."""
        return self if self.columns is None else replace(self, columns=(*self.columns, column))


def of_source(source: QuerySource, name: str) -> Scope:
    """The scope of a single source, under the name that the query has for it."""
    if source.columns is None:
        return Scope(source.rows, (name,), None, source.key, windows=source.windows)
    bounds = bounds_in(source.key or (), source.columns)
    columns = tuple(ScopeColumn(name, column, column, type, is_bound=column in bounds) for column, type in source.columns)
    return Scope(source.rows, (name,), columns, source.key, windows=source.windows)


def bounds_in(key: Iterable[str], columns: Iterable[tuple[str, str | None]]) -> tuple[str, ...]:
    """The bounds of windows in a key: two columns that are called so and are times; columns of another type, or beside a key, are none."""
    others = {name for name, type in columns if type not in ("timestamp", None)}
    return BOUNDS if set(BOUNDS) <= set(key) - others else ()


def key_first(columns: Iterable[ScopeColumn], key: Sequence[str]) -> tuple[ScopeColumn, ...]:
    """Columns in their order, but those of the key before all others."""
    return tuple(sorted(columns, key=lambda one: one.column not in key))


def key_in_order(names: Iterable[str], key: Sequence[str]) -> list[str]:
    """Names of columns, those of the key among themselves in the order of the key, which is that of its bytes whatever SELECT has first."""
    every = list(names)
    ordered = iter(sorted((name for name in every if name in key), key=list(key).index))
    return [next(ordered) if name in key else name for name in every]


def with_records(source: QuerySource, name: str, named: Sequence[str]) -> Scope:
    """The scope of a single source; of a table whose query names what its rows know of their records, with these columns."""
    scope = of_source(source, name)
    if source.with_records is None or scope.columns is None or not named:
        return scope
    scope = scope.with_rows(source.with_records(named))
    for each in named:
        scope = scope.with_column(ScopeColumn(name, each, each, OF_ROWS[each], is_shown=False))
    return scope


def source_of(rows: AnyRows) -> QuerySource:
    """A handle with its columns and key, if its sources say them."""
    node = rows.node
    if not node.children and (source := sources_of([node])[0]).decoding is None:
        if source.schema is None:
            return QuerySource(rows)
        return QuerySource(rows, tuple((one.name, one.type) for one in source.schema), source.key or ())
    if not is_declared([node]):
        return QuerySource(rows)
    return _typed(rows, node)


def _typed(rows: AnyRows, node: Node) -> QuerySource:
    """The columns and the key of a handle, as the compiler finds them."""
    every = tuple(walk([node]))
    inputs = resolve_inputs([node], None)
    analyzer = ExpressionAnalyzer(rows.topology.time_zone)
    demands = demands_of_nodes(every)
    building = Building(name_steps(every), inputs, analyzer, state_columns, of_table, demands, rows.topology.on_error)
    step = building.lower(node)
    return QuerySource(rows, tuple((one.name, one.type) for one in step.schema), step.key)


def fresh_name(wanted: str, taken: Iterable[str]) -> str:
    """The name itself, or with a number behind it if it is taken; names differ by more than case."""
    known = {name.lower() for name in taken}
    return next(name for name in _numbered(wanted) if name.lower() not in known)


def numbered_name(field: str, taken: Iterable[str]) -> str:
    """The first free name that ksqlDB gives to the result of a field, whose own number it takes off, or to that of an expression."""
    known, own = set(taken), re.sub(r"_\d+$", "", field)
    names = _numbered(own) if own else (f"KSQL_COL_{number}" for number in itertools.count())
    return next(name for name in names if name not in known)


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}_{number}" for number in itertools.count(1))
