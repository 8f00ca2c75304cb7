"""CREATE STREAM and CREATE TABLE of a topic, ALTER, CREATE TYPE, DROP TYPE."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamkit.dsl.topology import Topology
from streamkit.errors import SchemaError, StreamKitError, TopologyError
from streamkit.expressions.ksql.signature import without_times
from streamkit.formats.codec import Codec
from streamkit.formats.format import OF_KSQLDB, REGISTRY_URL
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.catalog.sql_types import StoredType
from streamkit.log.topic.alteration import Alteration
from streamkit.log.topic.topic import Topic
from streamkit.names import is_name, meant, spellings
from streamkit.plan.added_topics import created
from streamkit.plan.decoding import decoded
from streamkit.plan.inputs import resolve_inputs, sources_of
from streamkit.schema import Schema, SchemaColumn
from streamkit.sql.execution.avro_columns import add_avro_columns
from streamkit.sql.execution.declared_keys import check_places
from streamkit.sql.execution.definitions import FORMAT_NAMES, VALUE_FORMAT, Definitions, says_registry
from streamkit.sql.execution.inferred_columns import InferredColumns
from streamkit.sql.execution.kept_values import KeptValues
from streamkit.sql.execution.queries import check_queries
from streamkit.sql.execution.schema_fit import check_behind_registry, check_others, check_readable
from streamkit.sql.execution.schema_registration import (
    grow_schema,
    register_schemas,
    under_its_subject,
    under_its_subject_of_keys,
    written_by,
)
from streamkit.sql.execution.script_state import Changed, ScriptState
from streamkit.sql.execution.seen_columns import with_added_at
from streamkit.sql.execution.stored_source import (
    WINDOW_TYPE,
    already_there,
    declaration_of,
    is_ksql,
    written_columns,
)
from streamkit.sql.execution.topic_fit import misfit
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.script.declared_source import HEADERS_ROLE, KEY_ROLES, DeclaredSource, ReadTopic, column_type
from streamkit.sql.script.properties import OF_SOURCES, TopicProperties, check_time_format
from streamkit.sql.script.settings import REGISTRY
from streamkit.sql.tree.span import TextSpan
from streamkit.sql.tree.statements import (
    STREAM,
    TABLE,
    AlterSource,
    ColumnDefinition,
    CreateSource,
    CreateType,
    DropType,
    Property,
)
from streamkit.sql.tree.type_names import refused_name


def create_source(state: ScriptState, statement: CreateSource) -> Changed:
    """Declare a stream or table of a topic, which is created if there is none."""
    name = statement.name
    known = state.taken(name.text)
    if known is not None and statement.if_not_exists:
        return Changed(f"There is a {known.kind} {known.name} already.")
    if known is not None:
        _check_replaced(state, statement, known)
    before = state.definitions
    stored, topic = _SourceDeclaration(state, statement).found()
    if topic is not None:
        topic = under_its_subject_of_keys(topic if "VALUE_SCHEMA" in stored.formats else under_its_subject(topic))
    span = name.span if name.span.end else statement.span
    if known is not None:
        stored = with_added_at(known, stored, state.definitions.numbers)
    if topic is not None:
        state.definitions = state.definitions.with_topic(topic)
    _declare(state, known, stored, span)
    former = stored.columns if known is None else known.columns
    added = [str(one["name"]) for one in stored.columns if one["name"] not in {other["name"] for other in former}]
    check_queries(state, stored.name, before=before if known is None else None, added=added)
    if topic is not None:
        register_schemas(state, topic, span)
    elif known is not None:
        grow_schema(state, stored.topic, written_by(state, stored), span, is_said="VALUE_SCHEMA" in stored.formats)
    has_topic = "" if topic is None else f", which is created with {topic.partitions} partition{'s' * (topic.partitions != 1)}"
    return Changed(f"{stored.kind.capitalize()} {stored.name} reads the topic {stored.topic}{has_topic}.")


def _check_replaced(state: ScriptState, statement: CreateSource, known: StoredSource) -> None:
    """TopologyError unless the statement may take the place of what is there."""
    span = statement.name.span if statement.name.span.end else statement.span
    if not statement.or_replace:
        may_be_replaced = known.query is None and known.kind == statement.kind and not known.is_read_only
        raise state.error(already_there(known, may_be_replaced=may_be_replaced), span)
    if known.query is not None:
        raise state.error(
            f"the query {known.query} fills {known.name}; expected CREATE OR REPLACE {known.kind.upper()} {known.name} AS SELECT …",
            span,
        )
    if known.kind != statement.kind:
        raise state.error(f"{known.name} is a {known.kind}; expected DROP {known.kind.upper()} {known.name} before", span)
    if known.is_read_only:
        raise state.error(f"{known.name} is a SOURCE {known.kind.upper()}, which stays as it is; expected DROP before", span)


def _declare(state: ScriptState, known: StoredSource | None, stored: StoredSource, span: TextSpan) -> None:
    """
    Declare a stream or table of a topic that may be read so, in place of a `known` one or as a new one.

    TopologyError if records of before could not be read any more, or if nothing could be written. A topic of Avro gets the columns that it lacks.
    """
    otherwise = "another topic"
    if known is not None:
        way = "INSERT INTO … SELECT fills" if stored.kind == STREAM else f"CREATE TABLE … AS SELECT makes of {stored.name}"
        otherwise = f"another {stored.kind} of a topic of its own with the columns that you want, which {way}"
        again = f"if {known.name} never was what its records are, DROP {known.kind.upper()} {known.name} and CREATE it again"
        KeptValues(state, known, stored, span, f"{otherwise}; or, {again}").check()
    if known is not None or state.keeps_case:  # in Spark's dialect a new declaration adds nothing to a topic
        add_avro_columns(state, stored, span)
    could_write = known is not None and known.topic == stored.topic and _why_unwritable(state, known) is None
    state.definitions = state.definitions.with_source(stored)
    check_readable(state, known, stored, span)
    if known is None or (known.topic, known.key) != (stored.topic, stored.key):  # one of before stays
        check_places(state, stored, span)
    _check_columns_of_schema(state, known, stored, span, otherwise)
    if could_write and (reason := _why_unwritable(state, stored)):  # one that is new may be there to read some of the columns
        raise state.error(
            f"nothing could be written to {stored.name} any more: {reason}; expected the columns as they are; or {otherwise}",
            span,
        )


def _check_columns_of_schema(
    state: ScriptState, known: StoredSource | None, stored: StoredSource, span: TextSpan, otherwise: str
) -> None:
    """TopologyError for a column that the schema of a topic's values lacks, so that no value could have it."""
    topic = state.definitions.find_topic(stored.topic)
    if topic is None or topic.format is None or stored.is_read_only:
        return
    is_own = "VALUE_SCHEMA" in stored.formats
    try:
        encoded = state.reading.encoded(stored)
    except SchemaError:
        if topic.format.has_registry:  # whose schema nobody writes by columns, though some of them may be read
            return
        raise
    if encoded.format.has_registry and not is_own and encoded.format.schema is None:  # nothing has all columns yet
        check_others(state, known, stored, encoded, topic, span)
    if encoded.format.schema is None or encoded.format.name in OF_KSQLDB or not encoded.value.names:
        return  # values have what is declared, or nothing is
    if encoded.format.has_registry and not is_own:  # which gets the next schema
        check_behind_registry(state, known, stored, encoded, topic, span)
        return
    written = Codec(encoded.format, topic=stored.topic).written.names
    missing = ", ".join(name for name in encoded.value.names if name not in written)
    # Values of JSON may have more than their schema says.
    if not missing or (encoded.format.name == "json" and known is None and not is_own):
        return
    what = f"VALUE_SCHEMA of {stored.name}" if is_own else f"the schema of the values of the topic {topic.name}"
    kind_and_name = f"{stored.kind.upper()} {stored.name}"
    wanted = f"columns that it has; or {otherwise}"
    if is_own:
        wanted = f"{'' if known is None else f'CREATE OR REPLACE {kind_and_name} with '}a VALUE_SCHEMA that has {missing}"
    elif encoded.format.name == "avro":
        wanted = f"columns that it has, which gets others by ALTER {kind_and_name} ADD COLUMN; or {otherwise}"
    raise state.error(
        f"{what} has no {missing}; it has {', '.join(written) or 'no column'}, and values have no others: expected {wanted}", span
    )


