"""Rates of whole queries, the first epoch left out; five epochs each, so that Spark's and ours are of the same size."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession

import streamkit as sk
from streamkit.log.opening import open_log
from tests.bench.row import Row
from tests.bench.rows import Data, parquet_of
from tests.bench.windowed import steady_seconds

ROUNDS = 3
WARM_UP_ROUNDS = 1
EPOCHS = 5
FILES_AN_EPOCH = 2  # one for each of Spark's tasks
Side = Callable[[str], float]


def part_of(count: int, fraction: float) -> int:
    """That fraction of a number of records, in as many equal files as the epochs need."""
    files = EPOCHS * FILES_AN_EPOCH
    return max(1, round(count * fraction / files)) * files


def streamkit_rate(session: SparkSession, app: sk.Topology, root: Path, records: int) -> float:
    """Records a second of the topology over the log's `records`, in epochs of a fifth of them."""
    with open_log(str(root)) as log:
        log.settings = replace(log.settings, local_epoch_records=0)  # of a fraction of the records all epochs would be small
        running = sk.run(app, session, log, tasks=2, trigger="available_now", max_records_per_epoch=records // EPOCHS)
        running.wait()
        return (records - records // EPOCHS) / sum(steady_seconds(running.query))


def spark_rate(frame: DataFrame, folder: Path, mode: str) -> float:
    """Records a second of Spark's own query; batches without input, which only move its watermark, do not count."""
    checkpoint = folder / "checkpoint-operators"
    shutil.rmtree(checkpoint, ignore_errors=True)
    writer = frame.writeStream.outputMode(mode).format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    shutil.rmtree(checkpoint, ignore_errors=True)
    batches = [batch for batch in query.recentProgress if batch["numInputRows"]][1:]
    seconds = sum(batch["durationMs"]["triggerExecution"] for batch in batches) / 1000
    return float(sum(batch["numInputRows"] for batch in batches) / seconds)


def parquet_stream(session: SparkSession, rows: Data, schema: str, folder: Path) -> DataFrame:
    """The rows as a stream of Spark, a fifth of them in a batch."""
    return session.readStream.schema(schema).option("maxFilesPerTrigger", FILES_AN_EPOCH).parquet(str(parquet_of(rows, folder)))


def medians(ours: Side, theirs: Side, rounds: int = ROUNDS, warm_up: int = WARM_UP_ROUNDS) -> tuple[float, float]:
    """
    The median of either side, the first rounds left out; a side gets a name of its own each time.

    Either side is first in every other round, since a machine that still warms up favours the second one. An even number of rounds is fair.
    """
    sides = {"ours": ours, "theirs": theirs}
    measured: list[dict[str, float]] = []
    for turn in range(warm_up + rounds):
        names = ("ours", "theirs") if turn % 2 == 0 else ("theirs", "ours")
        measured.append({name: sides[name](f"{name}-{turn}") for name in names})
    return median(one["ours"] for one in measured[warm_up:]), median(one["theirs"] for one in measured[warm_up:])


def rate_row(work: str, sides: tuple[float, float], against: str, wanted: str) -> Row:
    """The row of two rates."""
    mine, theirs = (side / 1e6 for side in sides)
    return Row(work, mine, "M records/s", against, theirs, mine / theirs, wanted, os.getloadavg()[0])
