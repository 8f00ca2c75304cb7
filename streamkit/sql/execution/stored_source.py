"""A stream or table of the catalog as the rows of a topology, and as what a query reads once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from streamkit.dsl.stream import Stream
from streamkit.dsl.table import Table
from streamkit.dsl.topology import Topology
from streamkit.errors import ConfigError, TopicNotFoundError, TopologyError
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.ksql.signature import has_times
from streamkit.formats.codec import Codec, with_newest_schema
from streamkit.formats.format import REGISTRY_URL, Format
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.topic.topic import Topic
from streamkit.names import HEADERS
from streamkit.plan.decoding import decoded
from streamkit.plan.encoding import Encoded, with_subject_of_keys
from streamkit.plan.expression import TypedExpression
from streamkit.plan.inputs import resolve_inputs, sources_of
from streamkit.plan.kept_output import KeptOutput, kept_output
from streamkit.plan.program import Program
from streamkit.plan.window_kinds.hopping import TimeWindow
from streamkit.plan.window_kinds.session import SessionWindow
from streamkit.plan.windows import WindowKind
from streamkit.schema import Schema, SchemaColumn
from streamkit.sql.execution.definitions import Definitions
from streamkit.sql.execution.seen_columns import SeenColumns
from streamkit.sql.execution.topic_fit import misfit
from streamkit.sql.ksql.expressions import PSEUDO_COLUMNS
from streamkit.sql.lowering.ksql_meaning import KSQL
from streamkit.sql.lowering.scope import OF_ROWS, QuerySource, key_in_order
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.pull.relation import PullRelation
from streamkit.sql.pull.source import RECORD_TYPES, ReadRows, StoreRows, TopicRows
from streamkit.sql.script.declared_source import HEADERS_ROLE, DeclaredSource, ReadTopic, table_with_records
from streamkit.sql.script.properties import NATIVE
from streamkit.sql.script.script import ScriptSource
from streamkit.sql.script.topic_format import TopicFormat
from streamkit.sql.tree.span import NOWHERE, Name
from streamkit.sql.tree.statements import STREAM, TABLE, ColumnDefinition, CreateSource, Property
from streamkit.state.snapshot import application_of, find_store
from streamkit.state.stored_rows import StoredRows

WINDOW_TYPE = "WINDOW_TYPE"
RECORDS = Schema((SchemaColumn(HEADERS, RECORD_TYPES[HEADERS]),))
WORDS_OF_COLUMNS = {"VALUE_FORMAT": NATIVE}


@dataclass(frozen=True)
class SourceReading:
    """Reads streams and tables as they are defined now, or as `seen` by queries that were made before."""

    definitions: Definitions
    registry: str | None = None
    time_zone: str = "UTC"
    keeps_case: bool = False
    seen: SeenColumns | None = None

    def others(self, name: str, topology: Topology) -> ScriptSource | None:
        """A stream or table for a script that does not declare it."""
        stored = self.source(name)
        if stored is None:
            return None
        read = self.added_to(stored if self.seen is None else self.seen.of(stored), topology)
        topic = self.definitions.find_topic(stored.topic)
        source = read.source if topic is None else replace(read.source, partitions=topic.partitions)
        return ScriptSource(stored.kind, read.topic, read.format, source)

    def source(self, name: str) -> StoredSource | None:
        """The stream or table that a query means by a name."""
        return self.definitions.source(name, keeps_case=self.keeps_case)

    def added_to(self, stored: StoredSource, topology: Topology) -> ReadTopic:
        """The rows of a stream or table in a topology; TopologyError for a topic that does not fit any more."""
        topic = self.definitions.find_topic(stored.topic)
        if topic is None and stored.query is None and not stored.columns:
            raise TopicNotFoundError(f"the topic {stored.topic!r} of {stored.name} does not exist any more")
        if topic is not None and (reason := misfit(stored, topic)):
            raise TopologyError(reason)
        if topic is None or topic.format is not None or WINDOW_TYPE in stored.formats or has_headers(stored):
            return self._declared(stored).added_to(topology)
        return self._columns_of(stored, topic, topology)

    def check_declared(self, stored: StoredSource) -> None:
        """TopologyError unless CREATE could declare a stream or table of a new topic so, as to its names, its types and its format."""
        replace(self._declared(stored), is_stored=False).added_to(Topology("declaration", time_zone=self.time_zone))

    def encoded(self, stored: StoredSource) -> Encoded:
        """How rows are written to a topic that has a format: behind a registry, and in Avro, under its newest schema, which all its readers know."""
        decoding, own = self.topic_rows(stored).decoding, self.definitions.topic(stored.topic).format
        assert decoding is not None, "and has a format of values"
        assert own is not None, "and the topic knows it"
        found = Encoded(decoding.key, decoding.value, decoding.keys, decoding.format)
        if found.format.earlier:
            return replace(found, format=replace(found.format, schema=own.schema, earlier=own.earlier))
        if not found.format.has_registry:
            return found
        under = replace(found, format=format_behind_registry(found, own, stored.topic, is_said="VALUE_SCHEMA" in stored.formats))
        return replace(under, keys=with_subject_of_keys(under, stored.topic, own))

    def relation(self, stored: StoredSource) -> PullRelation:
        """The rows of a stream or table for a query that is run once: those of a store, if one has them."""
        source, schema, key = self._columns_read(stored)
        kept = self._store(stored, schema, key)

        def timed(names: Sequence[str]) -> ReadRows:
            topic = self._topic_rows(stored, source, schema, key)
            if kept is None:
                return topic.with_records({name: PSEUDO_COLUMNS[name] for name in names})
            return replace(kept, records=topic.records_alone({name: PSEUDO_COLUMNS[name] for name in OF_ROWS}))

        is_timed = stored.kind == TABLE and is_ksql(stored)
        return PullRelation(source.rows, kept or self._topic_rows(stored, source, schema, key), timed if is_timed else None)

    def topic_rows(self, stored: StoredSource) -> TopicRows:
        """The rows of a stream or table as its topic has them."""
        return self._topic_rows(stored, *self._columns_read(stored))

    def _columns_read(self, stored: StoredSource) -> tuple[QuerySource, Schema, tuple[str, ...]]:
        """A stream or table in a topology of its own, with its columns and its key."""
        source = self.added_to(stored, Topology("query", time_zone=self.time_zone)).source
        assert source.columns is not None, "the columns of what is stored are known"
        schema = Schema(tuple(SchemaColumn(name, str(type)) for name, type in source.columns))
        return source, schema, source.key or ()

    def _store(self, stored: StoredSource, schema: Schema, key: tuple[str, ...]) -> StoreRows | None:
        """The store that a persistent query keeps a table in; None if it has none, or none yet."""
        query = None if stored.query is None else self.definitions.query(stored.query)
        has_own_times = (
            is_ksql(stored) and "TIMESTAMP" in stored.formats
        )  # a row without a time is in the store, not in the topic
        if query is None or stored.kind != TABLE or has_own_times:
            return None
        try:
            state, program = self.definitions.log.catalog.read(lambda transaction: application_of(transaction, query.application))
        except ConfigError:  # it has not started yet
            return None
        kept = kept_output(program, stored.topic)
        if kept is None or kept.store not in state.stores or not set(schema.names) <= _columns_kept(program, kept):
            return None
        return StoreRows(query.application, kept.store, schema, key, kept.steps)

    def _topic_rows(self, stored: StoredSource, source: QuerySource, schema: Schema, key: tuple[str, ...]) -> TopicRows:
        is_stream = stored.kind == STREAM
        (node,) = sources_of([source.rows.node])
        rows = TopicRows(stored.topic, schema, key, is_stream, headers=self._headers(stored))
        if node.decoding is None and node.timestamp is None:
            return rows
        (found,) = resolve_inputs([node], self.definitions).values()
        rows = replace(rows, timed=None if found.event_time is None else found)
        return rows if node.decoding is None else replace(rows, decoding=decoded(node.decoding, found, node.at))

    def _headers(self, stored: StoredSource) -> tuple[tuple[str, TypedExpression], ...]:
        """The columns of a stream that are headers of its records."""
        if not has_headers(stored):
            return ()
        at = ScriptText(stored.text, stored.name).at(NOWHERE)
        return ExpressionAnalyzer(self.time_zone).project(RECORDS, self._declared(stored).headers, at)

    def _declared(self, stored: StoredSource) -> DeclaredSource:
        return DeclaredSource(
            declaration_of(stored),
            ScriptText(stored.text, stored.name),
            self.definitions.type_texts,
            self.definitions.registry_of(stored.topic, self.registry),
            is_ksql(stored),
            is_stored=True,
            is_there=self.definitions.find_topic(stored.topic) is not None,
        )

    def _columns_of(self, stored: StoredSource, topic: Topic, topology: Topology) -> ReadTopic:
        """The rows of a topic that has columns, of which the source may show some."""
        options: dict[str, Any] = {
            "schema": topic.schema, "key": topic.key or None, "timestamp": stored.timestamp, "since_1970": is_ksql(stored),
        }  # fmt: skip
        rows: Stream | Table
        if stored.kind == TABLE and stored.windows is None and stored.timestamp is not None and is_ksql(stored):
            rows = topology.stream(topic.name, **options).to_table()  # so a record without a time is left out
        elif stored.kind == TABLE:
            rows = topology.table(topic.name, windowed=window_of(stored.windows), **options)
        else:
            rows = topology.stream(topic.name, **options)
        types = {column.name: column.type for column in topic.schema}
        types |= {str(one["name"]): str(one["type"]) for one in stored.columns if has_times(str(one["type"]))}
        columns = tuple((str(one["name"]), types[one["name"]]) for one in stored.columns if one["name"] in types)
        with_records = None
        if stored.kind == TABLE and stored.windows is None and is_ksql(stored):
            with_records = partial(_with_records, topology, topic, options)
        return ReadTopic(QuerySource(rows, columns, topic.key, with_records), topic.name, TopicFormat(words=WORDS_OF_COLUMNS))


def _with_records(topology: Topology, topic: Topic, options: Mapping[str, Any], named: Sequence[str]) -> Table:
    """The table of a topic with columns of what its rows know of their records."""
    return table_with_records(topology.stream(topic.name, **options), named)


def has_headers(stored: StoredSource) -> bool:
    """Whether some columns of a stream are headers of its records."""
    return any(one.get("role") == HEADERS_ROLE for one in stored.columns)


def is_ksql(stored: StoredSource) -> bool:
    """Whether a stream or table was declared in the ksql dialect."""
    return stored.dialect == KSQL.name


def written_columns(stored: StoredSource, encoded: Encoded) -> Schema:
    """
    The columns of which INSERT makes values: a topic's schema may have some of the key, or of CSV others, which are null.

    SchemaError as of `value_columns`.
    """
    format = encoded.format
    if format.name == "csv":
        missing = [column for column in Codec(format).written if column.name not in encoded.columns]
        encoded = replace(encoded, value=Schema((*encoded.value, *missing)))
    if format.earlier or (format.schema is not None and (format.has_registry or not is_ksql(stored))):
        return encoded.under(format, with_key=not is_ksql(stored))
    return encoded.value


def _columns_kept(program: Program, kept: KeptOutput) -> set[str]:
    """The columns of a store behind its steps; of a program that has not been started since its query was changed some may be missing."""
    for step in reversed(kept.steps):
        if step.columns is not None:
            return {name for name, _ in step.columns}
    return set(StoredRows(program, find_store(program, kept.store)).schema.names)


def format_behind_registry(written: Encoded, own: Format, topic: str, *, is_said: bool = False) -> Format:
    """
    The format in which values are written to a topic: under its own schema, or the newest of its subject, if that has all of their columns.

    Else it is that of what is written, as it is where a declaration has `said` the schema.
    """
    its, names = format_of_subject(written.format, own, topic), set(written.value.names)
    for each in schemas_there(its, [] if is_said and its.schema is not None else names):
        if has_all(each, names):
            return replace(each, topic=written.format.topic)
    return replace(its, schema=written.format.schema, topic=written.format.topic)


def schemas_there(its: Format, names: Collection[str]) -> list[Format]:
    """A format with the schema that its topic has, and with the newest of its subject, unless the topic's has all names, or more than the newest."""
    if its.schema is not None and has_all(its, names):
        return [its]
    newest = with_newest_schema(replace(its, schema=None), its.topic)
    own = [] if its.schema is None else [its]
    is_grown = newest.schema is not None and all(has_all(newest, Codec(one).written.names) for one in own)
    return [*own, *([newest] if is_grown else [])]


