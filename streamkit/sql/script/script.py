"""A script becomes one topology, whose queries read each other's results and not their topics."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from streamkit.dsl.stream import Stream
from streamkit.dsl.table import Table, newest_as_in_ksqldb
from streamkit.dsl.topology import Topology
from streamkit.errors import SqlFault, StreamKitError, TopologyError
from streamkit.expressions.core.column import Column
from streamkit.expressions.ksql.signature import without_times
from streamkit.log.topic.evolution import is_wider
from streamkit.names import spellings
from streamkit.plan.expression import Alias, Cast, Expression, Literal
from streamkit.plan.location import written_at
from streamkit.plan.said_partitions import SaidPartitions
from streamkit.schema import Schema, SchemaColumn
from streamkit.sql.lowering.ksql_meaning import RESERVED_NAMES
from streamkit.sql.lowering.lowering import FINAL, LoweredQuery, final_table, lowered
from streamkit.sql.lowering.meaning import Meaning
from streamkit.sql.lowering.named_types import with_named_types
from streamkit.sql.lowering.scope import QuerySource, bounds_in, key_in_order
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.script.declared_source import DeclaredSource, column_reference, column_type, format_schema
from streamkit.sql.script.key_places import PlacedKey, misplaced_key, placed_key
from streamkit.sql.script.properties import (
    OF_INSERTS,
    OF_RESULTS,
    OF_SESSIONS,
    OF_SOURCES,
    TopicProperties,
    check_time_format,
)
from streamkit.sql.script.settings import ScriptSettings
from streamkit.sql.script.topic_format import KAFKA, KsqlFormat, TopicFormat, topic_format, window_text
from streamkit.sql.script.topic_settings import SETTINGS_OF_TOPICS, TopicSettings, result_settings
from streamkit.sql.tree.query import Query, SelectColumn, Star
from streamkit.sql.tree.span import NOWHERE, Name, TextSpan
from streamkit.sql.tree.statements import (
    STREAM,
    TABLE,
    ColumnDefinition,
    CreateAs,
    CreateSource,
    CreateType,
    Define,
    InsertQuery,
    Property,
    Set,
    Statement,
)
from streamkit.sql.tree.type_names import refused_name

SESSION = "`streamkit sql`"
ELSEWHERE = {  # what a script of a topology cannot have, and where it belongs
    "SelectStatement": f"a query without CREATE has its results on a screen; expected CREATE STREAM … AS before it, or {SESSION}",
    "InsertValues": f"INSERT … VALUES writes a record now, and a file declares what goes on; expected it in {SESSION}, or `streamkit produce`",
    "DeleteRows": f"DELETE writes a record now, and a file declares what goes on; expected it in {SESSION}",
    "DropSource": f"DROP belongs to {SESSION}; a stream or table that is no more leaves the file",
    "DropType": "a file needs no DROP TYPE; a type that is no more leaves the file",
    "AlterSource": "a file declares a stream or table as it is now; expected the columns in CREATE",
    "Explain": "EXPLAIN belongs to `streamkit sql`; `streamkit explain FILE` shows what a file is compiled to",
    "Describe": f"DESCRIBE belongs to {SESSION}",
    "Show": f"SHOW belongs to {SESSION}",
    "Print": f"PRINT belongs to {SESSION}; `streamkit consume` shows the records of a topic",
    "ControlQuery": f"TERMINATE, PAUSE and RESUME belong to {SESSION}",
    "RunScript": f"RUN SCRIPT belongs to {SESSION}",
    "CreateConnector": f"CREATE CONNECTOR belongs to {SESSION}; `streamkit connect run` runs connectors",
    "DropConnector": f"DROP CONNECTOR belongs to {SESSION}",
    "AssertTopic": "ASSERT belongs to tests; a topic that a file reads is created when it starts",
    "AssertSchema": "ASSERT belongs to tests",
    "AssertValues": "ASSERT belongs to tests",
    "AssertSource": "ASSERT belongs to tests",
}


@dataclass
class ScriptSource:
    """A stream or table of the script: its kind, and its topic; a query's own `source` is known once it is lowered."""

    kind: str
    topic: str = ""
    format: TopicFormat = field(default_factory=TopicFormat)
    source: QuerySource | None = None
    is_read_only: bool = False
    created_as: WrittenQuery | None = None
    inserts: list[WrittenQuery] = field(default_factory=list)
    has_failed: bool = False
    is_under_way: bool = False


