"""
What a real Debezium writes for a list of changes: as JSON with schemas and without, and as Avro.

    python -m tests.unit.connectors.debezium.recording     writes envelopes.json again, which quick tests read

The changes are made in PostgreSQL while Debezium runs in Kafka Connect; nothing else makes these envelopes.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import confluent_kafka as kafka
import psycopg
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.kit.postgres import Server, binaries
from tests.kit.servers.apicurio import Registry, start_registry
from tests.kit.servers.connect import Connect, connect_jars
from tests.kit.servers.debezium import postgres_connector
from tests.kit.servers.kafka import free_ports, start_broker

FILE = Path(__file__).parent / "envelopes.json"
MODES = {"wrapped": "true", "plain": "false"}  # JSON, whose schemas are written or not
AVRO = "avro"
TABLES = ("people", "kinds", "whole")
SECONDS = 90
BEFORE = (
    "CREATE TABLE people (id int PRIMARY KEY, name text, balance numeric(12,2))",
    "CREATE TABLE whole (id int PRIMARY KEY, name text)",
    "ALTER TABLE whole REPLICA IDENTITY FULL",
    (
        "CREATE TABLE kinds (id bigint PRIMARY KEY, b boolean, s smallint, f real, d double precision, n numeric(20,4), anything numeric, t text, "
        "raw bytea, day date, at timestamp, instant timestamptz, clock time, span interval, id2 uuid, doc jsonb, tags text[], ms timestamp(3))"
    ),
    "INSERT INTO people VALUES (1, 'Ada', 10.50), (2, 'Bob', -3)",
)
AFTER = (
    "INSERT INTO people VALUES (3, 'Cleo', 0)",
    "UPDATE people SET name = 'Ada L.' WHERE id = 1",
    "UPDATE people SET id = 20 WHERE id = 2",
    "DELETE FROM people WHERE id = 3",
    "INSERT INTO whole VALUES (1, 'a'), (2, 'b')",
    "UPDATE whole SET name = 'c' WHERE id = 1",
    "DELETE FROM whole WHERE id = 2",
    (
        "INSERT INTO kinds VALUES (1, true, -2, 1.5, 0.1, 1234.5678, 12.5, 'ä', '\\x00ff', '2020-02-29', '2020-01-01 12:00:00.000001', "
        "'2020-01-01 12:00:00.000005+02', '13:14:15.000016', '1 day 2 hours', '6b9e1c1c-3c3a-4c3e-9d4e-0123456789ab', "
        "'{\"a\": [1, 2.5]}', '{x,NULL}', '1969-12-31 23:59:59.999')"
    ),
    "INSERT INTO kinds (id) VALUES (2)",
    "SELECT pg_logical_emit_message(true, 'note', 'hello')",
    "TRUNCATE whole",
    "INSERT INTO people VALUES (99, 'last', 1)",
)
LAST_KEY = 99
_LAST_IN_AVRO = b"\xc6\x01"  # the same, an `int`


def record() -> dict[str, Any] | None:
    """
    The records by mode and table, each as key, value and headers; None where the artifacts are missing.

    Those of Avro are Base64, and "schemas" has what the registry says of their ids.
    """
    jars, programs = connect_jars(), binaries()
    registry = start_registry() if jars is not None and programs is not None else None
    broker = start_broker() if registry is not None else None
    if jars is None or programs is None or registry is None or broker is None:
        return None
    (port,) = free_ports(1)
    server = Server(programs, port=port)
    try:
        return _record(jars, broker.address, server, port, registry)
    finally:
        for one in (server, broker, registry):
            one.stop()


def _record(jars: Path, broker: str, server: Server, port: int, registry: Registry) -> dict[str, Any]:
    modes = (*MODES, AVRO)
    topics = [f"{mode}.public.{table}" for mode in modes for table in TABLES] + [f"{mode}.message" for mode in modes]
    admin = AdminClient({"bootstrap.servers": broker})  # its requests end with it
    for future in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        future.result(SECONDS)
    with psycopg.connect(f"postgresql://streamkit@/postgres?host={server.folder}&port={port}", autocommit=True) as database:
        for statement in BEFORE:
            database.execute(statement)
        worker = Connect(jars, broker, [_connector(mode, port) | _converters(mode, registry) for mode in modes])
        try:
            _wait_for_slots(database, len(modes))
            for statement in AFTER:
                database.execute(statement)
            found: dict[str, Any] = {mode: {name: _read(broker, f"{mode}.{name}", mode) for name in _names()} for mode in modes}
        finally:
            worker.stop()
    return found | {"schemas": _schemas(registry, found[AVRO])}


def _connector(mode: str, port: int) -> dict[str, str]:
    own = {"name": mode, "slot.name": mode, "publication.name": mode, "skipped.operations": "none"}
    return postgres_connector(port, mode) | own


def _converters(mode: str, registry: Registry) -> dict[str, str]:
    """How the connector writes keys and values: JSON, or Avro in Confluent's wire format."""
    if mode == AVRO:
        converter = {
            "": "io.apicurio.registry.utils.converter.AvroConverter",
            ".apicurio.registry.url": f"{registry.address}/apis/registry/v2",
            ".apicurio.registry.auto-register": "true",
            ".apicurio.registry.find-latest": "true",
            ".apicurio.registry.as-confluent": "true",
            ".apicurio.registry.use-id": "contentId",
            ".apicurio.registry.headers.enabled": "false",
        }
    else:
        converter = {"": "org.apache.kafka.connect.json.JsonConverter", ".schemas.enable": MODES[mode]}
    return {f"{part}.converter{name}": value for part in ("key", "value") for name, value in converter.items()}


