"""EXPLAIN: how a statement would be done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from streamkit.dsl.topology import Topology
from streamkit.engine.runs.compile import compile_passing_over
from streamkit.plan.explain import explain_program
from streamkit.plan.refusal import stop_at
from streamkit.sql.execution.backfill import built_beside
from streamkit.sql.execution.pushing import pushed_lines
from streamkit.sql.execution.queries import CopiedLog, create_as, lowered_query, topology_of_query
from streamkit.sql.execution.script_state import ScriptState
from streamkit.sql.execution.selecting import planned_query
from streamkit.sql.pull.matching import Matching
from streamkit.sql.pull.reading import PullReader
from streamkit.sql.tree.span import Name
from streamkit.sql.tree.statements import CreateAs, Explain, InsertQuery, SelectStatement


def explanation(state: ScriptState, statement: Explain, reader: PullReader, matching: Matching) -> Callable[[], list[str]]:
    """
    What gives the lines of EXPLAIN, once all before it is written: of a query that is run once how its rows are found, of others the topology.

    TopologyError at the place of what is wrong.
    """
    subject = statement.subject
    if isinstance(subject, Name):
        query = state.definitions.query(subject.text)
        if query is None:
            there = ", ".join(state.definitions.queries) or "none"
            raise state.error(
                f"there is no query {subject.text!r}; there are {there}", subject.span if subject.span.end else statement.span
            )
        lines = _topology_lines(state, topology_of_query(state.definitions, query))
        return lambda: lines
    if isinstance(subject, SelectStatement):
        if subject.query.emit:
            pushed = pushed_lines(state, subject.query)
            return lambda: pushed
        return planned_query(state, subject.query, reader, matching).lines
    if isinstance(subject, CreateAs) and state.taken(subject.name.text) is not None:
        changed = _changed_lines(state, subject)
        return lambda: changed
    if isinstance(subject, CreateAs | InsertQuery):
        made = _topology_lines(state, lowered_query(state.definitions, subject, state.text, state.settings, "explained").topology)
        return lambda: made
    raise state.error("EXPLAIN is for SELECT, CREATE … AS SELECT, INSERT INTO … SELECT, and the id of a query", subject.span)


def _changed_lines(state: ScriptState, statement: CreateAs) -> list[str]:
    """What a statement whose name is taken would say, and the topology as OR REPLACE would make it."""
    tried = replace(state, is_rehearsed=True)
    told = create_as(tried, statement)
    if statement.if_not_exists:
        return [f"It would say: {told.message}"]
    query = tried.definitions.queries[str(told.query_id)]
    return [
        *f"It would say: {told.message}".splitlines(),
        "",
        *_topology_lines(tried, topology_of_query(tried.definitions, built_beside(query) or query)),
    ]


def _topology_lines(state: ScriptState, topology: Topology) -> list[str]:
    program = compile_passing_over(topology, CopiedLog(state.definitions), stop_at)
    return [*topology.describe().splitlines(), "", *explain_program(program).splitlines()]
