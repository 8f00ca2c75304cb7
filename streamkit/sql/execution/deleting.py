"""DELETE FROM table WHERE key = …: tombstones for keys, checked with the script and written with it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

import pyarrow as pa

from streamkit.expressions.sql.dialect import DIALECTS
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.topic.topic import check_writable
from streamkit.names import DELETED
from streamkit.plan.expression import TypedExpression
from streamkit.schema import SchemaColumn
from streamkit.sql.execution.inserting import check_key, encoded
from streamkit.sql.execution.schema_registration import let_write_keys, written_by
from streamkit.sql.execution.script_state import Changed, ScriptState
from streamkit.sql.execution.selecting import SessionRelations
from streamkit.sql.printer.names import type_text
from streamkit.sql.pull.input import PullInput
from streamkit.sql.pull.planning import planned
from streamkit.sql.tree.query import Query, SourceName, Star
from streamkit.sql.tree.statements import TABLE, DeleteRows


def delete_rows(state: ScriptState, statement: DeleteRows) -> Changed:
    """Tombstones for the keys that a condition names, whether a table has rows of these keys or not."""
    known = _table(state, statement)
    topic = check_writable(state.definitions.topic(known.topic))
    check_key(state, known, topic, statement.name.span)
    let_write_keys(state, topic.name, written_by(state, known), known.name, statement.name.span)
    keys = _keys(state, statement, known)
    rows = len(keys[0])
    types = {str(one["name"]): str(one["type"]) for one in known.columns}
    columns = {name: pa.nulls(rows, SchemaColumn(name, type).arrow.type) for name, type in types.items()}
    columns |= dict(zip(known.key, keys, strict=True))
    table = pa.table({**columns, DELETED: pa.repeat(True, rows)})
    state.rows.setdefault(topic.name, []).extend(encoded(state, known, topic, table, statement))
    return Changed(f"{rows:,} key{'s' * (rows != 1)} of {known.name} {'have' if rows != 1 else 'has'} no row any more.")


def _table(state: ScriptState, statement: DeleteRows) -> StoredSource:
    """The table of a statement; TopologyError if its rows cannot be deleted."""
    span = statement.name.span if statement.name.span.end else statement.span
    known = state.source(statement.name.text)
    if known is None:
        near = difflib.get_close_matches(statement.name.text, state.definitions.names(), 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise state.error(f"there is no table {statement.name.text!r}{hint}", span)
    if known.kind != TABLE:
        raise state.error(f"{known.name} is a stream, whose records stay; expected a table, which has one row per key", span)
    if known.is_read_only:
        raise state.error(f"{known.name} is a SOURCE TABLE, which is only read", span)
    if known.query is not None:
        raise state.error(f"the query {known.query} fills the table {known.name}; expected a change of what it reads", span)
    return known


def _keys(state: ScriptState, statement: DeleteRows, known: StoredSource) -> tuple[pa.Array, ...]:
    """The values of the key columns; TopologyError for a condition that says anything else than which keys."""
    script = state.settings.script
    query = Query((Star(),), SourceName(statement.name), where=statement.where, span=statement.span)
    plan = planned(query, SessionRelations(state.reading), state.text, script.meaning, script.time_zone)
    read = None if plan.side is None else plan.side.read
    found = read.key_of_table() if isinstance(read, PullInput) and plan.where is None else None
    parts = list(_parts(read.condition)) if isinstance(read, PullInput) and read.condition is not None else []
    if found is None or len(parts) != len(known.key):
        dialect = DIALECTS[script.meaning.name]
        types = {str(one["name"]): type_text(str(one["type"]), dialect) for one in known.columns}
        raise state.error(
            f"DELETE needs the key of {known.name} and nothing else; expected WHERE {' AND '.join(f'{name} = …' for name in known.key)}"
            + (f", or {known.key[0]} IN (…)" if len(known.key) == 1 else "")
            + f", with values of {' and '.join(types[name] for name in known.key)}",
            statement.where.span,
        )
    return found


def _parts(condition: TypedExpression) -> Iterator[TypedExpression]:
    """What is joined by AND."""
    if condition.name != "and":
        yield condition
        return
    for part in condition.arguments:
        yield from _parts(part)
