"""Queries as values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from streamkit.sql.tree.span import NOWHERE, Name, TextSpan, Written


@dataclass(frozen=True)
class SourceName:
    """A stream or table by its name; `alias` is its name in the query, None if that is the same."""

    name: Name
    alias: Name | None = None


@dataclass(frozen=True)
class Subquery:
    """A query in FROM, with the name that it has there."""

    query: Query
    alias: Name | None = None


FromItem = SourceName | Subquery


@dataclass(frozen=True)
class SelectColumn:
    """An item of SELECT: an expression, and the name of its result if the query gives one."""

    written: Written
    alias: Name | None = None


@dataclass(frozen=True)
class Star:
    """`*`, or `c.*` with a qualifier."""

    qualifier: Name | None = None
    span: TextSpan = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class FieldsStar:
    """`e->*`, or `(e).*`: all fields of a struct."""

    written: Written


SelectItem = SelectColumn | Star | FieldsStar


@dataclass(frozen=True)
class Within:
    """`WITHIN 1 HOUR`, or `WITHIN (1 HOUR, 2 HOURS)`, and `GRACE PERIOD`; milliseconds. No grace is None."""

    before_ms: int
    after_ms: int
    grace_ms: int | None = None
    span: TextSpan = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class JoinClause:
    """A join of everything to its left with one more relation; `kind` is inner, left, right or full."""

    kind: str
    right: FromItem
    on: Written
    within: Within | None = None
    span: TextSpan = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class WindowClause:
    """
    `WINDOW`: `kind` is tumbling, hopping or session; milliseconds.

    `size_ms` is the gap of a session; `advance_ms` is that of hopping windows alone. What the query does not say is None.
    """

    kind: str
    size_ms: int
    advance_ms: int | None = None
    retention_ms: int | None = None
    grace_ms: int | None = None
    name: Name | None = None
    span: TextSpan = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Order:
    """An item of ORDER BY; `nulls_first` is None where the query does not say."""

    written: Written
    is_descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True)
class Query:
    """
    A query. `emit` is "changes" or "final", and "" for a query without EMIT: persistent queries give changes then, others are pulled once.

    `source` is None for `SELECT` without FROM. `group_by` and `partition_by` are None where the clause is missing; `PARTITION BY NULL` is a
    partition_by of no expression. `as_of` is the moment of `AS OF`. DISTINCT, ORDER BY and AS OF are for queries that are pulled.
    """

    items: tuple[SelectItem, ...]
    source: FromItem | None = None
    joins: tuple[JoinClause, ...] = ()
    window: WindowClause | None = None
    where: Written | None = None
    group_by: tuple[Written, ...] | None = None
    partition_by: tuple[Written, ...] | None = None
    having: Written | None = None
    order_by: tuple[Order, ...] = ()
    emit: str = ""
    limit: int | None = None
    is_distinct: bool = False
    as_of: Written | None = None
    span: TextSpan = field(default=NOWHERE, compare=False, repr=False)

    def sources_read(self) -> Iterator[Name]:
        """The names of all streams and tables that the query reads, also in queries in FROM, as often as they are written."""
        items: list[FromItem] = [] if self.source is None else [self.source]
        for item in (*items, *(join.right for join in self.joins)):
            if isinstance(item, SourceName):
                yield item.name
            else:
                yield from item.query.sources_read()
