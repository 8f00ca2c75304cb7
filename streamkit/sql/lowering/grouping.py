"""GROUP BY, WINDOW, HAVING, and the aggregates in SELECT."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from streamkit.dsl.grouped import Grouped
from streamkit.dsl.grouped_table import GroupedTable
from streamkit.dsl.stream import Stream
from streamkit.dsl.table import Table
from streamkit.errors import Location, TopologyError
from streamkit.expressions.core.column import Column
from streamkit.expressions.ksql.times_of_day import AS_TIME
from streamkit.plan.dotted_name import part, parts_of
from streamkit.plan.expression import Alias, Call, Expression, Literal, Reference
from streamkit.plan.expression_text import GROUP_VALUES, expression_name, expression_text
from streamkit.plan.location import written_at
from streamkit.plan.window_kinds.hopping import TimeWindow
from streamkit.plan.window_kinds.session import SessionWindow
from streamkit.plan.windows import WindowKind
from streamkit.sql.ksql.expressions import WITHIN_AGGREGATE
from streamkit.sql.lowering.exploding import ChosenItem
from streamkit.sql.lowering.expression_parts import below, calls, inside_of_column, is_aggregate, rewritten
from streamkit.sql.lowering.meaning import DAY_MS
from streamkit.sql.lowering.names import QueryNames, listing
from streamkit.sql.lowering.scope import BOUNDS, Scope, ScopeColumn, fresh_name, numbered_name
from streamkit.sql.tree.query import Query, WindowClause
from streamkit.sql.tree.span import TextSpan, Written


@dataclass(frozen=True)
class GroupColumn:
    """
    An expression by which rows are grouped, and the name of its column in the result.

    `type` is that of the expression where the column keeps values of another one, `written` what the query has for it.
    """

    expression: Expression
    name: str
    type: str | None = None
    written: str = ""

    @property
    def over(self) -> Expression:
        """The expression over the column of the group."""
        column = _column(self.name)
        return column if self.type is None else Call(AS_TIME, (column, Literal(self.type)))


@dataclass(frozen=True)
class GroupedItems:
    """What a query groups by, its aggregates by the names of their columns, and its items and its HAVING over the columns of the groups."""

    group: tuple[GroupColumn, ...]
    aggregates: tuple[tuple[str, Call], ...]
    items: tuple[ChosenItem, ...]
    having: Expression | None
    columns: tuple[ScopeColumn, ...]
    key: tuple[str, ...]


@dataclass(frozen=True)
class Aggregation:
    """
    The aggregates of a query, each once, by groups and windows.

    Of a query that `is_once`, aggregates without GROUP BY are those of one group of all rows.
    """

    query: Query
    names: QueryNames
    span: TextSpan
    is_once: bool = False

    def aggregated(self, items: Sequence[ChosenItem]) -> tuple[Scope, tuple[ChosenItem, ...]]:
        """The table of the groups, and the items over its columns, which a SELECT then chooses."""
        found = self.grouped(items)
        table = self._table(self.names.scope, found.group, found.aggregates)
        if found.having is not None and self.query.having is not None:
            at = self.names.text.at(self.query.having.span)
            Scope(table, (), found.columns, found.key).check_condition(found.having, at)
            with written_at(at):
                table = table.filter(Column(found.having))
        written = {one.name: one.written for one in found.group if one.written}
        return Scope(table, (), found.columns, found.key, grouped=written), found.items

    def grouped(self, items: Sequence[ChosenItem]) -> GroupedItems:
        """What the query groups by and aggregates, and its condition and items over the columns of the groups."""
        group = self._group(items)
        having = None if self.query.having is None else self.with_results(self.query.having, items)
        aggregates = self._aggregates(items, having, group)
        columns: dict[Expression, Expression] = {one.expression: _column(one.name) for one in group}
        columns = {**{inside_of_column(one.expression): one.over for one in group}, **columns}
        columns |= {call: _column(name) for name, call in aggregates}
        chosen = tuple(replace(item, expression=self._over(item.expression, columns, item.span)) for item in items)
        if having is not None and self.query.having is not None:
            asked = {part: over for part, over in columns.items() if not isinstance(part, Literal)}  # a constant is itself
            having = self._over(having, asked, self.query.having.span)
            having = self.names.text.places.replaced(self.names.meaning.condition(having), having)
        kept = {item.expression: item.type for item in items}  # the types of what a column keeps as values of another one
        described = self._columns(group, aggregates, kept)
        keys = tuple(replace(one, expression=self._key(one.expression)) for one in group)
        return GroupedItems(keys, aggregates, chosen, having, *described)

    def _key(self, expression: Expression) -> Expression:
        return self.names.text.places.replaced(self.names.meaning.group_key(expression), expression)

    def _group(self, items: Sequence[ChosenItem]) -> tuple[GroupColumn, ...]:
        if not self.query.group_by and self.is_once:
            return ()
        if not self.query.group_by:
            found = next(calls(item.expression, is_aggregate)[0] for item in items if calls(item.expression, is_aggregate))
            in_select = ", with 'all' AS name in SELECT" if self.names.meaning.names_results else ""
            raise self.names.text.error(
                f"{expression_text(found)} is an aggregate, and there is no GROUP BY; expected GROUP BY and columns, or GROUP BY 'all' for one "
                f"group of all rows{in_select}",
                self.span,
            )
        group: dict[Expression, GroupColumn] = {}
        for written in self.query.group_by:
            expression, name, type = self._grouped_by(written, items)
            if inner := calls(expression, is_aggregate):
                raise self.names.text.error(
                    f"GROUP BY has the aggregate {expression_text(inner[0])}; expected columns and expressions of them",
                    written.span,
                )
            taken = [one.name for one in group.values()]
            if expression not in group:
                text = self.names.text.text[written.span.start : written.span.end]
                group[expression] = GroupColumn(expression, self._group_name(expression, name, items, taken), type, text)
        return tuple(group.values())

    def _grouped_by(self, written: Written, items: Sequence[ChosenItem]) -> tuple[Expression, str, str | None]:
        """The expression of an item of GROUP BY, its name and type; it may be a column, the name of a result, or the number of one."""
        expression = written.expression
        number = expression.value if isinstance(expression, Literal) else None
        if type(number) is int and not self.names.meaning.names_results:  # where it is the constant that it is
            return self._numbered(number, items, written.span)
        if isinstance(expression, Reference) and len(parts_of(expression.name)) == 1:
            folded = self.names.meaning.folded
            named = [item for item in items if folded(item.name) == folded(parts_of(expression.name)[0])]
            self.names.text.places.put_written(written)
            is_known = self.names.scope.columns is not None or not named
            if named and (not is_known or self.names.found(expression, written.span) is None):
                return named[0].expression, named[0].name, named[0].type
        return self.names.resolved(written), self.names.result_name(expression), self.names.kept_type(written)

    def _numbered(self, number: int, items: Sequence[ChosenItem], span: TextSpan) -> tuple[Expression, str, str | None]:
        if not 1 <= number <= len(items):
            raise self.names.text.error(
                f"GROUP BY {number} is the number of a result, and SELECT has {len(items)}; expected 1 to {len(items)}", span
            )
        found = items[number - 1]
        return found.expression, found.name, found.type

    def _group_name(self, expression: Expression, own: str, items: Sequence[ChosenItem], taken: Iterable[str]) -> str:
        """The name that SELECT gives the expression; another one where that would hide a column of the rows."""
        own = own or numbered_name("", [*self.names.scope.names, *taken, *(item.name for item in items)])
        wanted = next((item.name for item in items if item.expression == expression), own)
        if expression == _column(wanted):
            return wanted
        return fresh_name(wanted, [*self.names.scope.names, *taken])

    def with_results(self, written: Written, items: Sequence[ChosenItem]) -> Expression:
        """The condition over the rows, in which names of results stand for what they are, but for those inside of aggregates."""
        folded = self.names.meaning.folded
        named = {folded(item.name): item.written for item in items if item.written and not isinstance(item.expression, Reference)}

        def change(one: Expression) -> Expression | None:
            if self.names.meaning.is_aggregate(one):
                return one
            found = named.get(folded(parts_of(one.name)[0])) if isinstance(one, Reference) else None
            return None if found is None or len(parts_of(one.name)) > 1 else found  # type: ignore[attr-defined]

        self.names.text.places.put_written(written)
        return self.names.resolved_part(rewritten(written.expression, change, self.names.text.places), written.span)

    def _aggregates(
        self, items: Sequence[ChosenItem], having: Expression | None, group: Sequence[GroupColumn]
    ) -> tuple[tuple[str, Call], ...]:
        """Each aggregate once, under the name of the result that it is, else under its text."""
        found: dict[Call, str] = {}
        taken = [one.name for one in group]
        for item in items:
            if is_aggregate(item.expression) and item.expression not in found:
                assert isinstance(item.expression, Call)
                found[item.expression] = fresh_name(item.name, [*taken, *found.values()])
        inner = [call for item in items for call in calls(item.expression, is_aggregate)]
        inner += [] if having is None else calls(having, is_aggregate)
        names = [item.name for item in items]
        for call in inner:
            if call not in found:
                # A function in Python is shown with the values, as it was written: rep(n) is rep of the column n.
                named = inside_of_column(call.arguments[0]) if call.function == GROUP_VALUES else call
                found[call] = fresh_name(expression_name(named), [*taken, *found.values(), *names])
        for call in found:
            if any(calls(argument, is_aggregate) for argument in call.arguments):
                raise self.names.text.error(
                    f"{expression_text(call)} {WITHIN_AGGREGATE}",
                    TextSpan(*self.names.text.places.get(id(call), (self.span.start, self.span.end))),
                )
        if not found:
            found[Call("count", (Literal(1),))] = fresh_name("count", [*taken, *names])
        return tuple((name, call) for call, name in found.items())

    def _table(self, scope: Scope, group: Sequence[GroupColumn], aggregates: Sequence[tuple[str, Call]]) -> Table:
        by = [Column(Alias(one.expression, one.name)) for one in group]
        folds = [Column(Alias(call, name)) for name, call in aggregates]
        clause = self.query.group_by[0].span if self.query.group_by else self.span
        if not isinstance(scope.rows, Stream | Table):
            raise self.names.text.error("a global table cannot be grouped; expected a stream or a table", clause)
        with written_at(self.names.text.at(clause)):
            rows = self._without_null_groups(scope.rows, group)
            grouped: Grouped | GroupedTable = rows.group_by(*by)
        if self.query.window is not None:
            grouped = self._windowed(grouped, self.query.window)
        with written_at(self.names.text.at(self.span)):
            return grouped.agg(*folds)

    def _without_null_groups(self, rows: Stream | Table, group: Sequence[GroupColumn]) -> Stream | Table:
        """The rows without rows in which a part of the group is null, as in ksqlDB; a group drops rows in which all parts are null anyway."""
        if not self.names.meaning.names_results or len(group) < 2:
            return rows
        conditions = [Call("isnotnull", (one.expression,)) for one in group]
        condition: Expression = conditions[0]
        for other in conditions[1:]:
            condition = Call("and", (condition, other))
        return rows.filter(Column(condition))

    def _windowed(self, grouped: Grouped | GroupedTable, clause: WindowClause) -> Grouped:
        if not isinstance(grouped, Grouped):
            raise self.names.text.error(
                "WINDOW puts the records of a stream into windows, and this is a table; expected a stream, or no WINDOW",
                clause.span,
            )
        with written_at(self.names.text.at(clause.span)):
            return grouped.windowed_by(self._window(clause))

    def _window(self, clause: WindowClause) -> WindowKind:
        size_ms = clause.size_ms
        is_final = self.query.emit == "final"
        grace_ms = clause.grace_ms
        if grace_ms is None:
            grace_ms = 0 if is_final else max(DAY_MS - size_ms, 0)
        retention_ms = size_ms + grace_ms if clause.retention_ms is None else clause.retention_ms
        if clause.grace_ms is None and clause.retention_ms is not None:
            grace_ms = max(min(grace_ms, retention_ms - size_ms), 0)
        try:
            if clause.kind == "session":
                return SessionWindow(size_ms, grace_ms, retention_ms)
            return TimeWindow(size_ms, clause.advance_ms or size_ms, grace_ms, retention_ms)
        except TopologyError as error:
            raise self.names.text.error(error.message, clause.span) from None

    def _columns(
        self, group: Sequence[GroupColumn], aggregates: Sequence[tuple[str, Call]], kept: Mapping[Expression, str | None]
    ) -> tuple[tuple[ScopeColumn, ...], tuple[str, ...]]:
        """The columns of the result, with their types if those of the rows are known, and which of them are its key."""
        scope, at, span = self.names.scope, self.names.text.at, self.span
        key = [ScopeColumn("", one.name, one.name, one.type or scope.type_of(one.expression, at(span))) for one in group]
        bounds = [] if self.query.window is None else [ScopeColumn("", name, name, "timestamp", is_bound=True) for name in BOUNDS]
        values = [ScopeColumn("", name, name, kept.get(call) or self._type(scope, call, at(span))) for name, call in aggregates]
        return (*key, *bounds, *values), tuple(one.column for one in (*key, *bounds))

    def _type(self, scope: Scope, call: Call, at: Location) -> str | None:
        schema = scope.schema
        return None if schema is None else scope.analyzer.aggregates(schema, [("value", call)], at)[0].type

    def _over(self, expression: Expression, columns: dict[Expression, Expression], span: TextSpan) -> Expression:
        """An expression over the columns of the groups; TopologyError for a column of the rows that is in no aggregate."""
        made: list[Expression] = []

        def change(one: Expression) -> Expression | None:
            found = columns.get(one)
            if found is None and isinstance(one, Reference) and (first := columns.get(Reference(_first(one)))) is not None:
                assert isinstance(first, Reference)
                found = Reference(".".join([first.name, *(part(name) for name in parts_of(one.name)[1:])]))
            if found is not None:
                made.append(found.arguments[0] if isinstance(found, Call) else found)
            return found

        changed = rewritten(expression, change, self.names.text.places)
        known = {id(one) for one in made}
        bounds = BOUNDS if self.query.window is not None else ()
        for one in below(changed):
            if isinstance(one, Reference) and id(one) not in known and one.name not in bounds:
                raise TopologyError(self._not_grouped(one, columns), self.names.text.at_part(one, span))
        return changed

    def _not_grouped(self, column: Reference, columns: dict[Expression, Expression]) -> str:
        groups = ", ".join(expression_text(one) for one in columns if not is_aggregate(one))
        if column.name in BOUNDS:
            return f"{column.name} is the bound of a window, and the query has no WINDOW; {listing(column.name, self.names.scope.names)}"
        where = f"the groups are by {groups}" if groups else "without GROUP BY all rows are one group"
        return (
            f"{column.name!r} is neither grouped by nor inside of an aggregate, so a group has no one value of it; {where}; "
            f"expected it in GROUP BY, or in an aggregate such as MAX({column.name})"
        )


def _column(name: str) -> Reference:
    return Reference(part(name))


def _first(reference: Reference) -> str:
    return parts_of(reference.name)[0]
