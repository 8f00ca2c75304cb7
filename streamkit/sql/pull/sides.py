"""What a query reads, side by side: names in the rows of a join, and which conditions a side can be read by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from streamkit.dsl.stream import Stream
from streamkit.errors import Location, TopologyError
from streamkit.expressions.core.operation import columns_of
from streamkit.names import ORDER, TIMESTAMP, WINDOW_END, WINDOW_START
from streamkit.plan.dotted_name import part, parts_of
from streamkit.plan.expression import Call, Expression, Literal, Reference, TypedExpression
from streamkit.plan.expression_text import OF_KSQL
from streamkit.sql.lowering.expression_parts import calls, conjuncts, inside_of_column, is_aggregate, references, rewritten
from streamkit.sql.lowering.joining import (
    FULL,
    INNER,
    LEFT,
    RIGHT,
    SESSION,
    NamedOutside,
    is_asked_for,
    key_compared,
    windows_in_keys,
)
from streamkit.sql.lowering.meaning import Meaning
from streamkit.sql.lowering.names import QueryNames
from streamkit.sql.lowering.scope import BOUNDS, OF_ROWS, AnyRows, Scope, ScopeColumn, bounds_in, fresh_name, key_first
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.pull.input import PullInput
from streamkit.sql.pull.joined_key import Pair, joined_key
from streamkit.sql.pull.plan import PlannedJoin, PlannedSide, PullPlan, TypedColumns
from streamkit.sql.pull.relation import PullRelation, PullRelations, no_relation, rows_of_query
from streamkit.sql.pull.source import RECORD_TYPES
from streamkit.sql.tree.query import FieldsStar, FromItem, JoinClause, Query, SelectColumn, SourceName, Star, Subquery
from streamkit.sql.tree.span import Written

BOTH = "both\N{GREEK SMALL LETTER LAMDA}"  # begins names of columns that no query can write
PlanOf = Callable[[Query], PullPlan]


@dataclass(frozen=True)
class _Side:
    """
    Something that is read: its columns by the names in the rows of the query, and there its own.

    `conditions` are those that its rows are read by, over its own columns; `may_lack` says that the rows of the query may have none of it.
    """

    alias: str
    read: PullRelation | PullPlan
    columns: tuple[ScopeColumn, ...]
    own: Mapping[str, str]
    conditions: tuple[TypedExpression, ...] = ()
    may_lack: bool = False

    @property
    def is_stream(self) -> bool:
        return isinstance(self.read, PullRelation) and isinstance(self.read.rows, Stream)

    @property
    def has_times(self) -> bool:
        """Whether each row is a record of a stream, with its event time."""
        return TIMESTAMP in self.read.record_columns if isinstance(self.read, PullPlan) else self.is_stream

    @property
    def has_windows(self) -> bool:
        """Whether its key has the bounds of windows."""
        return isinstance(self.read, PullRelation) and any(one.is_bound for one in self.columns)

    def bound(self, name: str) -> str:
        """The column of the start, or the end, of its windows in the rows of the query."""
        return next(one.column for one in self.columns if one.is_bound and one.name == name)

    @property
    def star(self) -> dict[str, ScopeColumn]:
        """The columns that `*` gives of it alone."""
        return {one.column: one for one in self.columns if one.is_shown}

    @property
    def key(self) -> Sequence[str] | None:
        """The key by the names in the rows of the query; None if it is not known."""
        if isinstance(self.read, PullPlan):
            return None
        names = {own: name for name, own in self.own.items()}
        return [names[one] for one in self.read.source.key if one in names]

    @property
    def is_of_records(self) -> bool:
        return self.read.is_of_records if isinstance(self.read, PullPlan) else self.is_stream

    def renamed(self, taken: Iterable[str]) -> _Side:
        """The side without the names that are taken."""
        known = {name.lower() for name in taken}
        columns, own = list[ScopeColumn](), dict[str, str]()
        for column in self.columns:
            name = column.column
            if name.lower() in known:
                name = fresh_name(
                    f"{self.alias}_{column.name.lstrip('_')}", [*known, *own, *(one.column for one in self.columns)]
                )
            columns.append(replace(column, column=name))
            own[name] = self.own[column.column]
        return replace(self, columns=tuple(columns), own=own)


@dataclass(frozen=True)
class JoinedSides:
    """
    The sides of a query and their joins; `scope` has the columns of all.

    `star` are the columns that `*` gives, in its order, by what they are called before the joins; two that a query which goes on has once have one
    `column`. `key` is that of tables as far as they are joined, None if it is not known. `where` is the condition on rows
    behind the joins.
    """

    scope: Scope
    sides: tuple[_Side, ...] = ()
    joins: tuple[PlannedJoin, ...] = ()
    star: Mapping[str, ScopeColumn] = field(default_factory=dict)
    key: Sequence[str] | None = None
    where: TypedExpression | None = None

    @property
    def is_one_stream(self) -> bool:
        """Whether it reads the records of one stream in their order, perhaps behind queries in FROM, and nothing else."""
        return len(self.sides) == 1 and ORDER in self.sides[0].own

    @property
    def is_of_records(self) -> bool:
        """Whether records of a stream are among what it reads, so that a query which goes on would group a stream."""
        return any(side.is_of_records for side in self.sides)

    def narrowed(self, condition: Expression, at: Location) -> JoinedSides:
        """The sides under WHERE: each part goes to the side that it is about, if that has all rows."""
        if len(self.sides) <= 1:
            typed = _predicate(self.scope, condition, at)
            return self._of_side(0, typed) if self.sides else replace(self, where=typed)
        found, left = self, list[TypedExpression]()
        for one in [_predicate(self.scope, each, at) for each in conjuncts(condition)]:
            place = found._place(one)
            found = found if place is None else found._of_side(place, one)
            left += [one] if place is None else []
        return replace(found, where=_all_of(left))

    def _place(self, condition: TypedExpression) -> int | None:
        """The side that a condition is about; None if there are several, or it may not have a row for each of the query."""
        read = columns_of(condition)
        places = [place for place, side in enumerate(self.sides) if read & side.own.keys()]
        alone = len(places) == 1 and read <= self.sides[places[0]].own.keys()
        return places[0] if alone and not self.sides[places[0]].may_lack else None

    def _of_side(self, place: int, condition: TypedExpression) -> JoinedSides:
        side = self.sides[place]
        narrowed = replace(side, conditions=(*side.conditions, renamed(condition, side.own)))
        return replace(self, sides=(*self.sides[:place], narrowed, *self.sides[place + 1 :]))

    def completed(self, plan: PullPlan) -> PullPlan:
        """A plan with these sides, of which it reads what it needs."""
        if not self.sides:
            return replace(plan, where=self.where)
        groups = plan.groups
        rows = (*plan.columns, *plan.order_columns) if groups is None else groups.columns
        read = {*_read(one for _, one in rows), *([ORDER] if plan.is_in_order else []), *_read([self.where])}
        if groups is not None:
            read |= _read(one.argument for one in groups.aggregates)
        if plan.explosion is not None:
            read |= _read([plan.explosion.expression])
        for join in self.joins:
            read |= _read([*join.left, *join.right, join.rest, *(one for _, one in join.coalesced)])
        needs_all = bool(plan.order or plan.groups or plan.is_distinct or plan.explosion or self.joins or self.where)
        limit = None if needs_all else plan.limit
        sides = [_planned(side, read, limit) for side in self.sides]
        joins = tuple(replace(join, side=side) for join, side in zip(self.joins, sides[1:], strict=True))
        return replace(plan, side=sides[0], joins=joins, where=self.where)


def joined_sides(
    query: Query, plan_of: PlanOf, relations: PullRelations, text: ScriptText, meaning: Meaning, time_zone: str
) -> JoinedSides:
    """The sides of FROM and JOIN; TopologyError at the place of what is wrong. `plan_of` plans a query in FROM."""
    if query.source is None:
        return JoinedSides(rows_of_query(time_zone))
    reading = _SidesReading(query, plan_of, relations, text, meaning, time_zone)
    found = reading.first(query.source)
    for clause in query.joins:
        found = reading.joined(found, clause)
    return found


@dataclass(frozen=True)
class _SidesReading:
    query: Query
    plan_of: PlanOf
    relations: PullRelations
    text: ScriptText
    meaning: Meaning
    time_zone: str
    seen: list[str] = field(default_factory=list)

    def first(self, item: FromItem) -> JoinedSides:
        side = self._side(item)
        rows = rows_of_query(self.time_zone).rows
        if not self.query.joins and isinstance(side.read, PullRelation):
            rows = side.read.rows
        elif not self.query.joins and isinstance(side.read, PullPlan) and side.read.record_columns:
            rows = self._stream_behind(item)
        return JoinedSides(Scope(rows, (side.alias,), side.columns, None), (side,), star=side.star, key=side.key)

    def _stream_behind(self, item: FromItem) -> AnyRows:
        """The stream whose records are the rows of a query in FROM."""
        while isinstance(item, Subquery):
            assert item.query.source is not None, "records come from somewhere"
            item = item.query.source
        relation = self.relations.relation(item.name.text)
        assert relation is not None, "the query in FROM has found it"
        return relation.rows

    def joined(self, left: JoinedSides, clause: JoinClause) -> JoinedSides:
        """The sides so far with one more."""
        side = self._side(clause.right).renamed(left.scope.names)
        columns = (*(left.scope.columns or ()), *side.columns)
        scope = replace(left.scope, sources=(*left.scope.sources, side.alias), columns=columns)
        at = self.text.at(clause.on.span)
        names = QueryNames(scope, self.text, self.meaning)
        condition = names.resolved(clause.on)
        if found := calls(condition, is_aggregate):
            raise self.text.error(
                f"the condition of a join has the aggregate {found[0].function}; expected columns", clause.on.span
            )
        within = self._within(clause, left, side)
        keys, rest, compared = self._split(scope, [*conjuncts(condition), *within], side, at)
        pairs = list[Pair]()
        if self.meaning.names_results:
            parts = [self._by_key(names, one, left, side, clause) for one in conjuncts(clause.on.expression)]
            keys, rest, _ = self._split(scope, [*(one for one, _ in parts), *within], side, at)
            pairs = [pair for _, pair in parts if pair is not None]
        lonely = self._lonely(left, side, keys)
        keys += self._split(scope, self._same_windows(left, side, clause), side, at)[0]
        join = PlannedJoin(
            clause.kind, _PLACEHOLDER, tuple(one for one, _ in keys), tuple(other for _, other in keys), rest, lonely=lonely
        )
        sides = tuple(replace(one, may_lack=one.may_lack or clause.kind in (RIGHT, FULL)) for one in left.sides)
        sides = (*sides, replace(side, may_lack=clause.kind in (LEFT, FULL)))
        called = {one.column: one.name.lower() for one in scope.columns or ()}
        again = {one: other for one, other in compared.items() if called[one] == called[other]}
        scope, join = self._named_once(scope, join, again, clause.kind)
        outside = self._outside(clause)
        asked = {name for name, one in {**left.star, **side.star}.items() if is_asked_for(one, outside, clause, self.meaning)}
        star, key, ordered = _star_of_join(left, side, compared, clause.kind, asked)
        if self.meaning.names_results:
            scope, join = self._with_key(scope, join, left, side, pairs)
        elif clause.kind == FULL:
            scope, join, star, new = _with_both(scope, join, ordered, star, asked)
            key = key and [new.get(name, name) for name in key]
        return JoinedSides(scope, sides, (*left.joins, join), star, key)

    def _by_key(
        self, names: QueryNames, written: Expression, left: JoinedSides, side: _Side, clause: JoinClause
    ) -> tuple[Expression, Pair | None]:
        """A part of the condition, which compares the key of the joins before it, and what it says is equal, if it does that."""
        condition = names.resolved_part(written, clause.on.span)
        if not isinstance(written, Call) or written.function != "eq":
            return condition, None
        one, other = (names.resolved_part(each, clause.on.span) for each in written.arguments)
        reads = [{parts_of(found.name)[0] in side.own for found in references(each)} for each in (one, other)]
        if sorted(map(tuple, reads)) != [(False,), (True,)]:
            return condition, None
        one, other = (one, other) if reads[1] == {True} else (other, one)
        key = key_compared(one, left.scope, is_of_tables=not left.is_of_records)
        if key is not None:
            before = (one, inside_of_column(one))  # as a value of its own, and in the condition
            one = key
            condition = rewritten(condition, lambda each: key if each in before else None, self.text.places)
        match condition:  # each side is null where it fails, so that a record whose side fails has no key
            case Call(null_on_failure, (Call(compared, (_, _) as parts, called),)) if inside_of_column(condition) != condition:
                values = tuple(each if isinstance(each, Reference) else Call(null_on_failure, (each,)) for each in parts)
                condition = self.text.places.replaced(Call(compared, values, called), condition)
        return condition, (one, other)

    def _with_key(
        self, scope: Scope, join: PlannedJoin, left: JoinedSides, side: _Side, pairs: Sequence[Pair]
    ) -> tuple[Scope, PlannedJoin]:
        """The key that ksqlDB gives the rows of a join, which a query and further joins name by the columns that it compared."""
        of_tables = None if left.is_of_records or side.is_of_records else (left.scope.key or left.key, side.key)
        found = joined_key(scope, pairs, join.kind, of_tables)
        made = _analyzed(scope, found.columns)
        hidden = [ScopeColumn("", name, name, typed.type, is_shown=False) for name, typed in made]
        with_key = replace(found.scope, columns=(*(found.scope.columns or ()), *hidden))
        if join.kind in (RIGHT, FULL) and side.has_windows and (before := _bounds_of_key(left.scope)):
            bounds = self._bounds_of_both(left, side, before)
            columns = [one for one in with_key.columns or () if one.source or not one.is_bound]
            for name, both in bounds.items():
                column = fresh_name(f"{BOTH}_{name}", with_key.names)
                made += _analyzed(scope, [(column, both)])
                columns.append(ScopeColumn("", name, column, "timestamp", is_shown=False, is_bound=True))
            with_key = replace(with_key, columns=tuple(columns))
        return with_key, replace(join, coalesced=(*join.coalesced, *made))

    def _bounds_of_both(self, left: JoinedSides, side: _Side, before: Mapping[str, str]) -> dict[str, Expression]:
        """
        The window in the key of a join that keeps rows of its right side alone.

        Of windows of two lengths it is as long as those of the left side, which the key of a query that goes on has.
        """
        own = [
            windows_in_keys(one.read.rows)
            for one in (*left.sides, side)
            if isinstance(one.read, PullRelation) and one.has_windows
        ]
        bounds: dict[str, Expression] = {name: _reference(side.bound(name)) for name in before}
        if None not in own and own[0] != own[-1]:
            start = _millis(_reference(side.bound(WINDOW_START)))
            bounds[WINDOW_END] = Call("timestamp_millis", (Call("add", (start, Literal(int(str(own[0]))))),))
        return {name: Call("coalesce", (_reference(before[name]), bound)) for name, bound in bounds.items()}

    def _lonely(
        self, left: JoinedSides, side: _Side, keys: Sequence[tuple[TypedExpression, TypedExpression]]
    ) -> tuple[TypedExpression | None, TypedExpression | None]:
        """Which rows of either side a join keeps without a partner: in ksqlDB, of streams, those with a key."""
        if not self.meaning.names_results or not keys or not (left.is_of_records or side.is_of_records):
            return None, None
        return _any_valid([one for one, _ in keys]), _any_valid([other for _, other in keys])

    def _same_windows(self, left: JoinedSides, side: _Side, clause: JoinClause) -> list[Expression]:
        """That the windows of both sides are one, as ksqlDB's keys have them: of those of two lengths the starts are equal."""
        first = next((one for one in left.sides if one.has_windows), None)
        if not self.meaning.names_results or first is None or not side.has_windows:
            return []
        kinds = {windows_in_keys(one.read.rows) for one in (first, side) if isinstance(one.read, PullRelation)}
        if SESSION in kinds and len(kinds - {None}) > 1:
            raise self.text.error(
                f"sessions and other windows are never equal, and {first.alias} and {side.alias} have both in their keys; expected one kind",
                clause.span,
            )
        names = (WINDOW_START,) if len(kinds) > 1 and None not in kinds else BOUNDS
        own = _bounds_of_key(left.scope)
        return [Call("eq", (_reference(own[name]), _reference(side.bound(name)))) for name in names]

    def _split(
        self, scope: Scope, parts: Sequence[Expression], side: _Side, at: Location
    ) -> tuple[list[tuple[TypedExpression, TypedExpression]], TypedExpression | None, dict[str, str]]:
        """The keys of both sides that are equal, the rest of the condition, and the columns that it compares as they are, the left one first."""
        keys, rest, compared = list[tuple[TypedExpression, TypedExpression]](), list[TypedExpression](), dict[str, str]()
        for one in parts:
            typed = _predicate(scope, one, at)
            pair = _pair(typed, side.own.keys())
            if pair is None:
                rest.append(typed)
                continue
            keys.append(pair)
            compared |= _columns_compared(one, scope, side.own.keys())
        return keys, _all_of(rest), compared

    def _named_once(self, scope: Scope, join: PlannedJoin, again: dict[str, str], kind: str) -> tuple[Scope, PlannedJoin]:
        """
        Columns of one name that a join compares are one column where the query names no side: that of the side which has all rows.

        `again` has them, that of the left side first. A full join has a column of both for it.
        """
        joined, coalesced, columns = dict(scope.joined), list[tuple[str, TypedExpression]](), list(scope.columns or ())
        for left, right in again.items():
            name = next(one.name for one in columns if one.column == left)
            before = joined[name.lower()][0] if name.lower() in joined else left
            kept = right if kind == RIGHT else before
            if kind == FULL:
                kept = fresh_name(name, [one.column for one in columns])
                ((_, typed),) = _analyzed(scope, [(kept, Call("coalesce", (_reference(before), _reference(right))))])
                coalesced.append((kept, typed))
                columns.insert(0, ScopeColumn("", name, kept, typed.type))
            joined[name.lower()] = (kept, frozenset(one.source for one in columns if one.name.lower() == name.lower()))
        return replace(scope, columns=tuple(columns), joined=joined), replace(join, coalesced=tuple(coalesced))

    def _within(self, clause: JoinClause, left: JoinedSides, side: _Side) -> list[Expression]:
        """WITHIN as conditions on the times of both records."""
        within = clause.within
        if within is None:
            return []
        streams = [one for one in left.sides if one.has_times]
        if not streams or not side.has_times:
            raise self.text.error(
                "WITHIN is about the times of the records of two streams; expected none of it here", clause.span
            )
        times = [_reference(next(name for name, own in one.own.items() if own == TIMESTAMP)) for one in (*streams, side)]
        *of_left, theirs = map(_millis, times)  # a record that joins have made has the newest time of those it is made of
        mine = of_left[0] if len(of_left) == 1 else Call("greatest", tuple(of_left))
        return [
            Call("ge", (theirs, Call("subtract", (mine, Literal(within.before_ms))))),
            Call("le", (theirs, Call("add", (mine, Literal(within.after_ms))))),
        ]

    def _side(self, item: FromItem) -> _Side:
        alias = item.alias.text if item.alias else item.name.text if isinstance(item, SourceName) else ""
        self._check_alias(item, alias)
        if isinstance(item, Subquery):
            plan = self.plan_of(item.query)
            results = [ScopeColumn(alias, one.name, one.name, one.type) for one in plan.schema]
            return _Side(alias, plan, *_with_record_columns(alias, results, plan.record_columns))
        relation = self.relations.relation(item.name.text)
        if relation is None:
            raise TopologyError(no_relation(item.name.text, self.relations.names()), self.text.at(item.name.span))
        bounds = bounds_in(relation.source.key, [(one.name, one.type) for one in relation.source.schema])
        columns = [
            ScopeColumn(alias, one.name, one.name, one.type, is_bound=one.name in bounds) for one in relation.source.schema
        ]
        if self.meaning.names_results:
            columns = list(key_first(columns, relation.source.key))
        if self.meaning.names_results and relation.timed is not None and (of_rows := self._named_of_rows(alias)):
            relation = replace(relation, source=relation.timed(of_rows))
            columns += [ScopeColumn(alias, name, name, OF_ROWS[name], is_shown=False) for name in of_rows]
        others = RECORD_TYPES if isinstance(relation.rows, Stream) else ()
        return _Side(alias, relation, *_with_record_columns(alias, columns, others))

    def _outside(self, clause: JoinClause) -> NamedOutside:
        """What the query names outside of the condition of one join."""
        others = [join.on for join in self.query.joins if join is not clause]
        named = {one.name for each in (*self._everything(), *others) for one in references(each.expression)}
        stars = {item.qualifier.text.lower() for item in self.query.items if isinstance(item, Star) and item.qualifier}
        return NamedOutside(frozenset(named), frozenset(stars), ())

    def _everything(self) -> list[Written]:
        """All expressions of the query but the conditions of joins."""
        query = self.query
        written = [item.written for item in query.items if isinstance(item, SelectColumn | FieldsStar)]
        written += [*(query.group_by or ()), *(one.written for one in query.order_by)]
        return [*written, *(one for one in (query.where, query.having) if one is not None)]

    def _named_of_rows(self, alias: str) -> list[str]:
        """What the query names of the records of a table's rows, of this source or of none: ROWTIME, ROWPARTITION and ROWOFFSET."""
        written = [*self._everything(), *(join.on for join in self.query.joins)]
        every = [parts_of(one.name) for each in written for one in references(each.expression)]
        named = {parts[-1] for parts in every if len(parts) == 1 or parts[0] == alias}
        return [name for name in OF_ROWS if name in named]

    def _check_alias(self, item: FromItem, alias: str) -> None:
        if not self.query.joins:
            return
        if not alias:
            raise self.text.error(
                "a query in FROM has no name, and the join needs one; expected a name behind it",
                item.query.span if isinstance(item, Subquery) else self.query.span,
            )
        if self.meaning.folded(alias) in self.seen:
            raise self.text.error(
                f"two sources of the join are called {alias!r}; expected other names, as in FROM {alias} AS a", self.query.span
            )
        self.seen.append(self.meaning.folded(alias))


