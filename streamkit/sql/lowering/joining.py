"""JOIN: the rows of two scopes side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from streamkit.data_type import FLOATS, INTEGERS, decimal_of
from streamkit.dsl.stream import Stream
from streamkit.dsl.table import Table
from streamkit.errors import TopologyError
from streamkit.expressions.core.column import Column
from streamkit.expressions.ksql.signature import ksql_type
from streamkit.expressions.sql.dialect import DIALECTS
from streamkit.formats.format import WINDOW
from streamkit.names import WINDOW_END, WINDOW_START
from streamkit.plan.dotted_name import part as dotted_part
from streamkit.plan.dotted_name import parts_of
from streamkit.plan.expression import Alias, Call, Cast, Expression, Literal, Reference
from streamkit.plan.expression_text import OF_KSQL, expression_text
from streamkit.plan.inputs import sources_of
from streamkit.plan.join_window import JoinWindow
from streamkit.plan.joining import WIDENINGS
from streamkit.plan.location import written_at
from streamkit.plan.operator import Key
from streamkit.plan.window_kinds.hopping import TimeWindow
from streamkit.plan.window_kinds.session import SessionWindow
from streamkit.sql.lowering.expression_parts import conjuncts, inside_of_column, references
from streamkit.sql.lowering.meaning import DAY_MS, Meaning
from streamkit.sql.lowering.names import ROWKEY, QueryNames
from streamkit.sql.lowering.scope import BOUNDS, AnyRows, Scope, ScopeColumn, fresh_name
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.printer.names import type_text
from streamkit.sql.tree.query import JoinClause
from streamkit.sql.tree.span import TextSpan

INNER, LEFT, RIGHT, FULL = "inner", "left", "right", "full"
MADE_UP_KEY = "rowkey"
SESSION = "session"  # windows, as formats of keys say them
FIRST_VALUES = ("coalesce", "ifnull", "nvl")


@dataclass(frozen=True)
class NamedOutside:
    """
    What a query names outside of a join's condition: columns by the name as it is written, sources all of whose columns are chosen,
    and the names that SELECT gives to expressions.
    """

    columns: frozenset[str]
    whole_sources: frozenset[str]
    aliases: tuple[tuple[str, Expression], ...]

    def names(self, column: ScopeColumn) -> bool:
        """Whether a column is named with its source, or chosen with all of the source."""
        wanted = (column.source.lower(), column.name.lower())
        named = (tuple(part.lower() for part in parts_of(name)[:2]) for name in self.columns)
        return column.source in self.whole_sources or wanted in named

    def names_alone(self, column: ScopeColumn) -> bool:
        """Whether a column's name is written without a source."""
        return any(parts_of(name)[0].lower() == column.name.lower() for name in self.columns)


@dataclass(frozen=True)
class JoinSide:
    """A side of a join, and the expressions that the condition compares there."""

    scope: Scope
    compared: tuple[Expression, ...]
    on: Key = ()

    @property
    def is_stream(self) -> bool:
        return isinstance(self.scope.rows, Stream)

    @property
    def words(self) -> str:
        return "stream" if self.is_stream else "table" if isinstance(self.scope.rows, Table) else "global table"

    @property
    def plain_key(self) -> Key | None:
        """The key without the bounds of windows; None if it is not known."""
        key = self.scope.key
        return None if key is None else tuple(name for name in key if name not in self.scope.bounds)

    @property
    def compares_key(self) -> bool | None:
        """Whether the condition compares the whole key; None if the key is not known."""
        names = {_whole_column(part) for part in self.compared if isinstance(part, Reference)}
        if self.scope.key is None:
            return None
        return names in (set(self.scope.key), set(self.plain_key or ())) and len(names) == len(self.compared)


