"""`stream_join`: two streams meet, 5 seconds around."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import streamkit as sk
from streamkit.log.opening import open_log
from tests.bench.rates import EPOCHS, FILES_AN_EPOCH, medians, parquet_stream, part_of, rate_row, spark_rate, streamkit_rate
from tests.bench.row import Row
from tests.bench.rows import SCHEMA, Rows, fill

RECORDS = 2_000_000  # of each side
SECONDS = 600
AROUND = "5 seconds"
LATE = "10 seconds"  # grace, and Spark's watermark
SIDES = ("left", "right")


def stream_join(session: SparkSession, folder: Path, fraction: float = 1) -> Iterator[Row]:
    """Beside Spark's join of the same records. Fewer records are of less time, so that as many meet."""
    count = part_of(RECORDS, fraction)
    rows = [_rows(count, fraction, seed) for seed in (1, 2)]
    root = folder / "log-stream-join"
    with open_log(str(root)) as log:
        for topic, side in zip(SIDES, rows, strict=True):
            fill(log, side, partitions=2, topic=topic)
    left, right = (_named(parquet_stream(session, side, SCHEMA, folder), name) for side, name in zip(rows, SIDES, strict=True))
    near = f"left_user = right_user AND right_ts BETWEEN left_ts - INTERVAL {AROUND} AND left_ts + INTERVAL {AROUND}"
    sides = medians(
        lambda name: streamkit_rate(session, topology(name), root, 2 * count),
        lambda name: spark_rate(left.join(right, F.expr(near)), folder, "append"),
    )
    yield rate_row(f"stream-stream join, {AROUND} around, {2 * count:,} records", sides, "Spark over Parquet", ">= 10")
    shutil.rmtree(root)


def topology(name: str) -> sk.Topology:
    app = sk.Topology(name)
    left, right = (app.stream(topic) for topic in SIDES)
    left.join(right, within=sk.within(AROUND, grace=LATE), suffix="_right").to(f"{name}-joined")
    return app


def _rows(count: int, fraction: float, seed: int) -> Rows:
    return Rows(count, seconds=max(1, round(SECONDS * fraction)), seed=seed, batch_rows=count // (EPOCHS * FILES_AN_EPOCH))


def _named(rows: DataFrame, side: str) -> DataFrame:
    return rows.withWatermark("ts", LATE).select(*(F.col(column).alias(f"{side}_{column}") for column in rows.columns))