@dataclass(frozen=True)
class WrittenQuery:
    """A statement with a query, and the settings in force where it stands."""

    statement: CreateAs | InsertQuery
    settings: ScriptSettings

    @property
    def meaning(self) -> Meaning:
        """That of its dialect."""
        return self.settings.meaning


OtherSources: TypeAlias = Callable[[str, Topology], ScriptSource | None]
BEGIN = ScriptSettings()


def no_others(name: str, topology: Topology) -> None:
    """No stream or table."""


class SkippedStatementError(Exception):
    """A statement reads what another one failed to make, which is told already."""


class ScriptLowering:
    """
    A script on its way to a topology; `faults` has the errors of all statements.

    It begins with `settings`. `others` gives streams and tables that the script does not declare, as sources of the topology, by their names,
    and `other_names` are those for messages; `types` are those that CREATE TYPE has made before. `registry_of` is the registry of a topic,
    that of the settings unless it is given.
    """

    def __init__(
        self,
        text: ScriptText,
        name: str,
        settings: ScriptSettings = BEGIN,
        others: OtherSources = no_others,
        other_names: Sequence[str] = (),
        types: Mapping[str, str] | None = None,
        registry_of: Callable[[str], str | None] | None = None,
    ) -> None:
        self.text = text
        self.settings = self._begun = settings
        self._others = others
        self._other_names = other_names
        self.faults: list[SqlFault] = []
        self._name = name
        self._types: dict[str, str] = dict(types or {})
        self._registry_of = registry_of or (lambda _: self.settings.registry)
        self._sources: dict[str, ScriptSource] = {}
        self._queries: list[WrittenQuery] = []
        self._topology: Topology | None = None
        self._topic_settings: dict[str, TopicSettings] = {}

    def topology(self, statements: Sequence[Statement]) -> Topology:
        """The topology of the statements, as far as they have no faults."""
        for statement in statements:
            if isinstance(statement, Set):
                self._try(lambda statement=statement: self._set(statement))
        settings = self.settings
        self.settings = self._begun
        self._topology = Topology(settings.name or self._name, settings.time_zone, settings.what_fails)
        if self._others is no_others:  # a session alters what a statement before has made
            for statement in statements:
                self._try(lambda statement=statement: self._note_settings(statement))
        for statement in statements:
            self._try(lambda statement=statement: self._declare(statement))
        for query in self._queries:  # once all results are known, since an INSERT may stand before what it goes into
            self._try(lambda query=query: self._note_insert(query))
        for query in self._queries:
            self._try(lambda query=query: self._lower(query))
        return self._topology

    @contextmanager
    def _under(self, settings: ScriptSettings) -> Iterator[None]:
        """With the settings of another place of the script; queries are lowered once all statements are read."""
        here, self.settings = self.settings, settings
        try:
            yield
        finally:
            self.settings = here

    def format(self, name: str) -> TopicFormat:
        """The format of a stream or table, once the topology is made."""
        found = self._find(name)
        return TopicFormat() if found is None else found.format

    def source(self, name: str) -> QuerySource | None:
        """The stream or table of a name, once the topology is made; None if there is none."""
        found = self._find(name)
        return None if found is None else found.source

    def _try(self, step: Any) -> None:
        """Do a step, and go on behind a fault of it."""
        try:
            step()
        except SkippedStatementError:
            pass
        except TopologyError as error:
            fault = SqlFault(error.message, error.at or self.text.at(NOWHERE))
            if fault not in self.faults:  # settings are read twice, since those of the application come first
                self.faults.append(fault)

    def _set(self, statement: Set) -> None:
        self.settings = self.settings.with_set(statement, self.text)

    def _declare(self, statement: Statement) -> None:
        assert self._topology is not None
        match statement:
            case Set():
                self.settings = self.settings.with_set(statement, self.text)
            case Define():
                pass  # its reader has put the value in its places
            case CreateType():
                self._declare_type(statement)
            case CreateSource():
                self._declare_source(statement)
            case CreateAs():
                self._declare_result(statement)
            case InsertQuery():
                if self._others is no_others:  # a session asks its own statements, and stored ones go on
                    TopicProperties.of(statement.properties, OF_INSERTS, self.text, statement.span)
                self._queries.append(WrittenQuery(statement, self.settings))
            case _:
                where = ELSEWHERE.get(type(statement).__name__, f"this belongs to {SESSION}")
                raise self.text.error(where, statement.span)

    def _declare_type(self, statement: CreateType) -> None:
        name, span = statement.name.text, statement.span
        if reason := refused_name(name):
            raise self.text.error(reason, span)
        if name.lower() in (one.lower() for one in self._types):
            if statement.if_not_exists:
                return
            raise self.text.error(f"there is a type {name} already; expected another name, or IF NOT EXISTS", span)
        self._types[name] = column_type(
            statement.type, self._types, self.text.in_dialect(is_ksql=self.settings.meaning.names_results), span
        )

    def _is_new(self, statement: CreateSource | CreateAs) -> bool:
        """Whether the name is free; TopologyError if it is not, and the statement does not say what to do then."""
        name = statement.name
        is_exact = self.settings.meaning.names_results
        if (name.text not in self._sources) if is_exact else self._find(name.text) is None:
            return True
        if statement.if_not_exists:
            return False
        raise self.text.error(
            f"there is a stream or table {name.text} already in this file; expected another name",
            name.span if name.span.end else statement.span,
        )

    def _declare_source(self, statement: CreateSource) -> None:
        assert self._topology is not None
        if not self._is_new(statement):
            return
        found = self._sources[statement.name.text] = ScriptSource(
            statement.kind, is_read_only=statement.is_read_only, has_failed=True
        )
        is_ksql = self.settings.meaning.names_results
        if is_ksql:
            check_time_format(statement.properties, self.text)
        statement = self.settings.formats.said_by(statement) if is_ksql else statement
        topic = TopicProperties.of(statement.properties, OF_SOURCES, self.text, statement.span).topic or statement.name.text
        if topic in self._topic_settings:
            statement = self._topic_settings[topic].added_to(statement)
        read = DeclaredSource(
            statement, self.text, self._types, self.settings.registry, is_ksql, self.settings.formats.wraps_one_column
        ).added_to(self._topology)
        properties = TopicProperties.of(statement.properties, OF_SOURCES, self.text, statement.span)
        source = replace(read.source, partitions=properties.partitions)
        self._check_places(statement, read.topic, read.format, source)
        found.source, found.topic, found.format, found.has_failed = source, read.topic, read.format, False
        self._say_partitions(read.topic, properties, is_read=True)

    def _check_places(self, statement: CreateSource | CreateAs, topic: str, format: TopicFormat, source: QuerySource) -> None:
        """In a file, TopologyError for columns of a key at other places than those of another declaration of the topic; a session asks its own."""
        own = _placed_key(statement.name.text, format, source)
        if own is None or self._others is not no_others:
            return
        others = [
            _placed_key(name, one.format, one.source)
            for name, one in self._sources.items()
            if one.topic == topic and one.source is not None and name != own.source
        ]
        if reason := misplaced_key(own, [one for one in others if one is not None]):
            raise self.text.error(f"{own.source} cannot read keys of the topic {topic}: {reason}", statement.name.span)

    def _note_settings(self, statement: Statement) -> None:
        """What a statement of a file says of the settings of its topic, which count for all statements of that topic; a result's count first."""
        if not isinstance(statement, CreateSource | CreateAs):
            return
        try:
            known = OF_RESULTS if isinstance(statement, CreateAs) else OF_SOURCES
            properties = TopicProperties.of(statement.properties, known, self.text, statement.span)
            config = properties.config
        except TopologyError:
            return  # which is told when the statement is declared
        topic = properties.topic or statement.name.text
        settings = self._topic_settings.setdefault(topic, TopicSettings(topic, self.text))
        if isinstance(statement, CreateAs):
            is_table = statement.kind == TABLE and statement.query.emit != FINAL
            settings.unless_said(result_settings(is_table=is_table))
        for name, key in SETTINGS_OF_TOPICS.items():
            if key in config:
                settings.say(name, config[key], properties.spans[name])

    def _say_partitions(self, topic: str, properties: TopicProperties, *, is_read: bool) -> None:
        """In a file PARTITIONS is what the topic has at each start; a session compares it once, when the statement is executed."""
        assert self._topology is not None
        count = properties.partitions
        if count is not None and self._others is no_others:
            at = self.text.at(properties.spans["PARTITIONS"])
            self._topology.say_partitions(SaidPartitions(topic, count, is_read, at))

    def _declare_result(self, statement: CreateAs) -> None:
        if not self._is_new(statement):
            return
        if self._others is no_others and self.settings.meaning.names_results:  # in a file, whose statements are new
            check_time_format(statement.properties, self.text)
        query = WrittenQuery(statement, self.settings)
        self._sources[statement.name.text] = ScriptSource(statement.kind, created_as=query)
        self._queries.append(query)

    def _note_insert(self, query: WrittenQuery) -> None:
        """Let the rows of an INSERT be merged into the result that it names, if that is one of this file."""
        found = self._find(query.statement.name.text) if isinstance(query.statement, InsertQuery) else None
        if found is not None and found.created_as is not None:
            found.inserts.append(query)

    def _find(self, name: str) -> ScriptSource | None:
        if name in self._sources:
            return self._sources[name]
        keeps_case = self.settings.meaning.names_results
        own = None if keeps_case else next((one for key, one in self._sources.items() if key.lower() == name.lower()), None)
        if own is None and self._topology is not None and (own := self._others(name, self._topology)) is not None:
            self._sources[name] = own
        near = spellings(name, self._sources, keeps_case=keeps_case)
        return self._sources[near[0]] if own is None and len(near) == 1 else own

    def _lower(self, query: WrittenQuery) -> None:
        with self._under(query.settings):
            if isinstance(query.statement, CreateAs):
                self._result(query.statement.name.text)
                return
            target = self._find(query.statement.name.text)
            if target is None:
                raise self._unknown(query.statement.name.text, query.statement.name.span)
            if target.created_as is not None:
                self._result(query.statement.name.text)
            else:
                self._insert_into_topic(query, target, self._query(query))

    def _unknown(self, name: str, span: TextSpan) -> TopologyError:
        readable = [one for one, source in self._sources.items() if not source.is_under_way]
        names = dict.fromkeys((*readable, *self._other_names))
        close = difflib.get_close_matches(name.lower(), [one.lower() for one in names], 1)
        nearest = next((one for one in names if close and one.lower() == close[0]), None)
        hint = f"; did you mean {nearest!r}?" if nearest else ""
        there = ", ".join(names) or "none"
        declares = (
            "" if self._others is not no_others else f". A file declares what it reads: CREATE STREAM {name} (column type, …)"
        )
        return self.text.error(f"there is no stream or table {name!r}; there are {there}{hint}{declares}", span)

    def _query(self, query: WrittenQuery) -> LoweredQuery:
        """The rows of a query, once those of its sources are known."""
        with self._under(query.settings):
            return self._rows_of(query)

    def _rows_of(self, query: WrittenQuery) -> LoweredQuery:
        text = self.text.in_dialect(is_ksql=query.meaning.names_results)
        asked = with_named_types(query.statement.query, self._types, text)
        sources: dict[str, QuerySource] = {}
        for read in asked.sources_read():
            name, span = read.text, read.span
            found = self._find(name)
            if found is None:
                raise self._unknown(name, span)
            sources[name] = self._read(name, found, span)
            if query.meaning.names_results:
                self._check_kafka(asked, name, found, span)
        return lowered(asked, sources, self.text, query.meaning)

    def _check_kafka(self, query: Query, name: str, source: ScriptSource, span: TextSpan) -> None:
        """TopologyError for a clause of ksqlDB that does not go with values in the format KAFKA."""
        clauses = [*(["JOIN"] if query.joins else []), *(["GROUP BY"] if query.group_by is not None else [])]
        if clauses and source.format.words.get("VALUE_FORMAT") == KAFKA:
            raise self.text.error(
                f"{name} has VALUE_FORMAT = 'KAFKA', and ksqlDB does not yet support {clauses[0]} of such a source; expected another format, as "
                f"of CREATE STREAM … WITH (VALUE_FORMAT = 'JSON') AS SELECT * FROM {name}",
                span,
            )

    def _read(self, name: str, source: ScriptSource, span: TextSpan) -> QuerySource:
        if source.is_under_way:
            raise self.text.error(
                f"{name} is made of itself here, without a topic between; expected CREATE STREAM {name} (…) of a topic, which is read again",
                span,
            )
        if source.has_failed:
            raise SkippedStatementError
        found = source.source or self._result(name)
        assert found is not None
        return found

    def _result(self, name: str) -> QuerySource:
        """The stream or table that a query makes, with what others insert into it; its topic is written."""
        target = self._find(name)
        assert target is not None
        assert target.created_as is not None
        if target.has_failed:
            raise SkippedStatementError
        if target.source is not None:
            return target.source
        target.is_under_way, target.has_failed = True, True
        created = target.created_as
        assert isinstance(created.statement, CreateAs)
        try:
            found = self._query(created)
            self._check_kind(created.statement, found)
            if created.meaning.names_results:
                self._check_result(created.statement, found)
            inserted = [self._fitting(one, self._query(one), name, found.source) for one in target.inserts]
        finally:
            target.is_under_way = False
        with self._under(created.settings):
            written = self._written(created.statement, found, inserted, target)
        self._check_places(created.statement, target.topic, target.format, written)
        target.source = written
        target.has_failed = False
        return target.source

    def _check_kind(self, statement: CreateAs, found: LoweredQuery) -> None:
        is_table = isinstance(found.rows, Table)
        if statement.kind == STREAM and is_table:
            raise self.text.error(
                f"the query makes a table, whose rows change, and {statement.name.text} is to be a stream; expected CREATE TABLE",
                statement.span,
            )
        if statement.kind == TABLE and not is_table:
            raise self.text.error(
                f"the query makes a stream, and {statement.name.text} is to be a table; expected CREATE STREAM, or a query over a table, or "
                "with GROUP BY",
                statement.span,
            )

    def _check_result(self, statement: CreateAs, found: LoweredQuery) -> None:
        """TopologyError for a result that ksqlDB refuses: without its key among its columns, without values, or with a name of its own."""
        name, key = statement.name.text, found.source.key or ()
        names = [column for column, _ in found.source.columns or ()]
        span = statement.query.span
        if found.unnamed_key:
            wanted = "one of them" if len(found.unnamed_key) == 1 and len(found.unnamed_key[0]) > 1 else "it"
            raise self.text.error(
                f"the key of {name} is {', '.join(' or '.join(each) for each in found.unnamed_key)}, and SELECT leaves it out; expected {wanted} among "
                f"the columns, once. A copy beside the key is AS_VALUE({found.unnamed_key[0][0]})",
                span,
            )
        if found.repeated_key:
            key_name = found.repeated_key[0]
            raise self.text.error(
                f"{key_name} is the key of {name}, and stands in SELECT twice; expected AS_VALUE({key_name}) for a copy", span
            )
        if names and not [one for one in names if one not in key]:
            raise self.text.error(
                f"{name} would have a key alone; expected a column of values, such as AS_VALUE({names[0]}) AS V", span
            )
        of_star = set(key) if all(isinstance(item, Star) for item in statement.query.items) else set()  # by PARTITION BY ROWTIME
        if reserved := next((one for one in names if one in RESERVED_NAMES and one not in of_star), None):
            raise self.text.error(
                f"{reserved} is a name of ksqlDB's own, and no column of a result; expected … AS another name", span
            )

    def _fitting(self, query: WrittenQuery, found: LoweredQuery, name: str, target: QuerySource) -> Stream:
        """The stream of INSERT with the columns of what it goes to, in their order and types."""
        span = query.statement.span
        if not isinstance(found.rows, Stream):
            raise self.text.error(f"INSERT INTO {name} has a query that makes a table; expected one that makes a stream", span)
        given, wanted = dict(found.source.columns or ()), dict(target.columns or ())
        missing = [column for column in wanted if column not in given]
        more = [column for column in given if column not in wanted]
        if missing or more:
            if query.meaning.names_results:
                bounds = bounds_in(found.source.key or (), found.source.columns or ())
                more = ["WINDOWSTART and WINDOWEND", *(one for one in more if one not in bounds)] if bounds else more
            told = [*(f"lacks {one}" for one in missing), *(f"has {one} besides" for one in more)]
            kept = [one for one in more if one in (found.source.key or ())]
            hint = (
                f"; the result has the key {_listed(tuple(kept))} of the rows, unless PARTITION BY gives another one"
                if kept
                else ""
            )
            raise self.text.error(
                f"INSERT INTO {name} {' and '.join(told)}; expected the columns {', '.join(wanted)}{hint}", span
            )
        if found.source.key != target.key:
            raise self.text.error(
                f"INSERT INTO {name} has the key {_listed(found.source.key)}, and {name} has {_listed(target.key)}; expected PARTITION BY of that "
                "key",
                span,
            )
        if list(given.items()) == list(wanted.items()):
            return found.rows
        numbers = _numbers_of(query.statement.query) if query.meaning.names_results else {}
        columns = [
            Column(Alias(self._cast(name, column, given[column], type, span, numbers.get(column)), column))
            for column, type in wanted.items()
        ]
        with self._at(span):
            return found.rows.select(*columns)

    def _cast(
        self, name: str, column: str, given: str | None, wanted: str | None, span: TextSpan, number: Decimal | None
    ) -> Expression:
        """The column in the type that is wanted; a constant `number` of ksqlDB becomes any decimal that has its digits."""
        reference = column_reference(column)
        if given == wanted or given is None or wanted is None:
            return reference
        own, other = (SchemaColumn(column, type).arrow.type for type in (wanted, given))
        if not is_wider(own, other) and not (number is not None and _has_room(own, number)):
            raise self.text.error(
                f"INSERT INTO {name}: {column} is {given}, and does not become {wanted} without loss; expected a CAST", span
            )
        return Cast(reference, wanted)

    def _written(self, statement: CreateAs, found: LoweredQuery, inserted: Sequence[Stream], target: ScriptSource) -> QuerySource:
        """The rows, once they go to the topic of the statement's name."""
        known = OF_RESULTS if self._others is no_others else (*OF_RESULTS, *OF_SESSIONS)
        properties = TopicProperties.of(statement.properties, known, self.text, statement.span)
        if not created_in_ksql(target):
            properties.check_supported()
        target.topic = properties.topic or statement.name.text
        target.format = self._format(statement, found, target, properties)
        if "TIMESTAMP" in properties.values and target.format.times is None:
            raise properties.error(
                "TIMESTAMP",
                "TIMESTAMP of a result is for values in a format of the ksql dialect; the records of others have the time of what they come of",
            )
        rows = found.rows
        with self._at(statement.name.span if statement.name.span.end else statement.span):
            keep_their_times = (
                inserted if target.format.times is not None else []
            )  # as in ksqlDB, whose INSERT writes no other times
            if inserted and not keep_their_times:
                assert isinstance(rows, Stream)
                rows = rows.merge(*inserted)
            self._say_partitions(target.topic, properties, is_read=False)
            self._add_topic(statement, found, target, properties)
            sink: Stream | Table = rows
            if found.is_final:
                assert isinstance(rows, Table)
                sink = rows.emit("final")
            elif isinstance(rows, Table) and created_in_ksql(target):
                sink = newest_as_in_ksqldb(rows, filters_groups=statement.query.having is not None)
            sink.to(target.topic, partitions=properties.partitions, **target.format.sink_arguments)
            for others in keep_their_times:
                others.to(target.topic, partitions=properties.partitions, **target.format.arguments)
        if created_in_ksql(target) and target.format.changes_rows:
            return self._read_back(statement, found.source, target)
        knows_records = (
            created_in_ksql(target)
            and statement.kind == TABLE
            and not bounds_in(found.source.key or (), found.source.columns or ())
        )
        with_records = partial(self._with_records, statement, found.source, target) if knows_records else None
        if found.is_final:
            return replace(final_table(found, self.text, statement.span).source, with_records=with_records)
        return replace(found.source, rows=rows, with_records=with_records)

    def _with_records(self, statement: CreateAs, source: QuerySource, target: ScriptSource, named: Sequence[str]) -> Table:
        """The table with columns of what its rows know of the records of its topic."""
        assert target.created_as is not None
        with self._under(target.created_as.settings):
            read = self._read_back(statement, source, target)
        assert read.with_records is not None
        return read.with_records(named)

    def _read_back(self, statement: CreateAs, source: QuerySource, target: ScriptSource) -> QuerySource:
        """The rows of a result as its topic has them, which are not those that went there: as other files and sessions read them."""
        assert self._topology is not None
        role = "primary key" if statement.kind == TABLE else "key"
        types, key = dict(source.columns or ()), source.key or ()
        bounds = bounds_in(key, source.columns or ())
        columns = tuple(
            ColumnDefinition(Name(name), str(types[name]), role if name in key else "")
            for name in key_in_order(types, key)
            if name not in bounds
        )
        said = {
            one.name.upper(): one
            for one in statement.properties
            if one.name.upper() in OF_SOURCES and one.name.upper() != "FORMAT"
        }
        said |= {name: Property(name, value) for name, value in {**target.format.words, "KAFKA_TOPIC": target.topic}.items()}
        read = CreateSource(statement.kind, statement.name, columns, tuple(said.values()), span=statement.span)
        registry = self._registry_of(target.topic)
        return (
            DeclaredSource(read, self.text, {}, registry, is_ksql=True, adds_topic=False, is_stored=True)
            .added_to(self._topology)
            .source
        )

    def _format(self, statement: CreateAs, found: LoweredQuery, target: ScriptSource, properties: TopicProperties) -> TopicFormat:
        """The format of a result; in the ksql dialect it has that of the first source where the statement says nothing."""
        key, registry = found.source.key or (), self._registry_of(target.topic)
        if not created_in_ksql(target):
            return topic_format(properties, registry, len(key))
        first = next(statement.query.sources_read(), None)
        source = None if first is None else self._find(first.text)
        inherited = {} if source is None else source.format.words
        window = self._window(found, source) if bounds_in(key, found.source.columns or ()) else None
        columns, said = found.source.columns or (), self.settings.formats
        keys = said.key or KAFKA
        return KsqlFormat(properties, registry, key, columns, window, inherited, said.wraps_one_column, keys).found()

    @staticmethod
    def _window(found: LoweredQuery, first: ScriptSource | None) -> str | None:
        """The windows behind the keys of a result: those that it makes, or those of what it reads."""
        own = window_text(found.source.rows.node.traits.window)
        return own or (None if first is None else (first.format.settings or {}).get("key.window"))

    def _at(self, span: TextSpan) -> Any:
        return written_at(self.text.in_dialect(is_ksql=self.settings.meaning.names_results).at(span))

    def _add_topic(self, statement: CreateAs, found: LoweredQuery, target: ScriptSource, properties: TopicProperties) -> None:
        """The topic with its settings, if the statement has any; a start creates others by itself."""
        assert self._topology is not None
        config = properties.config
        if not config:
            return
        if self._others is no_others and target.topic in (one.name for one in self._topology.added_topics):
            return  # another statement declares it, with all that is said of it
        columns = found.source.columns or ()
        if not target.format.can_be_declared or any(type is None for _, type in columns):
            raise properties.error(
                "RETENTION_MS" if "RETENTION_MS" in properties.values else "CLEANUP_POLICY",
                "settings of a topic whose schema is made when it starts cannot be given here; expected them by `streamkit topics create`",
            )
        settings = {**result_settings(is_table=statement.kind == TABLE and not found.is_final), **config}
        schema = Schema(tuple(SchemaColumn(name, without_times(str(type))) for name, type in columns))
        options: dict[str, Any] = {"partitions": properties.partitions, "config": settings}
        if target.format.value is None:
            self._topology.add_topic(target.topic, schema, found.source.key, **options)
            return
        ddl = format_schema(target.format, schema, found.source.key or ())
        self._topology.add_topic(
            target.topic,
            format=target.format.value,
            format_schema=target.format.schema or ddl,
            format_settings=target.format.settings,
            **options,
        )

    def _insert_into_topic(self, query: WrittenQuery, target: ScriptSource, found: LoweredQuery) -> None:
        """Rows of a query go to the topic of a stream that was declared, beside whatever else goes there."""
        statement = query.statement
        if target.has_failed:
            raise SkippedStatementError
        name = statement.name.text
        if target.is_read_only:
            raise self.text.error(
                f"{name} is a SOURCE {target.kind.upper()}, which nothing writes; expected another stream", statement.span
            )
        if target.kind == TABLE:
            raise self.text.error(
                f"{name} is a table, and its rows come of its topic alone; expected INSERT INTO a stream", statement.span
            )
        assert target.source is not None
        rows = self._fitting(query, found, name, target.source)
        with self._at(statement.name.span if statement.name.span.end else statement.span):
            rows.to(target.topic, **target.format.arguments)