def has_all(format: Format, names: Collection[str]) -> bool:
    """Whether the schema of a format has all columns of these names; SchemaError if it cannot be written, where there are some."""
    return not names or set(names) <= set(Codec(format).written.names)


def format_of_subject(written: Format, own: Format, topic: str) -> Format:
    """The format of a topic's values behind a registry, with what a writer says of them; of a topic of bytes it has no schema."""
    its = own if own.name == written.name and own.has_registry else replace(written, schema=None)
    settings = {**dict(its.settings), **dict(written.settings)}
    return replace(its, settings=tuple(sorted(settings.items())), topic=own.topic or topic)


def declaration_of(stored: StoredSource) -> CreateSource:
    """The statement that would declare a stream or table as it is now; an earlier checkout stored keys in the order of SELECT."""
    named = {str(one["name"]): one for one in stored.columns}
    columns = tuple(
        ColumnDefinition(Name(str(one["name"])), str(one["type"]), str(one.get("role", "")), one.get("header"))
        for one in (named[name] for name in key_in_order(named, stored.key))
        if one["name"] not in ("window_start", "window_end") or WINDOW_TYPE not in stored.formats
    )
    given = {"KAFKA_TOPIC": stored.topic, **{name: value for name, value in stored.formats.items() if name != REGISTRY_URL}}
    properties = tuple(Property(name, value) for name, value in given.items())
    return CreateSource(stored.kind, Name(stored.name), columns, properties)


