"""Connectors of Kafka Connect by their own names: which class does the same here, and what its settings are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamkit.connectors.classes import CLASS, known_classes
from streamkit.errors import ConfigError
from streamkit.names import meant

CONVERTERS = {
    "JsonConverter": "json", "AvroConverter": "avro", "ProtobufConverter": "protobuf", "StringConverter": "string",
    "ByteArrayConverter": "bytes",
}  # fmt: skip


@dataclass(frozen=True)
class ConnectClass:
    """
    A class of Kafka Connect that a class of StreamKit stands for.

    `renamed` are settings with another name here. `implied` are settings with the only value that is done here, of which nothing is left.
    """

    own: str
    renamed: Mapping[str, str]
    implied: Mapping[str, tuple[str, ...]]


CLASSES = {
    "io.confluent.connect.jdbc.JdbcSinkConnector": ConnectClass(
        "PostgresSink", {"table.name.format": "table", "batch.size": "batch.rows"}, {"pk.mode": ("record_key", "none")}
    ),
    "io.confluent.connect.http.HttpSinkConnector": ConnectClass(
        "HttpSink", {"http.api.url": "url", "request.method": "method", "batch.max.size": "batch.rows"}, {"request.body.format": ("json",)}
    ),
}  # fmt: skip
NEAR = {
    "io.confluent.connect.jdbc.JdbcSourceConnector": "PostgresSource, which reads changes by logical replication; it needs connection.url and tables",
    "io.debezium.connector.postgresql.PostgresConnector": "PostgresSource, which reads the same changes; it needs connection.url and tables",
    "org.apache.kafka.connect.file.FileStreamSourceConnector": "FileSource, which reads CSV, JSON lines and Parquet; it needs path and topic",
    "org.apache.kafka.connect.file.FileStreamSinkConnector": "FileSink, which writes CSV, JSON lines and Parquet; it needs path and topics",
    "org.apache.kafka.connect.mirror.MirrorSourceConnector": "KafkaSource; it needs bootstrap.servers and kafka.topic",
}


def own_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """
    The settings of a connector in StreamKit's names, which most of Kafka Connect's are.

    ConfigError for a class that nothing stands for, and for a setting whose value means something that is not done.
    """
    if CLASS not in settings:
        raise ConfigError(f"it has no {CLASS!r}; expected one of {_classes()}")
    written = settings[CLASS]
    full = next((name for name in (*CLASSES, *NEAR) if written in (name, name.rpartition(".")[2])), written)
    found = CLASSES.get(full)
    if found is None:
        if full in NEAR:
            raise ConfigError(f"{CLASS} = {written!r} is not there; expected {NEAR[full]}")
        if ":" not in written and written not in known_classes():
            near = meant(written, [*known_classes(), *CLASSES])
            raise ConfigError(f"{CLASS} = {written!r} is not there; expected one of {_classes()}{near}")
        return _with_formats(settings)
    own = {CLASS: found.own}
    for name, value in settings.items():
        if name in found.implied:
            if value not in found.implied[name]:
                raise ConfigError(
                    f"{found.own} has no {name} = {value!r}; expected {' or '.join(found.implied[name])}, or nothing"
                )
        elif name != CLASS:
            new = found.renamed.get(name, name)
            if new in own:
                raise ConfigError(f"{name} is called {new} here, which is given too; expected one of them")
            own[new] = _address(value) if name == "connection.url" else value
    return _with_formats(own)


def _address(value: str) -> str:
    """An address as PostgreSQL's own library has it."""
    return value.removeprefix("jdbc:")


def _with_formats(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings with formats in place of the converters that stand for them."""
    found = dict[str, str]()
    for name, value in settings.items():
        part, dot, rest = name.partition(".converter")
        if not dot or part not in ("key", "value"):
            found[name] = value
        elif not rest:
            format = CONVERTERS.get(value.rpartition(".")[2])
            if format is None:
                raise ConfigError(f"{name} = {value!r} is not there; expected one of {', '.join(CONVERTERS)}")
            found[f"{part}.format"] = format
        elif rest == ".schema.registry.url":
            found["schema.registry.url"] = value
        elif (rest, value.lower()) != (".schemas.enable", "false"):
            raise ConfigError(f"{name} = {value!r} is not done here; formats have the settings {part}.format and {part}.schema")
    return found


def _classes() -> str:
    return f"{', '.join(known_classes())}, module:Class, or of Kafka Connect {' and '.join(CLASSES)}"
