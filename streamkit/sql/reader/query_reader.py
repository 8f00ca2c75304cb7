"""Queries."""

from __future__ import annotations

from dataclasses import replace

from streamkit.expressions.sql.expression_reader import NestedTooDeeplyError
from streamkit.expressions.sql.refusal import SyntaxRefusedError
from streamkit.expressions.sql.word import Word
from streamkit.plan.expression import Literal
from streamkit.sql.reader.clause_reader import FUNCTION_IN_FROM, SET_OPERATIONS, ClauseReader
from streamkit.sql.tree.query import (
    FieldsStar,
    FromItem,
    JoinClause,
    Order,
    Query,
    SelectColumn,
    SelectItem,
    SourceName,
    Star,
    Subquery,
    WindowClause,
    Within,
)
from streamkit.sql.tree.span import Written

NO_SOURCES = frozenset(
    ("AND", "AS", "FROM", "NOT", "OR", "SELECT", "WITH")
)  # behind FROM the name is missing before these; all others may be it
QUERIES_MAX = 25  # within each other
WINDOW_KINDS = ("TUMBLING", "HOPPING", "SESSION")
A_WINDOW = "TUMBLING (…), HOPPING (…) or SESSION (…)"
CLAUSE_ORDER = {  # the clauses in their order, each with its attribute of a query
    "FROM": "source", "JOIN": "joins", "WINDOW": "window", "WHERE": "where", "GROUP BY": "group_by", "PARTITION BY": "partition_by",
    "HAVING": "having", "ORDER BY": "order_by", "EMIT": "emit", "LIMIT": "limit", "AS OF": "as_of",
}  # fmt: skip
CLAUSE_NAMES = {"GROUP": "GROUP BY", "PARTITION": "PARTITION BY", "ORDER": "ORDER BY"} | dict.fromkeys(
    ("INNER", "LEFT", "RIGHT", "FULL"), "JOIN"
)
ADVICE = {
    "WHERE": "join both conditions by AND",
    "HAVING": "join both conditions by AND",
    "GROUP BY": "write its columns in one list",
}


