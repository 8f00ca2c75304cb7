"""CREATE STREAM and CREATE TABLE of a topic: what is read, and the topic that a start creates if there is none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from streamkit.data_type import has_map, is_nested, key_complaint
from streamkit.dsl.stream import Stream
from streamkit.dsl.table import Table
from streamkit.dsl.topology import Topology
from streamkit.errors import SchemaError, StreamKitError, TopologyError
from streamkit.expressions.core.column import Column
from streamkit.expressions.ksql.signature import has_times, without_times
from streamkit.formats.codec import schema_made_of
from streamkit.formats.format import KEY_FORMAT, KEY_SCHEMA, WITH_REGISTRY
from streamkit.names import HEADERS, OFFSET, PARTITION, TIMESTAMP, WINDOW_END, WINDOW_START
from streamkit.plan.dotted_name import part
from streamkit.plan.expression import Alias, Call, Cast, Expression, Lambda, Literal, Reference
from streamkit.plan.location import written_at
from streamkit.plan.window_kinds.hopping import TimeWindow
from streamkit.plan.window_kinds.session import SessionWindow
from streamkit.plan.windows import WindowKind
from streamkit.schema import Schema, SchemaColumn
from streamkit.sql.lowering.ksql_meaning import RESERVED_NAMES
from streamkit.sql.lowering.meaning import DAY_MS
from streamkit.sql.lowering.scope import ROW_TIMES, QuerySource
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.script.properties import OF_SOURCES, TopicProperties
from streamkit.sql.script.topic_format import KsqlFormat, TopicFormat, topic_format, window_text
from streamkit.sql.tree.span import TextSpan
from streamkit.sql.tree.statements import TABLE, ColumnDefinition, CreateSource
from streamkit.sql.tree.type_names import resolved_type

HEADERS_TYPE = "array<struct<key:string,value:binary>>"
KSQL_HEADERS_TYPE = "array<struct<KEY:string,VALUE:binary>>"
KEY_ROLES = ("key", "primary key")
HEADERS_ROLE = "headers"
WITHOUT_NESTED = {"string": "STRING", "csv": "DELIMITED"}
SOURCE_NAME = re.compile(r"[A-Za-z0-9_-]+")  # of a stream or table in the ksql dialect
_BOUNDS = ((WINDOW_START, "timestamp"), (WINDOW_END, "timestamp"))


@dataclass(frozen=True)
class ReadTopic:
    """The stream or table of a topic, with the topic and its format."""

    source: QuerySource
    topic: str
    format: TopicFormat


@dataclass(frozen=True)
class DeclaredSource:
    """
    A topic as a statement declares it; of one that `is_ksql` formats are those of ksqlDB.

    `wraps_one_column`: a value of one column is an object that holds it, unless the statement says more. `adds_topic`: the topology creates the
    topic unless it exists, which it does not of one that it writes. `is_stored`: a statement has made the columns before, perhaps as a query's.
    `is_there`: the topic exists.
    """

    statement: CreateSource
    text: ScriptText
    types: Mapping[str, str]
    registry: str | None
    is_ksql: bool = False
    wraps_one_column: bool = True
    adds_topic: bool = True
    is_stored: bool = False
    is_there: bool = False

    def added_to(self, topology: Topology) -> ReadTopic:
        """The stream or table of the topic, which the topology creates unless it exists."""
        properties = TopicProperties.of(self.statement.properties, OF_SOURCES, self.text, self.statement.span)
        if not self.is_ksql:
            properties.check_supported()
        columns = self._columns(properties)
        key = self._key(properties)
        topic = properties.topic or self.statement.name.text
        window = self._window(properties)
        format = self._format(properties, columns, key, window)
        if not self.adds_topic and format.schema is None:  # what reads a topic that is written says of what schema its values are
            format = replace(format, schema=format_schema(format, columns, key))
        if format.times is None:
            properties.time_column(columns)
        with written_at(self._text.at(self.statement.span)):
            try:
                if self.adds_topic:
                    self._add_topic(topology, topic, columns, key, format, properties)
                rows = self._rows(topology, topic, columns, key, format, properties, window)
            except TopologyError:
                raise
            except StreamKitError as error:
                raise self.text.error(str(error).partition("\n  at ")[0], self.statement.span) from None
        times = self._times
        known = [(column.name, times.get(column.name, column.type)) for column in columns]
        is_plain_table = self.is_ksql and self.statement.kind == TABLE and window is None
        with_records = partial(self._with_records, topology, topic, columns, key, format) if is_plain_table else None
        known += [(column.name.text, type) for column, type in self._header_types]
        return ReadTopic(QuerySource(rows, tuple(known), key, with_records), topic, format)

    def _with_records(
        self, topology: Topology, topic: str, columns: Schema, key: tuple[str, ...], format: TopicFormat, named: Sequence[str]
    ) -> Table:
        """The table with columns of what its rows know of their records."""
        properties = TopicProperties.of(self.statement.properties, OF_SOURCES, self.text, self.statement.span)
        with written_at(self._text.at(self.statement.span)):
            options = {"schema": columns, "key": key, **self._time_arguments(properties, format, columns), **format.arguments}
            return table_with_records(self._with_headers(topology.stream(topic, **options)), named)

    def _format(
        self, properties: TopicProperties, columns: Schema, key: tuple[str, ...], window: WindowKind | None
    ) -> TopicFormat:
        if not self.is_ksql:
            return topic_format(properties, self.registry, len(key))
        times = self._times  # a format may have a form of its own for them
        typed = [(one.name, times.get(one.name, one.type)) for one in columns]
        wraps = self.wraps_one_column
        return KsqlFormat(properties, self.registry, key, typed, window_text(window), wraps_one_column=wraps).found()

    @property
    def _text(self) -> ScriptText:
        """The text, which knows the dialect of the statement."""
        return self.text.in_dialect(is_ksql=self.is_ksql)

    @property
    def _times(self) -> dict[str, str]:
        """The types of columns that keep times of the day, which are integers in the topic."""
        typed = [(one.name.text, column_type(one.type, self.types, self._text, one.span)) for one in self.statement.columns]
        return {name: type for name, type in typed if has_times(type)}

    def _columns(self, properties: TopicProperties) -> Schema:
        """The columns of the topic; those of its headers are none."""
        if not self.statement.columns:
            raise self.text.error(
                f"CREATE {self.statement.kind.upper()} {self.statement.name.text} has no columns; expected them in parentheses behind the "
                "name, as in (id INT KEY, amount DOUBLE)",
                self.statement.span,
            )
        stored = [column for column in self.statement.columns if column.role != HEADERS_ROLE]
        if not self.is_ksql and self._times:
            column = next(one for one in stored if one.name.text in self._times)
            raise self.text.error(
                f"{column.name.text} is TIME, a time of the day, which Spark does not have; expected the ksql dialect, or a TIMESTAMP",
                column.span,
            )
        typed = [(column.name.text, column_type(column.type, self.types, self._text, column.span)) for column in stored]
        if self.is_ksql:
            self._check_ksql(dict(typed))
        elif not self.is_stored:
            self._check_spark_keys(dict(typed), properties)
        keys = [pair for pair, column in zip(typed, stored, strict=True) if column.role in KEY_ROLES]
        values = [pair for pair in typed if pair not in keys]
        bounds = _BOUNDS if properties.words("WINDOW_TYPE") is not None else ()
        self._check_names([name for name, _ in (*typed, *bounds)])
        ordered = (*keys, *bounds, *values) if bounds else typed
        return Schema(tuple(SchemaColumn(name, without_times(type)) for name, type in ordered))

    def _check_ksql(self, types: Mapping[str, str]) -> None:
        """TopologyError for columns that ksqlDB refuses: those with its own names, maps in keys, headers twice."""
        statement, at = self.statement, self.statement.span
        if statement.is_read_only and statement.or_replace:
            raise self.text.error(f"a SOURCE {statement.kind.upper()} is not replaced; expected DROP before CREATE", at)
        if not SOURCE_NAME.fullmatch(statement.name.text):
            raise self.text.error(
                f"{statement.name.text!r} is no name of a {statement.kind}; expected letters, digits, _ and -", at
            )
        given = {one.name.upper() for one in statement.properties}
        if "WINDOW_TYPE" in given and not any(column.role in KEY_ROLES for column in statement.columns):
            raise self.text.error(f"{statement.name.text} has windows in its key, and no key; expected KEY behind a column", at)
        headers: set[str | None] = set()
        for column in self.statement.columns:
            name = column.name.text
            if name in RESERVED_NAMES and not self.is_stored:  # where SELECT * … PARTITION BY ROWTIME has made such a key
                raise self.text.error(
                    f"{name} is a name of ksqlDB's own, and no column is called so; expected another name", column.span
                )
            if column.role in KEY_ROLES and has_map(types[name]):
                raise self.text.error(f"{name} is a key, and its type has a map; expected a key without maps", column.span)
            if column.role == HEADERS_ROLE:
                if column.header in headers:
                    raise self.text.error(f"{name} has headers that another column has; expected each once", column.span)
                headers.add(column.header)

    def _check_spark_keys(self, types: Mapping[str, str], properties: TopicProperties) -> None:
        """TopologyError for a key that no row could have: of a map, or nested in a format that has no nested values."""
        keys = [column for column in self.statement.columns if column.role in KEY_ROLES]
        format = properties.key_format or ("json" if len(keys) > 1 else "string")
        for column in keys:
            name = column.name.text
            if reason := key_complaint(name, types[name]):
                raise self.text.error(reason, column.span)
            if is_nested(types[name]) and format in WITHOUT_NESTED and properties.value_format is not None:
                raise self.text.error(
                    f"{name} is {types[name]}, and a key in the format {WITHOUT_NESTED[format]} is no nested value; expected KEY_FORMAT = 'JSON', 'AVRO' or "
                    "'PROTOBUF'",
                    column.span,
                )

    def _check_names(self, names: list[str]) -> None:
        seen: set[str] = set()
        for name in names:
            known = name if self.is_ksql else name.lower()
            if known in seen:
                same = [column.span for column in self.statement.columns if known in (column.name.text, column.name.text.lower())]
                raise self.text.error(f"two columns are called {name!r}; expected distinct names", same[-1])
            seen.add(known)

    def _key(self, properties: TopicProperties) -> tuple[str, ...]:
        role = "primary key" if self.statement.kind == TABLE else "key"
        for column in self.statement.columns:
            if column.role in KEY_ROLES and column.role != role:
                raise self.text.error(
                    f"a {self.statement.kind} has {column.role.upper()} columns here; expected {role.upper()}", column.span
                )
        key = tuple(column.name.text for column in self.statement.columns if column.role == role)
        if self.statement.kind == TABLE and not key:
            raise self.text.error(
                f"the table {self.statement.name.text} has no key, and holds one row per key; expected PRIMARY KEY behind a column's type",
                self.statement.span,
            )
        bounds = [name for name, _ in _BOUNDS] if properties.words("WINDOW_TYPE") is not None else []
        return (*key, *bounds)

    def _window(self, properties: TopicProperties) -> WindowKind | None:
        """The windows in the topic's keys."""
        kind, size_ms = properties.words("WINDOW_TYPE"), properties.window_size_ms
        if kind is None:
            if size_ms is not None:
                raise properties.error("WINDOW_SIZE", "WINDOW_SIZE stands without WINDOW_TYPE; expected both")
            return None
        if kind.upper() == "SESSION":
            if size_ms is not None:
                raise properties.error("WINDOW_SIZE", "sessions have no one length; expected no WINDOW_SIZE")
            return SessionWindow(0, DAY_MS, DAY_MS)
        if kind.upper() not in ("TUMBLING", "HOPPING"):
            raise properties.error("WINDOW_TYPE", f"there are no windows {kind!r}; expected TUMBLING, HOPPING or SESSION")
        if size_ms is None:
            raise properties.error(
                "WINDOW_TYPE", f"{kind.upper()} windows have one length; expected WINDOW_SIZE, as in '10 SECONDS'"
            )
        grace_ms = max(DAY_MS - size_ms, 0)
        return TimeWindow(size_ms, size_ms, grace_ms, size_ms + grace_ms)

    def _add_topic(
        self,
        topology: Topology,
        topic: str,
        columns: Schema,
        key: tuple[str, ...],
        format: TopicFormat,
        properties: TopicProperties,
    ) -> None:
        reads_its_own = format.value is not None and (self.is_ksql or format.has_registry)
        if reads_its_own and topic in (one.name for one in topology.added_topics):
            return  # another statement declares it, and each reads it in its own format
        default = {"cleanup.policy": "compact"} if self.statement.kind == TABLE else {}
        config: dict[str, Any] = {**default, **properties.config}
        if format.value is None:
            topology.add_topic(topic, columns, key, partitions=properties.partitions, config=config)
        elif format.can_be_declared:
            if format.has_registry and not self.is_there and set(columns.names) <= set(key) and properties.value_schema is None:
                raise properties.error(
                    "VALUE_FORMAT" if "VALUE_FORMAT" in properties.values else "FORMAT",
                    f"there is no topic {topic!r}, and {self.statement.name.text} has no column beside the key whose schema the registry could have; "
                    "expected columns of values",
                )
            schema = format.schema or format_schema(format, columns, key)
            topology.add_topic(
                topic,
                partitions=properties.partitions,
                config=config,
                format=format.value,
                format_schema=schema,
                format_settings=self._settings_of_topic(format, columns, key),
            )

    def _settings_of_topic(self, format: TopicFormat, columns: Schema, key: tuple[str, ...]) -> Mapping[str, Any] | None:
        """The settings of a new topic, which say how its keys lie behind a registry, so that equal keys have equal bytes whoever writes them."""
        if self.is_ksql or not format.has_registry or format.key not in WITH_REGISTRY or not key:
            return format.settings
        return {**(format.settings or {}), KEY_FORMAT: format.key, KEY_SCHEMA: columns.select(key).ddl()}

    def _rows(
        self,
        topology: Topology,
        topic: str,
        columns: Schema,
        key: tuple[str, ...],
        format: TopicFormat,
        properties: TopicProperties,
        window: WindowKind | None,
    ) -> Stream | Table:
        keyed = key if key or format.value is None or self.is_ksql else None
        times = self._time_arguments(properties, format, columns)
        options = {"schema": columns, "key": keyed, **times, **format.arguments}
        headers = self._headers_declared
        if self.statement.kind == TABLE and headers and (not self.is_ksql or window is not None):
            kind = "with windows in its key" if self.is_ksql else "in the Spark dialect"
            raise self.text.error(f"the rows of a table {kind} have no headers; expected HEADERS in a stream", headers[0].span)
        may_fail = format.value is not None or times["timestamp"] is not None
        if self.statement.kind == TABLE and self.is_ksql and window is None and (may_fail or headers):
            # So a record which cannot be read, or has no time, is left out, as of streams.
            return self._with_headers(topology.stream(topic, **options)).to_table()
        if self.statement.kind == TABLE:
            return topology.table(topic, windowed=window, **options)
        return self._with_headers(topology.stream(topic, **options))

    def _time_arguments(self, properties: TopicProperties, format: TopicFormat, columns: Schema) -> dict[str, Any]:
        """The arguments that say which column has the times of records; in ksqlDB a time before 1970 is none."""
        if format.times is None:
            return {"timestamp": properties.time_column(columns), "since_1970": self.is_ksql}
        return {"timestamp": format.times[0], "timestamp_format": format.times[1], "since_1970": self.is_ksql}

    @property
    def headers(self) -> list[tuple[str, Expression]]:
        """The columns that are headers of a record, as expressions of these."""
        return [(one.name.text, _headers(one, self.is_ksql)) for one in self._headers_declared]

    @property
    def _headers_declared(self) -> list[ColumnDefinition]:
        return [column for column in self.statement.columns if column.role == HEADERS_ROLE]

    @property
    def _header_types(self) -> list[tuple[ColumnDefinition, str]]:
        """The columns that are headers, with their types; TopologyError for one that is declared with another type."""
        every = KSQL_HEADERS_TYPE if self.is_ksql else HEADERS_TYPE
        typed = [(column, every if column.header is None else "binary") for column in self._headers_declared]
        for column, type in typed:
            if column_type(column.type, self.types, self._text, column.span) != type:
                raise self.text.error(f"{column.name.text} is {column.type}; expected {type}", column.span)
        return typed

    def _with_headers(self, rows: Stream) -> Stream:
        """The stream with the columns that are its records' headers."""
        return rows.with_columns(*(Column(Alias(one, name)) for name, one in self.headers)) if self._header_types else rows


