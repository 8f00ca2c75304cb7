"""`word_count`: lines split into words, grouped by word, counted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import streamkit as sk
from streamkit import functions as sf
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from tests.bench.rates import EPOCHS, FILES_AN_EPOCH, medians, parquet_stream, part_of, rate_row, spark_rate, streamkit_rate
from tests.bench.row import Row
from tests.bench.rows import append

LINES = 5_000_000
WORDS_A_LINE = 8
VOCABULARY = 50_000
TOPIC = "lines"
SCHEMA = "line string"


@dataclass(frozen=True)
class Lines:
    """`count` lines of eight words, the n-th most frequent of which is n times rarer than the first (Zipf)."""

    count: int
    seed: int = 7

    @property
    def name(self) -> str:
        return f"lines-{self.count}-{self.seed}"

    def batches(self) -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(self.seed)
        words = pa.array([f"w{number:05d}" for number in range(VOCABULARY)])
        shares = 1 / np.arange(1, VOCABULARY + 1)
        rows = self.count // (EPOCHS * FILES_AN_EPOCH)
        ends = pa.array(np.arange(rows + 1, dtype=np.int32) * WORDS_A_LINE)
        for _ in range(0, self.count, rows):
            numbers = random.choice(VOCABULARY, size=rows * WORDS_A_LINE, p=shares / shares.sum())
            lines = pa.ListArray.from_arrays(ends, words.take(pa.array(numbers)))
            yield pa.RecordBatch.from_pydict({"line": pc.binary_join(lines, " ")})


def word_count(session: SparkSession, folder: Path, fraction: float = 1) -> Iterator[Row]:
    """Beside Spark's RocksDB aggregation over the same lines in Parquet."""
    lines = Lines(part_of(LINES, fraction))
    root = folder / "log-word-count"
    with open_log(str(root)) as log:
        fill(log, lines)
    counted = parquet_stream(session, lines, SCHEMA, folder).select(F.explode(F.split("line", " ")).alias("word"))
    sides = medians(
        lambda name: streamkit_rate(session, topology(name), root, lines.count),
        lambda name: spark_rate(counted.groupBy("word").count(), folder, "update"),
    )
    yield rate_row(f"word count, {lines.count:,} lines", sides, "Spark over Parquet", ">= 2")
    shutil.rmtree(root)


def topology(name: str) -> sk.Topology:
    app = sk.Topology(name)
    words = app.stream(TOPIC).flat_map(sf.explode(sf.split("line", " ")).alias("word"))
    words.group_by("word").count().emit("latest").to(f"{name}-counts")
    return app


def fill(log: Log, lines: Lines) -> None:
    log.create_topic(TOPIC, SCHEMA, partitions=2)
    append(log, TOPIC, lines)
