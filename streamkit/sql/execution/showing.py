"""SHOW and DESCRIBE: what there is, as tables."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from streamkit.description.applications import is_running, steps_of
from streamkit.errors import TopicNotFoundError
from streamkit.expressions.ksql.signature import ksql_type
from streamkit.expressions.sql.dialect import KSQL, SPARK
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.catalog.sql_queries import PAUSED, StoredQuery
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.input_lag import input_partitions
from streamkit.sql.execution.backfill import built_beside
from streamkit.sql.execution.callable_functions import functions, functions_called, nearest_function
from streamkit.sql.execution.registered_functions import shown_functions
from streamkit.sql.execution.script_state import ScriptState
from streamkit.sql.execution.session_settings import TOLD
from streamkit.sql.execution.stored_source import is_ksql
from streamkit.sql.lowering.other_names import advice_on_function
from streamkit.sql.lowering.scope import bounds_in
from streamkit.sql.printer.names import name_text
from streamkit.sql.tree.span import TextSpan
from streamkit.sql.tree.statements import STREAM, TABLE, Describe, Show

RUNS, WAITS, IS_PAUSED, HAS_FAILED = "RUNNING", "WAITING", "PAUSED", "ERROR"


def shown(state: ScriptState, statement: Show) -> pa.Table:
    """The table of a SHOW statement; TopologyError for a name that does not exist."""
    subject = statement.subject
    if subject in ("streams", "tables"):
        return _sources(state, STREAM if subject == "streams" else TABLE, is_extended=statement.is_extended)
    if subject in ("topics", "all topics"):
        return _topics(state, is_internal=subject == "all topics", is_extended=statement.is_extended)
    if subject == "queries":
        return queries_table(state)
    if subject == "types":
        return table_of(("type", "stands for"), [(one.name, one.type) for one in state.definitions.types.values()])
    if subject == "functions":
        listed = sorted([*functions(state.settings.script.meaning.name), *shown_functions(state.definitions.functions)])
        return table_of(("function", "kind"), [(one.name, one.kind) for one in listed])
    if subject == "properties":
        given = {**dict.fromkeys(TOLD, ""), **state.settings.given}
        return table_of(("property", "value", "meaning"), [(name, given[name], TOLD.get(name, "")) for name in sorted(given)])
    if subject == "variables":
        return table_of(("variable", "value"), sorted(state.settings.variables.items()))
    if subject == "connector plugins":
        return table_of(("class", "kind"), _plugins())
    return _connectors(state, subject)


def described(state: ScriptState, statement: Describe) -> pa.Table:
    """What DESCRIBE shows of one thing, or of all of a kind."""
    if statement.subject in ("streams", "tables"):
        return _sources(state, STREAM if statement.subject == "streams" else TABLE, is_extended=statement.is_extended)
    assert statement.name is not None, "one thing has a name"
    name, span = statement.name.text, statement.name.span if statement.name.span.end else statement.span
    if statement.subject == "function":
        return _function(state, name, statement)
    if statement.subject == "connector":
        return _connector(state, name, statement)
    stored = state.source(name)
    if stored is None:
        near = difflib.get_close_matches(name, state.definitions.names(), 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise state.error(f"there is no stream, table or topic {name!r}{hint}", span)
    columns = table_of(
        ("column", "type", "role"),
        [(_name(one["name"], stored), one["type"], one.get("role", "")) for one in _columns(state, stored)],
    )
    return columns if not statement.is_extended else _facts(state, stored)


def _columns(state: ScriptState, stored: StoredSource) -> Sequence[Mapping[str, Any]]:
    """The columns of a stream or table with the types that they have now."""
    relation = state.reading.relation(stored)
    if is_ksql(stored):
        key = relation.source.key
        bounds = bounds_in(key, [(one.name, one.type) for one in relation.source.schema])
        return [
            {"name": one.name, "type": ksql_type(one.type), "role": "key" if one.name in key else ""}
            for one in relation.source.schema
            if one.name not in bounds
        ]
    return [
        {"name": one.name, "type": one.type, "role": "key" if one.name in relation.source.key else ""}
        for one in relation.source.schema
    ]


def _facts(state: ScriptState, stored: StoredSource) -> pa.Table:
    """All that is known of a stream or table, a fact a row: its topic, its queries, and rows that these left out, by reason."""
    topic = state.definitions.find_topic(stored.topic)
    facts: list[tuple[str, Any]] = [
        ("name", stored.name), ("kind", stored.kind), ("topic", stored.topic), ("key", _key(stored)),
        *((f"column {_name(one['name'], stored)}", one["type"]) for one in _columns(state, stored)),
        *((name.lower(), "none" if value == "" else value) for name, value in stored.formats.items()),
    ]  # fmt: skip
    if stored.timestamp:
        facts.append(("timestamp", stored.timestamp))
    if topic is not None and topic.id:
        told = state.log.describe(topic.name)
        kept = "rows" if stored.kind == STREAM else "records"  # of a table also those that were replaced, and deletions
        facts += [("partitions", len(told["partitions"])), (kept, told["rows"]), ("bytes", told["bytes"])]
    for query in state.definitions.writers(stored.name):
        facts += [("filled by", query.id), *((f"{query.id}: {name}", value) for name, value in _figures(state, query))]
    facts += [("read by", query.id) for query in state.definitions.readers(stored.name)]
    facts += [("statement", stored.text)] if stored.text else []
    return table_of(("fact", "value"), [(name, str(value)) for name, value in facts])


def _figures(state: ScriptState, query: StoredQuery) -> list[tuple[str, Any]]:
    """What a query has done: records read and written, and rows left out, by step and reason."""
    known = _applications(state)
    application = known.get(query.application)
    found: list[tuple[str, Any]] = [("state", state_of(state, query, application)), ("application", query.application)]
    if (built := built_beside(query)) is not None:
        found.append(("built beside it", built.application))
        found += [("lag of what is built", _lag(state, known[built.application]))] if built.application in known else []
    if query.failure:
        found.append(("failure", query.failure))
    if application is None:
        return found
    found += [("records read", application.metrics.get("records", 0)), ("lag", _lag(state, application))]
    found += [("epochs", application.epoch), ("records written", sum(application.metrics.get("written", {}).values()))]
    for step in steps_of(state.log, application):
        found += [(f"left out by {step.step}, {reason}", rows) for reason, rows in step.counts.items()]
    return found


def queries_table(state: ScriptState) -> pa.Table:
    """The persistent queries, a row each."""
    known = _applications(state)
    rows = []
    for one in state.definitions.queries.values():
        application = known.get(one.application)
        lag = None if application is None else _lag(state, application)
        shown = (state_of(state, one, application), one.application, one.sink, ", ".join(one.sources), lag)
        rows.append((one.id, *shown, in_short(one.failure), one.text))
    return table_of(("query", "state", "application", "fills", "reads", "lag", "failure", "statement"), rows)


def in_short(failure: str) -> str:
    """A failure on one line, with the place in the text, but without what is written there."""
    reason, _, rest = failure.partition("\n")
    place = rest.partition("\n")[0].strip()
    return f"{reason}, {place}" if place.startswith("at ") else reason


def state_of(state: ScriptState, query: StoredQuery, application: ApplicationState | None) -> str:
    """Whether a query runs, waits for a runner, is paused, or has failed."""
    if query.wanted == PAUSED:
        return IS_PAUSED
    if query.failure:
        return HAS_FAILED
    return RUNS if application is not None and is_running(state.log, application) else WAITS


def _applications(state: ScriptState) -> dict[str, ApplicationState]:
    return {one.name: one for one in state.log.catalog.applications.every()}


def _lag(state: ScriptState, application: ApplicationState) -> int:
    """How many records wait for a query."""
    return sum(one.lag for one in input_partitions(state.log, application))


def _sources(state: ScriptState, kind: str, *, is_extended: bool) -> pa.Table:
    found = [one for one in state.definitions.sources.values() if one.kind == kind]
    names = (kind, "topic", "key", "columns", "filled by", *(("read by", "statement") if is_extended else ()))
    return table_of(names, [_source_row(state, one, is_extended=is_extended) for one in found])


def _source_row(state: ScriptState, source: StoredSource, *, is_extended: bool) -> tuple[str, ...]:
    shown, hidden = ksql_type if is_ksql(source) else str, hidden_columns(source)
    columns = ", ".join(
        f"{_name(str(one['name']), source)} {shown(str(one['type']))}" for one in source.columns if one["name"] not in hidden
    )
    row = (source.name, source.topic, _key(source), columns, source.query or "")
    return (*row, ", ".join(one.id for one in state.definitions.readers(source.name)), source.text) if is_extended else row


def _key(source: StoredSource) -> str:
    """The columns of the key, as a statement names them."""
    return ", ".join(_name(one, source) for one in source.key if one not in hidden_columns(source))


def hidden_columns(source: StoredSource) -> tuple[str, ...]:
    """The columns of a topic that are no columns of its stream or table: in the ksql dialect the bounds of windows."""
    columns = ((str(one["name"]), str(one["type"])) for one in source.columns)
    return bounds_in(source.key, columns) if is_ksql(source) else ()


def _name(name: str, source: StoredSource) -> str:
    """The name of a column as a statement of the source's dialect writes it: in backticks where its case or its characters need them."""
    return name_text(name, KSQL) if is_ksql(source) else name