_PLACEHOLDER = PlannedSide(PullPlan(None, (), None, None, ()), ())  # of a join whose side is planned once all is known


def renamed(expression: TypedExpression, names: Mapping[str, str]) -> TypedExpression:
    """An expression over columns that have other names."""
    if expression.name == "column":
        return replace(expression, value=names.get(expression.value, expression.value))
    if not expression.arguments:
        return expression
    return replace(expression, arguments=tuple(renamed(one, names) for one in expression.arguments))


def _planned(side: _Side, read: set[str], limit: int | None) -> PlannedSide:
    """The columns of a side that are read, at least one of them."""
    names = [(own, name) for name, own in side.own.items() if name in read] or [(own, name) for name, own in side.own.items()][:1]
    condition = _all_of(side.conditions)
    if isinstance(side.read, PullRelation):
        columns = tuple(dict.fromkeys(own for own, _ in names))
        return PlannedSide(PullInput(side.alias, side.read.source, columns, condition, limit), tuple(names))
    wanted = {own for own, _ in names} | (set() if condition is None else columns_of(condition))
    plan = side.read.with_record_columns([name for name in side.read.record_columns if name in wanted])
    return PlannedSide(plan if condition is None else _filtered(plan, condition), tuple(names))


def _with_record_columns(
    alias: str, columns: Sequence[ScopeColumn], others: Iterable[str]
) -> tuple[tuple[ScopeColumn, ...], dict[str, str]]:
    """The columns of a side with others that records have beside them, and its own names; the order key is no column that a query can name."""
    own = {one.name.lower() for one in columns}
    hidden = [ScopeColumn(alias, name, name, RECORD_TYPES[name], is_shown=False) for name in others if name not in {*own, ORDER}]
    every = (*columns, *hidden)
    return every, {one.column: one.column for one in every} | ({ORDER: ORDER} if ORDER in others else {})


