"""SELECT: a query that is run once, with how its rows are found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from streamkit.errors import Location
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.plan.expression import TypedExpression
from streamkit.plan.expression_text import shown_text
from streamkit.plan.on_error import FAIL
from streamkit.schema import Schema
from streamkit.sql.execution.script_state import ScriptState
from streamkit.sql.execution.stored_source import SourceReading
from streamkit.sql.lowering.named_types import with_named_types
from streamkit.sql.pull.execution import PullExecution, failing_at
from streamkit.sql.pull.input import ReadPath, condition_text
from streamkit.sql.pull.matching import Matching
from streamkit.sql.pull.plan import PlannedOrder, PlannedSide, PullPlan
from streamkit.sql.pull.planning import ORDER_COLUMN, planned
from streamkit.sql.pull.reading import PullReader
from streamkit.sql.pull.relation import PullRelation, rows_of_query
from streamkit.sql.pull.source import ReadRows, StoreRows, TopicRows
from streamkit.sql.tree.query import Query
from streamkit.state.view import open_view

STORE_SEPARATOR = "/"  # between an application and its store, as one name: `pages/counts`


@dataclass(frozen=True)
class SessionRelations:
    """What a query may read once: streams and tables, topics, and stores of applications."""

    reading: SourceReading
    skips_unreadable: bool = False

    @classmethod
    def of(cls, state: ScriptState) -> SessionRelations:
        """Those of a script, which leaves out what cannot be read if its persistent queries do."""
        return cls(state.reading, state.settings.script.what_fails != FAIL)

    def relation(self, name: str) -> PullRelation | None:
        """A stream or table, else a topic, else the store of an application."""
        stored: StoredSource | None = self.reading.source(name)
        if stored is not None:
            found = self.reading.relation(stored)
            timed = found.timed
            if self.skips_unreadable:
                found = replace(found, source=_skipping(found.source), timed=timed and (lambda names: _skipping(timed(names))))
            return found
        application, separator, store = name.partition(STORE_SEPARATOR)
        return self._store(application, store) if separator else None

    def names(self) -> Sequence[str]:
        """The streams and tables, and the topics."""
        return self.reading.definitions.names()

    def _store(self, application: str, store: str) -> PullRelation:
        view = open_view(self.reading.definitions.log, application, store)
        rows = StoreRows(application, store, Schema.from_arrow(view.schema), view.key.names)
        return PullRelation(rows_of_query(self.reading.time_zone).rows, rows)


def _skipping(source: ReadRows) -> ReadRows:
    """The source without records that cannot be read; a store has no such rows."""
    return replace(source, skips_unreadable=True) if isinstance(source, TopicRows) else source


@dataclass(frozen=True)
class PlannedQuery:
    """A query that is run once, ready to be run."""

    plan: PullPlan
    reader: PullReader
    matching: Matching
    at: Location

    def table(self) -> pa.Table:
        """Its rows, of one moment; EvaluationError at the query's place for one that makes an expression fail."""
        with failing_at(self.at, self.plan.parts):
            is_plain = not any(
                isinstance(side.read, PullPlan) for side in self.plan.sides
            )  # WHERE is what fails as rows are read
            with failing_at(self.plan.where_at if is_plain else None, self.plan.parts):
                inputs = self.reader.read(list(self.plan.inputs()))
            return PullExecution(self.matching).rows(self.plan, iter(inputs))

    def lines(self) -> list[str]:
        """How its rows are found, and what is done with them, a line each."""
        paths = iter(self.reader.paths(list(self.plan.inputs())))
        return list(_lines(self.plan, paths))


def planned_query(
    state: ScriptState, query: Query, reader: PullReader, matching: Matching, as_of_ms: int | None = None
) -> PlannedQuery:
    """A query that is run once, as of a time unless it says another one; TopologyError at the place of what is wrong."""
    script = state.settings.script
    query = with_named_types(query, state.types, state.text_in_dialect)
    plan = planned(query, SessionRelations.of(state), state.text, script.meaning, script.time_zone)
    return PlannedQuery(plan.as_of(as_of_ms), reader, matching, state.text.at(query.span))


def _lines(plan: PullPlan, paths: Iterator[ReadPath]) -> Iterator[str]:
    """The steps of a plan, from its result down to its sources."""
    if plan.limit is not None:
        yield f"limit {plan.limit:,}"
    if plan.order:
        yield "order by " + ", ".join(_order_text(one) for one in plan.order)
    if plan.is_distinct:
        yield "distinct rows"
    yield "select " + ", ".join(_named(name, one) for name, one in plan.columns)
    if plan.groups is not None:
        if plan.groups.having is not None:
            yield f"having {shown_text(plan.groups.having)}"
        by = ", ".join(_named(name, one) for name, one in plan.groups.columns)
        yield f"group by {by}" if by else "one group"
    if plan.explosion is not None:
        yield plan.explosion.text()
    if plan.where is not None:
        yield f"where {shown_text(plan.where)}"
    for join in reversed(plan.joins):
        keys = " and ".join(f"{shown_text(one)} = {shown_text(other)}" for one, other in zip(join.left, join.right, strict=True))
        rest = "" if join.rest is None else shown_text(join.rest)
        yield f"{join.kind} join on {' and '.join(filter(None, [keys, rest])) or 'every pair'}"
    for side in plan.sides:
        for line in _side_lines(side, paths):
            yield f"  {line}"


def _side_lines(side: PlannedSide, paths: Iterator[ReadPath]) -> Iterator[str]:
    if isinstance(side.read, PullPlan):
        yield from _lines(side.read, paths)
        return
    condition = condition_text(side.read)
    moment = "" if side.read.as_of_ms is None else f", as of {side.read.as_of_ms} ms"
    yield next(paths).text() + moment + (f", where {condition}" if condition else "")


def _order_text(order: PlannedOrder) -> str:
    name = order.column if not order.column.startswith(ORDER_COLUMN) else "an expression"
    return f"{name}{' desc' if order.is_descending else ''} nulls {'first' if order.nulls_first else 'last'}"


def _named(name: str, expression: TypedExpression) -> str:
    text = shown_text(expression)
    return text if text == name else f"{text} as {name}"
