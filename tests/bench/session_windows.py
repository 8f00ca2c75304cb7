"""`session_windows`: count and sum of each user's sessions, each given once, when it is closed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import streamkit as sk
from streamkit import functions as sf
from streamkit.log.opening import open_log
from tests.bench.rates import EPOCHS, FILES_AN_EPOCH, medians, parquet_stream, part_of, rate_row, spark_rate, streamkit_rate
from tests.bench.row import Row
from tests.bench.rows import SCHEMA, TOPIC, Rows, fill

RECORDS = 5_000_000
SECONDS = 3_600
GAP = "30 seconds"
LATE = "1 minute"  # grace, and Spark's watermark


def session_windows(session: SparkSession, folder: Path, fraction: float = 1) -> Iterator[Row]:
    """Beside Spark's session_window. Fewer records are of less time, so that sessions are as long."""
    count = part_of(RECORDS, fraction)
    seconds = max(1, round(SECONDS * fraction))
    rows, root = Rows(count, seconds=seconds, batch_rows=count // (EPOCHS * FILES_AN_EPOCH)), folder / "log-session-windows"
    with open_log(str(root)) as log:
        fill(log, rows, partitions=2)
    payments = parquet_stream(session, rows, SCHEMA, folder).withWatermark("ts", LATE)
    totals = payments.groupBy("user", F.session_window("ts", GAP)).agg(F.count("*"), F.sum("amount"))
    sides = medians(
        lambda name: streamkit_rate(session, topology(name), root, count),
        lambda name: spark_rate(totals, folder, "append"),
    )
    yield rate_row(f"session windows, {count:,} records", sides, "Spark over Parquet", ">= 5")
    shutil.rmtree(root)


def topology(name: str) -> sk.Topology:
    app = sk.Topology(name)
    sessions = app.stream(TOPIC).group_by("user").windowed_by(sk.session(GAP, grace=LATE))
    sessions.agg(payments=sf.count("*"), total=sf.sum("amount")).emit("final").to(f"{name}-totals")
    return app
