"""
The log alone: append, read, open, seek. Records of 100 bytes, four partitions, checksums on, every append durable before it is acknowledged.

    python -m tests.bench.log append|append-lz4|rows|read RECORDS FOLDER     one of them in a process of its own; prints its peak memory, bytes
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.log.log import Log
from streamkit.log.opening import open_log

SCHEMA = "user string, id bigint, amount double, payload string"  # 12 + 8 + 8 + 64 bytes, and 8 of event time
RECORD_BYTES = 100
PARTITIONS = 4
BATCH_ROWS = 100_000
BATCHES = 20  # different ones, sent again and again
RAW_BYTES = 64 << 20  # of each file of the raw disk's rate, as large as a slab
TOPICS = 1_000
SEEKS = 51


def batches(records: int) -> Iterator[pa.RecordBatch]:
    """Records of users at random, with ids that count."""
    random = np.random.default_rng(1)
    users = pa.array([f"user{number:08d}" for number in range(100_000)])
    payloads = pa.array([f"{number:016x}" * 4 for number in random.integers(0, 1 << 60, 50_000)])
    made = [
        pa.RecordBatch.from_pydict(
            {
                "user": users.take(pa.array(random.integers(0, len(users), BATCH_ROWS))),
                "id": pa.array(np.arange(start, start + BATCH_ROWS)),
                "amount": pa.array(random.random(BATCH_ROWS)),
                "payload": payloads.take(pa.array(random.integers(0, len(payloads), BATCH_ROWS))),
            }
        )
        for start in range(0, BATCHES * BATCH_ROWS, BATCH_ROWS)
    ]
    return islice(cycle(made), records // BATCH_ROWS)


def raw_rate(folder: Path, records: int) -> float:
    """Records a second whose bytes alone are written to new files and synced."""
    data = os.urandom(1 << 20) * (RAW_BYTES >> 20)
    files = [folder / f"raw-{number}" for number in range(max(1, records * RECORD_BYTES // RAW_BYTES))]
    begun = time.perf_counter()
    for file in files:
        with file.open("wb", buffering=0) as output:
            output.write(data)
            os.fsync(output.fileno())
    seconds = time.perf_counter() - begun
    for file in files:
        file.unlink()
    return len(files) * RAW_BYTES / RECORD_BYTES / seconds


def append_rate(log: Log, topic: str, records: int, partitions: int = PARTITIONS, compression: str = "none") -> float:
    """Records a second from Arrow into a new topic."""
    log.create_topic(topic, SCHEMA, key="user", partitions=partitions, config={"compression.type": compression})
    made = list(batches(records))
    begun = time.perf_counter()
    with log.producer() as producer:
        for batch in made:
            producer.send_batch(topic, batch)
    return records / (time.perf_counter() - begun)


def rows_rate(log: Log, topic: str, records: int) -> float:
    """Records a second that are sent one by one as Python dicts."""
    log.create_topic(topic, SCHEMA, key="user", partitions=PARTITIONS)
    rows = [row for batch in batches(records) for row in batch.to_pylist()]
    begun = time.perf_counter()
    _send(log, topic, rows)
    return records / (time.perf_counter() - begun)


def _send(log: Log, topic: str, rows: Iterable[dict[str, Any]]) -> None:
    with log.producer() as producer:
        for row in rows:
            producer.send(topic, row)


def read_rate(log: Log, topic: str) -> float:
    """Records a second that `scan` gives."""
    begun = time.perf_counter()
    rows = sum(batch.num_rows for batch in log.scan(topic))
    return float(rows / (time.perf_counter() - begun))


def open_milliseconds(folder: Path) -> float:
    """How long it takes to open a log of a thousand topics and to list them."""
    root = folder / "topics"
    if not root.exists():
        with open_log(root) as log:
            for number in range(TOPICS):
                log.create_topic(f"topic-{number}", SCHEMA, key="user", partitions=PARTITIONS)

    def work() -> None:
        with open_log(root) as log:
            assert len(log.topics()) == TOPICS

    return milliseconds(work, 5)


def seek_milliseconds(log: Log, topic: str) -> tuple[float, float]:
    """How long it takes until the first records at an offset and at an event time are there, anywhere in a partition."""
    random = np.random.default_rng(3)
    end = log.end_offsets(topic)[0]
    times = [next(log.scan(topic, start=start)).column("_timestamp")[0].as_py() for start in (0, end - 1)]
    offsets = iter(random.integers(0, end, SEEKS).tolist())
    moments = iter([times[0] + (times[1] - times[0]) * share for share in random.random(SEEKS).tolist()])
    return (
        milliseconds(lambda: next(log.scan(topic, start=next(offsets))), SEEKS),
        milliseconds(lambda: next(log.scan(topic, start_time=next(moments))), SEEKS),
    )


def milliseconds(work: Callable[[], object], count: int) -> float:
    """The median duration of a piece of work."""
    durations = []
    for _ in range(count):
        begun = time.perf_counter()
        work()
        durations.append(time.perf_counter() - begun)
    return median(durations) * 1_000


def peak_megabytes(work: str, records: int, folder: Path) -> float:
    """The peak memory of a process that appends or reads so many records."""
    command = [sys.executable, "-m", "tests.bench.log", work, str(records), str(folder)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / (1 << 20)


def _run(work: str, records: int, folder: Path) -> None:
    root = folder / f"memory-{records}"
    with open_log(root) as log:
        if work == "read":
            assert sum(batch.num_rows for batch in log.scan("t")) == records
        else:
            _fill(log, work, records)
    if work in ("read", "rows"):
        shutil.rmtree(root)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    print(int(re.findall(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)[0]) * 1024)  # ru_maxrss has the parent's peak in it


def _fill(log: Log, work: str, records: int) -> None:
    compression = "lz4" if work == "append-lz4" else "none"
    log.create_topic("t", SCHEMA, key="user", partitions=PARTITIONS, config={"compression.type": compression})
    if work == "rows":
        _send(log, "t", (row for batch in batches(records) for row in batch.to_pylist()))
        return
    with log.producer() as producer:
        for batch in batches(records):
            producer.send_batch("t", batch)


if __name__ == "__main__":
    _run(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