def _filtered(plan: PullPlan, condition: TypedExpression) -> PullPlan:
    """A query in FROM, and behind it the rows of it for which a condition is true."""
    columns = tuple((name, TypedExpression("column", one.type, (), name)) for name, one in plan.columns)
    names = tuple((name, name) for name, _ in columns)
    return PullPlan(PlannedSide(plan, names), (), condition, None, columns, of_records=plan.of_records)


def _read(expressions: Iterable[TypedExpression | None]) -> set[str]:
    return {name for one in expressions if one is not None for name in columns_of(one)}


def _predicate(scope: Scope, condition: Expression, at: Location) -> TypedExpression:
    assert scope.schema is not None, "the columns of all sources are known"
    return scope.analyzer.predicate(scope.schema, condition, at)


def _analyzed(scope: Scope, columns: Sequence[tuple[str, Expression]]) -> TypedColumns:
    assert scope.schema is not None, "the columns of all sources are known"
    return scope.analyzer.project(scope.schema, columns)


def _all_of(conditions: Sequence[TypedExpression]) -> TypedExpression | None:
    """The condition that all of these are true."""
    if not conditions:
        return None
    first, *others = conditions
    for one in others:
        first = TypedExpression("and", "boolean", (first, one))
    return first


def _any_valid(values: Sequence[TypedExpression]) -> TypedExpression:
    """The condition that one of these is not null."""
    first, *others = (TypedExpression("isnotnull", "boolean", (one,)) for one in values)
    for one in others:
        first = TypedExpression("or", "boolean", (first, one))
    return first


