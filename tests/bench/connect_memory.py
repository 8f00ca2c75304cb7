"""`connect_memory`: the peak memory of `streamkit connect run --once`, a process of its own, over ten times the input."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
from pyarrow import csv

from streamkit.connectors import run
from streamkit.connectors.postgres import PostgresSource
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from tests.bench.memory import peak_megabytes_of
from tests.bench.row import Row, absent
from tests.kit.postgres import Server, binaries
from tests.kit.servers.kafka import start_broker

RECORDS = 5_000_000  # of the larger input
TIMES = 10
NAME = "measured"
BATCH = 100_000
WANTED = "<= 1.15"
COLUMNS = "id bigint NOT NULL, name string, amount double"
TABLE = "CREATE TABLE {} (id bigint PRIMARY KEY, name text, pieces int, price double precision, at timestamptz)"
INSERT = "INSERT INTO {} SELECT n, 'name ' || n, n, n / 7.0, now() FROM generate_series(1, {}) n"


@dataclass(frozen=True)
class Kind:
    """A connector: what it does, its class, what makes so many records for it, its configuration then; the `share` of RECORDS."""

    work: str
    connector: str
    fill: Callable[[Log, int], None]
    config: Callable[[int], Mapping[str, str]]
    share: float = 1


def connect_memory_rows(folder: Path, fraction: float = 1) -> Iterator[Row]:
    """A row for each kind."""
    broker = start_broker()
    if broker is None:
        yield absent("peak memory with Kafka", "Java, Maven or its artifacts are missing")
    else:
        try:
            yield from _rows(folder, _kafka(broker.address), fraction)
        finally:
            broker.stop()
    programs = binaries()
    if programs is None:
        yield absent("peak memory with PostgreSQL", "PostgreSQL is not installed")
    else:
        server = Server(programs)
        try:
            yield from _rows(folder, _postgres(f"postgresql://streamkit@/postgres?host={server.folder}"), fraction)
        finally:
            server.stop()
    yield from _rows(folder, _local(folder), fraction)


def _rows(folder: Path, kinds: Sequence[Kind], fraction: float) -> Iterator[Row]:
    for kind in kinds:
        large = int(RECORDS * kind.share * fraction)
        less, more = (_peak(folder, kind, count) for count in (large // TIMES, large))
        work = f"peak memory, {kind.work}, {large:,} records"
        yield Row(work, more, "MiB", f"of {large // TIMES:,}", less, more / less, WANTED, os.getloadavg()[0])


def _kafka(address: str) -> list[Kind]:
    servers = {"bootstrap.servers": address}
    return [
        Kind("log to Kafka", "KafkaSink", _send_bytes, lambda n: {**servers, "topics": "out", "kafka.topic": f"copy-{n}"}),
        Kind("Kafka to log", "KafkaSource", _nothing, lambda n: {**servers, "topic": "in", "kafka.topic": f"copy-{n}"}),
    ]  # fmt: skip


def _postgres(url: str) -> list[Kind]:
    def upserts(count: int) -> Mapping[str, str]:
        return {"connection.url": url, "topics": "out", "insert.mode": "upsert", "table": f"out_{count}"}

    def table(kind: str) -> Callable[[int], Mapping[str, str]]:
        return lambda count: {
            "connection.url": url,
            "tables": f"{kind}_{count}",
            "slot.name": f"{kind}_{count}",
        }

    def make_rows(log: Log, count: int) -> None:
        _execute(url, TABLE.format(f"rows_{count}"), INSERT.format(f"rows_{count}", count))

    def make_changes(log: Log, count: int) -> None:
        """All rows come after the connector's first look, which finds none: so they are changes."""
        _execute(url, TABLE.format(f"changes_{count}"))
        run([PostgresSource(f"{NAME}_{count}", table("changes")(count))], log, once=True)
        _execute(url, INSERT.format(f"changes_{count}", count))

    return [
        Kind("upserts into PostgreSQL", "PostgresSink", _send_people, upserts),
        Kind("snapshot of PostgreSQL", "PostgresSource", make_rows, table("rows"), 0.4),
        Kind("changes of PostgreSQL, one transaction", "PostgresSource", make_changes, table("changes"), 0.4),
    ]


def _local(folder: Path) -> list[Kind]:
    def make_file(log: Log, count: int) -> None:
        with csv.CSVWriter(folder / f"people-{count}.csv", _people(np.arange(0)).schema) as writer:
            for numbers in _batches(count):
                writer.write_table(_people(numbers))

    return [
        Kind("append to Delta Lake", "DeltaSink", _send_people, lambda n: {"topics": "out", "path": str(folder / f"delta-{n}")}, 6),
        Kind("CSV file to log", "FileSource", make_file, lambda n: {"topic": "in", "path": str(folder / f"people-{n}.csv")}),
    ]  # fmt: skip


def _peak(folder: Path, kind: Kind, count: int) -> float:
    """Peak memory of the connector's process; AssertionError unless it moves all records."""
    place, file, said = (folder / f"connect-memory{suffix}" for suffix in ("", ".json", ".txt"))
    with open_log(place) as log:
        kind.fill(log, count)
    file.write_text(
        json.dumps({"name": f"{NAME}_{count}", "config": {"connector.class": kind.connector, **kind.config(count)}}),
        encoding="utf-8",
    )
    peak = peak_megabytes_of(said, "streamkit.cli", "connect", "run", str(file), "--once", "--json", "--log", str(place))
    shutil.rmtree(place)
    assert f'"rows": {count}' in said.read_text(encoding="utf-8"), said.read_text(encoding="utf-8")
    return peak


def _send_bytes(log: Log, count: int) -> None:
    content = os.urandom(90)
    log.create_topic("out", format="bytes", partitions=4)
    _send(log, count, lambda numbers: pa.table({"key": [b"%010d" % n for n in numbers], "value": [content] * len(numbers)}))


def _send_people(log: Log, count: int) -> None:
    log.create_topic("out", COLUMNS, key="id", partitions=4)
    _send(log, count, _people)


def _send(log: Log, count: int, rows: Callable[[np.ndarray], pa.Table]) -> None:
    with log.producer() as producer:
        for numbers in _batches(count):
            producer.send_batch("out", rows(numbers))


def _people(numbers: np.ndarray) -> pa.Table:
    names = pa.array([f"name {n}" for n in numbers], pa.string())
    return pa.table({"id": numbers, "name": names, "amount": numbers / 7})


def _batches(count: int) -> Iterator[np.ndarray]:
    return (np.arange(start, min(count, start + BATCH)) for start in range(0, count, BATCH))


def _nothing(log: Log, count: int) -> None:
    """What the connector reads is there already."""


def _execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)
