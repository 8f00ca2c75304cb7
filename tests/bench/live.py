"""
From `send` to `poll`: how long a record takes through a topology to a consumer, while a producer commits every 10 ms.

    python -m tests.bench.live local|spark [records a second]        one measurement, as a line of JSON

The topology counts by user and minute, with newest results. Each result holds the largest send time among its rows, so a poll
tells how long the newest of them took. Producer, application and consumer are processes of their own.
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

import numpy as np
import pyarrow as pa

import streamkit as sk
from streamkit import functions as F
from streamkit.log.opening import open_log
from tests.bench.background_process import background_process
from tests.bench.live_kafka_streams import kafka_streams_latencies
from tests.bench.row import Row

COMMIT_SECONDS = 0.01
RECORDS_PER_SECOND = 1_000
KEYS = 1_000
WARM_UP_SECONDS = 15.0  # after the first result
MEASURED_SECONDS = 30.0
POLL_SECONDS = 1.0
WANTED_MS = {"local": (15, 50), "spark": (25, 80)}
MODULE = "tests.bench.live"


@dataclass(frozen=True)
class Latencies:
    """From `send` to `poll`, in ms; how many results were seen, and how many epochs were committed a second."""

    p50_ms: float
    p99_ms: float
    results: int
    epochs_per_second: float


def live_rows(folder: Path) -> Iterator[Row]:
    """p50 and p99 in one process and on Spark, each beside Kafka Streams in several ways."""
    peers = kafka_streams_latencies(folder, RECORDS_PER_SECOND, KEYS, WARM_UP_SECONDS, MEASURED_SECONDS)
    for engine, wanted in WANTED_MS.items():
        found = latencies(folder / f"log-live-{engine}", engine)
        for place, (name, mine) in enumerate((("p50", found.p50_ms), ("p99", found.p99_ms))):
            work, most = f"send to poll {name}, {RECORDS_PER_SECOND:,} records/s, {engine}", f"<= {wanted[place]}"
            load = os.getloadavg()[0]
            if peers is None:
                yield Row(work, mine, "ms", "Kafka Streams cannot be had", None, None, most, load)
            for peer, theirs in (peers or {}).items():
                yield Row(work, mine, "ms", f"Kafka Streams {peer}", theirs[place], mine / theirs[place], most, load)


def latencies(folder: Path, engine: str, records_per_second: int = RECORDS_PER_SECOND) -> Latencies:
    """Run the topology on a new log, and measure once it is warm."""
    with open_log(folder) as log:
        log.create_topic("payments", "user string, amount double, sent bigint", key="user", partitions=4)
    run_line, send_line = ["-m", MODULE, "run", str(folder), engine], ["-m", MODULE, "send", str(folder), str(records_per_second)]
    with background_process(run_line), background_process(send_line), open_log(folder) as log:
        while "totals" not in log.topics():
            time.sleep(0.1)
        found: list[tuple[float, np.ndarray]] = []
        with log.consumer("totals", group="live") as consumer:
            end = None
            while end is None or time.monotonic() < end:
                if (table := consumer.poll(timeout=POLL_SECONDS)) is not None:
                    found.append((time.monotonic(), (time.time_ns() - table["sent"].to_numpy()) / 1e6))
                    end = end or time.monotonic() + WARM_UP_SECONDS + MEASURED_SECONDS
        begun = end - MEASURED_SECONDS
        times = np.concatenate([times for polled, times in found if polled >= begun])
        moments = [one.timestamp_ms for one in log.catalog.epochs.last(log.catalog.applications.get("live").id)]
    rate = (len(moments) - 1) * 1_000 / (max(moments) - min(moments))
    return Latencies(float(np.percentile(times, 50)), float(np.percentile(times, 99)), len(times), rate)


def run(folder: str, engine: str) -> None:
    """Run the topology until an interrupt."""
    app = sk.Topology("live")
    windows = app.stream("payments").group_by("user").windowed_by(sk.tumbling("1 minute", grace="0 seconds"))
    windows.agg(payments=F.count("*"), total=F.sum("amount"), sent=F.max("sent")).emit("latest").to("totals")
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--master local[2] pyspark-shell")
    with open_log(folder) as log:
        sk.run(app, log=log, engine=engine, tasks=2).wait()  # type: ignore[call-overload]


def send(folder: str, records_per_second: str) -> None:
    """Send records at an even pace, a commit every 10 ms, until an interrupt."""
    random, rows = np.random.default_rng(1), max(1, round(int(records_per_second) * COMMIT_SECONDS))
    users = pa.array([f"user{number:05d}" for number in range(KEYS)])
    with open_log(folder) as log, log.producer() as producer:
        due = time.monotonic()
        while True:
            batch = {
                "user": users.take(pa.array(random.integers(0, KEYS, rows))),
                "amount": pa.array(random.random(rows)),
                "sent": pa.array(np.full(rows, time.time_ns())),
            }
            producer.send_batch("payments", pa.RecordBatch.from_pydict(batch))
            producer.flush()
            due = max(due + COMMIT_SECONDS, time.monotonic() - 1)
            time.sleep(max(0.0, due - time.monotonic()))


def main(work: str, *arguments: str) -> None:
    if work in WANTED_MS:
        folder = Path(os.environ.get("STREAMKIT_BENCH_FOLDER", "build")) / f"live-{work}-{os.getpid()}"
        print(json.dumps(asdict(latencies(folder, work, *map(int, arguments)))))
        return
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # an interrupt would be ignored where a shell began it in the background
    with suppress(KeyboardInterrupt):
        {"run": run, "send": send}[work](*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
