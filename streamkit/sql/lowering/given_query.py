"""`Topology.sql`: a query over handles that Python has."""

from __future__ import annotations

from collections.abc import Mapping

from streamkit.dsl import arguments
from streamkit.dsl.stream import Stream
from streamkit.dsl.table import GlobalTable, Table
from streamkit.dsl.topology import Topology
from streamkit.errors import Location, TopologyError
from streamkit.names import meant
from streamkit.plan.location import written_at
from streamkit.sql.lowering.lowering import lowered
from streamkit.sql.lowering.scope import AnyRows, QuerySource, source_of
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.reader.script import read_script
from streamkit.sql.tree.query import Query
from streamkit.sql.tree.statements import SelectStatement

KINDS = (Stream, Table, GlobalTable)


def given_query(topology: Topology, text: str, handles: Mapping[str, object], at: Location | None) -> Stream | Table:
    """The stream or table that a query stands for; one with EMIT FINAL is the stream of its final results."""
    sources = {name: _source(topology, name, handle, at) for name, handle in handles.items()}
    script = ScriptText(text, called_at=at)
    query = _query(text, script)
    known = {name.lower() for name in sources}
    for read in query.sources_read():
        if read.text.lower() not in known:
            there = ", ".join(sources) or "none"
            raise script.error(
                f"there is no stream or table {read.text!r} for this query; there are {there}{meant(read.text, sources)}; expected it by its "
                f"name, as in app.sql(…, {read.text}=stream)",
                read.span,
            )
    found = lowered(query, sources, script)
    if not found.is_final:
        return found.rows
    assert isinstance(found.rows, Table)
    with written_at(script.at(query.span)):
        return found.rows.emit("final")


def _query(text: str, script: ScriptText) -> Query:
    statements = read_script(text, called_at=script.called_at)
    if len(statements) == 1 and isinstance(statements[0], SelectStatement):
        return statements[0].query
    found = (
        statements[1 if len(statements) > 1 and isinstance(statements[0], SelectStatement) else 0].span if statements else None
    )
    message = "sql() of a topology is one query; expected SELECT … FROM …, whose sources are given by their names"
    raise TopologyError(message, script.called_at) if found is None else script.error(message, found)


def _source(topology: Topology, name: str, handle: object, at: Location | None) -> QuerySource:
    arguments.handle_node(handle, topology, f"read {name} from", "a stream, a table or a global table of the topology")
    if not isinstance(handle, KINDS):
        raise TopologyError(f"{name}={handle!r} is no source of a query; expected a stream, a table or a global table", at)
    rows: AnyRows = handle
    return source_of(rows)