@dataclass(frozen=True)
class Joining:
    """A join of what stands to its left with one more source."""

    clause: JoinClause
    text: ScriptText
    meaning: Meaning
    outside: NamedOutside

    def joined(self, left: Scope, right: Scope) -> Scope:
        """Both sides as one scope, whose windows are those of the left one."""
        windows = self._common_windows(left, right)
        if windows is not None and windows != windows_in_keys(right.rows, right.windows):
            right = self._with_ends(right, int(windows))
        sides = self._compared(left, right)
        (first, second), kind = self._in_order(*sides)
        return replace(self._rows(first, second, kind), sources=(*left.sources, *right.sources), windows=windows)

    def _compared(self, left: Scope, right: Scope) -> tuple[JoinSide, JoinSide]:
        """What the condition compares, of either side; TopologyError unless it is made of equalities of both sides."""
        places = self.text.places
        places.put_written(self.clause.on)
        pairs = [self._pair(part, left, right) for part in conjuncts(self.clause.on.expression)]
        if {(Reference(name), Reference(name)) for name in BOUNDS} <= set(pairs) and left.bounds and right.bounds:
            self._check_same_windows(left, right, "windows of one kind and length, or no equality of their ends")
        pairs += self._windows_of(left, right)
        sides = (JoinSide(left, tuple(one for one, _ in pairs)), JoinSide(right, tuple(other for _, other in pairs)))
        if self.meaning.names_results:
            self._check_windows_stay(sides)
        return sides

    def _check_windows_stay(self, sides: Sequence[JoinSide]) -> None:
        """TopologyError for a source with windows that is joined by another column than its key, which ksqlDB does not move."""
        for side in sides:
            if side.scope.bounds and side.compares_key is False:
                raise self._refused(
                    f"the key of {self._named(side)} has windows, and it is compared by another column, under which its rows would have none",
                    f"its key, {listed(side.plain_key)}",
                )

    def _windows_of(self, left: Scope, right: Scope) -> list[tuple[Expression, Expression]]:
        """The bounds of windows in the keys of both sides, which ksqlDB compares beside what the condition says; TopologyError if one has none."""
        if not self.meaning.names_results:
            return []
        windowed = [bool(one.bounds) for one in (left, right)]
        if all(windowed):
            return [(Reference(name), Reference(name)) for name in BOUNDS]
        if any(windowed):
            one, other = (left, right) if windowed[0] else (right, left)
            raise self.text.error(
                f"the keys of {' and '.join(one.sources)} have windows, and those of {' and '.join(other.sources)} have none, so no two are "
                "equal; expected both with windows, or both without",
                self.clause.span,
            )
        return []

    def _common_windows(self, left: Scope, right: Scope) -> str | None:
        """
        The windows of the result, which are those of the left side; None if they are not known, or a side has none.

        TopologyError for sessions beside windows of one length, which ksqlDB refuses as well.
        """
        windows = [windows_in_keys(one.rows, one.windows) if one.bounds else None for one in (left, right)]
        if None in windows or not self.meaning.names_results:
            return None
        if SESSION in windows:
            self._check_same_windows(left, right, "sessions on both sides, or on none")
        return windows[0]

    def _check_same_windows(self, left: Scope, right: Scope, expected: str) -> None:
        """TopologyError for windows of two lengths or kinds, whose bounds are never equal."""
        windows = [windows_in_keys(one.rows, one.windows) for one in (left, right)]
        if None not in windows and windows[0] != windows[1]:
            first, second = ("sessions" if one == SESSION else f"windows of {one} ms" for one in windows)
            raise self._refused(
                f"the keys of {' and '.join(left.sources)} have {first}, and those of {' and '.join(right.sources)} {second}, so no two are equal",
                expected,
            )

    def _with_ends(self, side: Scope, size_ms: int) -> Scope:
        """
        The side with windows of this length in its key, and their own ends beside it.

        A key is written with the start of its window alone, so windows of any two lengths are equal in ksqlDB if they start together.
        """
        own = fresh_name(f"{side.sources[0]}_{WINDOW_END}", side.names)
        end = Call("timestamp_millis", (Call("add", (Call("unix_millis", (Reference(WINDOW_START),)), Literal(size_ms))),))
        columns = [replace(one, column=own) if one.is_bound and one.column == WINDOW_END else one for one in side.columns or ()]
        columns += [
            replace(one, source="", is_shown=False) for one in side.columns or () if one.is_bound and one.column == WINDOW_END
        ]
        with written_at(self.text.at(self.clause.span)):
            changes = side.rows.to_stream() if isinstance(side.rows, Table) else side.rows  # a table has its key as it is
            assert isinstance(changes, Stream), "a global table has no windows"
            moved = changes.with_columns(Column(Alias(Reference(WINDOW_END), own)), Column(Alias(end, WINDOW_END)))
            rows = moved.to_table() if isinstance(side.rows, Table) else moved
        return replace(side, rows=rows, columns=tuple(columns))

    def _pair(self, condition: Expression, left: Scope, right: Scope) -> tuple[Expression, Expression]:
        span = self._span(condition)
        if not isinstance(condition, Call) or condition.function != "eq":
            raise self.text.error(
                "a join compares columns of both sides for equality; expected a = b, several of them joined by AND, and other "
                "conditions in WHERE",
                span,
            )
        both = _both(left, right)
        sides = [self._side(part, both, left, right) for part in condition.arguments]
        if set(sides) != {LEFT, RIGHT}:
            names = " and ".join(right.sources) if RIGHT in sides else " and ".join(left.sources)
            raise self.text.error(
                f"this condition of the join has columns of {names} alone; expected one side of = from {' or '.join(left.sources)}, and the "
                f"other one from {' or '.join(right.sources)}; a condition on one side belongs in WHERE",
                span,
            )
        ordered = condition.arguments if sides == [LEFT, RIGHT] else condition.arguments[::-1]
        one, other = (
            QueryNames(scope, self.text, self.meaning).resolved_part(part, span)
            for scope, part in zip((left, right), ordered, strict=True)
        )
        self._check_types((one, other), ordered, (left, right), span)
        return self._as_key(one, left), other

    def _as_key(self, compared: Expression, left: Scope) -> Expression:
        """
        What a further join compares: the key of the joins before it, where the query has a column that one of them compared with that key.

        In Spark's dialect each column is its side's, and the key of a FULL JOIN of tables is the first of all of them that is not null.
        """
        is_table = isinstance(left.rows, Table)
        if self.meaning.names_results:
            return key_compared(compared, left, is_of_tables=is_table) or compared
        copies = [one for one in left.columns or () if one.copied and one.copied in (left.key or ())]
        keys = {Reference(dotted_part(one.column)): one.copied for one in copies}
        parts = _first_values(compared) if is_table else ()
        whole = {keys.get(part) for part in parts if isinstance(part, Reference)}
        sources = {one.source for one in copies if Reference(dotted_part(one.column)) in parts}
        is_key = len(whole) == 1 and None not in whole and sources == set(left.sources)
        return Reference(dotted_part(str(whole.pop()))) if is_key else compared

    def _check_types(
        self, compared: Sequence[Expression], written: Sequence[Expression], sides: tuple[Scope, Scope], span: TextSpan
    ) -> None:
        """TopologyError for values of two types, unless the dialect widens one to the other."""
        types = [scope.type_of(part, self.text.at(span)) for scope, part in zip(sides, compared, strict=True)]
        is_ksql = self.meaning.names_results
        widens = not is_ksql and any(set(types) <= set(family) for family in WIDENINGS)
        if None in types or types[0] == types[1] or widens:
            return
        one, other = map(str, types)
        shown = (ksql_type(one), ksql_type(other)) if is_ksql else (one, other)
        expected = "a CAST"
        if not is_ksql:  # a table is looked up by its key as it is
            looked_up = [
                not isinstance(side.rows, Stream) and _whole_column(part) in (side.key or ())
                for part, side in zip(compared, sides, strict=True)
            ]
            place = looked_up.index(False) if any(looked_up) and not all(looked_up) else int(_loses_less(other, one))
            expected = self._cast(compared[place], written[place], sides[place], (other, one)[place], span)
        raise self.text.error(
            f"a join compares values of one type, and these are {shown[0]} and {shown[1]}; expected {expected}", span
        )

    def _cast(self, part: Expression, written: Expression, side: Scope, type: str, span: TextSpan) -> str:
        """The cast that gives a part of the condition another type, as the text would have it; words where there is none."""
        try:
            side.type_of(Cast(part, type), self.text.at(span))
        except TopologyError:
            return f"a value that is {type}"
        place = self.text.places.get(id(written))
        shown = expression_text(written) if place is None else self.text.text[slice(*place)]
        return f"CAST({shown} AS {type_text(type, DIALECTS[self.meaning.name])})"

    def _side(self, part: Expression, both: Scope, left: Scope, right: Scope) -> str:
        """The side that the columns of an expression belong to; TopologyError if they belong to both sides, empty if it has none."""
        names = QueryNames(both, self.text, self.meaning)
        sides = set()
        for reference in references(part):
            found = names.found(reference, self._span(reference))
            if found is None:
                names.resolved_part(reference, self._span(reference))  # tells which columns there are
            sides.add(RIGHT if found is not None and found.source in right.sources else LEFT)
        if len(sides) > 1:
            raise self.text.error(
                "one side of this equality has columns of both sides of the join; expected columns of one side each",
                self._span(part),
            )
        return next(iter(sides), "")

    def _in_order(self, left: JoinSide, right: JoinSide) -> tuple[tuple[JoinSide, JoinSide], str]:
        """The sides as the verb takes them, whose first one is kept by a left join; TopologyError if no order will do."""
        kind = self.clause.kind
        if kind == RIGHT:
            return self._in_kind(right, left, LEFT)
        return self._in_kind(left, right, kind)

    def _in_kind(self, left: JoinSide, right: JoinSide, kind: str) -> tuple[tuple[JoinSide, JoinSide], str]:
        self._check_window(left, right)
        if left.is_stream and not right.is_stream and kind == FULL:
            raise self._refused(
                "a FULL JOIN of a stream and a table cannot be: a row of the table gives no row by itself", "INNER or LEFT"
            )
        if not left.is_stream and right.is_stream:
            if self.meaning.names_results:
                raise self._refused(
                    f"a {left.words} stands before the stream that it is joined with",
                    "the stream in FROM, and the table behind JOIN",
                )
            if kind == INNER:
                return (right, left), kind
            raise self._refused(
                f"{self.clause.kind.upper()} JOIN would keep rows of a {left.words} that no record of the stream has met, and a {left.words} is only "
                "looked up",
                "INNER JOIN, or a join that keeps the records of the stream",
            )
        if not left.is_stream and right.compares_key is False and not self._covers_key(right, kind):
            if kind == INNER and left.compares_key:
                return (right, left), kind
            raise self._refused(
                f"tables are joined by the whole key of one of them: that of {self._named(right)} is {listed(right.plain_key)}, that of "
                f"{self._named(left)} {listed(left.plain_key)}" + self._turned(left, right, kind),
                f"an equality for each column of the key of {self._named(right)}",
            )
        if not left.is_stream and kind == FULL and left.compares_key is False:
            raise self._refused(
                f"a FULL JOIN of tables compares both keys, and that of {self._named(left)} is {listed(left.plain_key)}"
                + (self._turned(left, right, kind) if left.scope.made_up_key else ""),
                "an equality for each column of both keys, or INNER or LEFT",
            )
        if left.is_stream and not right.is_stream and right.compares_key is False and not self._covers_key(right, kind):
            raise self._refused(
                f"a {right.words} is looked up by its whole key, and that of {self._named(right)} is {listed(right.scope.key)}",
                "an equality for each of these columns, which stand there alone",
            )
        return (left, right), kind

    def _covers_key(self, right: JoinSide, kind: str) -> bool:
        """Whether an inner join compares the whole key and more, which a filter behind the join can do."""
        names = {_whole_column(part) for part in right.compared if isinstance(part, Reference)}
        return kind == INNER and bool(right.scope.key) and set(right.scope.key or ()) <= names

    def _turned(self, left: JoinSide, right: JoinSide, kind: str) -> str:
        if left.scope.made_up_key or right.scope.made_up_key:
            return "; the key behind a FULL JOIN of tables is the coalesce() of all columns that it compared"
        return f"; a {kind.upper()} JOIN keeps rows of the side that has the other's key" if left.compares_key else ""

    def _check_window(self, left: JoinSide, right: JoinSide) -> None:
        streams = left.is_stream and right.is_stream
        if streams and self.clause.within is None:
            raise self._refused(
                "two streams are joined without WITHIN, how far apart in time their records may be", "WITHIN 1 HOUR"
            )
        if not streams and self.clause.within is not None:
            raise self.text.error(
                f"WITHIN is for two streams, and a {left.words} and a {right.words} are joined here; expected no WITHIN: a record meets "
                "the table's row as it is at that time",
                self._within_span,
            )

    @property
    def _within_span(self) -> TextSpan:
        assert self.clause.within is not None
        return self.clause.within.span if self.clause.within.span.end else self.clause.span

    def _rows(self, left: JoinSide, right: JoinSide, kind: str) -> Scope:
        left, right, filters = self._without_filters(left, right)
        left, right = self._with_computed(left, "left"), self._with_computed(right, "right")
        dropped = right.on if right.is_stream else (right.scope.key or right.on)
        left = self._with_copies(left, left.on if kind == FULL else ())
        right = self._with_copies(right, dropped if kind in (LEFT, FULL) else ())
        right = self._renamed(right, left, dropped)
        with written_at(self.text.at(self.clause.span)):
            rows = self._verb(left, right, "outer" if kind == FULL else kind)
        scope = self._scope(rows, left, right, kind, dropped)
        for condition in filters:
            with written_at(self.text.at(self.clause.span)):
                resolved = QueryNames(scope, self.text, self.meaning).resolved_part(condition, self._span(condition))
                scope = scope.with_rows(scope.rows.filter(Column(resolved)))
        return scope

    def _without_filters(self, left: JoinSide, right: JoinSide) -> tuple[JoinSide, JoinSide, list[Expression]]:
        """Both sides without the equalities beyond a table's key, which become filters behind the join."""
        key = right.scope.key
        if right.is_stream or not key or len(right.compared) == len(set(right.compared)) <= len(key):
            return left, right, []
        kept: dict[str, int] = {}
        for place, part in enumerate(right.compared):
            if (name := _whole_column(part)) is not None and name in key:
                kept.setdefault(name, place)
        if len(kept) == len(right.compared):
            return left, right, []
        every = conjuncts(self.clause.on.expression)
        places = sorted(kept.values())
        others = [every[place] for place in range(len(every)) if place not in places]
        one, other = (replace(side, compared=tuple(side.compared[place] for place in places)) for side in (left, right))
        return one, other, others

    def _with_computed(self, side: JoinSide, which: str) -> JoinSide:
        """The side with a column for each expression that is compared; `on` has their names."""
        scope, on, added = side.scope, list[str](), list[Column]()
        for part in side.compared:
            if (name := _whole_column(part)) is not None and name not in on:
                on.append(name)
                continue
            if which == "right" and not side.is_stream:
                raise self._refused(
                    f"a {side.words} is looked up by its key as it is, and {self._named(side)} is compared by an expression",
                    "the column alone; compute on the other side of =",
                )
            name = self._computed_name(part, [*scope.names, *on])
            added.append(Column(Alias(part, name)))
            on.append(name)
            type = side.scope.type_of(part, self.text.at(self.clause.on.span))
            scope = scope.with_column(ScopeColumn("", name, name, type, is_shown=False))
            scope = replace(scope, computed={**scope.computed, part: name})
        if added:
            with written_at(self.text.at(self.clause.on.span)):
                scope = scope.with_rows(side.scope.rows.with_columns(*added))
        return replace(side, scope=scope, on=tuple(on))

    def _computed_name(self, part: Expression, taken: Iterable[str]) -> str:
        """The name that SELECT gives to this expression, else that of a made-up key."""
        made_up = ROWKEY if self.meaning.names_results else MADE_UP_KEY
        names_key = self.meaning.names_results and ROWKEY in self.outside.columns
        if names_key:  # which the query has beside the expression
            return fresh_name(made_up, taken)
        return fresh_name(next((name for name, expression in self.outside.aliases if expression == part), made_up), taken)

    def _with_copies(self, side: JoinSide, joined: Sequence[str]) -> JoinSide:
        """
        The side with copies of the columns that it is joined by, of those that the query names.

        The column of the join has values also where this side has no row, and a copy then has null.
        """
        scope, added = side.scope, list[Column]()
        columns = list(scope.columns or ())
        for place, column in enumerate(columns):
            if column.column in joined and is_asked_for(column, self.outside, self.clause, self.meaning):
                name = fresh_name(f"{column.source}_{column.name}", [*scope.names, *(one.column for one in columns)])
                added.append(Column(Alias(Reference(column.column), name)))
                columns[place] = replace(column, column=name, copied=column.column)
        if not added:
            return side
        hidden = [one for one in scope.columns or () if one.column in joined and one not in columns]
        columns += [replace(one, source="", is_shown=False) for one in hidden]
        with written_at(self.text.at(self.clause.span)):
            rows = scope.rows.with_columns(*added)
        return replace(side, scope=replace(scope, rows=rows, columns=tuple(columns)))

    def _renamed(self, right: JoinSide, left: JoinSide, dropped: Sequence[str]) -> JoinSide:
        """The right side without columns that have names of the left one, those of the join apart, which it does not give again."""
        scope = right.scope
        taken = {name.lower() for name in left.scope.names}
        every = [*left.scope.names, *scope.names]
        names: dict[str, str] = {}
        for column in scope.columns or ():
            if column.column.lower() in taken and column.column not in (*dropped, *names):
                names[column.column] = fresh_name(f"{column.source or 'right'}_{column.name}", [*every, *names.values()])
        if not names:
            return right
        columns = tuple(replace(one, column=names.get(one.column, one.column)) for one in scope.columns or ())
        with written_at(self.text.at(self.clause.span)):
            rows = scope.rows.rename(names)
        return replace(right, scope=replace(scope, rows=rows, columns=columns), on=tuple(names.get(one, one) for one in right.on))

    def _verb(self, left: JoinSide, right: JoinSide, how: str) -> Stream | Table:
        on = dict(zip(left.on, right.on, strict=True))
        one, other = left.scope.rows, right.scope.rows
        if self.meaning.names_results and isinstance(one, Stream) and how != INNER:
            one = one.filter(Column(_has_key(left)))  # such a record meets nothing, and gives nothing there
            other = other.filter(Column(_has_key(right))) if isinstance(other, Stream) and how == "outer" else other
        if isinstance(one, Stream) and isinstance(other, Stream):
            return one.join(other, on=on, how=how, within=self._window(how))
        if isinstance(one, Stream):
            return one.join(other, on=on, how=how)
        assert isinstance(one, Table)
        if not isinstance(other, Table):
            raise self._refused("a table cannot be joined with a global table", "a stream before it, or two tables")
        keys = (left.plain_key, right.plain_key)
        return one.join(other, on=None if keys == (left.on, right.on) else on, how=how)

    def _window(self, how: str) -> JoinWindow:
        within = self.clause.within
        assert within is not None
        before, after = within.before_ms, within.after_ms
        if self.clause.kind == RIGHT and not self.meaning.names_results:  # in ksqlDB BEFORE is of the left source there, too
            before, after = after, before
        if within.grace_ms is not None:
            return JoinWindow(before, after, within.grace_ms)
        if how != INNER and self.meaning.asks_for_grace:
            raise self.text.error(
                f"a {self.clause.kind.upper()} JOIN of streams gives a record without a partner when no late one can come any more, and does "
                "not say when that is; expected GRACE PERIOD behind WITHIN, as in WITHIN 1 HOUR GRACE PERIOD 5 MINUTES",
                self._within_span,
            )
        return JoinWindow(before, after, max(DAY_MS - before - after, 0))

    def _scope(self, rows: Stream | Table, left: JoinSide, right: JoinSide, kind: str, dropped: Sequence[str]) -> Scope:
        """The columns of both sides; one that the rows do not have again is found under that of the other side."""
        partners = dict(zip(right.on, left.on, strict=True))
        types = {one.column: one.type for one in right.scope.columns or ()}
        if isinstance(rows, Stream):
            key: Key | None = left.on if isinstance(right.scope.rows, Stream | Table) else left.scope.key
        else:
            key = left.scope.key
        columns = [
            replace(
                one,
                type=_common(one.type, [types.get(other) for other, own in partners.items() if own == one.column]),
                copied="" if one.column in (key or ()) else one.copied,
            )
            for one in left.scope.columns or ()
        ]
        given = {one.column: one.type for one in columns}
        for one in right.scope.columns or ():
            if one.column not in dropped:
                columns.append(replace(one, copied=partners.get(one.copied, "")))
            elif one.is_shown and one.column in partners:
                own = partners[one.column]
                columns.append(replace(one, column=own, type=given.get(own)))
        is_compared = self.meaning.names_results and left.compares_key  # so what it is compared with is the key, too
        is_kept = left.scope.made_up_key and key == left.scope.key and not is_compared
        made_up = is_kept or kind == FULL or (self.meaning.names_results and self._is_of_expressions(left, right))
        sources = (*left.scope.sources, *right.scope.sources)
        computed = {} if kind == FULL else left.scope.computed
        joined, unknown = self._joined_names(left, right, kind), (*left.scope.partly_known, *right.scope.partly_known)
        return Scope(rows, sources, tuple(columns), key, joined, made_up, unknown, computed)

    @staticmethod
    def _is_of_expressions(left: JoinSide, right: JoinSide) -> bool:
        """Whether no side of the condition is a column as it is, so that the key is neither side's."""
        return not any(isinstance(one, Reference) for one in (*left.compared, *right.compared))

    def _joined_names(self, left: JoinSide, right: JoinSide, kind: str) -> Mapping[str, tuple[str, frozenset[str]]]:
        joined = {**right.scope.joined, **left.scope.joined}
        for condition in conjuncts(self.clause.on.expression):
            assert isinstance(condition, Call)
            parts = [parts_of(one.name) for one in condition.arguments if isinstance(one, Reference)]
            names = {self.meaning.folded(part[-1]) for part in parts}
            if len(parts) != 2 or len(names) != 1:
                continue
            (name,) = names
            place = next((n for n, one in enumerate(left.on) if self._is_called(left, one, name)), None)
            if place is not None:
                before = joined.get(name)
                column = before[0] if before is not None and kind != FULL else left.on[place]
                sources = {
                    one.source for side in (left, right) for one in side.scope.shown if self.meaning.folded(one.name) == name
                }
                named = {part[0] for part in parts if len(part) > 1} or sources
                joined[name] = (column, frozenset(sources & named) | (before[1] if before else frozenset()))
        return joined

    def _is_called(self, side: JoinSide, column: str, name: str) -> bool:
        """Whether a column that is compared goes by this name in the query, or did before a copy of it was made."""
        folded = self.meaning.folded
        return folded(column) == name or any(
            one.column == column and folded(one.name) == name for one in side.scope.columns or ()
        )

    def _named(self, side: JoinSide) -> str:
        return " and ".join(side.scope.sources)

    def _span(self, part: Expression) -> TextSpan:
        place = self.text.places.get(id(part))
        return self.clause.on.span if place is None else TextSpan(*place)

    def _refused(self, what: str, expected: str) -> TopologyError:
        return self.text.error(f"{what}; expected {expected}", self.clause.span)


