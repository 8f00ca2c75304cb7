"""The rows of the benchmark: made once, written to the log and, as the same rows, to Parquet files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streamkit.log.log import Log
from streamkit.log.opening import open_log

BATCH_ROWS = 250_000
TOPIC = "payments"
SCHEMA = "user string, amount double, ts timestamp"


@dataclass(frozen=True)
class Rows:
    """`count` payments of `keys` users, their event times spread evenly over `seconds`, in order."""

    count: int
    keys: int = 100_000
    seconds: int = 600
    seed: int = 1

    @property
    def name(self) -> str:
        return f"{self.count}-{self.keys}-{self.seconds}"

    def batches(self) -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(self.seed)
        users = pa.array([f"user{number:07d}" for number in range(self.keys)])
        for start in range(0, self.count, BATCH_ROWS):
            rows = min(BATCH_ROWS, self.count - start)
            micros = (np.arange(start, start + rows) * (self.seconds * 1_000_000 / self.count)).astype(np.int64)
            yield pa.RecordBatch.from_pydict(
                {
                    "user": users.take(pa.array(random.integers(0, self.keys, rows))),
                    "amount": pa.array(random.random(rows) * 100),
                    "ts": pa.array(micros, pa.timestamp("us", tz="UTC")),
                }
            )


def log_of(rows: Rows, folder: Path, partitions: int = 2) -> Path:
    """A log with the rows in one topic, keyed by user; made once per folder."""
    root = folder / f"log-{rows.name}"
    if not (root / "complete").exists():
        shutil.rmtree(root, ignore_errors=True)
        with open_log(str(root)) as log:
            fill(log, rows, partitions)
        (root / "complete").touch()
    return root


def fill(log: Log, rows: Rows, partitions: int) -> None:
    log.create_topic(TOPIC, SCHEMA, key="user", timestamp="ts", partitions=partitions)
    with log.producer() as producer:
        for batch in rows.batches():
            producer.send_batch(TOPIC, batch)
            producer.flush()


def parquet_of(rows: Rows, folder: Path) -> Path:
    """A folder with the rows in Parquet files of `BATCH_ROWS` each; made once per folder."""
    root = folder / f"parquet-{rows.name}"
    if not (root / "_SUCCESS").exists():
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        for number, batch in enumerate(rows.batches()):
            pq.write_table(pa.Table.from_batches([batch]), root / f"part-{number:05d}.parquet")
        (root / "_SUCCESS").touch()
    return root
