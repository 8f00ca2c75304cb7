"""A copy of what SQL has declared in a log: statements change it one after the other, and what they have changed is written at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from streamkit.errors import StreamKitError, TopicNotFoundError
from streamkit.formats.codec import Codec
from streamkit.formats.format import MESSAGE, REGISTRY_URL
from streamkit.formats.protobuf_schema import compiled
from streamkit.log.catalog.sql_changes import SqlChange, SqlObjects
from streamkit.log.catalog.sql_queries import BUILT, StoredQuery
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.catalog.sql_types import StoredType
from streamkit.log.log import Log
from streamkit.log.topic.alteration import Alteration
from streamkit.log.topic.formats import KEY, VALUE, Format
from streamkit.log.topic.topic import Topic
from streamkit.names import fresh_token, spellings
from streamkit.schema import Schema
from streamkit.sql.execution.registered_functions import UserFunctions
from streamkit.sql.tree.statements import STREAM, TABLE

VALUE_FORMAT = "VALUE_FORMAT"
FORMAT_NAMES = {
    "json": "JSON", "avro": "AVRO", "protobuf": "PROTOBUF", "csv": "DELIMITED", "string": "STRING", "bytes": "BYTES",
    "kafka": "KAFKA", "delimited": "DELIMITED", "ksql_json": "JSON",
}  # fmt: skip
MAY_HAVE_REGISTRY = ("avro", "protobuf", "json", "ksql_json")
Stored = TypeVar("Stored")


@dataclass(frozen=True)
class Definitions:
    """
    Streams, tables, queries and types by their names, and what has become of topics and applications since the copy was made.

    It is the topics that a topology is compiled with, too: those that statements have created, altered and deleted are so already.
    """

    log: Log
    base: SqlObjects
    sources: Mapping[str, StoredSource]
    queries: Mapping[str, StoredQuery]
    types: Mapping[str, StoredType]
    numbers: int
    created: Mapping[str, Topic] = field(default_factory=dict)
    altered: Mapping[str, Topic] = field(default_factory=dict)
    alterations: Mapping[str, tuple[Alteration, ...]] = field(default_factory=dict)
    deleted: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()
    stopped: frozenset[str] = frozenset()
    functions: UserFunctions = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    has_more: bool = False
    seen: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, log: Log, base: SqlObjects, functions: UserFunctions | None = None) -> Definitions:
        """The copy of a snapshot of the catalog, with the functions in Python that statements may call."""
        return cls(
            log,
            base,
            {one.name: one for one in base.sources},
            {one.id: one for one in base.queries},
            {one.name: one for one in base.types},
            base.numbers,
            functions=functions or {},
        )

    # Streams, tables, queries, types

    def source(self, name: str, *, keeps_case: bool = False) -> StoredSource | None:
        """
        The stream or table of a name, or what a topic of that name stands for; in any other case if none of them is spelt so.

        One of another case that declares the topic of the name is what the topic stands for. Where it `keeps_case`, as in ksqlDB's SQL,
        a name that is not all capitals is looked for in this spelling alone.
        """
        found = self.declared(name, keeps_case=keeps_case)
        if found is None or (name not in (found.name, found.topic) and self._is_read_as(name)):
            return self._of_topic(name, keeps_case)
        return found

    def _is_read_as(self, topic: str) -> bool:
        """Whether there is a topic of exactly that name, which queries may read without CREATE."""
        found = self.find_topic(topic)
        return found is not None and not found.internal

    def declared(self, name: str, *, keeps_case: bool = False) -> StoredSource | None:
        """The stream or table that CREATE has declared under a name."""
        return _named(self.sources, name, keeps_case)

    def query(self, id: str) -> StoredQuery | None:
        """The persistent query of an id, in any case."""
        return _named(self.queries, id)

    def type(self, name: str) -> StoredType | None:
        """The type that CREATE TYPE has made under a name."""
        return _named(self.types, name)

    @property
    def type_texts(self) -> dict[str, str]:
        """The named types, and the type behind each name."""
        return {one.name: one.type for one in self.types.values()}

    def names(self) -> Sequence[str]:
        """All streams and tables that a query may read, for messages: those that are declared, and then topics."""
        return tuple(dict.fromkeys((*self.sources, *self.topics())))

    def others(self, source: StoredSource) -> list[StoredSource]:
        """The other streams and tables that are declared over the topic of one."""
        return [one for one in self.sources.values() if one.topic == source.topic and one.name != source.name]

    def readers(self, source: str) -> list[StoredQuery]:
        """The persistent queries that read a stream or table."""
        return [one for one in self.queries.values() if source in {self._name_of(name) for name in one.sources}]

    def _name_of(self, source: str) -> str:
        """The name of what a query reads, as it is now."""
        found = self.source(source)
        return source if found is None else found.name

    def writers(self, source: str) -> list[StoredQuery]:
        """The persistent queries that fill it."""
        return [one for one in self.queries.values() if one.sink == source]

    def queries_of(self, application: str) -> list[StoredQuery]:
        """The persistent queries of an application, in the order in which they were made."""
        return sorted((one for one in self.queries.values() if one.application == application), key=lambda one: one.number)

    def _of_topic(self, name: str, keeps_case: bool) -> StoredSource | None:
        """The stream that a topic is, or the table if it is compacted; None if there is none of that name, or it belongs to an application."""
        topic = self.find_topic(name)
        if topic is None:
            near = spellings(name, self.topics(), keeps_case=keeps_case)
            topic = self.find_topic(near[0]) if len(near) == 1 else None
        return None if topic is None or topic.internal else source_of_topic(topic)

    # Topics, as a topology is compiled with them

    @property
    def location(self) -> str:
        """Where the log is."""
        return self.log.location

    def topics(self, internal: bool = False) -> list[str]:
        """The names of the topics; those that belong to applications only if asked for."""
        known = [name for name in self.log.topics(internal) if name not in self.deleted]
        return sorted({*known, *self.created})

    def topic(self, name: str) -> Topic:
        """The topic of that name; TopicNotFoundError lists those there are."""
        found = self.find_topic(name)
        if found is None and name in self.deleted:
            raise TopicNotFoundError(f"topic {name!r} is deleted by this script; there are {', '.join(self.topics()) or 'none'}")
        return self.log.topic(name) if found is None else found

    def find_topic(self, name: str) -> Topic | None:
        """The topic of that name, as statements have left it; None if there is none."""
        if name in self.created or name in self.altered:
            return self.created.get(name) or self.altered[name]
        return None if name in self.deleted else self.log.catalog.topics.find(name)

    def registry_of(self, topic: str, otherwise: str | None) -> str | None:
        """
        The registry that has the schemas of a topic, None for values without one: what the format of the topic says, or, of one that says no such
        format, as topics of bytes do, the streams and tables that are declared over it; another one for a topic of which nothing says it.
        """
        found = self.find_topic(topic)
        if found is not None and says_registry(found):
            assert found.format is not None, "it says whether there is one"
            return dict(found.format.settings).get(REGISTRY_URL)
        said = [one.formats[REGISTRY_URL] for one in self.sources.values() if one.topic == topic and REGISTRY_URL in one.formats]
        return (said[0] or None) if said else otherwise

    def program_before(self, application: str) -> str:
        """The program of the newest start of an application; empty if it has never started, or is ended by a statement."""
        return "" if application in self.ended else self.log.program_before(application)

    # Changes

    def with_source(self, source: StoredSource) -> Definitions:
        """
        With a stream or table, in place of the one of its name.

        If its records are read or written otherwise from now on, the runs of the queries that do so end, and each begins again by what is declared.
        """
        try:
            known = self.source(source.name, keeps_case=True)
        except StreamKitError:  # of a topic of that name, whose columns nobody has said yet
            known = None
        found = replace(self, sources={**self.sources, source.name: source})
        if known is not None and known.declares_as(source):
            return found
        return found.with_new_runs(source)

    def with_new_runs(self, source: StoredSource) -> Definitions:
        """With the end of the runs of all queries that read or fill a stream or table: each begins again."""
        found = self
        for query in self.queries.values():
            built = query.settings.get(BUILT)
            read = (*query.sources, *({} if built is None else built).get("sources", ()))
            if query.sink != source.name and all(self._name_of(name) != source.name for name in read):
                continue
            found = found.with_changed_query(replace(query, version=query.version + 1, failure=""))
            if built is not None:
                found = found.with_stopped(built["application"])
        return found

    def with_query(self, query: StoredQuery) -> Definitions:
        """With a query, in place of the one of its id; a new one uses up its number."""
        return replace(self, queries={**self.queries, query.id: query}, numbers=max(self.numbers, query.number))

    def with_changed_query(self, query: StoredQuery) -> Definitions:
        """With a query in place of an earlier version, whose run ends with the change."""
        return self.with_query(query).with_stopped(query.application)

    def with_stopped(self, application: str) -> Definitions:
        """With the end of the run of an application, whose state stays."""
        return replace(self, stopped=self.stopped | {application})

    def with_ended(self, application: str) -> Definitions:
        """Without an application and its stores."""
        return replace(self, ended=self.ended | {application})

    def with_type(self, type: StoredType) -> Definitions:
        """With a named type."""
        return replace(self, types={**self.types, type.name: type})

    def with_topic(self, topic: Topic) -> Definitions:
        """With a topic that is created."""
        return replace(self, created={**self.created, topic.name: topic})

    def with_altered_topic(self, name: str, alteration: Alteration) -> Definitions:
        """With a topic as an alteration leaves it; errors are those of `Alteration.applied_to`."""
        topic = alteration.applied_to(self.topic(name))
        if name in self.created:
            return self.with_topic(topic)
        return replace(
            self,
            altered={**self.altered, name: topic},
            alterations={**self.alterations, name: (*self.alterations.get(name, ()), alteration)},
        )

    def with_seen(self, application: str) -> Definitions:
        """With the newest generation of an application, whose state is compared next: if another one starts, the script is checked again."""
        if application in self.seen:
            return self
        found = {one.name: one.generation for one in self.log.catalog.applications.every()}
        return replace(self, seen={**self.seen, application: found.get(application, 0)})

    def with_more(self) -> Definitions:
        """With a change of rows that others follow as they follow these, such as declarations of connectors: it counts as a change."""
        return replace(self, has_more=True)

    def with_renamed_topic(self, name: str, new: str) -> Definitions:
        """With another name of a topic in the catalog; this copy keeps the present name."""
        return replace(self, renamed={**self.renamed, name: new})

    def without_source(self, name: str) -> Definitions:
        """Without a stream or table."""
        return replace(self, sources=_without(self.sources, name))

    def without_query(self, id: str) -> Definitions:
        """Without a query, whose application ends; the stream or table that it has filled stays."""
        query = self.queries[id]
        found = replace(self, queries=_without(self.queries, id), ended=self.ended | {query.application})
        sink = self.sources.get(query.sink)
        return found if sink is None or sink.query != id else found.with_source(replace(sink, query=None))

    def without_type(self, name: str) -> Definitions:
        """Without a named type."""
        return replace(self, types=_without(self.types, name))

    def without_topic(self, name: str) -> Definitions:
        """Without a topic and its rows."""
        if name in self.created:
            return replace(self, created=_without(self.created, name))
        return replace(
            self,
            deleted=self.deleted | {name},
            altered=_without(self.altered, name),
            alterations=_without(self.alterations, name),
        )

    def change(self) -> SqlChange | None:
        """What has to be written, None if nothing has changed."""
        sources = _changed(self.sources, {one.name: one for one in self.base.sources})
        queries = _changed(self.queries, {one.id: one for one in self.base.queries})
        types = _changed(self.types, {one.name: one for one in self.base.types})
        change = SqlChange(
            fresh_token(), self.base.change, self.numbers,
            sources=tuple(sources), queries=tuple(queries), types=tuple(types),
            dropped_sources=tuple(one.name for one in self.base.sources if one.name not in self.sources),
            dropped_queries=tuple(one.id for one in self.base.queries if one.id not in self.queries),
            dropped_types=tuple(one.name for one in self.base.types if one.name not in self.types),
            ended=tuple(sorted(self.ended)), stopped=tuple(sorted(self.stopped - self.ended)), deleted_topics=tuple(sorted(self.deleted)),
            created_topics=tuple(self.created.values()), altered_topics=tuple((name, one) for name, every in self.alterations.items() for one in every),
            renamed_topics=tuple(self.renamed.items()), seen=tuple(sorted(self.seen.items())),
        )  # fmt: skip
        nothing = SqlChange(change.token, change.before, self.base.numbers, seen=change.seen)
        return None if change == nothing and not self.has_more else change


def says_registry(topic: Topic) -> bool:
    """Whether a topic has a format that may have a registry: then this says whether values have one, and which."""
    return topic.format is not None and topic.format.name in MAY_HAVE_REGISTRY


def source_of_topic(topic: Topic) -> StoredSource:
    """
    A topic that no CREATE declares, as a source: a table if it is compacted and has a key, else a stream.

    Values in a format that says their columns are these columns; others are one text, or bytes, in the column `value`.
    """
    kind = TABLE if topic.is_compacted and topic.key else STREAM
    schema, formats = topic.schema, dict[str, Any]()
    key: tuple[str, ...] = topic.key
    if topic.format is not None:
        values = format_columns(topic.format, topic.name)
        if values is not None and KEY in values:
            values = None
        name = topic.format.name if values is not None or topic.format.name == "bytes" else "string"
        formats = {VALUE_FORMAT: FORMAT_NAMES[name], **({"KEY_FORMAT": "BYTES"} if topic.format.name == "bytes" else {})}
        one_value = Schema.parse(f"{VALUE} {'binary' if name == 'bytes' else 'string'}")
        keys = Schema.parse(f"{KEY} {'binary' if name == 'bytes' else 'string'}")
        schema, key = Schema((*keys, *(one_value if values is None else values))), (KEY,)
    role = "primary key" if kind == TABLE else "key"
    columns = tuple({"name": one.name, "type": one.type, "role": role if one.name in key else ""} for one in schema)
    return StoredSource(topic.name, kind, topic.name, columns, key, "", formats=formats, is_read_only=topic.internal)


def format_columns(format: Format, topic: str) -> Schema | None:
    """The columns that a topic's format says its values have; None if it says none."""
    if format.schema is None and not format.has_registry:
        return None
    if (
        format.name == "protobuf"
        and format.schema is not None
        and not compiled(format.schema).named(format.setting(MESSAGE)).fields
    ):
        return Schema(())  # of a stream of keys alone
    return Codec(format, None, topic).columns


def _named(found: Mapping[str, Stored], name: str, keeps_case: bool = False) -> Stored | None:
    """What has a name, in any case if none is spelt so; None also if several differ from it in case only, which nobody may choose from."""
    near = spellings(name, found, keeps_case=keeps_case)
    return found[near[0]] if len(near) == 1 else None


def _without(found: Mapping[str, Stored], name: str) -> dict[str, Stored]:
    return {key: one for key, one in found.items() if key != name}


def _changed(now: Mapping[str, Stored], before: Mapping[str, Stored]) -> Iterator[Stored]:
    """The values that were not there before as they are now."""
    return (one for key, one in now.items() if before.get(key) != one)
