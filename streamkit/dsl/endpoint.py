"""Foreign systems in a topology: `stream(sk.kafka("orders", …))` reads one by a topic, `to(sk.postgres("totals", …))` writes one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streamkit.errors import TopologyError
from streamkit.names import NAME_LENGTH_MAX, check_name
from streamkit.plan.connection import Connection
from streamkit.plan.location import user_location
from streamkit.schema import Schema

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_USER = re.compile(r"(?<=//)[^/@]*@")  # of a URL
_TAKEN = ("topic", "topics", "name", "connector.class")
_ROOM = NAME_LENGTH_MAX - 60  # for what the runtime writes around a connector's name


@dataclass(frozen=True)
class ConnectorSide:
    """The class of a connector, and the setting that says where it reads or writes; None if the settings alone do."""

    class_name: str
    setting: str | None


@dataclass(frozen=True)
class Endpoint:
    """
    A place in a foreign system, and the topic that stands for it: what `sk.kafka`, `sk.postgres` and their like give.

    A topology reads and writes the topic. When it runs, a connector moves rows between the topic and the place.
    """

    system: str
    place: str
    topic: str
    name: str | None
    settings: tuple[tuple[str, Any], ...] = field(repr=False)
    source: ConnectorSide | None = field(default=None, repr=False)
    sink: ConnectorSide | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.system}({shown_place(self.place)!r})"

    def read(self, schema: Schema | None, key: tuple[str, ...] | None) -> Connection:
        """The connector that fills the topic."""
        return self._connection(self.source, "source", schema, key)

    def written(self) -> Connection:
        """The connector that empties the topic."""
        return self._connection(self.sink, "sink", None, None)

    def _connection(
        self, side: ConnectorSide | None, kind: str, schema: Schema | None, key: tuple[str, ...] | None
    ) -> Connection:
        if side is None:
            raise TopologyError(f"{self} is no {kind}; expected one such as sk.kafka(…)", user_location())
        settings = dict(self.settings)
        if side.setting is not None:
            settings = {side.setting: self.place} | settings
        if kind == "source" and key is not None:
            settings.setdefault("key", list(key))
        name = self.name or f"{_default_name(self.system, self.place)}-{kind}"
        return Connection(name, self.topic, str(self), side.class_name, kind == "source", tuple(settings.items()), schema, key)


def kafka(
    topic_of_kafka: str,
    config: Mapping[str, Any] | None = None,
    *,
    topic: str | None = None,
    name: str | None = None,
    **settings: Any,
) -> Endpoint:
    """
    A topic of Kafka; `bootstrap_servers=` says where.

    As in all of these functions, settings are the connector's, with underscores in place of dots, or unchanged in `config`. `topic` is the topic of the log,
    `kafka.orders` for `kafka("orders")` unless given; `name` is the connector's.

        app.stream(sk.kafka("orders", bootstrap_servers="localhost:9092"))
    """
    sides = ConnectorSide("KafkaSource", "kafka.topic"), ConnectorSide("KafkaSink", "kafka.topic")
    return _endpoint("kafka", topic_of_kafka, config, topic, name, settings, *sides)


def postgres(
    table: str, config: Mapping[str, Any] | None = None, *, topic: str | None = None, name: str | None = None, **settings: Any
) -> Endpoint:
    """
    A table of PostgreSQL: its rows and changes as a source, rows that are inserted or upserted as a sink.

    Write the address as `connection_url="${env:SHOP}"`: then nobody sees the password.

        totals.to(sk.postgres("totals", connection_url="${env:SHOP}", insert_mode="upsert", delete_enabled=True))
    """
    sides = ConnectorSide("PostgresSource", "tables"), ConnectorSide("PostgresSink", "table")
    return _endpoint("postgres", table, config, topic, name, settings, *sides)


def debezium(
    topic_of_kafka: str,
    config: Mapping[str, Any] | None = None,
    *,
    topic: str | None = None,
    name: str | None = None,
    **settings: Any,
) -> Endpoint:
    """
    A topic of Kafka with Debezium's envelopes, read as the rows and deletions of the table that changed. A source only; `bootstrap_servers=` says where.

    If the envelopes are in a topic of the log, use `sk.connector("DebeziumSource", source_topic="raw", topic="orders")`.

        app.table(sk.debezium("shop.public.orders", bootstrap_servers="localhost:9092"))
    """
    return _endpoint(
        "debezium", topic_of_kafka, config, topic, name, settings, ConnectorSide("DebeziumSource", "kafka.topic"), None
    )


def delta(
    path: str, config: Mapping[str, Any] | None = None, *, topic: str | None = None, name: str | None = None, **settings: Any
) -> Endpoint:
    """A table of Delta Lake in a folder."""
    return _endpoint(
        "delta",
        str(path),
        config,
        topic,
        name,
        settings,
        ConnectorSide("DeltaSource", "path"),
        ConnectorSide("DeltaSink", "path"),
    )


def files(
    path: str, config: Mapping[str, Any] | None = None, *, topic: str | None = None, name: str | None = None, **settings: Any
) -> Endpoint:
    """A file, a folder or a pattern of files to read; a folder to write."""
    return _endpoint(
        "files", str(path), config, topic, name, settings, ConnectorSide("FileSource", "path"), ConnectorSide("FileSink", "path")
    )


def http(
    place: str, config: Mapping[str, Any] | None = None, *, topic: str | None = None, name: str | None = None, **settings: Any
) -> Endpoint:
    """As a source the path that takes records by POST (`port=` says at which port), as a sink the URL that they are sent to."""
    return _endpoint(
        "http", place, config, topic, name, settings, ConnectorSide("HttpSource", "path"), ConnectorSide("HttpSink", "url")
    )


def connector(
    class_name: str, config: Mapping[str, Any] | None = None, *, topic: str, name: str | None = None, **settings: Any
) -> Endpoint:
    """
    Any connector by its class: one of StreamKit's, or `module:Class` of a third party.

        app.stream(sk.connector("sqlite_connector:SqliteSource", topic="people", path="shop.db", tables="people"))
    """
    side = ConnectorSide(class_name, None)
    chosen = name or _default_name(class_name.rpartition(":")[2], topic)
    return _endpoint("connector", class_name, config, topic, chosen, settings, side, side)


def topic_of(topic: str | Endpoint) -> str:
    """The name of the topic that is read or written."""
    return topic.topic if isinstance(topic, Endpoint) else topic


def shown_place(place: str) -> str:
    """A place without what may be secret in a URL: who asks, and the query."""
    return _USER.sub("", place).partition("?")[0] if "://" in place else place


def _endpoint(
    system: str,
    place: str,
    config: Mapping[str, Any] | None,
    topic: str | None,
    name: str | None,
    settings: Mapping[str, Any],
    source: ConnectorSide,
    sink: ConnectorSide | None,
) -> Endpoint:
    if not isinstance(place, str) or not place:
        raise TopologyError(f"{system}() was given {place!r}; expected a text that is not empty", user_location())
    every = dict(config or {}) | {key.replace("_", "."): value for key, value in settings.items()}
    taken = next((key for key in _TAKEN if key in every), None)
    if taken is not None:
        raise TopologyError(
            f"{system}({shown_place(place)!r}) was given the setting {taken!r}; expected topic= for the topic of the log, and name= for the connector",
            user_location(),
        )
    at = user_location()
    chosen = check_name(topic or _default_name(system, place), "topic", at)
    return Endpoint(system, place, chosen, name and check_name(name, "connector", at), _frozen(every), source, sink)


def _frozen(settings: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((key, _plain(value)) for key, value in settings.items())


def _plain(value: Any) -> Any:
    """A list of texts as Connect writes it."""
    return ",".join(value) if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value) else value


def _default_name(system: str, place: str) -> str:
    """`kafka.orders`, `postgres.public.orders`, `delta.sales` for a folder of that name: what a topic's name may have of it."""
    parts = [part for part in shown_place(place).split("/") if part.strip("._-") and "*" not in part and not part.endswith(":")]
    words = _NO_NAME.sub("-", parts[-1] if parts else "").strip("._-")
    return f"{system}.{words or 'records'}"[:_ROOM]


def merged(known: Mapping[str, Connection], connection: Connection) -> dict[str, Connection]:
    """The connections with one more; TopologyError if there is another one of its name."""
    other = known.get(connection.name)
    if other is not None and other != connection:
        raise TopologyError(
            f"two connectors of the topology are called {connection.name}: {other.text()} and {connection.text()}; "
            "expected another name= for one, or the same settings",
            user_location(),
        )
    return {**known, connection.name: connection}
