"""Topics as DataFrames beside Parquet files of the same rows: read to nowhere, one column summed, a tenth filtered out by time, and written."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streamkit.log.opening import open_log
from tests.bench.row import Row
from tests.bench.rows import SCHEMA, TOPIC, Rows, log_of, parquet_of

RECORDS = 5_000_000
ROUNDS = 3
TENTH = "ts >= timestamp'1970-01-01 00:09:00'"


def dataframe_rows(session: SparkSession, folder: Path) -> Iterator[Row]:
    """Rates of a batch on Spark, median of three rounds behind one that warms up; the sides take turns."""
    rows = Rows(RECORDS)
    log, files = str(log_of(rows, folder)), parquet_of(rows, folder)
    parquet = session.read.schema(SCHEMA).parquet(str(files))
    written = folder / "written"

    def topic(**options: str) -> DataFrame:
        return session.read.format("streamkit").options(log=log, topic=TOPIC, **options).load()

    def to_topic() -> None:
        shutil.rmtree(written, ignore_errors=True)
        with open_log(written) as target:
            target.create_topic(TOPIC, SCHEMA, key="user", timestamp="ts", config={"retention.ms": -1})
        parquet.write.format("streamkit").options(log=str(written), topic=TOPIC).mode("append").save()

    works: tuple[tuple[str, Callable[[], object], Callable[[], object]], ...] = (
        ("DataFrame read, 3 columns", lambda: _read(topic(columns="user,amount,ts")), lambda: _read(parquet)),
        ("DataFrame read, one column", lambda: _sum(topic(columns="amount")), lambda: _sum(parquet)),
        (
            "DataFrame read, a tenth by time",
            lambda: _read(topic(columns="user,amount,_timestamp", where=TENTH.replace("ts", "_timestamp", 1))),
            lambda: _read(parquet.where(TENTH)),
        ),
        ("DataFrame write", to_topic, lambda: parquet.write.mode("overwrite").parquet(str(folder / "written-parquet"))),
    )
    for work, ours, theirs in works:
        pairs = [(_seconds(ours), _seconds(theirs)) for _ in range(ROUNDS + 1)][1:]
        mine, other = (RECORDS / median(side) / 1e6 for side in zip(*pairs, strict=True))
        yield Row(work, mine, "M records/s", "Parquet", other, mine / other, "-", os.getloadavg()[0])


def _read(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _sum(rows: DataFrame) -> None:
    rows.select(F.sum("amount")).collect()


def _seconds(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start