def _pair(condition: TypedExpression, right: Iterable[str]) -> tuple[TypedExpression, TypedExpression] | None:
    """The expressions of both sides that a condition says are equal; None if it says anything else."""
    if condition.name.removeprefix(OF_KSQL) != "eq":
        return None
    names = set(right)
    one, other = condition.arguments
    if one.type != other.type:  # decimals that are compared with more digits than a key has
        return None
    reads = [columns_of(one), columns_of(other)]
    if not all(reads):
        return None
    if not reads[0] & names and reads[1] <= names:
        return one, other
    return (other, one) if reads[0] <= names and not reads[1] & names else None


def _columns_compared(condition: Expression, scope: Scope, right: Iterable[str]) -> dict[str, str]:
    """The columns that an equality compares as they are, that of the right side by the left one."""
    if not isinstance(condition, Call) or not all(isinstance(one, Reference) for one in condition.arguments):
        return {}
    found = [parts_of(one.name) for one in condition.arguments if isinstance(one, Reference)]
    if any(len(parts) > 1 for parts in found):
        return {}
    (one,), (other,) = found
    left, other = (one, other) if other in set(right) else (other, one)
    return {left: other} if {left, other} <= {column.column for column in scope.shown} else {}


def _identity(column: ScopeColumn) -> str:
    """By what `*` tells a column from others: one that is asked for by its source is another one, though it has the same values."""
    return column.copied or column.column


