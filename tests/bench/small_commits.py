"""`send` and `flush` of ten rows into four partitions, beside an fdatasync of as many bytes on the same disk."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from streamkit.log.opening import open_log
from tests.bench.row import Row

ROWS = 10
COMMIT_BYTES = 600  # what a transaction of so few rows writes, about
WARM_UP_TURNS = 200
TURNS = 1_000


def small_commit_rows(folder: Path) -> Iterator[Row]:
    """The medians in ms, measured in turn; the figure that is wanted is what a commit takes beyond its fdatasync."""
    root, file = folder / "log-small-commits", folder / "small-commits"
    random = np.random.default_rng(1)
    users = pa.array([f"user{number:05d}" for number in random.integers(0, 1_000, ROWS)])
    batch = pa.record_batch({"user": users, "amount": random.random(ROWS), "sent": random.integers(0, 10**9, ROWS)})
    with open_log(root) as log, file.open("wb", buffering=0) as beside:
        log.create_topic("payments", "user string, amount double, sent bigint", key="user", partitions=4)
        with log.producer() as producer:

            def commit() -> None:
                producer.send_batch("payments", batch)
                producer.flush()

            def sync() -> None:
                beside.write(bytes(COMMIT_BYTES))
                os.fdatasync(beside.fileno())

            for _ in range(WARM_UP_TURNS):
                commit()
            ours, theirs = zip(*((_timed(commit), _timed(sync)) for _ in range(TURNS)), strict=True)
    shutil.rmtree(root)
    file.unlink()
    mine, synced = median(ours) * 1000, median(theirs) * 1000
    yield Row(
        "send and flush of ten rows, beyond an fdatasync", mine - synced, "ms", "", None, None, "<= 0.5", os.getloadavg()[0]
    )
    yield Row("send and flush of ten rows", mine, "ms", "an fdatasync", synced, mine / synced, "-", os.getloadavg()[0])


def _timed(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