def key_compared(compared: Expression, left: Scope, *, is_of_tables: bool) -> Reference | None:
    """
    The key that a further join compares in the ksql dialect, if a column is compared that a join before it compared; None of anything else.

    In ksqlDB both columns of an equality are the key, also where a LEFT or RIGHT JOIN found no row, so that one of them is null. So are
    the keys of tables behind a FULL JOIN, whose key is one of its own, and the first of them that is not null; streams are moved to what is
    compared there.
    """
    if left.made_up_key and not is_of_tables:
        return None
    keys = {Reference(dotted_part(one.column)): one.copied for one in left.columns or () if one.copied in (left.key or ())}
    first_values = _first_values(compared) if is_of_tables else ()
    if first_values:
        keys |= {Reference(dotted_part(name)): name for name in left.key or ()}
    found = {keys.get(one) if isinstance(one, Reference) else None for one in first_values or (compared,)}
    name = found.pop() if len(found) == 1 else None
    return None if name is None else Reference(dotted_part(name))


def _first_values(expression: Expression) -> tuple[Expression, ...]:
    """What an expression gives the first of that is not null; nothing of another one."""
    match inside_of_column(expression):
        case Call(function, arguments) if function.removeprefix(OF_KSQL) in FIRST_VALUES:
            return arguments
    return ()


