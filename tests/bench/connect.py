"""`connect`: what connectors move a second, one task each, exactly once, from and to the real systems where they are there."""

from __future__ import annotations

import os
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
import psycopg
import pyarrow as pa

from streamkit.connectors.connector import Connector
from streamkit.connectors.delta import DeltaSink
from streamkit.connectors.kafka import KafkaSink, KafkaSource
from streamkit.connectors.postgres import PostgresSink, PostgresSource
from streamkit.connectors.runtime.sink_task import SinkTask
from streamkit.connectors.runtime.source_task import SourceTask
from streamkit.connectors.runtime.task import Orders
from streamkit.connectors.sink import Sink
from streamkit.connectors.source import Source
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from tests.bench.row import Row
from tests.connectors.servers.kafka import Broker, start_broker
from tests.postgres import Server, binaries

ROUNDS = 3
RECORDS = 1_000_000
ROWS = 300_000
KEYS = 100_000


def connect_rows(folder: Path) -> Iterator[Row]:
    """Kafka both ways, PostgreSQL, Delta Lake; memory over ten times the input."""
    broker = start_broker()
    if broker is not None:
        yield from _kafka(folder, broker)
        broker.stop()
    programs = binaries()
    if programs is not None:
        server = Server(programs)
        yield _postgres(folder, server)
        yield from _changes(folder, server)
        server.stop()
    yield _delta(folder)


def _kafka(folder: Path, broker: Broker) -> Iterator[Row]:
    with _log(folder) as log:
        _fill(log, "out", RECORDS)
        rates = [_rate(log, KafkaSink(f"out-{turn}", _to_kafka(broker, turn)), RECORDS) for turn in range(ROUNDS)]
        yield _row("log to Kafka, 100-byte records", rates, ">= 0.15")
        rates = [_rate(log, KafkaSource(f"in-{turn}", _from_kafka(broker, turn)), RECORDS) for turn in range(ROUNDS)]
        yield _row("Kafka to log, 100-byte records", rates, ">= 0.2")


def _to_kafka(broker: Broker, turn: int) -> dict[str, str]:
    return {"bootstrap.servers": broker.address, "topics": "out", "kafka.topic": f"bench-{turn}"}


def _from_kafka(broker: Broker, turn: int) -> dict[str, str]:
    return {"bootstrap.servers": broker.address, "kafka.topic": f"bench-{turn}", "topic": f"in-{turn}"}


def _postgres(folder: Path, server: Server) -> Row:
    url = f"postgresql://streamkit@/postgres?host={server.folder}"
    with _log(folder) as log:
        log.create_topic("people", "id bigint NOT NULL, name string, amount double", key="id", partitions=4)
        _send(
            log,
            "people",
            ROWS,
            lambda numbers: {"id": numbers % KEYS, "name": [f"name {n}" for n in numbers], "amount": numbers / 7},
        )
        rates = []
        for turn in range(ROUNDS):
            settings = {"connection.url": url, "topics": "people", "insert.mode": "upsert", "table": f"people_{turn}"}
            rates.append(_rate(log, PostgresSink(f"out-{turn}", settings), ROWS))
        with psycopg.connect(url) as connection:
            found = connection.execute("SELECT count(*) FROM people_0").fetchone()
            assert found == (KEYS,)
    return _row("upserts into PostgreSQL", rates, ">= 0.05")


def _changes(folder: Path, server: Server) -> Iterator[Row]:
    """Rows that are there, then changes, in one transaction and in one each."""
    url = f"postgresql://streamkit@/postgres?host={server.folder}"
    single = f"DO $$ BEGIN FOR i IN 1..{KEYS} LOOP UPDATE stock SET pieces = 0 WHERE id = i; COMMIT; END LOOP; END $$"
    with _log(folder) as log, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE stock (id bigint PRIMARY KEY, name text, pieces int, price double precision, at timestamptz)"
        )
        connection.execute(f"INSERT INTO stock SELECT n, 'name ' || n, n, n / 7.0, now() FROM generate_series(1, {ROWS}) n")
        source = PostgresSource("changes", {"connection.url": url, "tables": "stock"})
        yield _row("snapshot of PostgreSQL", [_rate(log, source, ROWS)], "-")
        for work, statement, count in (
            ("one transaction", "UPDATE stock SET pieces = 1", ROWS),
            ("one transaction each", single, KEYS),
        ):
            rates = []
            for _ in range(ROUNDS):
                connection.execute(statement)
                rates.append(_rate(log, source.again(), count))
            yield _row(f"changes of PostgreSQL, {work}", rates, ">= 0.03")


def _delta(folder: Path) -> Row:
    with _log(folder) as log:
        log.create_topic("rows", "id bigint NOT NULL, name string, amount double", key="id", partitions=4)
        _send(
            log,
            "rows",
            2 * RECORDS,
            lambda numbers: {"id": numbers, "name": [f"name {n}" for n in numbers], "amount": numbers / 7},
        )
        rates = []
        for turn in range(ROUNDS):
            sink = DeltaSink(f"out-{turn}", {"path": str(folder / f"delta-{turn}"), "topics": "rows"})
            rates.append(_rate(log, sink, 2 * RECORDS))
            shutil.rmtree(folder / f"delta-{turn}")
    return _row("append to Delta Lake", rates, ">= 1")


def _log(folder: Path) -> Log:
    shutil.rmtree(folder / "log-connect", ignore_errors=True)
    return open_log(folder / "log-connect")


def _fill(log: Log, topic: str, count: int) -> None:
    log.create_topic(topic, format="bytes", partitions=4)
    content = os.urandom(90)

    def columns(numbers: np.ndarray) -> dict[str, object]:
        return {"key": [b"%010d" % number for number in numbers], "value": [content] * len(numbers)}

    _send(log, topic, count, columns)


def _send(log: Log, topic: str, count: int, columns: Callable[[np.ndarray], dict[str, object]]) -> None:
    with log.producer() as producer:
        for start in range(0, count, 100_000):
            producer.send_batch(topic, pa.table(columns(np.arange(start, min(count, start + 100_000)))))


def _rate(log: Log, connector: Connector, count: int) -> float:
    """Millions of records a second that a task moves, with its start."""
    task: SourceTask | SinkTask
    if isinstance(connector, Source):
        task = SourceTask(connector, 0, 1, log, is_once=True)
    else:
        assert isinstance(connector, Sink)
        task = SinkTask(connector, 0, 1, log, is_once=True)
    began = time.perf_counter()
    task.run(Orders())
    seconds = time.perf_counter() - began
    assert task.progress.rows == count, task.progress
    return count / seconds / 1e6


def _row(work: str, rates: list[float], wanted: str) -> Row:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Row(f"{work} (peak {peak:,.0f} MiB)", median(rates), "M records/s", "", None, None, wanted, os.getloadavg()[0])
