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
from tests.bench.connect_peers import DEBEZIUM, MIRROR, Debezium, mirror_rate
from tests.bench.row import Row, absent
from tests.kit.postgres import Server, binaries
from tests.kit.servers.distributed import Cluster, start_cluster
from tests.kit.servers.kafka import Broker, free_ports, start_broker

ROUNDS = 3
RECORDS = 1_000_000
ROWS = 300_000
NO_KAFKA = "Java, Maven or its artifacts are missing"


def connect_rows(folder: Path, fraction: float = 1) -> Iterator[Row]:
    """Kafka both ways, PostgreSQL and Delta Lake, with Connect's own connectors beside ours."""
    broker, programs = start_broker(), binaries()
    cluster = start_cluster(broker.address) if broker is not None else None
    try:
        if broker is None:
            yield absent("Kafka", NO_KAFKA)
        else:
            yield from _kafka(folder, broker, cluster, int(RECORDS * fraction))
        if programs is None:
            yield absent("PostgreSQL", "PostgreSQL is not installed")
        else:
            yield from _databases(folder, programs, broker, cluster, fraction)
    finally:
        for server in (cluster, broker):
            if server is not None:
                server.stop()
    yield _delta(folder, int(2 * RECORDS * fraction))


def _kafka(folder: Path, broker: Broker, cluster: Cluster | None, count: int) -> Iterator[Row]:
    out, back, mirrored = [], [], []
    with _log(folder) as log:
        _fill(log, "out", count)
        for turn in range(ROUNDS):
            out.append(_rate(log, KafkaSink(f"out-{turn}", _to_kafka(broker, turn)), count))
            back.append(_rate(log, KafkaSource(f"in-{turn}", _from_kafka(broker, turn)), count))
            if cluster is not None:
                mirrored.append(mirror_rate(cluster, broker.address, f"bench-{turn}", count, turn))
    yield _row("log to Kafka, 100-byte records", out, ">= 0.15", MIRROR, mirrored)
    yield _row("Kafka to log, 100-byte records", back, ">= 0.2", MIRROR, mirrored)


def _to_kafka(broker: Broker, turn: int) -> dict[str, str]:
    return {"bootstrap.servers": broker.address, "topics": "out", "kafka.topic": f"bench-{turn}"}


def _from_kafka(broker: Broker, turn: int) -> dict[str, str]:
    return {"bootstrap.servers": broker.address, "kafka.topic": f"bench-{turn}", "topic": f"in-{turn}"}


def _databases(folder: Path, programs: Path, broker: Broker | None, cluster: Cluster | None, fraction: float) -> Iterator[Row]:
    (port,) = free_ports(1)
    server = Server(programs, port=port)
    try:
        yield _postgres(folder, server, int(ROWS * fraction))
        peer = Debezium(cluster, broker.address, port, "stock") if broker is not None and cluster is not None else None
        yield from _changes(folder, server, peer, int(ROWS * fraction))
    finally:
        server.stop()


def _postgres(folder: Path, server: Server, count: int) -> Row:
    url = f"postgresql://streamkit@/postgres?host={server.folder}&port={server.port}"
    keys = count // 3
    with _log(folder) as log:
        log.create_topic("people", "id bigint NOT NULL, name string, amount double", key="id", partitions=4)
        _send(
            log,
            "people",
            count,
            lambda numbers: {"id": numbers % keys, "name": [f"name {n}" for n in numbers], "amount": numbers / 7},
        )
        rates = []
        for turn in range(ROUNDS):
            settings = {"connection.url": url, "topics": "people", "insert.mode": "upsert", "table": f"people_{turn}"}
            rates.append(_rate(log, PostgresSink(f"out-{turn}", settings), count))
        with psycopg.connect(url) as connection:
            found = connection.execute("SELECT count(*) FROM people_0").fetchone()
            assert found == (keys,)
    return _row("upserts into PostgreSQL", rates, ">= 0.05")


def _changes(folder: Path, server: Server, peer: Debezium | None, count: int) -> Iterator[Row]:
    """Rows that are there, then changes, in one transaction and in one each."""
    url = f"postgresql://streamkit@/postgres?host={server.folder}&port={server.port}"
    few = count // 3
    single = f"DO $$ BEGIN FOR i IN 1..{few} LOOP UPDATE stock SET pieces = 0 WHERE id = i; COMMIT; END LOOP; END $$"
    with _log(folder) as log, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE stock (id bigint PRIMARY KEY, name text, pieces int, price double precision, at timestamptz)"
        )
        connection.execute(f"INSERT INTO stock SELECT n, 'name ' || n, n, n / 7.0, now() FROM generate_series(1, {count}) n")
        source = PostgresSource("changes", {"connection.url": url, "tables": "stock"})
        ours = [_rate(log, source, count)]
        theirs = [peer.snapshot_rate(count)] if peer is not None else []
        yield _row("snapshot of PostgreSQL", ours, "-", DEBEZIUM, theirs)
        for work, statement, changed in (
            ("one transaction", "UPDATE stock SET pieces = 1", count),
            ("one transaction each", single, few),
        ):
            ours, theirs = [], []
            for _ in range(ROUNDS):
                connection.execute(statement)
                ours.append(_rate(log, source.again(), changed))
                if peer is not None:
                    theirs.append(peer.rate(changed))
            yield _row(f"changes of PostgreSQL, {work}", ours, ">= 0.03", DEBEZIUM, theirs)


def _delta(folder: Path, count: int) -> Row:
    with _log(folder) as log:
        log.create_topic("rows", "id bigint NOT NULL, name string, amount double", key="id", partitions=4)
        _send(
            log,
            "rows",
            count,
            lambda numbers: {"id": numbers, "name": [f"name {n}" for n in numbers], "amount": numbers / 7},
        )
        rates = []
        for turn in range(ROUNDS):
            sink = DeltaSink(f"out-{turn}", {"path": str(folder / f"delta-{turn}"), "topics": "rows"})
            rates.append(_rate(log, sink, count))
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


def _row(work: str, rates: list[float], wanted: str, peer: str = "", theirs: list[float] | None = None) -> Row:
    """Our median beside the peer's, and the peak memory of this process; `theirs` is empty where the peer cannot be had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    against = median(theirs) if theirs else None
    said = peer if theirs or not peer else f"{peer}: absent, since {NO_KAFKA}"
    ratio = median(rates) / against if against else None
    return Row(f"{work} (peak {peak:,.0f} MiB)", median(rates), "M records/s", said, against, ratio, wanted, os.getloadavg()[0])
