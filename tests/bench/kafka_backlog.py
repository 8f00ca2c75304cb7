"""
Records that wait in Kafka, counted by user and minute into Kafka, exactly once: values of JSON at both ends, beside Kafka Streams.

    python -m tests.bench.kafka_backlog local|spark|streams [fraction]        one side, as lines of JSON; makes a broker

The topic is filled once. Each side is a process of its own, which begins with nothing. It is measured from its start until a consumer of
committed records has seen results that account for all records: the newest counts of all users and minutes add up to their number.
The lines also have the processor time that a record took in each process.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, final

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc

import streamkit as sk
from streamkit import functions as F
from streamkit.connectors.kafka import KafkaSource
from streamkit.connectors.runtime.converters import decoder_of_source
from streamkit.log.opening import open_log
from tests.bench import kafka
from tests.bench.background_process import background_program
from tests.bench.kafka_streams import APPLICATION_HEAP
from tests.bench.live_kafka_streams import EXACTLY_ONCE
from tests.bench.maven import compile_java
from tests.bench.row import Row, absent
from tests.kit.kill_tree import family

MODULE = "tests.bench.kafka_backlog"
SOURCE = Path(__file__).with_name("BacklogCount.java")
ENGINES = ("local", "spark")
STREAMS = "streams"
RECORDS, USERS, PARTITIONS = 5_000_000, 10_000, 4
MINUTES, DISORDER_MS = 10, 2_000  # event times lie in so many minutes, in their order but for so much
WANTED = ">= 5"
IN = "backlog.payments"
STEP = 100_000  # records that are made together
LOOK_SECONDS = 0.1  # between two polls of the consumer, which shares the processors with what is measured
RUN_SECONDS = 900.0
LARGE_BATCHES = (
    "producer.batch.size=262144",
    "consumer.max.poll.records=10000",
    "buffered.records.per.partition=10000",
    "consumer.max.partition.fetch.bytes=4194304",
    "transaction.timeout.ms=60000",
)
LARGE_CACHE = "statestore.cache.max.bytes=268435456"
VARIANTS = {  # of Kafka Streams; the fastest stands beside ours
    "a large cache, commits every second": (EXACTLY_ONCE, *LARGE_BATCHES, LARGE_CACHE, "commit.interval.ms=1000"),
    "a large cache": (EXACTLY_ONCE, *LARGE_BATCHES, LARGE_CACHE),
    "no cache": (EXACTLY_ONCE, *LARGE_BATCHES, "statestore.cache.max.bytes=0"),
}
RESULT = {"value.format": "json", "value.schema": "user string, window_start string, payments bigint", "key": "user"}


@dataclass(frozen=True)
class Backlog:
    """
    How long a side took for all records, in seconds from its start, and how many results it gave.

    The first results came after `first_seconds`, and accounted for `first_records`. `microseconds` are those of processor time a record,
    by the part that took them.
    """

    records: int
    seconds: float
    first_seconds: float
    first_records: int
    results: int
    microseconds: dict[str, float]

    @property
    def rate(self) -> float:
        """M records a second, with the start."""
        return self.records / self.seconds / 1e6

    @property
    def steady_rate(self) -> float | None:
        """M records a second from the first results on; None if they account for all."""
        rest = self.records - self.first_records
        return rest / (self.seconds - self.first_seconds) / 1e6 if rest else None


class NewestCounts:
    """The newest count of each user and window, by results as they come."""

    def __init__(self) -> None:
        self._windows: dict[str, int] = {}
        self._counts = np.zeros((MINUTES + 2, USERS), np.int64)

    def take(self, results: pa.Table) -> None:
        """Of several results of a user and window the last one counts."""
        starts = pc.dictionary_encode(results["window_start"].combine_chunks())
        numbers = [self._windows.setdefault(text, len(self._windows)) for text in starts.dictionary.to_pylist()]
        windows = np.array(numbers, np.int64)[starts.indices.to_numpy()]
        users = pc.utf8_slice_codeunits(results["user"], len("user")).cast(pa.int64()).to_numpy()
        self._counts[windows, users] = results["payments"].to_numpy()

    @property
    def records(self) -> int:
        """How many records the results account for."""
        return int(self._counts.sum())


@final
class Results:
    """Committed results of a topic of Kafka as they come, read by whole batches, since the reader shares the processors with what is measured."""

    def __init__(self, folder: Path, address: str, topic: str) -> None:
        place = {"bootstrap.servers": address, "kafka.topic": topic, "topic": "results"}
        self.counts = NewestCounts()
        self.count = 0
        self._source = KafkaSource("results", {**place, **RESULT})
        self._log = open_log(folder)
        self._decoder = decoder_of_source(self._source, self._log)

    def __enter__(self) -> Results:
        self._source.open(dict.fromkeys(self._source.splits()))
        return self

    def __exit__(self, *error: object) -> None:
        self._source.close()
        self._log.close()

    def take(self) -> None:
        """Count what has come; waits for a moment where nothing has."""
        assert self._decoder is not None
        polled = self._source.poll(1.0)
        for name, rows in polled.tables.items() if polled is not None else ():
            assert isinstance(rows, pa.Table)
            (results,) = dict(self._decoder.run(name, rows)).values()
            self.counts.take(results)
            self.count += results.num_rows


def kafka_backlog_rows(folder: Path, fraction: float = 1) -> Iterator[Row]:
    """M records a second in one process and on Spark, with the start and without, beside Kafka Streams."""
    records = max(1, round(RECORDS * fraction))
    work = f"Kafka to Kafka, {records:,} records that wait"
    with kafka.broker(folder) as broker:
        if broker is None or shutil.which("javac") is None:
            yield absent(work, "Java, its compiler, Maven or its artifacts are missing")
            return
        fill(broker.address, records)
        peer, theirs = max(streams_backlogs(folder, broker, records).items(), key=lambda item: item[1].rate)
        for engine in ENGINES:
            mine, load = backlog(folder, broker.address, engine, records), os.getloadavg()[0]
            against = f"Kafka Streams exactly once, tuned, {peer}"
            yield Row(f"{work}, {engine}", mine.rate, "M records/s", against, theirs.rate, mine.rate / theirs.rate, WANTED, load)
            if mine.steady_rate and theirs.steady_rate:
                ratio = mine.steady_rate / theirs.steady_rate
                title = f"{work}, {engine}, from the first result on"
                yield Row(title, mine.steady_rate, "M records/s", against, theirs.steady_rate, ratio, "-", load)


def backlog(folder: Path, address: str, engine: str, records: int) -> Backlog:
    """Ours on an engine."""
    log, topic = folder / f"log-kafka-backlog-{engine}", f"backlog.totals.{engine}"
    shutil.rmtree(log, ignore_errors=True)
    line = [sys.executable, "-m", MODULE, "run", str(log), address, engine, topic]
    try:
        return _measured(folder, address, topic, line, records)
    finally:
        shutil.rmtree(log, ignore_errors=True)


def streams_backlogs(folder: Path, broker: kafka.Kafka, records: int) -> dict[str, Backlog]:
    """Kafka Streams in each way."""
    classes, found = folder / "kafka-backlog", {}
    compile_java([SOURCE], broker.jars, classes)
    for number, (name, settings) in enumerate(VARIANTS.items()):
        topic, state = f"backlog.totals.streams-{number}", classes / f"backlog-{number}"
        place = [broker.address, IN, topic, str(state)]
        line = ["java", *APPLICATION_HEAP, "-cp", f"{classes}:{broker.jars}/*", SOURCE.stem, *place, *settings]
        found[name] = _measured(folder, broker.address, topic, line, records)
    shutil.rmtree(classes)
    return found


def _measured(folder: Path, address: str, topic: str, line: Sequence[str], records: int) -> Backlog:
    """Start a side, which writes to a new topic, and wait until its results account for all records."""
    _create(address, topic)
    with TemporaryDirectory(dir=folder) as root, Results(Path(root), address, topic) as results, TemporaryFile("w+") as said:
        others = _processor_seconds_of_others()
        begun, first = time.monotonic(), None
        with background_program(line, stdout=said, stderr=said) as started:
            while results.counts.records < records:
                time.sleep(LOOK_SECONDS)
                results.take()
                seconds, accounted = time.monotonic() - begun, results.counts.records
                first = first or (accounted and (seconds, accounted)) or None
                if started.poll() is not None or seconds > RUN_SECONDS:
                    said.seek(0)
                    raise AssertionError(
                        f"results account for {accounted:,} of {records:,} records; the side said: {said.read()[-4000:]}"
                    )
            took = processor_seconds(started.pid)
            took |= {name: value - others[name] for name, value in _processor_seconds_of_others().items()}
    assert accounted == records, f"results account for {accounted:,} records; there are {records:,}"
    assert first is not None
    return Backlog(records, seconds, *first, results.count, {name: value / records * 1e6 for name, value in took.items()})


def processor_seconds(pid: int) -> dict[str, float]:
    """Processor time of a side's processes so far, by what each is for."""
    found: dict[str, float] = {}
    workers = iter(("source", "sink"))  # in the order of their starts
    for process in sorted(family(pid), key=psutil.Process.create_time):
        with suppress(psutil.NoSuchProcess):
            line = " ".join(process.cmdline())
            if "runtime.worker_process" in line:
                name = next(workers, "more connectors")
            elif "maintenance_process" in line:
                name = "maintenance"
            elif process.name() == "java":
                name = "JVM"
            else:
                name = "workers of Spark" if "pyspark.daemon" in line else "engine"
            times = process.cpu_times()
            found[name] = found.get(name, 0.0) + times.user + times.system
    return found