def format_schema(format: TopicFormat, columns: Schema, key: tuple[str, ...]) -> str | None:
    """The schema of values with which a topic is created; None of a format without one."""
    values = columns.select(name for name in columns.names if name not in key)
    if format.value == "csv":
        return columns.ddl()
    if format.value in ("kafka", "delimited"):
        return values.ddl()
    has_schema = format.has_registry and (len(values) > 0 or format.value != "json")  # a JSON Schema has a column
    return schema_made_of(str(format.value), values) if has_schema else None


def _headers(column: ColumnDefinition, is_ksql: bool) -> Expression:
    """All headers of a record, or the value of the newest one of a name."""
    if column.header is None:
        return Cast(Reference(HEADERS), KSQL_HEADERS_TYPE) if is_ksql else Reference(HEADERS)
    named = Lambda(("header",), Call("eq", (Reference("header.key"), Literal(column.header))))
    newest = Call("try_element_at", (Call("filter", (Reference(HEADERS), named)), Literal(-1)))
    return Call("get_field", (newest, Literal("value")))


def table_with_records(records: Stream, named: Sequence[str]) -> Table:
    """The table of a topic's records, with columns of what each row knows of its record: of `OF_ROWS` those that are named."""
    each = {
        ROW_TIMES: Call("unix_millis", (Reference(TIMESTAMP),)),
        "ROWPARTITION": Reference(PARTITION),
        "ROWOFFSET": Reference(OFFSET),
    }
    return records.with_columns(*(Column(Alias(each[name], name)) for name in named)).to_table()


def column_type(written: str, own: Mapping[str, str], text: ScriptText, span: TextSpan) -> str:
    """The Spark type that is written, in which names stand for types that CREATE TYPE made; TopologyError if there is no such type."""
    try:
        return resolved_type(written, own, is_ksql=text.is_ksql)
    except SchemaError as error:
        raise text.error(str(error), span) from None


def column_reference(name: str) -> Reference:
    """A column by its whole name."""
    return Reference(part(name))