def _numbers_of(query: Query) -> dict[str, Decimal]:
    """The results of SELECT that are a number as it is written, by their names."""
    columns = [item for item in query.items if isinstance(item, SelectColumn) and item.alias is not None]
    values = {item.alias.text: item.written.expression for item in columns if item.alias is not None}
    return {
        name: Decimal(str(one.value))
        for name, one in values.items()
        if isinstance(one, Literal) and isinstance(one.value, int | float | Decimal) and not isinstance(one.value, bool)
    }


def _has_room(type: pa.DataType, number: Decimal) -> bool:
    """Whether a decimal type has all digits of a number."""
    _, digits, exponent = number.as_tuple()
    if not pa.types.is_decimal(type) or not isinstance(exponent, int):
        return False
    return bool(-exponent <= type.scale and len(digits) + exponent <= type.precision - type.scale)


def _placed_key(name: str, format: TopicFormat, source: QuerySource | None) -> PlacedKey | None:
    """The key of a stream or table of the file; None if its columns have names."""
    if source is None or format.has_registry:
        return None
    types = dict(source.columns or ())
    return placed_key(name, format.key, [(one, str(types.get(one))) for one in source.key or ()])


def created_in_ksql(source: ScriptSource) -> bool:
    """Whether a query of the ksql dialect makes a stream or table."""
    return source.created_as is not None and source.created_as.meaning.names_results


def lowered_script(statements: Sequence[Statement], text: ScriptText, name: str) -> tuple[Topology, list[SqlFault]]:
    """The topology of statements that were read, and the faults of all of them."""
    lowering = ScriptLowering(text, name)
    try:
        found = lowering.topology(statements)
    except TopologyError:
        raise
    except StreamKitError as error:
        raise TopologyError(str(error)) from None
    return found, lowering.faults


def _listed(key: Sequence[str] | None) -> str:
    return ", ".join(key or ()) or "no columns"
