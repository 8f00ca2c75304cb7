"""
What a record costs on its way out to Kafka: processor time of the process, by whole batches and in turn by single messages.

    python -m tests.bench.kafka_sink [records]        a line for each kind of records; makes a broker

A task writes a topic of the log once, in transactions of 65,536 records; to read them from the log and to spell their columns as JSON counts.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from streamkit.connectors.kafka import KafkaSink
from streamkit.connectors.runtime.sink_task import SinkTask
from streamkit.connectors.runtime.task import Orders
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from tests.bench.row import Row, absent
from tests.kit.servers.kafka import Broker, start_broker

RECORDS, PARTITIONS, TURNS, STEP = 1_000_000, 4, 3, 100_000
BY_MESSAGE = {"kafka.client.rack": "here"}  # the batch client does not know it
NAMES = itertools.count()


@dataclass(frozen=True)
class SinkKind:
    """Records of one kind: the columns of their topic, None for bytes, how many bytes a value has, and what is wanted, in µs a record."""

    name: str
    columns: str | None
    bytes: int
    wanted: str


JSON = "user string, amount double, sent bigint, note string"
KINDS = (
    SinkKind("bytes of 50", None, 50, "<= 0.9"),
    SinkKind("JSON of 50 bytes", JSON, 50, "<= 1.6"),
    SinkKind("JSON of 200 bytes", JSON, 200, "-"),
)


def kafka_sink_rows(folder: Path, fraction: float = 1) -> Iterator[Row]:
    """µs a record, by batches beside by messages."""
    count = int(RECORDS * fraction)
    with _broker() as broker, TemporaryDirectory(dir=folder) as root, open_log(root) as log:
        if broker is None:
            yield absent("records to Kafka", "Java, Maven or its artifacts are missing")
            return
        for kind in KINDS:
            topic = f"values-{next(NAMES)}"
            _fill(log, topic, kind, count)
            pairs = [[_microseconds(log, broker, topic, count, way) for way in ({}, BY_MESSAGE)] for _ in range(TURNS)]
            mine, theirs = (median(side) for side in zip(*pairs, strict=True))
            work = f"to Kafka, {kind.name}"
            yield Row(work, mine, "µs", "message by message", theirs, mine / theirs, kind.wanted, os.getloadavg()[0])


def _microseconds(log: Log, broker: Broker, topic: str, count: int, way: dict[str, str]) -> float:
    """Processor time of a record, with the start of the task."""
    name = f"{topic}-{next(NAMES)}"
    sink = KafkaSink(name, {"bootstrap.servers": broker.address, "kafka.topic": name, "topics": topic, **way})
    began = time.process_time()
    SinkTask(sink, 0, 1, log, is_once=True).run(Orders())
    return (time.process_time() - began) / count * 1e6


def _fill(log: Log, topic: str, kind: SinkKind, count: int) -> None:
    """Records with keys of six bytes."""
    if kind.columns is None:
        log.create_topic(topic, format="bytes", partitions=PARTITIONS)
    else:
        log.create_topic(topic, kind.columns, key="user", partitions=PARTITIONS)
    random = np.random.default_rng(1)
    with log.producer() as producer:
        for begin in range(0, count, STEP):
            numbers = np.arange(begin, min(begin + STEP, count))
            users = pa.array([f"{number % 1_000:06}" for number in numbers.tolist()])
            if kind.columns is None:
                data = random.bytes(kind.bytes * len(numbers))
                values = pa.FixedSizeBinaryArray.from_buffers(pa.binary(kind.bytes), len(numbers), [None, pa.py_buffer(data)])
                rows = pa.table({"key": users.cast(pa.binary()), "value": values.cast(pa.binary())})
            else:
                size = max(0, kind.bytes - len('{"user":"000000","amount":12500.5,"sent":100000,"note":""}'))
                notes = pa.array(["x" * size if size else None] * len(numbers), pa.string())
                rows = pa.table({"user": users, "amount": numbers / 8, "sent": numbers, "note": notes})
            producer.send_batch(topic, rows)


@contextmanager
def _broker() -> Iterator[Broker | None]:
    broker = start_broker()
    try:
        yield broker
    finally:
        if broker is not None:
            broker.stop()


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        for row in kafka_sink_rows(Path(place), int(sys.argv[1]) / RECORDS if len(sys.argv) > 1 else 1):
            print(f"{row.work}: {row.value:.2f} µs; {row.against} {row.against_value:.2f}; wanted {row.wanted}")
