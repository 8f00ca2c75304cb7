"""The topology: a name, the topics it reads, and what it makes of them."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamkit.dsl import arguments
from streamkit.dsl.endpoint import Endpoint, merged, topic_of
from streamkit.dsl.foreign_names import ForeignNames
from streamkit.dsl.processed import Processed
from streamkit.dsl.stream import Stream
from streamkit.dsl.table import GlobalTable, Table
from streamkit.errors import Location, SchemaError, TopologyError
from streamkit.formats.codec import declare_format, format_of_keys
from streamkit.formats.format import Schemas
from streamkit.log.topic.settings import SettingValue
from streamkit.log.topic.topic import Topic, declare_topic
from streamkit.names import REBUILDING_END, check_name
from streamkit.plan.added_topics import AS_THE_LOG_SAYS
from streamkit.plan.connection import Connection
from streamkit.plan.decoding import Decoding, declared_decoding
from streamkit.plan.describe import describe
from streamkit.plan.graph.drawing import Drawing
from streamkit.plan.graph.layout import drawing_of
from streamkit.plan.graph.topology_graph import graph_of_topology
from streamkit.plan.length import Duration, length_ms
from streamkit.plan.location import user_call, user_location
from streamkit.plan.mermaid import mermaid
from streamkit.plan.node import Node
from streamkit.plan.on_error import FAIL, OnError, checked_on_error
from streamkit.plan.operators.merge import MergeNode
from streamkit.plan.operators.source import GlobalTableSource, StreamSource, TableSource
from streamkit.plan.operators.write import To
from streamkit.plan.picture import picture, svg
from streamkit.plan.said_partitions import SaidPartitions
from streamkit.plan.store_definition import StoreDefinition
from streamkit.plan.store_kinds import CALLED
from streamkit.plan.tree import walk
from streamkit.plan.windows import WindowKind
from streamkit.schema import Schema, check_user_schema
from streamkit.time_zone import ZoneError, canonical_zone

if TYPE_CHECKING:
    from streamkit.plan.analysis import Analyzer
    from streamkit.plan.inputs import KnownTopics


class Topology(ForeignNames):
    """
    A declared application: reads topics as streams and tables, and writes topics and stores.

    Building one reads no topic and starts nothing. It only collects the ends of streams (`Stream.to`) and the stores that were
    named. Two topologies are equal if name, time zone, ends and stores are. The name is the application's id on the log; ConfigError if it cannot be one.

        app = Topology("flight-delays")
        app.stream("flights").filter("dep_delay > 15").to("late_flights")

    `time_zone` is a region such as "Europe/Berlin", or an offset such as "+02:00". `hour`, `date_trunc`, casts between timestamps and texts or
    dates, and all other functions that depend on a zone use it. It does not change timestamps, and windows are aligned to UTC, unless they
    have a `time_zone` of their own.
    TopologyError if there is no such zone.

    `on_error` says what happens if a record makes a step fail, unless the step has its own `on_error`: "fail" ends the run,
    "skip" leaves the record out and counts it, `sk.dead_letter("topic")` also writes it to a topic.
    """

    def __init__(self, name: str, time_zone: str = "UTC", on_error: OnError = FAIL) -> None:
        self.name = _checked_name(name)
        self.time_zone = _zone(time_zone)
        self.on_error = checked_on_error(on_error, user_location()) or FAIL
        self._sinks: dict[Node, None] = {}
        self._effects: dict[Node, tuple[Any, Location | None]] = {}  # by which call each was declared, and at which line
        self._stores: dict[str, Node] = {}
        self._keepers: dict[str, Node] = {}
        self._definitions: dict[str, StoreDefinition] = {}
        self._connections: dict[str, Connection] = {}
        self._dropped: dict[str, Location | None] = {}
        self._unlogged: dict[str, Location | None] = {}
        self._topics: dict[str, Topic] = {}
        self._said_partitions: dict[str, SaidPartitions] = {}

    def stream(
        self,
        topic: str | Endpoint | Sequence[str | Endpoint],
        *,
        schema: str | Schema | None = None,
        key: str | Iterable[str] | None = None,
        value_format: str | None = None,
        value_schema: Schemas | None = None,
        key_format: str = "string",
        format_settings: Mapping[str, Any] | None = None,
        timestamp: str | None = None,
        timestamp_format: str | None = None,
        since_1970: bool = False,
        max_jump: Duration | None = None,
        name: str | None = None,
    ) -> Stream:
        """
        Read a topic as a stream of records, keyed by the topic's key columns; of a list of topics, their records as one stream.

        Topics of a list must have the same columns, types and key: the result is the `merge` of a stream of each, and `name` is the name of the merge.

        `schema` ("user string, amount double") and `key` declare the topic's columns and key. Without a log they are needed to compile the
        topology; with a log they must agree with the topic. A topic that the topology itself writes need not exist: a start creates it with
        the columns of `schema`, or else those that are written. If these follow from the topic itself, `schema` is needed.

        `timestamp` names the column that has the event time of the records: a timestamp, or a bigint of milliseconds since 1970. It may be a
        field of a struct ("payload.at"), and a column that `value_format` reads. Without it the event time is the one with which the
        record was written. A record without such a time makes the step fail (`on_error`). Of a column of texts `timestamp_format` is the
        pattern, such as "yyyy-MM-dd HH:mm:ss", in UTC unless it has a zone. With `since_1970` a time before 1970 counts as none, as in Kafka Streams.

            app.stream("clicks", value_format="json", schema="user string, at bigint", key="user", timestamp="at")

        `max_jump`, a length of time such as "1 day", bounds jumps of stream time. If a record's event time is further ahead of the time that its
        partition had reached, it is processed as any other record, but does not move stream time. So one record from the year 2100 does
        not close all windows.
        Such records are counted (metric `ahead`).

        With a `value_format` (`json`, `avro`, `protobuf`, `csv`, `string`, `bytes`) the topic's bytes are read as columns. These are
        those of `schema`, else of `value_schema`: an Avro or JSON schema, the text of a .proto file, the columns of CSV. `format_settings`
        may name a registry (`schema.registry.url`), whose newest schema gives the columns if neither is given. `key` names the columns
        of the key, which are read from the key's bytes by `key_format`: one column `key` of text unless given.
        A record that does not decode makes the step fail (`on_error`).

            app.stream("orders", value_format="json", schema="user string, amount double", key="user")

        In place of a topic's name, `sk.kafka(…)`, `sk.postgres(…)`, `sk.files(…)` and similar ones read a foreign system: a connector, which
        `sk.run` starts, writes its rows into a topic. `schema` and `key` are then those of the topic if it is created, unless it is
        one of bytes that `value_format` reads.
        """
        jump_ms = None if max_jump is None else length_ms(max_jump, "max_jump of a stream")
        decoding = _decoding(value_format, value_schema, key_format, format_settings, schema, key)
        topics = arguments.source_topics(topic)
        is_one = len(topics) == 1
        nodes = tuple(
            StreamSource(
                self._read(one, schema, key, decoding),
                _schema(schema),
                _key(key),
                jump_ms,
                name=name if is_one else None,
                at=user_location(),
                decoding=decoding,
                timestamp=arguments.timestamp_column(timestamp),
                timestamp_format=timestamp_format,
                since_1970=since_1970,
            )
            for one in topics
        )
        return Stream(nodes[0] if is_one else MergeNode(nodes, name=name, at=user_location()), self)

    def table(
        self,
        topic: str | Endpoint,
        *,
        schema: str | Schema | None = None,
        key: str | Iterable[str] | None = None,
        value_format: str | None = None,
        value_schema: Schemas | None = None,
        key_format: str = "string",
        format_settings: Mapping[str, Any] | None = None,
        timestamp: str | None = None,
        timestamp_format: str | None = None,
        since_1970: bool = False,
        bootstrap: bool = False,
        store: str | None = None,
        versioned: Duration | None = None,
        windowed: WindowKind | None = None,
        name: str | None = None,
    ) -> Table:
        """
        Read a topic as a table: the newest row per key, deleted by a tombstone; records with a null key are dropped.

        With `bootstrap`, the records that the topic has when the application's first epoch begins are read before any stream, whatever their
        times. So streams are joined with the whole table from their first record on. `store` makes the table queryable under that name.
        `schema`, `key`, `timestamp`, `timestamp_format`, `since_1970` and the formats are as in `stream`.

        With `versioned`, a length of time such as "1 day", the row with the largest event time is the newest, and the table remembers the rows that
        it had in this time. If a stream is joined with it, a record finds the row that was valid at the record's event time. A record that is older
        than its key's row becomes part of the history: joins of tables and groups do not see it. One that is older than the history is dropped, and
        counted.

            rates = app.table("rates", versioned="1 day")
            payments.join(rates, on="currency", grace="10 minutes")

        With `windowed`, such as `sk.tumbling("1 hour", grace="5 minutes")`, the topic's key ends with `window_start` and `window_end`, as
        results of windows write it, and the table is one of windows: `suppress(until=sk.window_closes())`, `emit("final")`, and joins
        with windows of the same kind and length. A window closes when stream time, that of the topic, is the grace past its
        end. TopologyError if the topic has another key.

            hourly = app.table("hourly_counts", windowed=sk.tumbling("1 hour", grace="5 minutes"))
            hourly.suppress(until=sk.window_closes()).to("final_counts")
        """
        history_ms = None if versioned is None else length_ms(versioned, "history of a versioned table")
        decoding = _decoding(value_format, value_schema, key_format, format_settings, schema, key)
        node = TableSource(
            self._read(topic, schema, key, decoding),
            _schema(schema),
            _key(key),
            bootstrap,
            store,
            history_ms,
            arguments.windows_read(windowed, topic_of(topic)),
            name=name,
            at=user_location(),
            decoding=decoding,
            timestamp=arguments.timestamp_column(timestamp),
            timestamp_format=timestamp_format,
            since_1970=since_1970,
        )
        return self._table(node, store)

    def global_table(
        self,
        topic: str | Endpoint,
        *,
        schema: str | Schema | None = None,
        key: str | Iterable[str] | None = None,
        value_format: str | None = None,
        value_schema: Schemas | None = None,
        key_format: str = "string",
        format_settings: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> GlobalTable:
        """Read a topic as a table whose rows are all in every task; `schema`, `key` and the formats are as in `stream`."""
        decoding = _decoding(value_format, value_schema, key_format, format_settings, schema, key)
        node = GlobalTableSource(
            self._read(topic, schema, key, decoding), _schema(schema), _key(key), name=name, at=user_location(), decoding=decoding
        )
        return GlobalTable(node, self)

    def sql(self, text: str, /, **sources: Stream | Table | GlobalTable) -> Stream | Table:
        """
        Give the stream or table that a query in SQL stands for; its sources are handles, by the names that the query has for them.

        The query is written as in `streamkit sql` and in files, with Spark's functions, and makes the steps that the same has in Python. Columns
        of a source that declares its own (`schema=`, or a table that is made here) may stand without it; other sources of a join need
        theirs written with them, as in `c.url`. A query with GROUP BY makes a table, and so does one over a table; with EMIT FINAL it is the
        stream of final results. TopologyError names the place in the text.

            visits = app.sql("SELECT c.url, u.name FROM clicks c JOIN users u ON c.user = u.id", clicks=clicks, users=users)
            app.sql("SELECT name, COUNT(*) AS visits FROM visits GROUP BY name", visits=visits).to("visits_per_user")
        """
        given: Stream | Table = import_module("streamkit.sql.lowering.given_query").given_query(
            self, text, sources, user_location()
        )  # a layer above
        return given

    def add_store(self, store: StoreDefinition) -> StoreDefinition:
        """
        Declare a store for a processor, which names it in `stores=`; `sk.key_value_store` and similar functions make one.

        Returns the store. TopologyError if there is another one of that name.
        """
        if not isinstance(store, StoreDefinition):
            raise TopologyError(f"add_store() was given {store!r}; expected {CALLED}", user_location())
        known = self._definitions.setdefault(store.name, store)
        if known != store or store.name in self._stores:
            raise TopologyError(f"there is a store {store.name!r} already; expected another name", user_location())
        return store

    def add_topic(
        self,
        name: str,
        schema: str | Schema | None = None,
        key: str | Iterable[str] | None = None,
        *,
        timestamp: str | None = None,
        partitions: int | None = None,
        config: Mapping[str, SettingValue] | None = None,
        format: str | None = None,
        format_schema: Schemas | None = None,
        format_settings: Mapping[str, Any] | None = None,
    ) -> None:
        """
        Let a start create a topic that the topology reads or writes, unless it exists.

        The arguments are those of `log.create_topic`. A topic that exists stays as it is; what is read or written must fit it.
        TopologyError if the topology adds a topic of that name which is declared in another way.

            app.add_topic("orders", "id int, amount double", key="id", partitions=8)
            app.stream("orders").filter("amount > 100").to("large_orders")
        """
        is_opaque = format is not None or format_schema is not None or format_settings is not None
        opaque = declare_format(format, format_schema, format_settings) if is_opaque else None
        topic = declare_topic(name, schema, _key(key), timestamp, partitions or 1, config, format=opaque)
        topic = topic if partitions is not None else replace(topic, partitions=AS_THE_LOG_SAYS)
        known = self._topics.setdefault(name, topic)
        if known != topic:
            raise TopologyError(f"the topology adds the topic {name!r} already, as {known}; found {topic}", user_location())

    @property
    def added_topics(self) -> tuple[Topic, ...]:
        """The topics that a start creates unless they exist; one that does not say how many partitions has those that are said of it elsewhere."""
        said = self._said_partitions
        return tuple(
            replace(one, partitions=said[one.name].count) if one.name in said and one.partitions == AS_THE_LOG_SAYS else one
            for one in self._topics.values()
        )

    @property
    def said_partitions(self) -> tuple[SaidPartitions, ...]:
        """How many partitions topics have, where a topic that exists with another number is an error."""
        return tuple(self._said_partitions.values())

    def say_partitions(self, said: SaidPartitions) -> None:
        """Let a start refuse a topic that exists with another number of partitions; TopologyError if another number was said of it before."""
        known = self._said_partitions.setdefault(said.topic, said)
        if known.count != said.count:
            raise TopologyError(
                f"PARTITIONS of the topic {said.topic} is {said.count} here, and {known.count} at {known.at}; expected the same, or one of them alone",
                said.at,
            )

    def drop_store(self, *names: str) -> None:
        """
        Let the next start delete stores that this topology had before and has no more, with their changelogs.

        Without it a start refuses to leave a store behind, since only its name may have changed. A store that was dropped cannot be
        brought back; afterwards the line does nothing.

            app.drop_store("hourly")
        """
        for name in names:
            self._dropped.setdefault(check_name(name, "store", user_location()), user_location())

    @property
    def dropped_stores(self) -> tuple[str, ...]:
        """The stores of former starts that the next one deletes."""
        return tuple(sorted(self._dropped))

    def check_dropped(self, kept: Iterable[str]) -> None:
        """TopologyError if a store that is kept is to be dropped."""
        for name in kept:
            if name in self._dropped:
                raise TopologyError(
                    f"drop_store({name!r}) names a store that the topology still has; expected the name of a store that it has no more",
                    self._dropped[name],
                )

    def disable_logging(self, *names: str) -> None:
        """
        Keep no log of these stores: only their newest changes are kept, for minutes, and not as long as their rows.

        That saves disk space, and the work of compaction. A restart and a `kill -9` lose nothing as long as the folder of the stores is
        there. If a task finds no stores, or stores that are too old, it begins with empty ones: on another host, after the loss of a disk,
        with another number of tasks. A warning says so, and the metric `lost` counts it. `explain` says for each store what such a move
        costs. If one store of a step is named, this applies to all of them; stores of a processor are named one by one.

            app.disable_logging("seen")
        """
        for name in names:
            self._unlogged.setdefault(check_name(name, "store", user_location()), user_location())

    @property
    def unlogged_stores(self) -> Mapping[str, Location | None]:
        """The stores of which no log is kept, as they were named, with the lines that say so."""
        return dict(self._unlogged)

    @property
    def outputs(self) -> tuple[To, ...]:
        """The ends of streams that are topics."""
        return tuple(sink for sink in self._sinks if isinstance(sink, To))

    @property
    def sinks(self) -> tuple[Node, ...]:
        """The ends of streams, in the order they were declared."""
        return tuple(self._sinks)

    @property
    def stores(self) -> dict[str, Node]:
        """The tables whose store was given a name."""
        return dict(self._stores)

    @property
    def roots(self) -> tuple[Node, ...]:
        """The nodes from which everything that runs can be reached."""
        return (*self.sinks, *self._stores.values())

    def describe(self) -> str:
        """The topology as a tree of text, from its sources to its sinks; needs neither a log nor Spark."""
        return describe(self.name, self.roots, self.time_zone, self.connections)

    def explain(self, log: KnownTopics | None = None, analyzer: Analyzer | None = None) -> str:
        """
        What the topology is compiled to, pass by pass: steps, types, stages, exchanges, stores with their topics, outputs.

        `log` says what the topics hold; without it every source needs `schema=`. Raises what `streamkit.compile` raises.
        """
        import streamkit

        return str(streamkit.explain(self, log, analyzer))

    def to_mermaid(self) -> str:
        """The topology as a flowchart in the language of Mermaid."""
        return mermaid(self.roots, self.connections)

    def to_svg(self) -> str:
        """
        The topology as a picture: SVG text, which browsers, GitHub and notebooks show.

            Path("flight-delays.svg").write_text(app.to_svg(), encoding="utf-8")

        It has a background of its own, so it can be read on a dark page, too.
        """
        return svg(self._drawing())

    def _repr_html_(self) -> str:
        return picture(self._drawing())

    def _drawing(self) -> Drawing:
        return drawing_of(graph_of_topology(self.name, self.roots, self.connections))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What a notebook shows: a picture where it can, else the tree of `describe`."""
        return {"text/plain": self.describe(), "text/html": self._repr_html_()}

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        zone = "" if self.time_zone == "UTC" else f", time_zone={self.time_zone!r}"
        return f"Topology({self.name!r}{zone}, sinks={[sink.subject for sink in self.sinks]}, stores={list(self._stores)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Topology):
            return NotImplemented
        return self._compared == other._compared

    @property
    def _compared(self) -> tuple[object, ...]:
        """What equal topologies have in common."""
        stores = (self._stores, self.dropped_stores, self._unlogged.keys())
        return (self.name, self.time_zone, self.on_error, self._sinks, self._connections, self._topics, *stores)

    __hash__ = None  # type: ignore[assignment]  # it grows while it is declared

    def with_on_error(self, on_error: OnError) -> Topology:
        """The topology as it is now, with another default of what becomes of records that make a step fail."""
        found = copy.copy(self)
        found.on_error = checked_on_error(on_error, user_location()) or self.on_error
        return found

    def with_name(self, name: str) -> Topology:
        """The topology as it is now, as another application."""
        found = copy.copy(self)
        found.name = _checked_name(name)
        return found

    @property
    def connections(self) -> tuple[Connection, ...]:
        """The connectors that the topology asks for, sources first."""
        return tuple(sorted(self._connections.values(), key=lambda one: not one.is_source))

    def _connect(self, connection: Connection) -> None:
        self._connections = merged(self._connections, connection)

    def _read(
        self,
        topic: str | Endpoint,
        schema: str | Schema | None,
        key: str | Iterable[str] | None,
        decoding: Decoding | None,
    ) -> str:
        """The name of a topic that is read; a foreign system gets the connector that fills it."""
        if isinstance(topic, list | tuple | re.Pattern):
            raise TopologyError(
                f"a table reads one topic, and found {topic!r}; expected its name, or stream([…]).to_table() of several topics",
                user_location(),
            )
        if isinstance(topic, Endpoint):
            has_columns = decoding is None
            self._connect(topic.read(_schema(schema) if has_columns else None, _key(key) if has_columns else None))
        return topic_of(topic)

    def _add_sink(self, sink: Node) -> None:
        for node in walk([sink]):  # what a node knows of the tree below it is found from the bottom, however deep that is
            assert node is not None
        if sink.traits.is_sink:
            self._add_effect(sink)
        self._sinks.setdefault(sink)

    def _add_effect(self, node: Node) -> None:
        """Note a step that does something outside; TopologyError for an equal one of another call, since equal steps are one."""
        call, at = self._effects.setdefault(node, (user_call(), node.at))
        if call != user_call():
            raise TopologyError(
                f"this stream has the step {node.text()!r} already, declared at {at}; two equal steps are one step, which would get each record only once; "
                "expected only one of the two, or name=… for this one, which makes it another step",
                node.at,
            )

    def _processed(
        self,
        stream: Stream,
        processor: Any,
        schema: str | None,
        key: str | Iterable[str] | None,
        stores: Iterable[StoreDefinition | str],
        verb: str,
        by: str,
        name: str | None,
        on_error: OnError | None = None,
    ) -> Processed:
        """A handle on what a processor forwards; it runs even if the handle is not used."""
        given = (stores,) if isinstance(stores, str | StoreDefinition) else tuple(stores)
        definitions = tuple(self._definition(one) for one in given)
        node = arguments.processed(stream.node, processor, schema, key, definitions, verb, by, name)
        node = arguments.with_on_error(node, on_error)
        for store in definitions:
            taken = self._keepers.setdefault(store.name, node)
            if taken != node:
                raise TopologyError(
                    f"the store {store.name!r} belongs to the processor declared at {taken.at}; expected a store of its own: one that "
                    "several processors share is not supported",
                    node.at,
                )
        self._add_sink(node)
        return Processed(node, self)

    def _definition(self, store: StoreDefinition | str) -> StoreDefinition:
        if isinstance(store, StoreDefinition):
            return self.add_store(store)
        if store not in self._definitions:
            raise TopologyError(
                f"there is no store {store!r}; expected add_store(…) before; the stores that were added are {', '.join(self._definitions) or 'none'}",
                user_location(),
            )
        return self._definitions[store]

    def _table(self, node: Node, store: str | None) -> Table:
        """A handle on a table; its store, if it was named, is kept up to date even if the handle is not used."""
        if store is None:
            return Table(node, self)
        taken = self._stores.setdefault(store, node)
        if store in self._definitions:
            raise TopologyError(f"there is a store {store!r} already; expected another name", node.at)
        if taken != node:
            raise TopologyError(f"there is a store {store!r} already, declared at {taken.at}; expected another name", node.at)
        return Table(node, self)