def _why_unwritable(state: ScriptState, source: StoredSource) -> str | None:
    """Why INSERT could not make values for a topic that has a format, and no registry that gets the next schema; None if it could."""
    topic = state.definitions.find_topic(source.topic)
    if topic is None or topic.format is None or topic.format.has_registry:
        return None
    try:
        written_columns(source, state.reading.encoded(source))
    except StreamKitError as error:
        return str(error)
    return None


@dataclass(frozen=True)
class _SourceDeclaration:
    """A statement beside the topic that it is about; one that would declare what is `stored` is in the dialect of that."""

    state: ScriptState
    statement: CreateSource
    stored: StoredSource | None = None

    def found(self) -> tuple[StoredSource, Topic | None]:
        """What the statement declares, and the topic that is to be created for it."""
        state, statement = self.state, self.statement
        properties = TopicProperties.of(statement.properties, OF_SOURCES, state.text, statement.span)
        if self._is_ksql:
            if self.stored is None:
                check_time_format(statement.properties, state.text)
        else:
            properties.check_supported()
        name = properties.topic or statement.name.text
        if not is_name(name):
            raise state.error(
                f"{name!r} cannot be the name of a topic; expected WITH (KAFKA_TOPIC = '…') and letters, digits, '.', '_' and '-'",
                properties.spans.get("KAFKA_TOPIC") or (statement.name.span if statement.name.span.end else statement.span),
            )
        topic = state.definitions.find_topic(name)
        if self._is_ksql and self.stored is None and (topic is None or topic.format is not None):
            said = replace(self, statement=state.settings.script.formats.said_by(statement))
            if said.statement is not statement:
                return said.found()
        if topic is not None and topic.internal:
            raise state.error(f"the topic {name} belongs to an application, which alone declares it", statement.span)
        if topic is None:
            return self._of_new_topic(name, properties)
        if self.stored is None:  # a topic may have got more since
            properties.check_partitions(name, topic.partitions)
        if topic.format is None and WINDOW_TYPE not in properties.values and not self._has_headers:
            return self._of_columns(topic, properties), None
        return self._of_declared(topic, properties), None

    @property
    def _is_ksql(self) -> bool:
        return self.state.settings.script.meaning.names_results if self.stored is None else is_ksql(self.stored)

    @property
    def _text(self) -> ScriptText:
        return self.state.text.in_dialect(is_ksql=self._is_ksql)

    def _declared(self, statement: CreateSource) -> DeclaredSource:
        script = self.state.settings.script
        wraps = self.stored is not None or script.formats.wraps_one_column
        properties = TopicProperties.of(statement.properties, OF_SOURCES, self.state.text, statement.span)
        registry = self.state.definitions.registry_of(properties.topic or statement.name.text, script.registry)
        is_there = self.state.definitions.find_topic(properties.topic or statement.name.text) is not None
        return DeclaredSource(
            statement, self.state.text, self.state.types, registry, self._is_ksql, wraps, is_stored=False, is_there=is_there
        )

    @property
    def _has_headers(self) -> bool:
        return any(column.role == HEADERS_ROLE for column in self.statement.columns)

    def _stored(
        self, topic: str, columns: Sequence[Mapping[str, Any]], key: tuple[str, ...], given: Mapping[str, Any]
    ) -> StoredSource:
        statement, state = self.statement, self.state
        formats = {one: value for one, value in given.items() if one != "KAFKA_TOPIC"}
        timestamp = formats.get("TIMESTAMP")
        return StoredSource(
            statement.name.text, statement.kind, topic, tuple(columns), key, state.written(statement), state.settings.script.meaning.name,
            formats, None if timestamp is None else str(timestamp), None, statement.is_read_only,
        )  # fmt: skip

    def _columns(self) -> list[dict[str, Any]]:
        """The columns as they are written, with the types that they stand for."""
        return [
            {
                "name": one.name.text, "type": column_type(one.type, self.state.types, self._text, one.span), "role": one.role,
                **({} if one.header is None else {"header": one.header}),
            }
            for one in self.statement.columns
        ]  # fmt: skip

    def _of_new_topic(self, name: str, properties: TopicProperties) -> tuple[StoredSource, Topic]:
        state, statement = self.state, self.statement
        if not statement.columns:
            near = difflib.get_close_matches(name, state.definitions.topics(), 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise state.error(
                f"there is no topic {name!r} whose columns {statement.name.text} could have{hint}; expected a topic, or columns in parentheses, with "
                "which it is created",
                statement.span,
            )
        topology = Topology("declaration", time_zone=state.settings.script.time_zone)
        read = self._declared(statement).added_to(topology)
        if not topology.added_topics:
            raise state.error(
                f"there is no topic {name!r}, and values in this format need a schema before there can be one; expected VALUE_SCHEMA in WITH, or "
                f"SET '{REGISTRY}' before, or the topic: `streamkit topics create`",
                statement.span,
            )
        topic = created(topology.added_topics[0], state.log.settings.topic_partitions)
        self._check_read(read, state.definitions.with_topic(topic))
        return self._stored(topic.name, self._columns(), read.source.key or (), _as_read(properties.values, read)), topic

    def _of_columns(self, topic: Topic, properties: TopicProperties) -> StoredSource:
        """Some or all of the columns of a topic that has columns."""
        statement, state = self.statement, self.state
        if properties.value_format is not None:
            raise properties.error(
                "VALUE_FORMAT" if "VALUE_FORMAT" in properties.values else "FORMAT",
                f"the topic {topic.name} has columns, and no values in a format; expected no format",
            )
        if statement.kind == TABLE and not topic.key:
            raise state.error(
                f"the topic {topic.name} has no key, and a table holds one row per key; expected a stream", statement.span
            )
        role = "primary key" if statement.kind == TABLE else "key"
        columns = [self._column(topic, one) for one in statement.columns] or [
            {"name": one.name, "type": one.type, "role": role if one.name in topic.key else ""} for one in topic.schema
        ]
        declared = [one["name"] for one in columns if one["role"] in KEY_ROLES]
        if statement.columns and (declared or statement.kind == TABLE) and sorted(declared) != sorted(topic.key):
            raise state.error(
                f"the key of the topic {topic.name} is {', '.join(topic.key) or 'no column'}; found {', '.join(declared) or 'none'} as "
                f"{role.upper()}",
                statement.span,
            )
        return self._stored(topic.name, columns, topic.key, _with_time(properties.values, properties.time_column(topic.schema)))

    def _added(self, declared: ColumnDefinition) -> str:
        """How the topic gets a column that it lacks; nothing for one of the key, which gets none."""
        if declared.role:
            return ""
        name = self.statement.name.text
        when = "" if self.state.declared(name) is not None else f" once the {self.statement.kind} is declared"
        return f"; a column is added by ALTER {self.statement.kind.upper()} {name} ADD COLUMN{when}"

    def _column(self, topic: Topic, declared: ColumnDefinition) -> dict[str, Any]:
        """A column of a topic, which the statement declares as the topic has it."""
        found = spellings(declared.name.text, topic.schema.names)
        if len(found) > 1:
            raise self.state.error(
                f"{declared.name.text} may be any of the columns {', '.join(found)} of the topic {topic.name}, which differ in case only; "
                "expected one of these spellings, in quotes",
                declared.span,
            )
        if not found:
            near = difflib.get_close_matches(declared.name.text, topic.schema.names, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise self.state.error(
                f"the topic {topic.name} has no column {declared.name.text!r}; it has {', '.join(topic.schema.names)}{hint}{self._added(declared)}",
                declared.span,
            )
        (name,) = found
        wanted = column_type(declared.type, self.state.types, self._text, declared.span)
        if without_times(wanted) != topic.schema[name].type:
            raise self.state.error(
                f"{name} is {topic.schema[name].type} in the topic {topic.name}; found {wanted}: a query casts it", declared.span
            )
        return {"name": name, "type": wanted, "role": declared.role}

    def _of_declared(self, topic: Topic, properties: TopicProperties) -> StoredSource:
        """What the bytes of a topic are read as, or columns of it with windows or headers."""
        statement, state = self.statement, self.state
        given = dict(properties.values)
        if topic.format is not None and not {VALUE_FORMAT, "FORMAT"} & given.keys():
            given[VALUE_FORMAT] = FORMAT_NAMES[topic.format.name]
        inferred = InferredColumns(state, statement, topic, given, is_ksql=self._is_ksql, is_stored=self.stored is not None)
        statement = replace(statement, columns=inferred.found())
        inferred.check_places(statement.columns)
        declared = replace(self, statement=statement)
        topology = Topology("declaration", time_zone=state.settings.script.time_zone)
        values = replace(statement, properties=tuple(_property(one, value, statement) for one, value in given.items()))
        read = self._declared(values).added_to(topology)
        self._check_read(read, state.definitions)
        uses_registry = TopicProperties.of(values.properties, OF_SOURCES, state.text, statement.span).uses_registry
        said = {REGISTRY_URL: read.format.registry or ""} if uses_registry and not says_registry(topic) else {}
        return declared._stored(topic.name, declared._columns(), read.source.key or (), {**_as_read(given, read), **said})

    def _check_read(self, read: ReadTopic, definitions: Definitions) -> None:
        """TopologyError if the topic cannot be read so."""
        try:
            sources = sources_of([read.source.rows.node])
            for node, found in zip(sources, resolve_inputs(sources, definitions).values(), strict=True):
                if node.decoding is not None:
                    decoded(node.decoding, found, node.at)
        except StreamKitError as error:
            raise self.state.error(str(error).partition("\n  at ")[0], self.statement.span) from None


def _as_read(given: Mapping[str, Any], read: ReadTopic) -> Mapping[str, Any]:
    """What WITH says, with the column of times as the columns spell it, and what SET says in its place."""
    (node,) = sources_of([read.source.rows.node])
    given = {**given, **{name: value for name, value in read.format.words.items() if name == "WRAP_SINGLE_VALUE"}}
    return given if not isinstance(node.timestamp, str) else _with_time(given, node.timestamp)


def _with_time(given: Mapping[str, Any], column: str | None) -> Mapping[str, Any]:
    return given if column is None else {**given, "TIMESTAMP": column}


def _property(name: str, value: Any, statement: CreateSource) -> Property:
    """A property as the statement has it, or one that it leaves out."""
    return next((one for one in statement.properties if one.name.upper() == name), Property(name, value))


def alter_source(state: ScriptState, statement: AlterSource) -> Changed:
    """Add columns to a stream or table, and to its topic if that has columns."""
    known = state.declared(statement.name.text)
    span = statement.name.span if statement.name.span.end else statement.span
    if known is None or known.kind != statement.kind:
        what = "there is none of that name" if known is None else f"it is a {known.kind}"
        raise state.error(f"ALTER {statement.kind.upper()} {statement.name.text}: {what}", span)
    if known.query is not None:
        raise state.error(
            f"the query {known.query} says which columns {known.name} has; expected CREATE OR REPLACE {known.kind.upper()} {known.name} AS …",
            span,
        )
    if known.is_read_only:
        raise state.error(f"{known.name} is a SOURCE {known.kind.upper()}, which stays as it is", span)
    added = [(one.name.text, column_type(one.type, state.types, state.text_in_dialect, one.span)) for one in statement.columns]
    folded = state.settings.script.meaning.folded
    # The bounds of windows are in the key alone.
    names = {folded(name) for name in (*(str(one["name"]) for one in known.columns), *known.key)}
    for (name, _), column in zip(added, statement.columns, strict=True):
        if folded(name) in names:
            raise state.error(f"{known.name} has a column {name!r} already", column.span)
        names.add(folded(name))
    topic = state.definitions.find_topic(known.topic)
    if topic is not None and (reason := misfit(known, topic)):
        raise state.error(reason, span)
    altered, before = known, state.definitions
    for (name, type), column in zip(added, statement.columns, strict=True):
        near = [str(one["name"]) for one in altered.columns if str(one["name"]).lower() == name.lower()]
        # A query that has the name in capitals may mean either column.
        if near and name.upper() not in near and (readers := state.definitions.readers(known.name)):
            raise state.error(
                f"{known.name} has a column {near[0]!r}, which differs from {name!r} in its case only, and {', '.join(one.id for one in readers)}, "
                "reading it, would mean the other one by a name in capitals; expected another name, or TERMINATE before",
                column.span,
            )
        altered = replace(altered, columns=(*altered.columns, {"name": name, "type": type, "role": ""}))
        altered = with_added_at(known, altered, before.numbers)
        state.definitions = before  # all columns are one change of the topic, and the first that cannot be is found
        try:
            state.reading.check_declared(altered)
            if topic is not None and topic.format is None:
                _add_to_topic(state, altered, topic)
            _SourceDeclaration(state, declaration_of(altered), altered).found()
        except StreamKitError as error:
            message = error.message if isinstance(error, TopologyError) else str(error)
            raise state.error(message, column.span) from None
        _declare(state, known, altered, column.span)
    grow_schema(state, known.topic, written_by(state, altered), span, is_said="VALUE_SCHEMA" in altered.formats)
    check_queries(state, known.name, added=[name for name, _ in added])
    return Changed(f"{known.kind.capitalize()} {known.name} has {', '.join(name for name, _ in added)} too.")


def _add_to_topic(state: ScriptState, altered: StoredSource, topic: Topic) -> None:
    """Give a topic that has columns the declared ones that it lacks; SchemaError if it cannot have them."""
    columns = [(str(one["name"]), without_times(str(one["type"]))) for one in altered.columns if one.get("role") != HEADERS_ROLE]
    new = [SchemaColumn(name, type) for name, type in columns if name not in topic.schema]
    state.definitions = state.definitions.with_altered_topic(topic.name, Alteration(schema=Schema((*topic.schema, *new))))


def create_type(state: ScriptState, statement: CreateType) -> Changed:
    """Give a type a name."""
    name, span = statement.name.text, statement.span
    if reason := refused_name(name):
        raise state.error(reason, span)
    if (known := state.definitions.type(name)) is not None:
        if statement.if_not_exists:
            return Changed(f"There is a type {known.name} already.")
        raise state.error(f"there is a type {known.name} already, {known.type}; expected another name, or IF NOT EXISTS", span)
    found = StoredType(name, column_type(statement.type, state.types, state.text_in_dialect, span))
    state.definitions = state.definitions.with_type(found)
    return Changed(f"Type {name} is {found.type}.")


def drop_type(state: ScriptState, statement: DropType) -> Changed:
    """Forget the name of a type; columns keep what it stands for."""
    known = state.definitions.type(statement.name.text)
    if known is None:
        if statement.if_exists:
            return Changed(f"There is no type {statement.name.text}.")
        there = ", ".join(state.definitions.types) or "none"
        raise state.error(
            f"there is no type {statement.name.text!r}; there are {there}{meant(statement.name.text, state.definitions.types)}",
            statement.name.span if statement.name.span.end else statement.span,
        )
    state.definitions = state.definitions.without_type(known.name)
    return Changed(f"Type {known.name} is gone; columns that have it keep {known.type}.")
