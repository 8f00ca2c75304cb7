"""A query and its sources become a stream or a table."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from streamkit.dsl.stream import Stream
from streamkit.dsl.table import GlobalTable, Table
from streamkit.errors import TopologyError
from streamkit.expressions.core.column import Column
from streamkit.names import OFFSET, PARTITION, spellings
from streamkit.plan.dotted_name import part, parts_of
from streamkit.plan.expression import Alias, Call, Expression, Reference
from streamkit.plan.expression_text import expression_text
from streamkit.plan.location import written_at
from streamkit.sql.lowering.exploding import ChosenItem, Exploding
from streamkit.sql.lowering.expression_parts import calls, is_aggregate, is_exploding, references
from streamkit.sql.lowering.grouping import Aggregation
from streamkit.sql.lowering.joining import Joining, NamedOutside
from streamkit.sql.lowering.meaning import SPARK, Meaning
from streamkit.sql.lowering.names import QueryNames
from streamkit.sql.lowering.projecting import Projection
from streamkit.sql.lowering.scope import (
    BOUNDS,
    OF_ROWS,
    QuerySource,
    Scope,
    ScopeColumn,
    fresh_name,
    key_first,
    numbered_name,
    of_source,
    with_records,
)
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.tree.query import FieldsStar, FromItem, Query, SelectColumn, SourceName, Star, Subquery
from streamkit.sql.tree.span import TextSpan, Written

FINAL = "final"
OF_RECORDS = (PARTITION, OFFSET)  # which records have, and no rows have as columns


@dataclass(frozen=True)
class LoweredQuery:
    """
    The stream or table of a query; with EMIT FINAL `rows` are the table, and the query gives the final results of it.

    `unnamed_key` are the columns of the key that SELECT leaves out, each by all that names it, `repeated_key` the ones that it has under several
    names. `named` are all others as SELECT names them, in its order, behind a key that a join made up; it is empty for a query that only passes
    another one on.
    """

    source: QuerySource
    is_final: bool = False
    unnamed_key: tuple[tuple[str, ...], ...] = ()
    repeated_key: tuple[str, ...] = ()
    named: tuple[str, ...] = ()

    @property
    def rows(self) -> Stream | Table:
        """The stream or table."""
        assert not isinstance(self.source.rows, GlobalTable)
        return self.source.rows


def lowered(query: Query, sources: Mapping[str, QuerySource], text: ScriptText, meaning: Meaning = SPARK) -> LoweredQuery:
    """
    The stream or table that a query stands for, whose sources are given by their names.

    TopologyError for what is wrong with the query, at the place in its text.
    """
    return QueryLowering(query, sources, text.in_dialect(is_ksql=meaning.names_results), meaning).lowered()


@dataclass(frozen=True)
class QueryLowering:
    """One query on its way to a stream or table."""

    query: Query
    sources: Mapping[str, QuerySource]
    text: ScriptText
    meaning: Meaning

    def lowered(self) -> LoweredQuery:
        """The rows of the query, clause by clause."""
        self._check_clauses()
        scope = self._where(self._from())
        names = self._names(scope)
        scope, names = self._partitioned(names)
        items = self._items(names)
        if (
            self.meaning.names_results
            and isinstance(scope.rows, Stream)
            and any(calls(one.expression, is_exploding) for one in items)
        ):
            with written_at(self.text.at(self.query.span)):
                scope = scope.with_rows(scope.rows.without_deletions())  # which have no values of which rows could be made
        scope, items = Exploding(self.text).exploded(scope, items)
        names = self._names(scope)
        if self._is_aggregated(items):
            scope, items = Aggregation(self.query, names, self.query.span).aggregated(items)
            names = self._names(scope)
        projection = Projection(names)
        items = projection.with_key_of_joins(items) if self.query.partition_by is None else items
        unnamed, repeated = projection.unnamed_key(items), projection.repeated_key(items)
        result = projection.projected(items, self.query.span)
        if isinstance(result.rows, GlobalTable):
            raise self._error(
                "a global table is only looked up; expected a stream or a table in FROM, which joins it", self.query.span
            )
        result = replace(result, windows=scope.windows)
        chosen = tuple(item.name for item in items)
        named = (*(name for name in self._made_up_key(scope, result) if name not in chosen), *chosen)
        return LoweredQuery(result, self.query.emit == FINAL, unnamed, repeated, named)

    def _made_up_key(self, scope: Scope, result: QuerySource) -> tuple[str, ...]:
        """The key that a join of tables made up, which no query of the dialect can name and without which nobody knows whose a row is."""
        is_needed = scope.made_up_key and isinstance(result.rows, Table) and not self.meaning.names_results
        return (result.key or ())[:1] if is_needed else ()

    def _names(self, scope: Scope) -> QueryNames:
        meaning = self.meaning if self._has_ordered_offsets(scope) else self.meaning.by_arrival()
        return QueryNames(scope, self.text, meaning, BOUNDS if self.query.window is not None else ())

    def _has_ordered_offsets(self, scope: Scope) -> bool:
        """
        Whether the records of each group lie in one partition, as far as that is known, so that their offsets say in which order they came.

        Rows of joins and tables have no offsets, so nothing is said of these.
        """
        if not isinstance(scope.rows, Stream) or not scope.rows.node.traits.are_records:
            return True
        source = self.query.source
        if (
            isinstance(source, SourceName)
            and not self.query.joins
            and self._source(source.name.text, source.name.span).partitions == 1
        ):
            return True
        return scope.rows.node.traits.offsets_order_keys and self._has_whole_key(scope)

    def _has_whole_key(self, scope: Scope) -> bool:
        """Whether the records of each group have one key."""
        named = [parts_of(one.expression.name) for one in self.query.group_by or () if isinstance(one.expression, Reference)]
        found = {
            column.column
            for parts in named
            for column in scope.named(parts[-1], parts[0] if len(parts) > 1 else None, keeps_case=self.meaning.names_results)
        }
        return bool(scope.key) and found.issuperset(scope.key or ())

    def _error(self, message: str, span: TextSpan) -> TopologyError:
        return self.text.error(message, span)

    def _check_clauses(self) -> None:
        """TopologyError for clauses that a query in a topology cannot have."""
        query = self.query
        span = query.span
        pulled = {
            "LIMIT": query.limit is not None,
            "ORDER BY": bool(query.order_by),
            "DISTINCT": query.is_distinct,
            "AS OF": query.as_of is not None,
        }
        for clause, has_it in pulled.items():
            if has_it:
                raise self._error(
                    f"{clause} belongs to a query that is run once, as in `streamkit sql`; expected no {clause} in one that goes on as records come",
                    query.order_by[0].written.span if clause == "ORDER BY" else query.as_of.span if query.as_of else span,
                )
        if self.meaning.names_results and query.window is not None:
            self._check_bounds()
        if query.window is not None and query.group_by is None:
            raise self._error("WINDOW divides groups, and there is no GROUP BY; expected both", query.window.span)
        if query.emit == FINAL and query.window is None:
            raise self._error(
                "EMIT FINAL gives results of windows when they close, and the query has no WINDOW; expected EMIT CHANGES", span
            )
        if query.group_by is not None and query.partition_by is not None:
            raise self._error(
                "GROUP BY makes the key of the result; expected it without PARTITION BY",
                query.partition_by[0].span if query.partition_by else span,
            )

    def _check_bounds(self) -> None:
        """TopologyError for the bounds of windows that the query makes outside of SELECT, where ksqlDB does not have them."""
        conditions = [one for one in (self.query.where, self.query.having) if one is not None]
        for written in (*conditions, *(self.query.group_by or ())):
            for found in references(written.expression):
                if self.meaning.bound(parts_of(found.name)[-1]) is not None:
                    raise TopologyError(
                        f"{found.name} is there once windows are made, and is expected in SELECT alone",
                        self.text.at_part(found, written.span),
                    )

    def _from(self) -> Scope:
        source = self.query.source
        if source is None:
            raise self._error(
                "a query that goes on reads a stream or table; expected FROM. SELECT without FROM is run once, without EMIT, by `streamkit sql`",
                self.query.span,
            )
        if not self.query.joins:
            return self._relation(source)
        sides = [self._prepared(self._relation(item)) for item in (source, *(join.right for join in self.query.joins))]
        self._check_names(sides)
        scope, *others = sides
        for number, (clause, right) in enumerate(zip(self.query.joins, others, strict=True)):
            scope = Joining(clause, self.text, self.meaning, self._outside(number, sides)).joined(scope, right)
        return scope

    def _relation(self, item: FromItem) -> Scope:
        match item:
            case SourceName(name, alias):
                source, own = self._source(name.text, name.span), alias.text if alias else name.text
                scope = with_records(source, own, self._named_of_records(own))
                return self._key_first(scope, name.span) if self.meaning.names_results else scope
            case Subquery(query, alias):
                inner = QueryLowering(query, self.sources, self.text, self.meaning).lowered()
                return of_source(final_table(inner, self.text, query.span).source, alias.text if alias else "")
        raise TypeError(f"nothing to read from: {item!r}")

    def _key_first(self, scope: Scope, span: TextSpan) -> Scope:
        """A source whose key comes first among its columns, as ksqlDB has it, wherever the declaration has it."""
        columns = key_first(scope.columns or (), scope.key or ())
        if columns == (scope.columns or ()) or isinstance(scope.rows, GlobalTable):
            return scope
        with written_at(self.text.at(span)):
            rows = scope.rows.select(*(Column(Reference(part(one.column))) for one in columns))
        return replace(scope, rows=rows, columns=columns)

    def _named_of_records(self, source: str) -> tuple[str, ...]:
        """What the query names of the records of this source, or of none: ROWTIME, ROWPARTITION and ROWOFFSET."""
        if not self.meaning.names_results:
            return ()
        written = [parts_of(one.name) for written in self._everything() for one in references(written.expression)]
        named = {parts[-1] for parts in written if len(parts) == 1 or parts[0] == source}
        return tuple(one for one in OF_ROWS if one in named)

    def _source(self, name: str, span: TextSpan) -> QuerySource:
        near = spellings(name, self.sources, keeps_case=self.meaning.names_results)
        found = self.sources[near[0]] if near else None
        if found is None:
            raise TopologyError(f"there is no stream or table {name!r}; {_there_are(name, self.sources)}", self.text.at(span))
        return found

    def _check_names(self, sides: list[Scope]) -> None:
        seen: set[str] = set()
        for side in sides:
            (name,) = side.sources
            if self.meaning.folded(name) in seen or not name:
                raise self._error(
                    f"two sources of the join are called {name!r}; expected other names, as in FROM {name or '(…)'} AS a"
                    if name
                    else "a query in FROM has no name, and the join needs one; expected a name behind it",
                    self.query.span,
                )
            seen.add(self.meaning.folded(name))

    def _prepared(self, side: Scope) -> Scope:
        """A source of a join: with columns for what its records have beside theirs, and with known columns, which may be those that are used."""
        used = list(self._used(side.sources[0]))
        of_records = [name for name in used if name.lower() in self.meaning.record_columns and name not in side.names]
        if side.columns is None:
            side = self._with_used_columns(side, [name for name in used if name not in of_records])
        if isinstance(side.rows, Stream):
            side = self._with_record_columns(side, of_records)
        return side

    def _with_used_columns(self, side: Scope, used: list[str]) -> Scope:
        (source,) = side.sources
        stars = [item for item in self.query.items if isinstance(item, Star)]
        if stars:
            raise self._error(
                f"the columns of {source} are not known, so * cannot name them; expected schema= where it is declared, or the columns one "
                "by one",
                stars[0].span if stars[0].span.end else self.query.span,
            )
        if not used:
            raise self._error(
                f"the columns of {source} are not known, and the query names none of them; expected schema= where it is declared, or "
                f"columns with the source before them, as in {source}.name",
                self.query.span,
            )
        rows = side.rows.select(*(Column(Reference(part(name))) for name in used))
        columns = tuple(ScopeColumn(source, name, name) for name in used)
        return replace(side, rows=rows, columns=columns, partly_known=(source,))

    def _with_record_columns(self, side: Scope, used: list[str]) -> Scope:
        """The source with copies of what its records have beside their columns, which those of the join have, too."""
        (source,) = side.sources
        for name in used:
            copy = fresh_name(f"{source}{name}", side.names)
            value = QueryNames(side, self.text, self.meaning).resolved_part(Reference(name), self.query.span)
            type = side.type_of(value, None)
            with written_at(self.text.at(self.query.span)):
                rows = side.rows.with_columns(Column(Alias(value, copy)))
            side = replace(side, rows=rows).with_column(ScopeColumn(source, name, copy, type, is_shown=False))
        return side

    def _used(self, source: str) -> Iterator[str]:
        """The columns that the query names with this source before them, each once."""
        found: dict[str, None] = {}
        for written in (*self._everything(), *(join.on for join in self.query.joins)):
            for reference in references(written.expression):
                parts = parts_of(reference.name)
                if len(parts) > 1 and spellings(parts[0], (source,), keeps_case=self.meaning.names_results):
                    found.setdefault(parts[1])
        return iter(found)

    def _everything(self) -> Iterator[Written]:
        """All expressions of the query but the conditions of joins."""
        query = self.query
        for item in query.items:
            if isinstance(item, SelectColumn | FieldsStar):
                yield item.written
        yield from query.group_by or ()
        yield from query.partition_by or ()
        yield from (one for one in (query.where, query.having) if one is not None)

    def _outside(self, join: int, sides: list[Scope]) -> NamedOutside:
        """What is named outside of the condition of one join."""
        others = [one.on for number, one in enumerate(self.query.joins) if number != join]
        named = {one.name for written in (*self._everything(), *others) for one in references(written.expression)}
        of_sources = [parts for parts in map(parts_of, named) if len(parts) == 2]
        bounds = {f"{part(source)}.{bound}" for source, name in of_sources if (bound := self.meaning.bound(name)) is not None}
        folded = self.meaning.folded
        stars = {folded(item.qualifier.text) for item in self.query.items if isinstance(item, Star) and item.qualifier}
        has_all = self.meaning.names_results and any(
            isinstance(item, Star) and item.qualifier is None for item in self.query.items
        )
        whole = {side.sources[0] for side in sides if folded(side.sources[0]) in stars or has_all}
        return NamedOutside(frozenset(named | bounds), frozenset(whole), tuple(self._aliases(sides)))

    def _aliases(self, sides: list[Scope]) -> Iterator[tuple[str, Expression]]:
        """The names that SELECT gives, with their expressions over one side."""
        for item in self.query.items:
            if isinstance(item, SelectColumn) and item.alias is not None:
                for side in sides:
                    try:
                        yield (
                            item.alias.text,
                            QueryNames(side, self.text, self.meaning).resolved_part(item.written.expression, item.written.span),
                        )
                    except TopologyError:
                        continue

    def _where(self, scope: Scope) -> Scope:
        where = self.query.where
        if where is None:
            return scope
        condition = self._names(scope).condition(where, "WHERE")
        for kind, found in (
            ("an aggregate", calls(condition, is_aggregate)),
            ("a function that gives rows", calls(condition, is_exploding)),
        ):
            if found:
                expected = "HAVING behind GROUP BY" if kind == "an aggregate" else "a query in FROM that has it"
                raise TopologyError(
                    f"WHERE has {kind}, {expression_text(found[0])}, and looks at one row at a time; expected {expected}",
                    self.text.at_part(found[0], where.span),
                )
        scope.check_condition(condition, self.text.at(where.span))
        with written_at(self.text.at(where.span)):
            rows = scope.rows.filter(Column(condition))
            if self.meaning.names_results and isinstance(rows, Stream):
                rows = rows.without_deletions()  # which have no values that a condition could be about
            return scope.with_rows(rows)

    def _partitioned(self, names: QueryNames) -> tuple[Scope, QueryNames]:
        by = self.query.partition_by
        scope = names.scope
        if by is None:
            return scope, names
        span = by[0].span if by else self.query.span
        if not isinstance(scope.rows, Stream):
            raise self._error(
                "PARTITION BY gives a stream another key, and this is a table; expected GROUP BY, or a join by a foreign key",
                span,
            )
        if self.meaning.names_results and scope.bounds:
            raise self._error(
                "PARTITION BY would leave out the windows in the keys of this stream; expected it over a stream without windows",
                span,
            )
        return self._keyed(names, scope.rows, by, span)

    def _keyed(self, names: QueryNames, rows: Stream, by: tuple[Written, ...], span: TextSpan) -> tuple[Scope, QueryNames]:
        """The stream under another key."""
        scope, columns = names.scope, list[Column]()
        key: list[str] = []
        of_values: list[Column] = []
        items = self._named_items(names)
        made: dict[Expression, ScopeColumn] = {}
        for written in by:
            expression = names.resolved(written)
            own = names.result_name(written.expression)
            is_column = not isinstance(expression, Reference) or expression.name not in OF_RECORDS
            name = self._key_name(expression, own, items, [*scope.names, *key], is_column=is_column)
            if self.meaning.names_results and (value := self._without_row(expression, scope)) is not None:
                of_values.append(Column(Alias(value, name)))
                columns.append(Column(Reference(part(name))))
            else:
                columns.append(Column(Alias(self._without_key(expression, scope), name)))
            key.append(name)
            if expression != Reference(part(name)):
                type = scope.type_of(expression, self.text.at(written.span))
                made[expression] = ScopeColumn("", name, name, type, is_shown=self.meaning.names_results)
        with written_at(self.text.at(span)):
            if of_values:  # a deletion has no values, also where the expression has one of nulls
                rows = rows.with_columns(*of_values)
            keyed = rows.select_key(*columns) if columns else rows.without_key()
        kept = None if scope.columns is None else (*scope.columns, *made.values())
        if kept is not None and self.meaning.names_results:
            before, kept = kept, _key_first(kept, key, scope.key or ())
            if kept != before:
                with written_at(self.text.at(span)):
                    distinct = dict.fromkeys(one.column for one in kept)  # a join keeps one column for the two that it compares
                    keyed = keyed.select(*(Column(Reference(part(name))) for name in distinct))
        computed = {expression: column.column for expression, column in made.items()}
        scope = replace(
            scope,
            rows=keyed,
            columns=kept,
            key=tuple(key),
            made_up_key=False,
            former_key=scope.made_up_column,
            computed={**scope.computed, **computed},
        )
        return scope, replace(names, scope=scope)

    @staticmethod
    def _without_row(expression: Expression, scope: Scope) -> Expression | None:
        """An expression that names more than the key, which ksqlDB computes of rows alone; None for another one, and for a column as it is."""
        named = {parts_of(one.name)[0] for one in references(expression)}
        if named <= set(scope.key or ()) or (isinstance(expression, Reference) and not named & set(OF_RECORDS)):
            return None
        return Call("coalesce", (expression,)) if isinstance(expression, Reference) else expression

    def _without_key(self, expression: Expression, scope: Scope) -> Expression:
        """An expression of the key alone, which in ksqlDB is null for a record without a key, whatever it makes of nulls."""
        key = [name for name in scope.key or () if name not in scope.bounds]
        if not self.meaning.names_results or isinstance(expression, Reference) or next(references(expression), None) is None:
            return expression
        has_key = reduce(
            lambda one, other: Call("or", (one, other)), (Call("isnotnull", (Reference(part(name)),)) for name in key)
        )
        return Call("when", (has_key, expression))

    def _named_items(self, names: QueryNames) -> tuple[ChosenItem, ...]:
        """The items of SELECT that have names, over the rows before they get their key."""
        has_names = self.meaning.names_results
        columns = tuple(
            item for item in self.query.items if isinstance(item, SelectColumn) and (item.alias is not None or has_names)
        )
        return Projection(names).chosen(columns)

    def _key_name(
        self, expression: Expression, own: str, items: tuple[ChosenItem, ...], taken: list[str], *, is_column: bool = True
    ) -> str:
        """A column keeps its name; what is computed, or no column of its own, has the name that SELECT gives it, or its text."""
        if is_column and isinstance(expression, Reference) and len(parts_of(expression.name)) == 1:
            return parts_of(expression.name)[0]
        own = own or numbered_name("", [*taken, *(item.name for item in items)])
        return fresh_name(next((item.name for item in items if item.expression == expression), own), taken)

    def _items(self, names: QueryNames) -> tuple[ChosenItem, ...]:
        return Projection(names).chosen(self.query.items)

    def _is_aggregated(self, items: tuple[ChosenItem, ...]) -> bool:
        if self.query.group_by is not None:
            return True
        if self.query.having is not None:
            raise self._error("HAVING is a condition on groups, and there is no GROUP BY; expected WHERE", self.query.having.span)
        return any(calls(item.expression, is_aggregate) for item in items)


def final_table(query: LoweredQuery, text: ScriptText, span: TextSpan) -> LoweredQuery:
    """The query whose final results another one reads, as their table; another query is itself."""
    from streamkit.dsl.until import window_closes

    if not query.is_final:
        return query
    assert isinstance(query.rows, Table)
    with written_at(text.at(span)):
        return LoweredQuery(replace(query.source, rows=query.rows.suppress(window_closes())))


def _key_first(columns: Iterable[ScopeColumn], key: Sequence[str], old_key: Sequence[str]) -> tuple[ScopeColumn, ...]:
    """The columns as ksqlDB orders them behind PARTITION BY: the new key, the values, and the old key, which is a value now."""
    every = list(columns)
    new = [one for one in every if one.column in key]
    old = [one for one in every if one.column in old_key and one not in new]
    return (*new, *(one for one in every if one not in new and one not in old), *old)


def _there_are(name: str, sources: Mapping[str, QuerySource]) -> str:
    """The sources that there are, and the nearest."""
    close = difflib.get_close_matches(name.lower(), [one.lower() for one in sources], 1)
    nearest = next((one for one in sources if close and one.lower() == close[0]), None)
    return f"there are {', '.join(sources) or 'none'}" + (f"; did you mean {nearest!r}?" if nearest else "")
