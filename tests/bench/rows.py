"""The rows of the benchmark: made once, written to the log and, as the same rows, to Parquet files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streamkit.log.log import Log
from streamkit.log.opening import open_log

BATCH_ROWS = 250_000
TOPIC = "payments"
SCHEMA = "user string, amount double, ts timestamp"


class Data(Protocol):
    """Rows that are made again alike, in batches; the name says which they are."""

    @property
    def name(self) -> str: ...

    def batches(self) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True)
class Rows:
    """`count` payments of `keys` users, `batch_rows` in a batch and a file; event times spread evenly over `seconds`, in order."""

    count: int
    keys: int = 100_000
    seconds: int = 600
    seed: int = 1
    batch_rows: int = BATCH_ROWS
    first_second: int = 0  # since 1970

    @property
    def name(self) -> str:
        return f"{self.count}-{self.keys}-{self.seconds}-{self.seed}-{self.batch_rows}-{self.first_second}"

    def batches(self) -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(self.seed)
        users = pa.array([f"user{number:07d}" for number in range(self.keys)])
        for start in range(0, self.count, self.batch_rows):
            rows = min(self.batch_rows, self.count - start)
            micros = self.first_second * 1_000_000 + (
                np.arange(start, start + rows) * (self.seconds * 1_000_000 / self.count)
            ).astype(np.int64)
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


def fill(log: Log, rows: Rows, partitions: int, topic: str = TOPIC) -> None:
    log.create_topic(topic, SCHEMA, key="user", timestamp="ts", partitions=partitions)
    append(log, topic, rows)


def append(log: Log, topic: str, rows: Data) -> None:
    """Append the rows, a commit for each batch."""
    with log.producer() as producer:
        for batch in rows.batches():
            producer.send_batch(topic, batch)
            producer.flush()


def parquet_of(rows: Data, folder: Path) -> Path:
    """A folder with the rows in Parquet files, one for each batch, which Spark reads in their order; made once per folder."""
    root = folder / f"parquet-{rows.name}"
    if not (root / "_SUCCESS").exists():
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        for number, batch in enumerate(rows.batches()):
            file = root / f"part-{number:05d}.parquet"
            pq.write_table(pa.Table.from_batches([batch]), file)
            os.utime(file, (number, number))  # Spark goes by the time of change
        (root / "_SUCCESS").touch()
    return root
