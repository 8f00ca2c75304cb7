"""
What a record of Kafka costs on its way in: processor time of the process, by whole batches and in turn by single messages.

    python -m tests.bench.kafka_source [records]        a line for each kind of records; makes a broker

A source is polled until it is at the end; values of JSON are also made columns. Threads of a client count, the log does not.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pyarrow as pa

from streamkit.connectors.kafka import KafkaSource
from streamkit.connectors.runtime.converters import decoder_of_source
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from tests.bench.row import Row, absent
from tests.kit.servers.kafka import Broker, start_broker

RECORDS, PARTITIONS, TURNS = 1_000_000, 4, 3
BY_MESSAGE = {"kafka.client.rack": "here"}  # the batch client does not know it


@dataclass(frozen=True)
class Kind:
    """Records of one kind: the settings by which they are read, how many bytes a value has, and what is wanted, in µs a record."""

    name: str
    bytes: int
    settings: dict[str, str]
    wanted: str


JSON = {"value.format": "json", "value.schema": "user string, amount double, sent bigint, note string", "key": "user"}
KINDS = (
    Kind("bytes of 50", 50, {}, "<= 0.8"),
    Kind("JSON of 50 bytes", 50, JSON, "<= 1.6"),
    Kind("JSON of 200 bytes", 200, JSON, "-"),
)


def kafka_source_rows(folder: Path, fraction: float = 1) -> Iterator[Row]:
    """µs a record, by batches beside by messages."""
    with _broker() as broker:
        if broker is None:
            yield absent("records of Kafka", "Java, Maven or its artifacts are missing")
            return
        count = int(RECORDS * fraction)
        for size in dict.fromkeys(kind.bytes for kind in KINDS):
            _fill(broker, f"values-{size}", size, count)
        with TemporaryDirectory(dir=folder) as root, open_log(root) as log:
            for kind in KINDS:
                pairs = [[_microseconds(log, broker, kind, count, way) for way in ({}, BY_MESSAGE)] for _ in range(TURNS)]
                mine, theirs = (median(side) for side in zip(*pairs, strict=True))
                work = f"from Kafka, {kind.name}"
                yield Row(work, mine, "µs", "message by message", theirs, mine / theirs, kind.wanted, os.getloadavg()[0])


def _microseconds(log: Log, broker: Broker, kind: Kind, count: int, way: dict[str, str]) -> float:
    """Processor time of a record, from the first poll to the last record."""
    place = {"bootstrap.servers": broker.address, "kafka.topic": f"values-{kind.bytes}", "topic": "rows"}
    source = KafkaSource("in", {**place, **kind.settings, **way})
    decoder = decoder_of_source(source, log)
    found = 0
    with closing(source):
        source.open(dict.fromkeys(source.splits()))
        began = time.process_time()
        while found < count:
            polled = source.poll(10.0)
            for name, rows in polled.tables.items() if polled is not None else ():
                assert isinstance(rows, pa.Table)
                found += rows.num_rows
                if decoder is not None:
                    decoder.run(name, rows)
        return (time.process_time() - began) / count * 1e6


def _fill(broker: Broker, topic: str, size: int, count: int) -> None:
    """Objects of JSON of so many bytes, with keys of 6."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": broker.address})  # its requests end with it
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 20, "batch.size": 1_000_000})
    for number in range(count):
        user = f"{number % 1_000:06}"
        value = json.dumps({"user": user, "amount": number / 8, "sent": number}, separators=(",", ":"))
        if len(value) + 10 < size:
            value = f'{value[:-1]},"note":"{"x" * (size - len(value) - 10)}"}}'
        while True:
            try:
                producer.produce(topic, value, user)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


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
        for row in kafka_source_rows(Path(place), int(sys.argv[1]) / RECORDS if len(sys.argv) > 1 else 1):
            print(f"{row.work}: {row.value:.2f} µs; {row.against} {row.against_value}; wanted {row.wanted}")