def window_of(stored: Mapping[str, Any] | None) -> WindowKind | None:
    """The windows of a table's key, as the catalog has them."""
    if stored is None:
        return None
    if stored["kind"] == "session":
        return SessionWindow(stored["gap_ms"], stored["grace_ms"], stored["retention_ms"])
    return TimeWindow(stored["size_ms"], stored["advance_ms"], stored["grace_ms"], stored["retention_ms"])


def windows_of(kind: WindowKind | None) -> dict[str, Any] | None:
    """The inverse of `window_of`; None also for windows that it does not know."""
    if isinstance(kind, SessionWindow):
        return {"kind": "session", "gap_ms": kind.gap_ms, "grace_ms": kind.grace_ms, "retention_ms": kind.retention_ms}
    if isinstance(kind, TimeWindow):
        return {
            "kind": "time", "size_ms": kind.size_ms, "advance_ms": kind.advance_ms, "grace_ms": kind.grace_ms, "retention_ms": kind.retention_ms,
        }  # fmt: skip
    return None


def already_there(known: StoredSource, *, may_be_replaced: bool) -> str:
    """What to say of a name that a stream or table has already."""
    otherwise = "CREATE OR REPLACE" if may_be_replaced else f"DROP {known.kind.upper()} {known.name} before"
    return f"there is a {known.kind} {known.name} already; expected another name, or IF NOT EXISTS, or {otherwise}"