def _star_of_join(
    left: JoinedSides, right: _Side, compared: Mapping[str, str], kind: str, asked: set[str]
) -> tuple[dict[str, ScopeColumn], Sequence[str] | None, dict[str, str]]:
    """
    What `*` gives of a join, the key of joined tables, and the columns that are compared as they are, those of the side that comes first in front.

    It has the columns of a query that goes on: first those of the side that is kept there, or looks the other one up. A column of the other
    one that is compared as it is, of a table one of its key, is that of the first side, unless it is `asked` for by its source in a join that
    keeps records without a partner: then it has its own values, null without a row.
    """
    own = {_identity(left.star[one]) if one in left.star else one: other for one, other in compared.items()}
    covers_key = bool(right.key) and _without_bounds(right.key) <= {*own.values()}
    looks_up = right.is_of_records or (
        not covers_key and bool(left.key) and {*own} in ({*(left.key or ())}, _without_bounds(left.key))
    )
    sides: list[JoinedSides | _Side] = [left, right]
    if kind == RIGHT or (kind == INNER and not left.is_of_records and looks_up):
        sides, own = [right, left], {other: one for one, other in own.items()}
    first, second = sides
    is_one = {other: one for one, other in own.items() if not second.key or second.is_of_records or other in second.key}
    partners = {_identity(one): one for one in first.star.values()}
    others = dict(second.star)
    for name, one in others.items():
        partner = partners.get(is_one.get(_identity(one), ""))
        if partner is not None and kind != INNER and name in asked:
            others[name] = replace(one, copied=name)
        elif partner is not None:
            others[name] = replace(one, column=partner.column, copied=partner.copied)
    return {**first.star, **others}, None if first.is_of_records else first.key, own