def is_asked_for(column: ScopeColumn, outside: NamedOutside, clause: JoinClause, meaning: Meaning) -> bool:
    """Whether a query names a column of its own side, and not the one that both have under one name."""
    if not column.is_shown:
        return False
    return outside.names(column) or (outside.names_alone(column) and not _is_compared_by_name(column, clause, meaning))


def _is_compared_by_name(column: ScopeColumn, clause: JoinClause, meaning: Meaning) -> bool:
    """Whether the condition compares columns of this name with each other."""
    for condition in conjuncts(clause.on.expression):
        arguments = condition.arguments if isinstance(condition, Call) else ()
        names = {meaning.folded(parts_of(one.name)[-1]) for one in arguments if isinstance(one, Reference)}
        if names == {meaning.folded(column.name)}:
            return True
    return False


def listed(names: Sequence[str] | None) -> str:
    """The columns of a key, in words."""
    return "not known" if names is None else ", ".join(names) or "without columns"


def _both(left: Scope, right: Scope) -> Scope:
    """A scope in which the names of a condition are looked for; its rows are those of neither side."""
    others = (
        replace(one, column=f"right {one.column}") for one in right.columns or ()
    )  # no column of the left side, however it is called
    columns = (*(left.columns or ()), *others)
    unknown = (*left.partly_known, *right.partly_known)
    return Scope(left.rows, (*left.sources, *right.sources), columns, left.key, left.joined, left.made_up_key, unknown)