def _topics(state: ScriptState, *, is_internal: bool, is_extended: bool) -> pa.Table:
    rows = []
    for name in state.definitions.topics(is_internal):
        try:
            topic = state.definitions.topic(name)
            told = state.log.describe(name) if topic.id else {"rows": 0, "bytes": 0}
        except TopicNotFoundError:  # deleted since it was listed
            continue
        kind = "table" if topic.is_compacted and topic.key else "stream"
        row: tuple[Any, ...] = (name, topic.format.name if topic.format else "columns", topic.partitions, told["rows"], kind)
        if is_extended:
            row = (*row, told["bytes"], ", ".join(topic.key), str(topic.schema))
        rows.append(row)
    more = ("bytes", "key", "schema") if is_extended else ()
    return table_of(("topic", "format", "partitions", "rows", "read as", *more), rows)


def _function(state: ScriptState, name: str, statement: Describe) -> pa.Table:
    dialect, registered = state.settings.script.meaning.name, shown_functions(state.definitions.functions)
    found = [one for one in registered if one.name.lower() == name.lower()] or functions_called(dialect, name)
    if not found:
        near = nearest_function(dialect, name, [one.name for one in registered])
        hint = (f"; did you mean {near}?" if near else "") + (advice_on_function(name) if dialect == SPARK.name else "")
        raise state.error(f"there is no function {name}{hint}", _name_span(statement))
    return table_of(("function", "kind", "meaning"), [(one.name, one.kind, one.meaning) for one in found])


