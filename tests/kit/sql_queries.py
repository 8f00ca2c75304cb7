"""Queries as values, from short texts of their parts, for tests of what is made of them."""

from __future__ import annotations

from streamkit.expressions.analysis.sql import parse_sql
from streamkit.sql.lowering.lowering import LoweredQuery, lowered
from streamkit.sql.lowering.scope import source_of
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.tree.query import JoinClause, Query, SelectColumn, SourceName, Star, Subquery
from streamkit.sql.tree.span import Name, Written


def written(text):
    """An expression."""
    return Written(parse_sql(text))


def item(given):
    """An item of SELECT: its text, or a pair of that and its name."""
    if isinstance(given, tuple):
        return SelectColumn(written(given[0]), Name(given[1]))
    if given.endswith("*"):
        return Star(Name(given[:-2]) if len(given) > 1 else None)
    return SelectColumn(written(given))


def source(given):
    """A source: its name, and behind a space what the query calls it; or a pair of a query and its name."""
    if isinstance(given, tuple):
        return Subquery(given[0], Name(given[1]))
    name, _, alias = given.partition(" ")
    return SourceName(Name(name), Name(alias) if alias else None)


def join(kind, right, on, within=None):
    """A join with one more source."""
    return JoinClause(kind, source(right), written(on), within)


def query(items, given, *joins, **clauses):
    """A query; clauses are texts, or lists of texts where there are several."""
    for name in ("where", "having"):
        if name in clauses:
            clauses[name] = written(clauses[name])
    for name in ("group_by", "partition_by"):
        if name in clauses:
            clauses[name] = tuple(written(text) for text in clauses[name])
    return Query(tuple(item(one) for one in items), source(given), joins, **clauses)


def lowered_query(asked, **handles) -> LoweredQuery:
    """What a query stands for over these handles."""
    return lowered(asked, {name: source_of(handle) for name, handle in handles.items()}, ScriptText(""))


def rows_of(asked, **handles):
    """The stream or table that a query stands for."""
    return lowered_query(asked, **handles).rows