def _processor_seconds_of_others() -> dict[str, float]:
    """Processor time so far of the broker, and of the consumer, which is this process."""
    brokers = [child for child in psutil.Process().children() if "kafka.Kafka" in child.cmdline()]
    times = [broker.cpu_times() for broker in brokers]
    return {"broker": sum(one.user + one.system for one in times), "consumer": time.process_time()}


def fill(address: str, records: int) -> None:
    """Make the topic that all sides read, with the records; event times end about now, so that nothing is too old to be kept."""
    from confluent_kafka import Producer

    _create(address, IN)
    begin_ms = (int(time.time()) // 60 - MINUTES) * 60_000
    random = np.random.default_rng(1)
    names = [f"user{number:05d}" for number in range(USERS)]
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, "batch.size": 1_000_000, "acks": "all"})
    for first in range(0, records, STEP):
        numbers = np.arange(first, min(first + STEP, records))
        late = random.integers(0, DISORDER_MS, len(numbers))
        times = begin_ms + np.maximum(numbers * (MINUTES * 60_000) // records - late, 0)
        users, amounts = random.integers(0, USERS, len(numbers)), random.integers(100, 10_000, len(numbers))
        for user, amount, sent in zip(users.tolist(), amounts.tolist(), times.tolist(), strict=True):
            name = names[user]
            value = f'{{"user":"{name}","amount":{amount},"sent":{sent}}}'
            while True:
                try:
                    producer.produce(IN, value, name, timestamp=sent)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(60) == 0


def _create(address: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": address})  # its requests end with it
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)


def run(folder: str, address: str, engine: str, topic: str) -> None:
    """Run the topology until an interrupt."""
    app = sk.Topology("backlog")
    ends: dict[str, Any] = {"bootstrap_servers": address, "value_format": "json"}
    payments = app.stream(sk.kafka(IN, **ends), schema="user string, amount bigint, sent bigint", key="user")
    windows = payments.group_by("user").windowed_by(sk.tumbling("1 minute", grace=f"{MINUTES} minutes"))
    windows.agg(payments=F.count("*"), total=F.sum("amount")).emit("latest").to(sk.kafka(topic, **ends))
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--master local[2] pyspark-shell")
    with open_log(folder) as log:
        sk.run(app, log=log, engine=engine, tasks=2).wait()  # type: ignore[call-overload]


def main(work: str, *arguments: str) -> None:
    if work == "run":
        # An interrupt would be ignored where a shell began it in the background.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            run(*arguments)
        return
    records = max(1, round(RECORDS * float(arguments[0]))) if arguments else RECORDS
    root = Path(os.environ.get("STREAMKIT_BENCH_FOLDER", "build"))
    with kafka.broker(root) as broker:
        assert broker is not None, "a broker cannot be had here"
        fill(broker.address, records)
        if work == STREAMS:
            found = streams_backlogs(root, broker, records)
        else:
            found = {work: backlog(root, broker.address, work, records)}
    for name, one in found.items():
        print(json.dumps({"side": name, "rate": one.rate, "steady_rate": one.steady_rate, **asdict(one)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
