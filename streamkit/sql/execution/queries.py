"""CREATE … AS SELECT and INSERT INTO … SELECT: persistent queries, each of which is a topology of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamkit.config import Settings
from streamkit.dsl.topology import Topology
from streamkit.engine.runs.compile import compile_passing_over
from streamkit.engine.runs.preview import Preview, preview
from streamkit.errors import SqlError, StreamKitError, TopologyError
from streamkit.expressions.ksql.signature import has_times, ksql_type, without_times
from streamkit.formats.codec import declare_format, format_of_keys
from streamkit.log.catalog.sql_queries import PAUSED, StoredQuery
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.topic.alteration import Alteration
from streamkit.log.topic.evolution import check_evolution
from streamkit.log.topic.topic import Topic
from streamkit.names import NAME_LENGTH_MAX, WINDOW_END, WINDOW_START, is_name, name_flaw
from streamkit.plan.added_topics import created, declared_output
from streamkit.plan.encoding import Encoded
from streamkit.plan.inputs import sources_of
from streamkit.plan.program import Output, Program
from streamkit.plan.program_change import SAME, STEPS, STORES, ProgramChange
from streamkit.plan.refusal import RefusedTopic
from streamkit.schema import Schema, SchemaColumn
from streamkit.sql.execution.avro_columns import add_avro_columns, gets_columns
from streamkit.sql.execution.backfill import BACKFILL, TOPIC, built_beside, topic_of_built, with_built, without_built
from streamkit.sql.execution.declared_keys import check_places
from streamkit.sql.execution.definitions import Definitions
from streamkit.sql.execution.kept_values import KeptValues
from streamkit.sql.execution.registered_functions import with_functions
from streamkit.sql.execution.schema_registration import (
    check_holds,
    grow_schema,
    let_write,
    register_schemas,
    under_its_subject_of_keys,
    written_by,
)
from streamkit.sql.execution.script_state import Changed, ScriptState
from streamkit.sql.execution.seen_columns import SeenColumns, with_added_at
from streamkit.sql.execution.session_settings import LATEST, SessionSettings
from streamkit.sql.execution.stored_source import SourceReading, already_there, format_of_subject, windows_of
from streamkit.sql.lowering.ksql_meaning import KSQL
from streamkit.sql.lowering.scope import QuerySource, key_in_order
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.reader.script import read_script
from streamkit.sql.script.advice import ways_of_result, ways_of_session
from streamkit.sql.script.declared_source import SOURCE_NAME, format_schema
from streamkit.sql.script.properties import NATIVE, OF_INSERTS, OF_RESULTS, TopicProperties, check_time_format
from streamkit.sql.script.script import ScriptLowering, ScriptSource
from streamkit.sql.script.settings import OFFSET_RESET
from streamkit.sql.script.topic_format import TopicFormat
from streamkit.sql.tree.span import NOWHERE, TextSpan
from streamkit.sql.tree.statements import STREAM, TABLE, CreateAs, InsertQuery, Property

APPLICATION_START = "sql-"  # begins the names of the applications of queries
FILTER = "filter"  # how the text of a step begins that has a condition
AGAIN = "; WITH (BACKFILL = true) behind its name makes the results again, of all records"  # the way of every change
QUERY_ID, KAFKA_TOPIC, VALUE_SCHEMA = "QUERY_ID", "KAFKA_TOPIC", "VALUE_SCHEMA"
APPLICATION = "APPLICATION"  # a property: several queries of one text are one application
FUNCTIONS = "functions"  # among the settings of a query: those in Python that it calls


@dataclass(frozen=True)
class QueryTopology:
    """A persistent query as a topology, and what is known of the stream or table that it fills."""

    topology: Topology
    source: QuerySource
    format: TopicFormat

    @property
    def written(self) -> Encoded | None:
        """How its rows are written behind a registry; None of a topic without one."""
        if not self.format.has_registry:
            return None
        key = self.source.key or ()
        columns = Schema(tuple(SchemaColumn(name, without_times(type or "string")) for name, type in self.source.columns or ()))
        values = columns.select(name for name in columns.names if name not in key)
        schema = self.format.schema or format_schema(self.format, columns, key)
        format = declare_format(self.format.value, None, self.format.settings)
        keys = format_of_keys(self.format.key or "string", format, self.format.settings)
        return Encoded(columns.select(key), values, keys, replace(format, schema=schema))


class UnfitStateError(TopologyError):
    """What a query keeps does not go with its changed topology."""


def topology_of_query(definitions: Definitions, query: StoredQuery) -> Topology:
    """The topology of a query, and of those that share its application; TopologyError if it does not fit what there is any more."""
    return topology_of_queries(definitions, definitions.queries_of(query.application) or [query])


def topology_of_queries(definitions: Definitions, queries: Sequence[StoredQuery]) -> Topology:
    """The topology of the queries of an application, whose settings are the same."""
    return _lowered_again(definitions, queries)[1]


def _lowered_again(definitions: Definitions, queries: Sequence[StoredQuery]) -> tuple[ScriptLowering, Topology]:
    """Stored queries as one topology, over the streams and tables as they are now."""
    first = queries[0]
    settings = SessionSettings.of(first.settings.get("set", {}), first.settings.get("variables", {}))
    for query in queries:
        unknown = [name for name in query.settings.get(FUNCTIONS, ()) if name not in definitions.functions]
        if unknown:
            raise TopologyError(
                f"the query {query.id} calls {', '.join(unknown)}, in Python, which this process does not know; expected a session that registers "
                f"it and runs queries, as in sk.SqlSession(log, engine='local') and sql.register({unknown[0]!r}, …)"
            )
    text = ScriptText(";\n".join(query.text for query in queries), first.id if len(queries) == 1 else first.application)
    statements = []
    for statement in read_script(text.text, first.dialect, settings.variables, text.file, is_stored=True):
        assert isinstance(statement, CreateAs | InsertQuery), "a persistent query creates or inserts"
        statements.append(with_functions(statement, definitions.functions, text))
    topic = topic_of_built(first) if len(queries) == 1 else None
    return _lowered(definitions, statements, [one.number for one in queries], text, settings, first.application, topic)


def lowered_query(
    definitions: Definitions,
    statement: CreateAs | InsertQuery,
    text: ScriptText,
    settings: SessionSettings,
    application: str,
    topic: str | None = None,
) -> QueryTopology:
    """The topology of a statement, which writes to the topic that it says, or to another one; TopologyError at the place of what is wrong."""
    known = definitions.declared(statement.name.text, keeps_case=settings.script.meaning.names_results)
    replaced = definitions.queries.get(known.query or "") if known is not None and isinstance(statement, CreateAs) else None
    numbers = [None if replaced is None else replaced.number]
    lowering, topology = _lowered(definitions, [statement], numbers, text, settings, application, topic)
    source = lowering.source(statement.name.text)
    assert source is not None, "a query without faults has a result"
    return QueryTopology(topology, source, lowering.format(statement.name.text))


def _lowered(
    definitions: Definitions,
    given: Sequence[CreateAs | InsertQuery],
    numbers: Sequence[int | None],
    text: ScriptText,
    settings: SessionSettings,
    application: str,
    topic: str | None,
) -> tuple[ScriptLowering, Topology]:
    """Statements, of queries of these numbers or new ones, as one topology; with a `topic` there is one, which writes there. SqlError has all faults."""
    script = settings.script
    folded = script.meaning.folded
    seen = SeenColumns(given, numbers)
    reading = SourceReading(definitions, script.registry, script.time_zone, script.meaning.names_results, seen)
    others = _WithoutSelf(reading, frozenset(folded(one.name.text) for one in given if isinstance(one, CreateAs)), folded)
    statements = []
    for statement in given:
        of_query = (
            APPLICATION,
            QUERY_ID if isinstance(statement, InsertQuery) else BACKFILL,
            *([] if topic is None else [KAFKA_TOPIC]),
        )
        properties = [one for one in statement.properties if one.name.upper() not in of_query]
        properties += [] if topic is None else [Property(KAFKA_TOPIC, topic)]
        statements.append(replace(statement, properties=tuple(properties)))
    made = [one.name.text for one in given if isinstance(one, CreateAs)]
    known = definitions.source(made[0], keeps_case=script.meaning.names_results) if made and topic is not None else None

    def registry_of(name: str) -> str | None:
        final = known.topic if known is not None and name == topic else name  # what is built beside a result has its registry
        return definitions.registry_of(final, script.registry)

    lowering = ScriptLowering(text, application, script, others.source, others.names(), definitions.type_texts, registry_of)
    topology = lowering.topology(statements)
    if lowering.faults:
        raise SqlError(lowering.faults)
    return lowering, topology


@dataclass(frozen=True)
class _WithoutSelf:
    """All streams and tables but those that statements make, which are not yet there or are replaced."""

    reading: SourceReading
    made: frozenset[str]
    folded: Callable[[str], str]  # names as they are compared

    def source(self, name: str, topology: Topology) -> ScriptSource | None:
        return None if self.folded(name) in self.made else self.reading.others(name, topology)

    def names(self) -> Sequence[str]:
        """What a query may read, for messages."""
        return [one for one in self.reading.definitions.names() if self.folded(one) not in self.made]


def create_as(state: ScriptState, statement: CreateAs) -> Changed:
    """Declare a stream or table that a persistent query fills, and the query."""
    name, span = statement.name.text, statement.name.span if statement.name.span.end else statement.span
    declared = state.definitions
    known = state.taken(name)
    is_built = _wants_backfill(state, statement)
    if known is not None and statement.if_not_exists:
        return Changed(f"There is a {known.kind} {known.name} already.", known.query)
    if state.settings.script.meaning.names_results:
        check_time_format(statement.properties, state.text)
        if known is None and statement.query.partition_by == ():  # what was made so goes on, and may be replaced
            said = TopicProperties.of(statement.properties, (*OF_RESULTS, APPLICATION, BACKFILL), state.text, span)
            said.check_keyless()
    before = None
    if known is not None:
        before = _replaced(state, statement, known)
        state.definitions = without_built(state.definitions, before)
        before = state.definitions.queries[before.id]
    if known is not None and before is not None and is_built:
        return _build_beside(state, statement, known, before)
    if state.settings.script.meaning.names_results and not SOURCE_NAME.fullmatch(name):
        raise state.error(f"{name!r} is no name of a {statement.kind}; expected letters, digits, _ and -", span)
    if not is_name(name):
        raise state.error(f"{name!r} cannot be the name of a stream or table; expected letters, digits, '.', '_' and '-'", span)
    kind = "CSAS" if statement.kind == STREAM else "CTAS"
    number = state.definitions.numbers + 1 if before is None else before.number
    id = f"{kind}_{name.upper()}_{number}" if before is None else before.id
    query = _stored(state, statement, id, number, name, before)
    made = lowered_query(state.definitions, statement, state.text, state.settings, query.application)
    if known is None and made.format.has_registry:  # its topic may be there, and lack a column
        topic = _output_of(made.topology, _compiled(state, made.topology, statement, is_strict=False)).topic
        let_write(state, topic, made.written, name, span, is_said=_says_schema(statement))
    program = _compiled(state, made.topology, statement, is_strict=known is None)
    source = _source_of(state, statement, query, made, _output_of(made.topology, program))
    if known is None:
        check_holds(state, source, span)
    found = None
    if known is not None and before is not None:
        _alter_sink(state, known, source, program, made.written, span)
        program = _compiled(state, made.topology, statement, is_strict=True)
        source = _source_of(state, statement, query, made, _output_of(made.topology, program))
        found = _changes(state, program, before, span)
        source = with_added_at(known, source, state.definitions.numbers)
    if (there := state.definitions.find_topic(source.topic)) is not None:
        said = TopicProperties.of(statement.properties, (*OF_RESULTS, APPLICATION, BACKFILL), state.text, span)
        said.check_partitions(there.name, there.partitions)
    former = _former_records(state, source) if known is None else ""
    _create_topics(state, program, span)
    made_of = state.definitions.with_source(source)
    state.definitions = made_of.with_query(query) if before is None else made_of.with_changed_query(query)
    if known is None:
        check_places(state, source, span)
    _check_together(state, statement, query)
    check_queries(state, source.name, but=id, before=declared if known is None else None)
    told = "" if found is None else _told(found, source.kind)
    return Changed(
        f"Query {id} fills the {source.kind} {source.name}.{_called_text(state)}{former}{_offset_told(state)}{told}", id
    )


def _says_schema(statement: CreateAs) -> bool:
    """Whether a statement says the schema of what it writes."""
    return any(one.name.upper() == VALUE_SCHEMA for one in statement.properties)


def _former_records(state: ScriptState, source: StoredSource) -> str:
    """What is to be known of records that the topic of a new table has already: some of its readers see them, and some do not."""
    is_there = state.definitions.find_topic(source.topic) is not None and source.topic not in state.definitions.created
    if source.kind != TABLE or not is_there:
        return ""
    records = state.definitions.log.describe(source.topic)["rows"]
    if not records:
        return ""
    return (
        f" Its topic {source.topic} has {records:,} record{'s' * (records != 1)} of before: queries that read the table, and EMIT CHANGES, see them "
        "first, and SELECT from the table does not. DROP TABLE … DELETE TOPIC leaves none."
    )


def _offset_told(state: ScriptState) -> str:
    """What is to be known of a setting that holds for queries of a session alone."""
    if state.settings.given.get(OFFSET_RESET) != LATEST:
        return ""
    return f" It reads its topics from their beginning: {OFFSET_RESET} is for queries that are not kept."


def _wants_backfill(state: ScriptState, statement: CreateAs) -> bool:
    """Whether results of all records are wanted, and not of those from now on."""
    given = next((one for one in statement.properties if one.name.upper() == BACKFILL), None)
    if given is None:
        return False
    if not statement.or_replace:
        raise state.error(
            f"BACKFILL is about a changed query, and a new one reads its topics from their beginning anyway; expected CREATE OR REPLACE "
            f"{statement.kind.upper()} {statement.name.text}, or no BACKFILL",
            given.span,
        )
    if str(given.value).lower() not in ("true", "false"):
        raise state.error(f"BACKFILL is {given.value!r}; expected true or false", given.span)
    return str(given.value).lower() == "true"


def _build_beside(state: ScriptState, statement: CreateAs, known: StoredSource, before: StoredQuery) -> Changed:
    """Let a changed query be built beside the one there is, whose place it takes when it has read as much."""
    span = statement.name.span if statement.name.span.end else statement.span
    read = [(query.id, state.definitions.source(name)) for query in state.definitions.queries.values() for name in query.sources]
    readers = {query: source.name for query, source in read if source is not None and source.topic == known.topic}
    if readers:
        names = " and ".join(dict.fromkeys(readers.values()))
        raise state.error(
            f"{', '.join(readers)} read {names}, whose records would be others all at once; expected TERMINATE of these before, and a "
            "CREATE of them afterwards",
            span,
        )
    others = state.definitions.others(known)
    if writers := [f"{query.id} writes to {one.name}" for one in others for query in state.definitions.writers(one.name)]:
        raise state.error(
            f"{' and '.join(writers)}, whose topic is that of {known.name}, and its records would be gone; expected TERMINATE before",
            span,
        )
    given = next((one for one in statement.properties if one.name.upper() == KAFKA_TOPIC), None)
    named = statement.name.text if given is None else given.value
    if named != known.topic:  # once it has its place, the query writes where its statement says
        raise state.error(
            f"{known.name} is the topic {known.topic}; found {named}: expected the same, as in WITH (KAFKA_TOPIC = '{known.topic}', BACKFILL = true)",
            span if given is None else given.span,
        )
    number = state.definitions.numbers + 1
    topic = f"{known.topic}-{number}"
    if state.definitions.find_topic(topic) is not None:
        raise state.error(f"the results of the changed query would be built in a topic {topic}, which is there already", span)
    new = _stored(state, statement, before.id, number, known.name, before)
    new = replace(new, application=f"{APPLICATION_START}{before.id}-{number}", settings={**new.settings, TOPIC: topic})
    made = lowered_query(state.definitions, statement, state.text, state.settings, new.application, topic)
    program = _compiled(state, made.topology, statement, is_strict=True)
    source = replace(_source_of(state, statement, new, made, _output_of(made.topology, program)), topic=known.topic)
    source = with_added_at(known, source, number)
    check_places(state, source, span)
    for one in others:
        KeptValues(state, one, source, span, f"DROP {one.kind.upper()} {one.name} before").check_built()
    final = state.definitions.topic(known.topic)
    if _has_subject_alone(final):
        let_write(state, known.topic, made.written, known.name, span, is_said=_says_schema(statement))
    _create_topics(state, program, span, {topic: final})
    for one in others if state.keeps_case else ():
        add_avro_columns(state, replace(one, topic=topic), span)
    state.definitions = replace(state.definitions.with_query(with_built(before, new, source)), numbers=number)
    is_paused = before.wanted == PAUSED
    begun = f"is paused, and the changed one too: RESUME {before.id} lets both run. The changed one is" if is_paused else (
        "stays as it is, and the changed one is"
    )  # fmt: skip
    return Changed(
        f"Query {before.id} {begun} built beside it as {new.application}, from the beginning of its topics. It takes the place of the "
        f"former, and its results that of {known.topic}, when it has read as much.",
        before.id,
    )


def insert_query(state: ScriptState, statement: InsertQuery) -> Changed:
    """A persistent query whose records go to a stream beside those of others."""
    name, span = statement.name.text, statement.name.span if statement.name.span.end else statement.span
    target = state.source(name)
    if target is None:
        raise state.error(f"there is no stream {name!r}; there are {', '.join(state.definitions.names()) or 'none'}", span)
    if target.is_read_only:
        raise state.error(f"{target.name} is a SOURCE {target.kind.upper()}, which nothing writes; expected another stream", span)
    TopicProperties.of(statement.properties, (*OF_INSERTS, APPLICATION), state.text, statement.span)
    number = state.definitions.numbers + 1
    id = _given_id(state, statement) or f"INSERTQUERY_{number}"
    if (taken := state.definitions.query(id)) is not None:
        spans = [one.span for one in statement.properties if one.name.upper() == QUERY_ID]
        there = "" if taken.id == id else f", which is spelt {taken.id}"
        raise state.error(
            f"there is a query {id} already{there}; expected another QUERY_ID", spans[0] if spans else statement.span
        )
    query = _stored(state, statement, id, number, target.name, None)
    made = lowered_query(state.definitions, statement, state.text, state.settings, query.application)
    check_holds(state, target, span)
    let_write(state, target.topic, written_by(state, target), target.name, span, is_said=VALUE_SCHEMA in target.formats)
    program = _compiled(state, made.topology, statement)
    _create_topics(state, program, span)
    if state.declared(name) is None:  # what a query fills is on record
        state.definitions = state.definitions.with_source(target)
    state.definitions = state.definitions.with_query(query)
    _check_together(state, statement, query)
    return Changed(f"Query {id} writes to the stream {target.name}.{_called_text(state)}{_offset_told(state)}", id)


def _check_together(state: ScriptState, statement: CreateAs | InsertQuery, query: StoredQuery) -> None:
    """TopologyError at the statement if it cannot be one application with those before it."""
    if len(state.definitions.queries_of(query.application)) == 1:
        return
    try:
        _compiled(state, topology_of_query(state.definitions, query), statement)
    except TopologyError as error:
        raise state.error(
            f"the queries of {query.application} cannot be one application: {error.message}", statement.span
        ) from None


def _called_text(state: ScriptState) -> str:
    """Who can run a query that calls functions in Python."""
    if not state.called:
        return ""
    return (
        f" It calls {', '.join(state.called)}, in Python: only a session that registers this, with engine=, runs the query, and "
        "streamkit sql serve cannot."
    )


def _given_id(state: ScriptState, statement: InsertQuery) -> str | None:
    given = next((one for one in statement.properties if one.name.upper() == QUERY_ID), None)
    if given is None:
        return None
    if not isinstance(given.value, str) or not is_name(given.value):
        raise state.error(
            f"QUERY_ID is {given.value!r}: {name_flaw(given.value)}; expected a text of at most {NAME_LENGTH_MAX} letters, digits, '.', '_' and '-'",
            given.span,
        )
    return given.value


def _stored(
    state: ScriptState, statement: CreateAs | InsertQuery, id: str, number: int, sink: str, before: StoredQuery | None
) -> StoredQuery:
    """The query for the catalog."""
    sources = tuple(dict.fromkeys(_spelt(state, name.text) for name in statement.query.sources_read()))
    _check_not_built(state, statement, sources, sink)
    settings: dict[str, Any] = {"set": dict(state.settings.given), "variables": dict(state.settings.variables)}
    settings |= {FUNCTIONS: list(state.called)} if state.called else {}
    application = _application(state, statement, id, before)
    dialect = state.settings.script.meaning.name
    new = StoredQuery(id, number, state.written(statement), sink, sources, application, dialect, settings)
    for one in state.definitions.queries_of(application) if before is None else ():
        if (one.dialect, one.settings.get("set"), one.settings.get("variables")) != (
            dialect,
            settings["set"],
            settings["variables"],
        ):
            raise state.error(
                f"{one.id} is of the same application, and was made under other settings; expected SET before both, or two applications",
                statement.span,
            )
    return new if before is None else replace(new, wanted=before.wanted, version=before.version + 1)


def _check_not_built(state: ScriptState, statement: CreateAs | InsertQuery, sources: Sequence[str], sink: str) -> None:
    """
    TopologyError if a query reads or writes a topic that another one replaces soon, or the one that does.

    Its results would be made of the records of both, and what it writes until then would go with the former.
    """
    found = ((name, state.definitions.source(name)) for name in sources)
    used = {source.topic: name for name, source in found if source is not None}
    target = state.source(sink) if isinstance(statement, InsertQuery) else None
    given = next((one.value for one in statement.properties if one.name.upper() == KAFKA_TOPIC), sink)
    written = str(given) if target is None else target.topic
    used.setdefault(written, sink if target is not None else f"the topic {written}")
    for source in state.definitions.sources.values():
        query = None if source.query is None else state.definitions.query(source.query)
        built = None if query is None else built_beside(query)
        topic = None if built is None else next((one for one in (source.topic, topic_of_built(built)) if one in used), None)
        if query is None or built is None or topic is None:
            continue
        comes = (
            f"{used[topic]} gets all its records again"
            if topic == source.topic
            else f"the topic {topic} is called {source.topic}"
        )
        raise state.error(
            f"{comes} when {built.application}, which is built beside {query.id}, has read as much; expected this query after that",
            statement.name.span if topic == written and statement.name.span.end else statement.span,
        )


def _application(state: ScriptState, statement: CreateAs | InsertQuery, id: str, before: StoredQuery | None) -> str:
    """The application of a query: its own, unless WITH names one, which is new with the text; TopologyError for one that has begun."""
    given = next((one for one in statement.properties if one.name.upper() == APPLICATION), None)
    span = statement.span if given is None else given.span
    if before is not None:
        others = [one.id for one in state.definitions.queries_of(before.application) if one.id != before.id]
        if others:
            raise state.error(
                f"{before.id} shares the application {before.application} with {', '.join(others)}; expected TERMINATE {before.id}, which ends all "
                "of them, and a CREATE of all in one text",
                span,
            )
        if given is not None and f"{APPLICATION_START}{given.value}" != before.application:
            raise state.error(f"{before.id} is the application {before.application}, which stays; expected no APPLICATION", span)
        return before.application
    if given is None:
        return f"{APPLICATION_START}{id}"
    if not isinstance(given.value, str) or not is_name(given.value):
        raise state.error(
            f"APPLICATION is {given.value!r}: {name_flaw(given.value)}; expected a text of at most {NAME_LENGTH_MAX} letters, digits, '.', '_' and '-'",
            span,
        )
    name = f"{APPLICATION_START}{given.value}"
    earlier = [one.id for one in state.definitions.base.queries if one.application == name]
    has_begun = any(one.name == name for one in state.log.catalog.applications.every())
    if earlier or has_begun:
        there = f", with {', '.join(earlier)}" if earlier else ""
        raise state.error(
            f"there is an application {name} already{there}; the queries of an application are made in one text: expected another name, or "
            "TERMINATE before, in a text of its own",
            span,
        )
    return name


def _spelt(state: ScriptState, name: str) -> str:
    """The name of a source as it was declared."""
    found = state.source(name)
    return name if found is None else found.name


def _replaced(state: ScriptState, statement: CreateAs, known: StoredSource) -> StoredQuery:
    """The query that the statement takes the place of; TopologyError if it may not."""
    span = statement.name.span if statement.name.span.end else statement.span
    if not statement.or_replace:
        may_be_replaced = known.query is not None and known.kind == statement.kind
        raise state.error(already_there(known, may_be_replaced=may_be_replaced), span)
    query = None if known.query is None else state.definitions.query(known.query)
    if query is None:
        raise state.error(
            f"no query fills {known.name}, which declares a topic; expected DROP {known.kind.upper()} {known.name} before", span
        )
    if known.kind != statement.kind:
        raise state.error(f"{known.name} is a {known.kind}; expected DROP {known.kind.upper()} {known.name} before", span)
    others = [one.id for one in state.definitions.writers(known.name) if one.id != query.id]
    if others:
        write = "writes" if len(others) == 1 else "write"
        raise state.error(f"{', '.join(others)} {write} to {known.name} too, whose columns stay; expected TERMINATE before", span)
    return query


def _compiled(
    state: ScriptState, topology: Topology, statement: CreateAs | InsertQuery, *, is_strict: bool | None = None
) -> Program:
    """The program of a query, with topics as statements have left them; unless it is strict, a changed query may not fit its own yet."""
    is_strict = not (isinstance(statement, CreateAs) and statement.or_replace) if is_strict is None else is_strict
    refused: list[RefusedTopic] = []
    try:
        program = compile_passing_over(topology, CopiedLog(state.definitions), refused.append)
    except TopologyError:
        raise
    except StreamKitError as error:
        raise state.error(str(error).partition("\n  at ")[0], statement.span) from None
    for one in refused:
        if one.is_input or is_strict:
            reason = str(one.error).partition("\n  at ")[0]
            if one.is_input:
                raise state.error(reason, statement.span)
            name = statement.name
            adds = state.keeps_case and gets_columns(state.definitions.find_topic(one.topic))
            results = {each.topic for each in state.definitions.sources.values() if each.query is not None}
            is_replaced = isinstance(statement, CreateAs) and statement.or_replace and one.topic in results
            ways = ways_of_result(one.topic, reason if adds else "", is_replaced=is_replaced)
            raise state.error(f"{reason}{ways}", name.span if name.span.end else statement.span)
    return program


@dataclass(frozen=True)
class CopiedLog:
    """What the compiler asks of a log, answered by the copy; settings are those of the log."""

    definitions: Definitions

    @property
    def location(self) -> str:
        return self.definitions.location

    @property
    def settings(self) -> Settings:
        return self.definitions.log.settings

    def topics(self, internal: bool = False) -> list[str]:
        return self.definitions.topics(internal)

    def topic(self, name: str) -> Topic:
        return self.definitions.topic(name)

    def program_before(self, application: str) -> str:
        return self.definitions.program_before(application)


def _output_of(topology: Topology, program: Program) -> Output:
    """The output that a query fills."""
    (sink,) = {one.topic for one in topology.outputs}
    return next(one for one in program.outputs if one.topic == sink)


def _source_of(state: ScriptState, statement: CreateAs, query: StoredQuery, made: QueryTopology, output: Output) -> StoredSource:
    """The stream or table that a query fills, with the columns of its result."""
    role = "primary key" if statement.kind != STREAM else "key"
    schema = output.schema
    key = output.key
    if output.format is not None:
        columns = made.source.columns or ()
        key = made.source.key or ()
        schema = Schema(tuple(SchemaColumn(name, without_times(str(type))) for name, type in columns))
        schema = schema.select(key_in_order(schema.names, key))
    else:  # an existing topic may have others, which are null
        given = {name for name, _ in made.source.columns or ()}
        schema = Schema(tuple(one for one in schema if one.name in given or one.name in key))
    times = {name: type for name, type in made.source.columns or () if type is not None and has_times(type)}
    shown = tuple(
        {"name": one.name, "type": times.get(one.name, one.type), "role": role if one.name in key else ""} for one in schema
    )
    formats = {
        one.name.upper(): one.value
        for one in statement.properties
        if one.name.upper() not in (KAFKA_TOPIC, BACKFILL, APPLICATION)
    }
    if (words := made.format.words) and words["VALUE_FORMAT"] != NATIVE:  # what it has of its first source, it keeps
        formats = {**{name: value for name, value in formats.items() if name != "FORMAT"}, **words}
    has_windows = statement.kind != STREAM and key[-2:] == (WINDOW_START, WINDOW_END)
    windows = windows_of(made.source.rows.node.traits.window) if has_windows else None
    return StoredSource(
        statement.name.text, statement.kind, output.topic, shown, key, state.written(statement), query.dialect, formats, windows=windows,
        query=query.id,
    )  # fmt: skip


def _create_topics(state: ScriptState, program: Program, span: TextSpan, places: Mapping[str, Topic] | None = None) -> None:
    """
    Let the topics that a start of a program would create be created with the script, and their registry know their schemas.

    Those that take the `places` of others later have their schemas under the subjects of these from the beginning, since they write there then.
    """
    inputs = [state.definitions.topic(source.topic) for source in program.inputs]
    for output in program.outputs:
        if state.definitions.find_topic(output.topic) is None:
            new = next((one for one in program.topics if one.name == output.topic), None)
            partitions = state.log.settings.topic_partitions
            topic = declared_output(output, inputs) if new is None else created(new, partitions)
            if places and topic.name in places:
                topic = _in_place_of(topic, places[topic.name])
            topic = under_its_subject_of_keys(topic)
            state.definitions = state.definitions.with_topic(topic)
            register_schemas(state, topic, span, checks_names=not places)  # what is built in place of another keeps its names


def _in_place_of(topic: Topic, final: Topic) -> Topic:
    """A topic that takes the place of another one: with the subjects of that, and where they alone have its schemas with its settings, too."""
    if not _has_subject_alone(final) or topic.format is None or final.format is None:
        return topic.under_subjects_of(final.name)
    return replace(topic, format=replace(format_of_subject(topic.format, final.format, final.name), schema=None))


def _has_subject_alone(topic: Topic) -> bool:
    """Whether a registry alone says the schemas of a topic, as of one that others than SQL have made."""
    return topic.format is not None and topic.format.has_registry and topic.format.schema is None


def _alter_sink(
    state: ScriptState, known: StoredSource, source: StoredSource, program: Program, written: Encoded | None, span: TextSpan
) -> None:
    """The topic of a changed query with the columns that the query adds; TopologyError for any other change."""
    if source.topic != known.topic:
        raise state.error(f"{known.name} is the topic {known.topic}; found {source.topic}: expected the same", span)
    if source.key != known.key:
        raise state.error(
            f"the key of {known.name} is {', '.join(known.key) or 'no column'}; found {', '.join(source.key) or 'none'}{AGAIN}",
            span,
        )
    given = {one["name"] for one in source.columns}
    missing = [str(one["name"]) for one in known.columns if one["name"] not in given]
    if missing:
        raise state.error(
            f"{known.name} would lose {', '.join(missing)}; a changed query may add columns, and keeps those that are there{AGAIN}",
            span,
        )
    KeptValues(state, known, source, span, AGAIN.removeprefix("; ")).check()
    topic = state.definitions.find_topic(known.topic)
    output = next(one for one in program.outputs if one.topic == known.topic)
    grow_schema(state, known.topic, written, span, is_said=VALUE_SCHEMA in source.formats)
    if topic is None or topic.format is not None or topic.schema.names == output.schema.names:
        return
    wanted = {one.name: one for one in output.schema}
    schema = Schema((*(replace(wanted.get(one.name, one), nullable=one.nullable) for one in topic.schema), *(
        replace(one, nullable=True) for one in output.schema if one.name not in topic.schema)))  # fmt: skip
    try:
        check_evolution(topic, schema)
        state.definitions = state.definitions.with_altered_topic(topic.name, Alteration(schema=schema))
    except StreamKitError as error:
        raise state.error(str(error), span) from None


def _changes(state: ScriptState, program: Program, before: StoredQuery, span: TextSpan) -> Preview:
    """What a start of the changed query would change; TopologyError if it would be refused."""
    state.definitions = state.definitions.with_seen(before.application)
    found = preview(state.log.catalog, program)
    if found.refusals:
        reasons = "\n".join(f"  {one}" for one in found.refusals)
        raise state.error(
            f"{before.id} cannot be changed so, since what it keeps would not fit{AGAIN}; or leave the statement as it was; or DROP what it "
            f"fills, DELETE TOPIC, and CREATE it again. In the words of Python:\n{reasons}",
            span,
        )
    return found


def _told(found: Preview, kind: str) -> str:
    """What a change keeps, adds and changes, a line each; and what becomes of rows of a table that another condition let through."""
    if found.known is None:  # there has been no start, and all of it is new
        return ""
    lines = [_change_text(one) for one in found.changes if one.fate != SAME or one.subject == STORES]
    if kind == TABLE and any(one.fate != SAME and one.subject == STEPS and one.text.startswith(FILTER) for one in found.changes):
        lines.append("rows that the former condition let through stay in the topic until their key has a new result" + AGAIN)
    return "".join(f"\n  {line}" for line in lines)


def _change_text(change: ProgramChange) -> str:
    text = f": {change.text}" if change.text else ""
    return f"{change.fate} {change.subject} {change.name}{text}"


def check_queries(
    state: ScriptState, source: str, but: str = "", before: Definitions | None = None, added: Sequence[str] = ()
) -> None:
    """
    TopologyError if a persistent query that reads or fills a stream or table does not fit it as it is now, or what the query has kept or written.

    With the definitions `before` a stream or table was declared for the first time, queries also have to read what they have read then.
    `added` are columns that it has got.
    """
    for query in state.definitions.queries.values():
        if query.id == but or source.lower() not in (name.lower() for name in (query.sink, *query.sources)):
            continue
        try:
            topology = _startable(state, state.definitions, query)
        except StreamKitError as error:
            if before is not None and not _could_start(state, before, query):
                continue  # it was so before
            message = error.message if isinstance(error, TopologyError) else str(error).partition("\n  at ")[0]
            verb = "fills" if query.sink == source else "reads"
            clash = _clash(state, source, query, added) if isinstance(error, UnfitStateError) else ""
            raise state.error(
                f"the query {query.id}, which {verb} {source}, would not fit it any more: {clash}{message}{ways_of_session(message)}",
                NOWHERE,
            ) from None
        if before is not None and _could_start(state, before, query):
            _check_reads_the_same(state, query, before, topology)


def _clash(state: ScriptState, source: str, query: StoredQuery, added: Sequence[str]) -> str:
    """A column that a source has got and that another one of the query, or its result, has too, with what to do; empty if there is none."""
    for other in (*query.sources, query.sink):
        known = None if other.lower() == source.lower() else state.declared(other)
        columns = {str(one["name"]).lower() for one in known.columns} if known is not None else set()
        if known is not None and (name := next((one for one in added if one.lower() in columns), None)) is not None:
            return f"{known.name} has a column {name}, too, and what {query.id} keeps would get other names; expected another name for it. "
    return ""


def _startable(state: ScriptState, definitions: Definitions, query: StoredQuery) -> Topology:
    """The topology of a query; StreamKitError if its next start would be refused."""
    together = definitions.queries_of(query.application) or [query]
    lowering, topology = _lowered_again(definitions, together)
    for one in together:
        _check_columns(definitions, one, lowering)
    refused: list[RefusedTopic] = []
    program = compile_passing_over(topology, CopiedLog(definitions), refused.append)
    if refused:
        raise refused[0].error
    state.definitions = state.definitions.with_seen(query.application)
    refusals = () if query.application in definitions.ended else preview(state.log.catalog, program).refusals
    if refusals:
        raise UnfitStateError(refusals[0])
    return topology


def _check_columns(definitions: Definitions, query: StoredQuery, lowering: ScriptLowering) -> None:
    """
    TopologyError if a query would write other columns than what it fills has, where nobody could read them.

    A topic with columns says their types and those that may be missing, so there only a new one counts.
    """
    filled, topic = definitions.declared(query.sink), lowering.format(query.sink)
    made = lowering.source(query.sink)
    if filled is None or filled.query != query.id or made is None:
        return
    known = {str(one["name"]): without_times(str(one["type"])) for one in filled.columns}
    wanted = {name: without_times(str(type)) for name, type in made.columns or ()}
    if wanted.keys() - known.keys() or (topic.value is not None and known != wanted):
        shown = ksql_type if filled.dialect == KSQL.name else str
        has, would_have = (", ".join(f"{name} {shown(type)}" for name, type in one.items()) for one in (known, wanted))
        raise TopologyError(
            f"{filled.name} has the columns {has}, and the query would write {would_have}; let it name its columns by CREATE OR REPLACE first"
        )


def _could_start(state: ScriptState, definitions: Definitions, query: StoredQuery) -> bool:
    try:
        _startable(state, definitions, query)
    except StreamKitError:
        return False
    return True


def _check_reads_the_same(state: ScriptState, query: StoredQuery, before: Definitions, now: Topology) -> None:
    """TopologyError if a query reads other topics than before, or reads them otherwise."""
    reads = {(one.topic, one.relation) for one in sources_of(now.roots)}
    read = {(one.topic, one.relation) for one in sources_of(topology_of_query(before, query).roots)}
    if reads != read:
        raise state.error(
            f"the query {query.id} reads {_reading_text(read)}, and would read {_reading_text(reads)}; expected another name, or TERMINATE "
            f"{query.id} before",
            NOWHERE,
        )


def _reading_text(read: set[tuple[str, str]]) -> str:
    return ", ".join(f"the topic {topic} as a {relation}" for topic, relation in sorted(read))
