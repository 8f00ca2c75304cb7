"""DROP STREAM and DROP TABLE, TERMINATE, PAUSE and RESUME."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import replace

from streamkit.log.catalog.sql_queries import PAUSED, RUNNING, StoredQuery
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.sql.execution.backfill import built_beside, without_built
from streamkit.sql.execution.script_state import Changed, ScriptState
from streamkit.sql.tree.statements import ControlQuery, DropSource

TERMINATE, PAUSE, RESUME = "terminate", "pause", "resume"
DONE = {TERMINATE: "is terminated", PAUSE: "is paused", RESUME: "goes on"}


def drop_source(state: ScriptState, statement: DropSource) -> Changed:
    """Forget a stream or table, with the query that fills it; with CASCADE all that reads it, too."""
    span = statement.name.span if statement.name.span.end else statement.span
    known = state.declared(statement.name.text)
    if known is None:
        if statement.if_exists:
            return Changed(f"There is no stream or table {statement.name.text}.")
        raise state.error(_unknown(statement.name.text, state.definitions.sources), span)
    if known.kind != statement.kind:
        raise state.error(f"{known.name} is a {known.kind}; expected DROP {known.kind.upper()} {known.name}", span)
    if statement.deletes_topic and known.is_read_only:
        raise state.error(
            f"{known.name} is a SOURCE {known.kind.upper()}, whose topic is another's; expected DROP without DELETE TOPIC", span
        )
    own = None if known.query is None else state.definitions.queries.get(known.query)
    together = [] if own is None else [one.id for one in state.definitions.queries_of(own.application) if one.id != own.id]
    if own is not None and together:
        raise state.error(
            f"{own.id}, which fills {known.name}, shares the application {own.application} with {', '.join(together)}; expected TERMINATE {own.id} "
            "before, which ends all of them",
            span,
        )
    using = _users(state, known)
    if using and not statement.is_cascade:
        raise state.error(
            f"{known.name} is used by {', '.join(_words(one, known) for one in using)}; expected TERMINATE of these before, or DROP "
            f"{known.kind.upper()} {known.name} CASCADE",
            span,
        )
    told: list[str] = []
    _drop(state, known, told, deletes_topic=statement.deletes_topic)
    return Changed(" ".join(told))


def _users(state: ScriptState, source: StoredSource) -> list[StoredQuery]:
    """The queries that read a source, and those that write to it but for its own."""
    found = [*state.definitions.readers(source.name), *state.definitions.writers(source.name)]
    return [one for one in {one.id: one for one in found}.values() if one.id != source.query]


def _words(query: StoredQuery, source: StoredSource) -> str:
    return f"{query.id}, which {'writes to' if query.sink == source.name else 'reads'} it"


def _drop(state: ScriptState, source: StoredSource, told: list[str], *, deletes_topic: bool) -> None:
    """Drop a source, and before it all that uses it: queries end, and each stream or table that such a query has created is dropped."""
    if source.name not in state.definitions.sources:
        return
    for query in _users(state, source):
        if query.id not in state.definitions.queries:  # gone with what it filled
            continue
        filled = state.definitions.sources.get(query.sink)
        if filled is not None and filled.query == query.id and filled.name != source.name:
            _drop(state, filled, told, deletes_topic=deletes_topic)
        else:
            _end(state, query, told)
    if source.query is not None and source.query in state.definitions.queries:
        _end(state, state.definitions.queries[source.query], told)
    state.definitions = state.definitions.without_source(source.name)
    told.append(f"{source.kind.capitalize()} {source.name} is dropped.")
    others = [one.name for one in state.definitions.sources.values() if one.topic == source.topic]
    if deletes_topic and state.definitions.find_topic(source.topic) is not None and not others:
        state.definitions = state.definitions.without_topic(source.topic)
        state.rows.pop(source.topic, None)  # a topic that is created under its name has none of them
        told.append(f"The topic {source.topic} is deleted.")
    elif deletes_topic and others:
        told.append(f"The topic {source.topic} stays, since {', '.join(others)} read it.")


def _end(state: ScriptState, query: StoredQuery, told: list[str]) -> None:
    for one in state.definitions.queries_of(query.application):
        state.definitions = without_built(state.definitions, one).without_query(one.id)
        told.append(f"Query {one.id} is terminated.")


def control_query(state: ScriptState, statement: ControlQuery) -> Changed:
    """Let queries end for good, wait, or go on."""
    queries = _meant(state, statement)
    for query in queries:
        if statement.action == TERMINATE:
            state.definitions = without_built(state.definitions, query).without_query(query.id)
            continue
        wanted = PAUSED if statement.action == PAUSE else RUNNING
        if query.wanted != wanted or (wanted == RUNNING and query.failure):
            changed = replace(query, wanted=wanted, version=query.version + 1, failure="")
            state.definitions = state.definitions.with_changed_query(changed)
            if (built := built_beside(query)) is not None:
                state.definitions = state.definitions.with_stopped(built.application)
    told = [f"Query {query.id} {DONE[statement.action]}." for query in queries]
    return Changed(" ".join(told) or "There are no queries.", queries[0].id if len(queries) == 1 else None)


def _meant(state: ScriptState, statement: ControlQuery) -> list[StoredQuery]:
    """The queries that a statement means: one, with those that share its application, or all."""
    if statement.query_id is None:
        return list(state.definitions.queries.values())
    found = state.definitions.query(statement.query_id.text)
    if found is None:
        names = state.definitions.queries
        raise state.error(
            _unknown(statement.query_id.text, names, "query"),
            statement.query_id.span if statement.query_id.span.end else statement.span,
        )
    return state.definitions.queries_of(found.application)


def _unknown(name: str, names: Iterable[str], what: str = "stream or table") -> str:
    there = list(names)
    near = difflib.get_close_matches(name.lower(), [one.lower() for one in there], 1)
    nearest = next((one for one in there if near and one.lower() == near[0]), None)
    return f"there is no {what} {name!r}; there are {', '.join(there) or 'none'}" + (
        f"; did you mean {nearest!r}?" if nearest else ""
    )