class QueryReader(ClauseReader):
    """Reads queries."""

    _queries = 0

    def query(self) -> Query:
        """A query, from SELECT to its last clause."""
        self._queries += 1
        if self._queries > QUERIES_MAX:
            raise NestedTooDeeplyError(f"queries are nested too deeply; expected at most {QUERIES_MAX} levels", self.word.span)
        begin = self.word
        self.expect("SELECT")
        if self.is_at("TOP"):  # TOP 5
            self._check_other_clause()
        is_distinct = self.took("DISTINCT")
        items = [self._item()]
        while self.took(","):
            items.append(self._item())
        found = self._with_clauses(tuple(items), is_distinct=is_distinct, begin=begin)
        self._queries -= 1
        return found

    def _with_clauses(self, items: tuple[SelectItem, ...], *, is_distinct: bool, begin: Word) -> Query:
        """The query that has these items, with the clauses behind them in their order."""
        source = self._relation() if self.took("FROM") else None
        found = Query(
            items,
            is_distinct=is_distinct,
            source=source,
            joins=() if source is None else self._joins(),
            window=self._window() if self.took("WINDOW") else None,
            where=self.written() if self.took("WHERE") else None,
            group_by=self._grouped() if self.took("GROUP") else None,
            partition_by=self._partitioned() if self.took("PARTITION") else None,
            having=self.written() if self.took("HAVING") else None,
            order_by=self._ordered() if self.took("ORDER") else (),
            emit=self._emit() if self.took("EMIT") else "",
            limit=self.whole_number("how many rows, a whole number") if self.took("LIMIT") else None,
            as_of=self._as_of(),
        )
        if (clause := self._clause_here()) in CLAUSE_ORDER:
            raise self._misplaced(clause, found)
        if self.begins_set_operation():
            raise self._refused(f"there is no {self.word.key} of two queries; {SET_OPERATIONS[self.word.key]}", self.word)
        self._check_other_clause()
        if [one.key for one in self.words[max(self.place - 2, 0) : self.place]] == ["AS", "OF"] and self.word.kind == "name":
            raise self._refused("AS OF has a constant time behind it, as in AS OF '2026-01-31 10:00:00'", self.word)
        return replace(found, span=self.span_from(begin))

    def _check_other_clause(self) -> None:
        """SyntaxRefusedError for a clause that other SQL has."""
        if advice := self.other_clause():
            raise self._refused(advice, self.word)

    def _item(self) -> SelectItem:
        begin = self.word
        if self.took("*"):
            if self.is_at("EXCEPT", "EXCLUDE") and self.is_before("(") and self.ahead(2).key not in ("SELECT", "("):
                raise self._refused(f"there is no * {self.word.key}; name the columns one by one", self.word)
            return Star(None, begin.span)
        if begin.kind in ("name", "quoted") and self.is_before(".") and self.ahead(2).key == "*":
            qualifier = self.written_name()
            self.move()
            self.move()
            return Star(qualifier, self.span_from(begin))
        self.item_start = begin.start
        written = self.written()
        self.item_start = -1
        if self.is_at(".", "->") and self.is_before("*"):
            self.move()
            self.move()
            return FieldsStar(written)
        return SelectColumn(written, self.alias())

    def ends_at_star(self, start: int) -> bool:
        return start == self.item_start

    def _relation(self) -> FromItem:
        """A source, or a query in parentheses, and the name that it has here."""
        if self.took("("):
            query = self.query()
            self.expect(")")
            return Subquery(query, self.alias())
        if self.word.key in NO_SOURCES or self.begins_clause():
            raise self.unexpected("the name of a stream or table, or a query in parentheses")
        if self.begins_function():
            raise self._refused(FUNCTION_IN_FROM, self.word)
        return SourceName(self.source_name(), self.alias())

    def _joins(self) -> tuple[JoinClause, ...]:
        found = []
        while self.begins_clause(at_end=True) and CLAUSE_NAMES.get(self.word.key, self.word.key) == "JOIN":
            found.append(self._join())
        self.asks("JOIN", "INNER", "LEFT", "RIGHT", "FULL")
        if self.is_at(","):
            if self.begins_function(1):
                raise self._refused(FUNCTION_IN_FROM, self.ahead())
            raise self.unexpected("JOIN … ON between two sources")
        return tuple(found)

    def _join(self) -> JoinClause:
        begin = self.word
        kind = "inner"
        if not self.is_at("JOIN"):
            kind = self.move().key.lower()
            if kind != "inner":
                self.took("OUTER")
        self.expect("JOIN")
        right = self._relation()
        within = self._within() if self.is_at("WITHIN") else None
        for place in (self.place - 1, self.place):  # which was read as the name of the source, or is behind it
            if self.words[place].key == "USING" and self.words[place + 1].key == "(":
                advice = "there is no USING; name the columns that are equal: JOIN … ON a.id = b.id"
                raise self._refused(advice, self.words[place])
        self.expect("ON")
        on = self.written()
        if self.is_at("WITHIN"):
            raise self._refused("found WITHIN behind ON; it belongs before ON: JOIN … WITHIN 1 HOUR ON …", self.word)
        return JoinClause(kind, right, on, within, self.span_from(begin))

    def _within(self) -> Within:
        begin = self.move()
        if self.took("("):
            before = self.duration()
            self.expect(",")
            after = self.duration()
            self.expect(")")
        else:
            before = after = self.duration()
        return Within(before, after, self._grace() if self.is_at("GRACE") else None, self.span_from(begin))

    def _grace(self) -> int:
        self.move()
        self.expect("PERIOD")
        return self.duration()

    def _window(self) -> WindowClause:
        begin = self.words[self.place - 1]
        self.asks(*WINDOW_KINDS)
        is_named = not (self.is_at(*WINDOW_KINDS) and self.is_before("("))
        name = self.written_name(expected=A_WINDOW) if is_named else None
        if not self.is_at(*WINDOW_KINDS):
            raise self.unexpected(A_WINDOW)
        kind = self.move().key.lower()
        self.expect("(")
        sizes = self._window_sizes(kind)
        return WindowClause(kind, name=name, span=self.span_from(begin), **sizes)

    def _window_sizes(self, kind: str) -> dict[str, int]:
        """What is between the parentheses of a window: its size first, then the rest in any order."""
        if kind != "session":
            self.expect("SIZE")
        found = {"size_ms": self.duration()}
        readers = {"RETENTION": "retention_ms", "GRACE": "grace_ms"} | ({"ADVANCE": "advance_ms"} if kind == "hopping" else {})
        while self.took(","):
            if not self.is_at(*readers):
                raise self.unexpected(
                    " or ".join({"GRACE": "GRACE PERIOD", "ADVANCE": "ADVANCE BY"}.get(key, key) for key in readers)
                )
            key = self.word.key
            if readers[key] in found:
                raise self._refused(f"{key} is given twice", self.word)
            found[readers[key]] = self._grace() if key == "GRACE" else self._behind_word(key)
        if not self.took(")"):
            raise self.unexpected("a comma or )")
        if kind == "hopping" and "advance_ms" not in found:
            raise self._refused(
                "a hopping window says how often one begins; expected ADVANCE BY behind its SIZE", self.words[self.place - 1]
            )
        return found

    def _behind_word(self, key: str) -> int:
        self.move()
        if key == "ADVANCE":
            self.expect("BY")
        return self.duration()

    def _grouped(self) -> tuple[Written, ...]:
        self.expect("BY")
        found: list[Written] = []
        while True:
            found += self._group()
            if not self.took(","):
                return tuple(found)

    def _group(self) -> list[Written]:
        """An expression, or several in parentheses."""
        if (self.is_at("ROLLUP", "CUBE") and self.is_before("(")) or (self.is_at("GROUPING") and self.is_before("SETS")):
            raise self._refused(f"there is no {self.word.key} of groups; write a query for each grouping", self.word)
        place = self.place
        if self.took("(") and self._has_comma_before_closing():
            found = [self.written()]
            while self.took(","):
                found.append(self.written())
            self.expect(")")
            return found
        self.move_to(place)
        return [self.written()]

    def _has_comma_before_closing(self) -> bool:
        """Whether the parenthesis that has just been opened holds a list, and nothing goes on behind it."""
        depth, has_comma = 1, False
        for place in range(self.place, len(self.words)):
            key = self.words[place].key
            depth += key in ("(", "[")
            depth -= key in (")", "]")
            has_comma |= depth == 1 and key == ","
            if depth == 0:
                following = self.words[place + 1]
                return has_comma and following.key not in (".", "[", "->", "=>") and following.key not in self.dialect.operators
        return False

    def _partitioned(self) -> tuple[Written, ...]:
        found = self._grouped()
        return () if len(found) == 1 and found[0].expression == Literal(None) else found

    def _ordered(self) -> tuple[Order, ...]:
        self.expect("BY")
        found = [self._order()]
        while self.took(","):
            found.append(self._order())
        return tuple(found)

    def _order(self) -> Order:
        written = self.written()
        is_descending = not self.took("ASC") and self.took("DESC")
        nulls_first = None
        if self.took("NULLS"):
            if not self.is_at("FIRST", "LAST"):
                raise self.unexpected("FIRST or LAST")
            nulls_first = self.move().key == "FIRST"
        return Order(written, is_descending, nulls_first)

    def _emit(self) -> str:
        if not self.is_at("CHANGES", "FINAL"):
            raise self.unexpected("CHANGES or FINAL")
        return self.move().key.lower()

    def _as_of(self) -> Written | None:
        if not self.begins_as_of():
            return None
        self.move()
        self.move()
        return self.written()

    def _clause_here(self) -> str:
        """The clause that begins here; the word itself where none does."""
        if self.begins_as_of():
            return "AS OF"
        return CLAUSE_NAMES.get(self.word.key, self.word.key) if self.begins_clause() else ""

    def _misplaced(self, clause: str, query: Query) -> SyntaxRefusedError:
        """The error that a clause is behind one that belongs behind it, or is there twice."""
        seen = [name for name, attribute in CLAUSE_ORDER.items() if _is_there(name, getattr(query, attribute))]
        last = seen[-1] if seen else "SELECT"
        if clause in seen and clause != "JOIN":
            return self._refused(f"found a second {clause}; {ADVICE.get(clause, 'expected it once')}", self.word)
        order = list(CLAUSE_ORDER)
        following = [name for name in seen if order.index(name) > order.index(clause)]
        place = f"before {following[0]}" if following else "behind FROM"
        return self._refused(f"found {clause} behind {last}; it belongs {place}", self.word)


def _is_there(clause: str, value: object) -> bool:
    """Whether a query has the clause: PARTITION BY NULL has no expression, and is one."""
    return value not in (None, "") and (value != () or clause == "PARTITION BY")