def _schemas(registry: Registry, records: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    """The text of each schema that the records name, by its id."""
    written = [one[part] for table in records.values() for one in table for part in ("key", "value")]
    ids = sorted({schema_id(base64.b64decode(one)) for one in written if one is not None})
    found = {}
    for one in ids:
        with urllib.request.urlopen(f"{registry.url}/schemas/ids/{one}", timeout=SECONDS) as answer:
            found[str(one)] = json.load(answer)["schema"]
    return found


def schema_id(record: bytes) -> int:
    """The id of the schema in Confluent's wire format."""
    assert record[0] == 0, record[:20]
    return int.from_bytes(record[1:5], "big")


def _names() -> list[str]:
    return [*(f"public.{table}" for table in TABLES), "message"]


def _wait_for_slots(database: psycopg.Connection[Any], count: int) -> None:
    """The connectors have read what the tables had when all slots are read."""
    deadline = time.monotonic() + SECONDS
    while database.execute("SELECT count(*) FROM pg_replication_slots WHERE active").fetchone() != (count,):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def _read(broker: str, topic: str, mode: str) -> list[dict[str, Any]]:
    """The records of a topic; the last change of all is that of LAST_KEY, and each connector writes in their order."""
    consumer = kafka.Consumer({"bootstrap.servers": broker, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([kafka.TopicPartition(topic, 0, kafka.OFFSET_BEGINNING)])
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + SECONDS
    is_ended = False
    text = _base64 if mode == AVRO else _text
    while not is_ended:
        assert time.monotonic() < deadline, (topic, found)
        for message in consumer.consume(100, 1):
            if message.error() is not None:
                is_ended = "people" not in topic or any(_is_last(record, mode) for record in found)
            else:
                found.append({"key": text(message.key()), "value": text(message.value()), "headers": _headers(message)})
    consumer.close()
    return found


def _is_last(record: dict[str, Any], mode: str) -> bool:
    if mode == AVRO:
        return base64.b64decode(record["key"]).endswith(_LAST_IN_AVRO)
    key = json.loads(record["key"])
    return bool(key.get("payload", key)["id"] == LAST_KEY)


def _text(found: bytes | None) -> str | None:
    return None if found is None else found.decode()


def _base64(found: bytes | None) -> str | None:
    return None if found is None else base64.b64encode(found).decode()


def _headers(message: Any) -> list[list[str]]:
    return [[name, _text(value) or ""] for name, value in message.headers() or ()]


if __name__ == "__main__":
    found = record()
    assert found is not None, "Debezium cannot be had here"
    FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