def _checked_name(name: str) -> str:
    """The name of a topology; ConfigError or TopologyError if it cannot have it."""
    at = user_location()
    if check_name(name, "topology", at).endswith(REBUILDING_END):
        raise TopologyError(
            f"the topology name {name!r} cannot be used: it is the name of the application that fills stores of "
            f"{name.removesuffix(REBUILDING_END)!r} again; expected a name that does not end with {REBUILDING_END}",
            at,
        )
    return name


def _zone(time_zone: str) -> str:
    if not isinstance(time_zone, str):
        raise TopologyError(f"a time zone is a text such as 'Europe/Berlin'; found {time_zone!r}", user_location())
    try:
        canonical_zone(time_zone)
    except ZoneError as error:
        raise TopologyError(str(error), user_location()) from None
    return time_zone


def _schema(schema: str | Schema | None) -> Schema | None:
    try:
        return None if schema is None else check_user_schema(Schema.parse(schema))
    except SchemaError as error:
        raise SchemaError(f"{error}\n  at {user_location()}") from None


def _key(key: str | Iterable[str] | None) -> tuple[str, ...] | None:
    return (key,) if isinstance(key, str) else None if key is None else tuple(key)


def _decoding(
    value_format: str | None,
    value_schema: Schemas | None,
    key_format: str,
    settings: Mapping[str, Any] | None,
    schema: str | Schema | None,
    key: str | Iterable[str] | None,
) -> Decoding | None:
    """How the bytes of an opaque topic are read; None of a topic that has columns."""
    at = user_location()
    if value_format is None:
        if value_schema is not None or settings is not None or key_format != "string":
            raise TopologyError(
                "value_schema=, key_format= and format_settings= were given without value_format=; expected value_format= too", at
            )
        return None
    value = declare_format(value_format, value_schema, settings, needs_schema=False)
    keys = format_of_keys(key_format, value, settings)
    return declared_decoding(value, keys, _schema(schema), _key(key), at)
