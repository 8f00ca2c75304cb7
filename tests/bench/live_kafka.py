"""
From a record sent to Kafka to its result read from Kafka, while a producer sends 1,000 a second: values of JSON at both ends.

    python -m tests.bench.live_kafka local|spark [records a second]        one measurement, as a line of JSON; makes a broker

The topology of `live` between `sk.kafka` and `sk.kafka`. Each result holds the largest send time among its rows; a consumer of committed
records tells how long the newest of them took. Producer, application and consumer are processes of their own, as in `live`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import streamkit as sk
from streamkit import functions as F
from streamkit.log.opening import open_log
from tests.bench import kafka
from tests.bench.background_process import background_process
from tests.bench.live import COMMIT_SECONDS, KEYS, MEASURED_SECONDS, RECORDS_PER_SECOND, WARM_UP_SECONDS
from tests.bench.live_kafka_streams import kafka_streams_latencies
from tests.bench.row import Row

ENGINES = ("local", "spark")
WANTED_MS = (80, 200)
MODULE = "tests.bench.live_kafka"
IN, OUT, PARTITIONS = "live.payments", "live.totals", 4
START_SECONDS = 120.0


@dataclass(frozen=True)
class KafkaLatencies:
    """From a record to its result, in ms; how many results were seen."""

    p50_ms: float
    p99_ms: float
    results: int


def live_kafka_rows(folder: Path) -> Iterator[Row]:
    """p50 and p99 with Kafka at both ends, in one process and on Spark, beside Kafka Streams."""
    peers = kafka_streams_latencies(folder, RECORDS_PER_SECOND, KEYS, WARM_UP_SECONDS, MEASURED_SECONDS) or {}
    for engine in ENGINES:
        with kafka.broker(folder) as broker:
            if broker is None:
                return
            found = latencies(folder / f"log-live-kafka-{engine}", broker.address, engine)
        for place, (name, mine) in enumerate((("p50", found.p50_ms), ("p99", found.p99_ms))):
            work, most = f"Kafka to Kafka {name}, {RECORDS_PER_SECOND:,} records/s, {engine}", f"<= {WANTED_MS[place]}"
            load = os.getloadavg()[0]
            for peer, theirs in peers.items():
                yield Row(work, mine, "ms", f"Kafka Streams {peer}", theirs[place], mine / theirs[place], most, load)


def latencies(folder: Path, address: str, engine: str, records_per_second: int = RECORDS_PER_SECOND) -> KafkaLatencies:
    """Run the topology on new topics, and measure once it is warm."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    client: dict[str, str | int | float | bool] = {"bootstrap.servers": address}
    admin = AdminClient(client)  # its requests end with it
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (IN, OUT)]).values():
        future.result(30)
    consumer = Consumer(
        {**client, "group.id": "live", "isolation.level": "read_committed", "fetch.wait.max.ms": 100, "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(OUT, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    run_line = ["-m", MODULE, "run", str(folder), address, engine]
    found: list[tuple[float, list[float]]] = []
    with background_process(run_line), background_process(["-m", MODULE, "send", address, str(records_per_second)]):
        begun = time.monotonic()
        end = None
        while end is None or time.monotonic() < end:
            first = consumer.poll(1.0)
            if first is None:
                assert end is not None or time.monotonic() < begun + START_SECONDS, "no result came"
                continue
            messages = [first, *consumer.consume(10_000, 0)]
            now_ms = time.time_ns() / 1e6
            values = [message.value() or b"" for message in messages if message.error() is None]
            took = [now_ms - json.loads(value)["sent"] / 1e6 for value in values]
            found.append((time.monotonic(), took))
            end = end or time.monotonic() + WARM_UP_SECONDS + MEASURED_SECONDS
    consumer.close()
    times = np.concatenate([took for polled, took in found if polled >= end - MEASURED_SECONDS])
    return KafkaLatencies(float(np.percentile(times, 50)), float(np.percentile(times, 99)), len(times))


def run(folder: str, address: str, engine: str) -> None:
    """Run the topology until an interrupt."""
    app = sk.Topology("live")
    ends: dict[str, Any] = {"bootstrap_servers": address, "value_format": "json"}
    source = sk.kafka(IN, **ends)
    windows = (
        app.stream(source, schema="user string, amount double, sent bigint", key="user")
        .group_by("user")
        .windowed_by(sk.tumbling("1 minute", grace="0 seconds"))
    )
    totals = windows.agg(payments=F.count("*"), total=F.sum("amount"), sent=F.max("sent")).emit("latest")
    totals.to(sk.kafka(OUT, **ends))
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--master local[2] pyspark-shell")
    with open_log(folder) as log:
        sk.run(app, log=log, engine=engine, tasks=2).wait()  # type: ignore[call-overload]


def send(address: str, records_per_second: str) -> None:
    """Send records at an even pace until an interrupt."""
    from confluent_kafka import Producer

    random, rows = np.random.default_rng(1), max(1, round(int(records_per_second) * COMMIT_SECONDS))
    producer = Producer({"bootstrap.servers": address, "linger.ms": 1})
    due = time.monotonic()
    while True:
        for number, amount in zip(random.integers(0, KEYS, rows), random.random(rows).round(2), strict=True):
            user = f"user{number:05d}"
            value = {"user": user, "amount": float(amount), "sent": time.time_ns()}
            producer.produce(IN, json.dumps(value, separators=(",", ":")), user)
        producer.poll(0)
        due = max(due + COMMIT_SECONDS, time.monotonic() - 1)
        time.sleep(max(0.0, due - time.monotonic()))


def main(work: str, *arguments: str) -> None:
    if work in ENGINES:
        root = Path(os.environ.get("STREAMKIT_BENCH_FOLDER", "build"))
        with kafka.broker(root) as broker:
            assert broker is not None, "a broker cannot be had here"
            found = latencies(root / f"live-kafka-{work}-{os.getpid()}", broker.address, work, *map(int, arguments))
        print(json.dumps(asdict(found)))
        return
    # An interrupt would be ignored where a shell began it in the background.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        run(*arguments) if work == "run" else send(*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