def _without_bounds(key: Sequence[str] | None) -> set[str]:
    return {*(key or ())} - {*BOUNDS}


def _with_both(
    scope: Scope, join: PlannedJoin, compared: Mapping[str, str], star: Mapping[str, ScopeColumn], asked: set[str]
) -> tuple[Scope, PlannedJoin, dict[str, ScopeColumn], dict[str, str]]:
    """
    A full join, of which `*` gives a column with the values of both sides for each two that it compares.

    A column of the first side that is asked for by its source has its own values. What is returned last are the new columns by those of the
    first side.
    """
    columns, coalesced, new = list(scope.columns or ()), list(join.coalesced), dict[str, str]()
    values = {_identity(one): one.column for one in star.values()}
    for left, right in compared.items():
        new[left] = kept = fresh_name(BOTH, [one.column for one in columns])
        both = Call("coalesce", (_reference(values.get(left, left)), _reference(right)))
        ((_, typed),) = _analyzed(scope, [(kept, both)])
        coalesced.append((kept, typed))
        columns.append(ScopeColumn("", kept, kept, typed.type, is_shown=False))
    found = dict(star)
    for name, one in star.items():
        if _identity(one) in new:
            is_own = name in asked and name not in compared.values()
            found[name] = replace(one, copied=name) if is_own else replace(one, column=new[_identity(one)], copied="")
    return replace(scope, columns=tuple(columns)), replace(join, coalesced=tuple(coalesced)), found, new


def _bounds_of_key(scope: Scope) -> dict[str, str]:
    """The columns of the window in the key of the rows so far, by the names of the bounds: of a join, else of its first side with windows."""
    bounds = [one for one in scope.columns or () if one.is_bound]
    of_join, of_sides = [one for one in bounds if not one.source], [one for one in bounds if one.source]
    return {one.name: one.column for one in (*reversed(of_sides), *of_join)}


def _millis(time: Reference) -> Expression:
    return Call("unix_millis", (time,))


def _reference(name: str) -> Reference:
    return Reference(part(name))