def windows_in_keys(rows: AnyRows, known: str | None = None) -> str | None:
    """The windows in the keys of a stream or table, as formats of keys say them: their length in milliseconds, or session; else those `known`."""
    window = rows.node.traits.window
    if isinstance(window, SessionWindow):
        return SESSION
    if isinstance(window, TimeWindow):
        return str(window.size_ms)
    if known is not None:
        return known
    decodings = [one.decoding for one in sources_of([rows.node]) if one.decoding is not None]
    return decodings[0].keys.setting(WINDOW) or None if len(decodings) == 1 else None


def _common(type: str | None, others: Iterable[str | None]) -> str | None:
    """The type in which a join compares a column, and gives it."""
    for other in others:
        family = next((one for one in WIDENINGS if type in one and other in one), None)
        if other is None or type is None:
            return None
        type = max(type, other, key=family.index) if family else type
    return type


def _loses_less(one: str, other: str) -> bool:
    """Whether a type has fewer values than another one, so that rather its values become the other's: all have texts, and days are moments."""
    order = ("boolean", *INTEGERS, "decimal", *FLOATS, "date", "timestamp_ntz", "timestamp", "string")
    ranks = [
        (order.index(name) if (name := type.partition("(")[0]) in order else len(order), decimal_of(type) or ())
        for type in (one, other)
    ]
    return ranks[0] < ranks[1]


def _whole_column(part: Expression) -> str | None:
    """The column that an expression is; None for a field of one, and for anything else."""
    parts = parts_of(part.name) if isinstance(part, Reference) else ()
    return parts[0] if len(parts) == 1 else None


def _has_key(side: JoinSide) -> Expression:
    """Whether a column that is joined by is not null; the bounds of windows never are."""
    found = [Call("isnotnull", (Reference(dotted_part(name)),)) for name in side.on if name not in side.scope.bounds]
    return reduce(lambda one, other: Call("or", (one, other)), found)