def _name_span(statement: Describe) -> TextSpan:
    return statement.name.span if statement.name is not None and statement.name.span.end else statement.span


def _connectors(state: ScriptState, subject: str) -> pa.Table:
    from streamkit.connectors.classes import class_of
    from streamkit.connectors.runtime.configurations import class_of_connector, read_configurations
    from streamkit.connectors.runtime.status import read_status
    from streamkit.connectors.source import Source

    rows = []
    tasks = read_status(state.log)
    configured = read_configurations(state.log)
    declared = {name: one.settings for name, one in state.connectors.items()}
    for name, settings in sorted({**declared, **configured}.items()):
        known = class_of_connector(state.log, name) if name in configured else class_of(settings["connector.class"])
        kind = "source" if known is not None and issubclass(known, Source) else "sink"
        if subject in ("connectors", f"{kind} connectors"):
            states = ", ".join(sorted({one.state for one in tasks if one.connector == name})) or "UNASSIGNED"
            rows.append((name, kind, settings.get("connector.class", "").rpartition(":")[2], states))
    return table_of(("connector", "kind", "class", "state"), rows)


def _connector(state: ScriptState, name: str, statement: Describe) -> pa.Table:
    from streamkit.connectors.runtime.configurations import read_configurations
    from streamkit.connectors.runtime.status import read_status

    declared = {one.name: one.settings for one in state.connectors.values()}
    all_settings = {**declared, **read_configurations(state.log)}
    found = all_settings.get(name) or next((one for key, one in all_settings.items() if key.lower() == name.lower()), None)
    if found is None:
        near = difflib.get_close_matches(name, all_settings, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(all_settings) or 'none'}"
        raise state.error(f"there is no connector {name!r}; {hint}", _name_span(statement))
    tasks = [(f"task {one.task}", f"{one.state} {one.trace}".strip()) for one in read_status(state.log) if one.connector == name]
    return table_of(("setting", "value"), [*sorted(found.items()), *tasks])


def _plugins() -> list[tuple[str, str]]:
    from streamkit.connectors.classes import known_classes

    return [(name, "source" if name.endswith("Source") else "sink") for name in known_classes()]


def table_of(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Rows as a table with columns of these names."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return pa.table([_column(one) for one in columns], names=list(names))


def _column(values: Sequence[Any]) -> pa.Array:
    is_number = bool(values) and all(one is None or (isinstance(one, int) and not isinstance(one, bool)) for one in values)
    return pa.array(values, pa.int64()) if is_number else pa.array([str(one) for one in values], pa.string())
