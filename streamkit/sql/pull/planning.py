"""From a query that is run once to its plan: names are resolved, and types are found."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from streamkit.data_type import FLOATS, INTEGERS, decimal_of
from streamkit.dsl.explosion import explosion_of
from streamkit.dsl.stream import Stream
from streamkit.dsl.topology import Topology
from streamkit.errors import EvaluationError, Location, TopologyError
from streamkit.expressions.aggregates import AGGREGATES
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.expressions.ksql.signature import ksql_type
from streamkit.plan.dotted_name import parts_of
from streamkit.plan.explosion import Explosion
from streamkit.plan.expression import Call, Cast, Expression, Literal, Reference, TypedExpression
from streamkit.plan.expression_places import noted_places
from streamkit.plan.expression_text import OF_KSQL, expression_text, function_text, shown_text
from streamkit.sql.lowering.exploding import ChosenItem, Exploding
from streamkit.sql.lowering.expression_parts import calls, is_aggregate, is_exploding, references
from streamkit.sql.lowering.grouping import Aggregation, GroupedItems
from streamkit.sql.lowering.meaning import SPARK, Meaning
from streamkit.sql.lowering.names import QueryNames
from streamkit.sql.lowering.projecting import Projection
from streamkit.sql.lowering.scope import Scope
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.pull.one_row import one_row
from streamkit.sql.pull.plan import ALL_NULL, ANY_NULL, NONE, PlannedGroups, PlannedOrder, PullPlan, TypedColumns
from streamkit.sql.pull.relation import PullRelations, rows_of_query
from streamkit.sql.pull.sides import JoinedSides, joined_sides
from streamkit.sql.pull.source import RECORD_COLUMNS
from streamkit.sql.tree.query import Order, Query, SourceName, Star
from streamkit.sql.tree.span import TextSpan, Written

ORDER_COLUMN = "order\N{GREEK SMALL LETTER LAMDA}"  # begins names of columns that no query can write


def planned(
    query: Query, relations: PullRelations, text: ScriptText, meaning: Meaning = SPARK, time_zone: str = "UTC"
) -> PullPlan:
    """The plan of a query that is run once; TopologyError at the place of what is wrong."""
    if not meaning.names_results:
        meaning = replace(meaning, record_columns=tuple(dict.fromkeys((*meaning.record_columns, *RECORD_COLUMNS))))
    meaning = meaning.by_arrival()  # rows come in the order in which aggregates have the records
    text = text.in_dialect(is_ksql=meaning.names_results)
    with noted_places() as parts:
        plan = _PullPlanning(query, relations, text, replace(meaning, shows_bounds=True), time_zone).plan()
    return replace(plan, parts=parts)


_OF_KEYS = tuple(
    f"{OF_KSQL}{one}" for one in ("eq", "ne", "lt", "le", "gt", "ge", "in", "between")
)  # the comparisons by which a query looks for keys


@dataclass(frozen=True)
class _PullPlanning:
    query: Query
    relations: PullRelations
    text: ScriptText
    meaning: Meaning
    time_zone: str

    def plan(self) -> PullPlan:
        self._check_clauses()
        found = joined_sides(self.query, self._plan_of, self.relations, self.text, self.meaning, self.time_zone)
        names = QueryNames(found.scope, self.text, self.meaning)
        if self.query.where is not None:
            condition = self._row_condition(names, self.query.where)
            self._check_keys(condition, self.query.where)
            found = found.narrowed(condition, self.text.at(self.query.where.span))
        items = self._items(names, found)
        found, items, explosion = self._exploded(found, items)
        names = QueryNames(found.scope, self.text, self.meaning)
        order, orders = self._order(names, items)
        every = (*items, *order)
        groups, scope, every = self._grouped(names, every, found)
        every = every if groups is not None else (*Projection(names).with_key_of_joins(every[: len(items)]), *every[len(items) :])
        columns = self._typed(scope, every[: len(items)])
        beside = self._typed(scope, every[len(items) :])
        plan = PullPlan(
            None,
            (),
            None,
            groups,
            columns,
            beside,
            orders,
            found.is_one_stream and groups is not None and any(one.ordered for one in groups.aggregates),
            self.query.limit,
            self.query.is_distinct,
            explosion,
            places=self._places(every, groups),
            where_at=None if self.query.where is None else self.text.at(self.query.where.span),
        )
        self._check_distinct(beside)
        self._check_compared(plan, items)
        return found.completed(plan).as_of(self._moment_ms())

    def _moment_ms(self) -> int | None:
        """The time of AS OF, None without; TopologyError unless it is a constant time, or whole milliseconds."""
        if self.query.as_of is None:
            return None
        at = self.text.at(self.query.as_of.span)
        analyzer = ExpressionAnalyzer(self.time_zone)
        schema = rows_of_query(self.time_zone).schema
        assert schema is not None, "its columns are known"
        ((_, plain),) = analyzer.project(schema, [("time", self.query.as_of.expression)], at)
        is_number = plain.type in INTEGERS
        if plain.type in FLOATS or decimal_of(plain.type):  # a cast would read seconds, and wrap what is too large
            found = ksql_type(plain.type) if self.meaning.names_results else plain.type
            raise TopologyError(f"AS OF needs a time, or whole milliseconds of BIGINT; found {found}", at)
        wanted = self.query.as_of.expression if is_number else Cast(self.query.as_of.expression, "timestamp")
        ((_, typed),) = analyzer.project(schema, [("time", wanted)], at)
        try:
            value: int | None = evaluate(typed, one_row()).cast("int64")[0].as_py()
        except EvaluationError as error:
            raise TopologyError(f"AS OF needs a time; {error}", at) from None
        if value is None:
            raise TopologyError("AS OF needs a time, and this is null", at)
        return value if is_number else value // 1000

    def _places(self, items: Sequence[ChosenItem], groups: PlannedGroups | None) -> dict[str, Location]:
        """Where the columns of the result are computed, and what the groups have beneath them: in the first item that reads it."""
        found: dict[str, Location] = {item.name: self.text.at(item.span) for item in items if item.span.end}
        beneath = [] if groups is None else [*(name for name, _ in groups.columns), *(one.name for one in groups.aggregates)]
        for name in beneath:
            item = next((one for one in items if name in {_name_of(read) for read in references(one.expression)}), None)
            if item is not None and item.span.end:
                found.setdefault(name, self.text.at(item.span))
        return found

    def _plan_of(self, query: Query) -> PullPlan:
        return _PullPlanning(query, self.relations, self.text, self.meaning, self.time_zone).plan()

    def _error(self, message: str, span: TextSpan) -> TopologyError:
        return self.text.error(message, span)

    def _check_clauses(self) -> None:
        """TopologyError for clauses that only a query which goes on can have."""
        query = self.query
        if query.emit:
            raise self._error(
                f"EMIT {query.emit.upper()} belongs to a query that goes on, and this one is run once; expected no EMIT",
                query.span,
            )
        if query.window is not None:
            of_times = "" if self.meaning.names_results else ", or GROUP BY of times, as in date_trunc('hour', _timestamp)"
            raise self._error(
                f"WINDOW divides the records of a query that goes on; expected EMIT CHANGES{of_times}", query.window.span
            )
        if query.partition_by is not None:
            span = query.partition_by[0].span if query.partition_by else query.span
            raise self._error(
                "PARTITION BY gives a stream another key, and this query is run once; expected no PARTITION BY", span
            )

    def _row_condition(self, names: QueryNames, where: Written) -> Expression:
        condition = names.condition(where, "WHERE")
        for what, found, expected in (
            ("an aggregate", is_aggregate, "HAVING behind GROUP BY"),
            ("a function that gives rows", is_exploding, "a query in FROM that has it"),
        ):
            if inner := calls(condition, found):
                raise self._error(
                    f"WHERE has {what}, {expression_text(inner[0])}, and looks at one row at a time; expected {expected}",
                    where.span,
                )
        return condition

    def _check_keys(self, condition: Expression, where: Written) -> None:
        """TopologyError for a key of a table that is compared with NULL in the ksql dialect: ksqlDB refuses what no row can have."""
        source = self.query.source
        if not self.meaning.names_results or not isinstance(source, SourceName) or self.query.joins:
            return
        relation = self.relations.relation(source.name.text)
        if relation is None or isinstance(relation.rows, Stream):
            return
        for call in calls(condition, lambda one: isinstance(one, Call) and one.function in _OF_KEYS):
            named = [_name_of(one) for one in call.arguments if isinstance(one, Reference)]
            of_key = next((one for one in named if one in relation.source.key), None)
            if of_key is not None and any(isinstance(one, Literal) and one.value is None for one in call.arguments):
                raise self._error(f"{of_key} is the key of {source.name.text}, and no key is NULL; expected a value", where.span)

    def _items(self, names: QueryNames, found: JoinedSides) -> tuple[ChosenItem, ...]:
        """The columns of the result."""
        if self.query.source is None and any(isinstance(item, Star) and item.qualifier is None for item in self.query.items):
            raise self._error("* stands for the columns of FROM, and there is no FROM; expected expressions", self.query.span)
        projection = Projection(names, tuple(found.star.values()))
        chosen = projection.chosen(self.query.items)
        projection.check_distinct(chosen)
        return chosen

    def _exploded(
        self, found: JoinedSides, items: tuple[ChosenItem, ...]
    ) -> tuple[JoinedSides, tuple[ChosenItem, ...], Explosion | None]:
        """The sides with the columns of elements, the items over these, and what makes their rows; None if SELECT has no such function."""
        if not any(calls(item.expression, is_exploding) for item in items):
            return found, items, None
        scope, rows = found.scope, found.scope.rows
        if found.is_of_records or not found.sides or not self.meaning.names_results:  # ksqlDB refuses it over tables alone
            rows = Topology("query", time_zone=self.time_zone).stream("rows", schema="row int")
        behind, items = Exploding(self.text).exploded(replace(scope, rows=rows), items)
        assert isinstance(behind.rows, Stream), "rows of elements are a stream"
        assert scope.schema is not None, "the columns of all sources are known"
        return (
            replace(found, scope=replace(behind, rows=scope.rows)),
            items,
            explosion_of(behind.rows, scope.schema, scope.analyzer),
        )

    def _order(self, names: QueryNames, items: Sequence[ChosenItem]) -> tuple[tuple[ChosenItem, ...], tuple[PlannedOrder, ...]]:
        """What is computed beside the result for the order, and the order."""
        beside: list[ChosenItem] = []
        orders = []
        for one in self.query.order_by:
            item = self._ordered_by(names, items, one)
            if item not in items:
                item = ChosenItem(item.expression, f"{ORDER_COLUMN}{len(beside)}", item.span)
                beside.append(item)
            nulls_first = not one.is_descending if one.nulls_first is None else one.nulls_first
            orders.append(PlannedOrder(item.name, one.is_descending, nulls_first))
        return tuple(beside), tuple(orders)

    def _ordered_by(self, names: QueryNames, items: Sequence[ChosenItem], order: Order) -> ChosenItem:
        """An item of ORDER BY: a result by its name or number, or an expression."""
        expression, span = order.written.expression, order.written.span
        if isinstance(expression, Literal) and type(expression.value) is int:
            if not 1 <= expression.value <= len(items):
                raise self._error(
                    f"ORDER BY {expression.value} is the number of a result, and SELECT has {len(items)}; expected 1 to {len(items)}",
                    span,
                )
            return items[expression.value - 1]
        if isinstance(expression, Reference) and len(parts_of(expression.name)) == 1:
            wanted = parts_of(expression.name)[0]
            named = [item for item in items if item.name == wanted] or [
                item for item in items if names.meaning.folded(item.name) == names.meaning.folded(wanted)
            ]
            if named:
                return named[0]
        try:
            resolved = Aggregation(self.query, names, self.query.span, is_once=True).with_results(order.written, items)
        except TopologyError as error:
            results = {item.name.lower(): item.name for item in items}
            wanted = expression.name if isinstance(expression, Reference) else ""
            if "did you mean" in error.message or not (close := difflib.get_close_matches(wanted.lower(), results, 1)):
                raise
            raise TopologyError(f"{error.message}; did you mean the result {results[close[0]]!r}?", error.at) from None
        return next((item for item in items if item.expression == resolved), ChosenItem(resolved, "", span))

    def _grouped(
        self, names: QueryNames, items: Sequence[ChosenItem], sides: JoinedSides
    ) -> tuple[PlannedGroups | None, Scope, tuple[ChosenItem, ...]]:
        """The groups, if there are any, and the items over their columns."""
        query, scope = self.query, names.scope
        is_grouped = (
            query.group_by is not None or query.having is not None or any(calls(item.expression, is_aggregate) for item in items)
        )
        if not is_grouped:
            return None, scope, tuple(items)
        found = Aggregation(query, names, query.span, is_once=True).grouped(items)
        groups = replace(self._planned_groups(scope, found), left_out=self._left_out(sides))
        self._check_order(sides, groups, dict(found.aggregates))
        return groups, Scope(rows_of_query(self.time_zone).rows, (), found.columns, None), found.items

    def _left_out(self, sides: JoinedSides) -> str:
        """
        Which rows are in no group: in ksqlDB those with a null in their group, also where it fails; else those of streams whose whole group is null.

        So a query over streams has the groups that it has when it goes on. One over tables alone has a group of nulls, as in other SQL.
        """
        if self.meaning.names_results:
            return ANY_NULL
        return ALL_NULL if sides.is_of_records else NONE

    def _planned_groups(self, scope: Scope, found: GroupedItems) -> PlannedGroups:
        schema, at = scope.schema, self.text.at(self.query.span)
        assert schema is not None, "the columns of all sources are known"
        columns = scope.analyzer.project(schema, [(one.name, one.expression) for one in found.group], at)
        for name, typed in columns:
            if "map<" in typed.type:
                raise self._error(
                    f"rows cannot be grouped by {name}, which is {typed.type}: maps are not compared", self.query.span
                )
        aggregates = scope.analyzer.aggregates(schema, found.aggregates, at)
        over = Scope(rows_of_query(self.time_zone).rows, (), found.columns, None)
        having = None
        if found.having is not None and self.query.having is not None:
            assert over.schema is not None, "results have types"
            having = over.analyzer.predicate(over.schema, found.having, self.text.at(self.query.having.span))
        return PlannedGroups(columns, aggregates, having)

    def _check_order(self, sides: JoinedSides, groups: PlannedGroups, written: Mapping[str, Call]) -> None:
        """TopologyError at an aggregate that goes by the canonical order of records, where rows have no order."""
        if sides.is_one_stream:
            return
        for one in groups.aggregates:  # as in groups of tables, most of what can give rows back depends on no order
            function = AGGREGATES[one.function]
            if not one.ordered or (function.subtract is not None and not function.keeps_order):
                continue
            reason = (
                "these rows have none; expected a query over one stream, which may be a query in FROM without JOIN, GROUP BY, DISTINCT and ORDER BY"
                if sides.is_of_records or not function.not_of_tables
                else function.not_of_tables
            )
            raise TopologyError(
                f"{function_text(function.name)} goes by the order of records, and {reason}",
                self.text.at_part(written[one.name], self.query.span),
            )

    def _typed(self, scope: Scope, items: Iterable[ChosenItem]) -> TypedColumns:
        return tuple((item.name, self._type(scope, item)) for item in items)

    def _type(self, scope: Scope, item: ChosenItem) -> TypedExpression:
        assert scope.schema is not None, "the columns of all sources are known"
        ((_, typed),) = scope.analyzer.project(scope.schema, [(item.name, item.expression)], self.text.at(item.span))
        return typed

    def _check_compared(self, plan: PullPlan, items: Sequence[ChosenItem]) -> None:
        """TopologyError for a map that DISTINCT or ORDER BY would compare."""
        types = dict((*plan.columns, *plan.order_columns))
        compared = [
            ("ORDER BY", types[one.column], order.written.span)
            for one, order in zip(plan.order, self.query.order_by, strict=True)
        ]
        if plan.is_distinct:
            compared += [("SELECT DISTINCT", types[item.name], item.span) for item in items]
        for clause, typed, span in compared:
            if "map<" in typed.type:
                raise self._error(
                    f"{clause} cannot compare {shown_text(typed)}, which is {typed.type}: maps are not compared; expected map_entries(…) of it",
                    span,
                )

    def _check_distinct(self, beside: TypedColumns) -> None:
        if self.query.is_distinct and beside:
            raise self._error(
                "SELECT DISTINCT has one row for several, so it can be ordered by its results alone; expected ORDER BY of one of them",
                self.query.order_by[0].written.span,
            )


def _name_of(reference: Reference) -> str:
    return parts_of(reference.name)[0]
