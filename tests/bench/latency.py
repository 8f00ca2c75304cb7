"""Epoch latency with an idle backlog: a small epoch, durably committed, against Spark's own stateful query with a file sink."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import streamkit as sk
from streamkit.log.opening import open_log
from streamkit.spark.session import CHECKPOINT_MANAGER
from tests.bench.rows import SCHEMA, Rows, fill, parquet_of
from tests.bench.windowed import ROCKSDB, steady_seconds, topology

EPOCH_RECORDS = 1_000
WARM_UP_EPOCHS = 20


def streamkit_latencies(session: SparkSession, rows: Rows, folder: Path, name: str) -> list[float]:
    """Seconds of each epoch of `EPOCH_RECORDS` records: one sub-topology, two tasks, RocksDB, changelog, durable commit."""
    root = folder / "log-latency"
    shutil.rmtree(root, ignore_errors=True)
    with open_log(str(root)) as log:
        fill(log, rows, partitions=2)
        running = sk.run(topology(name), session, log, tasks=2, trigger="available_now", max_records_per_epoch=EPOCH_RECORDS)
        running.wait()
        moments = [epoch.timestamp_ms for epoch in log.catalog.epochs.last(log.catalog.applications.get(name).id, rows.count)]
        return [(end - start) / 1000 for start, end in pairwise(moments)][WARM_UP_EPOCHS:]


def spark_latencies_apart(rows: Rows, folder: Path) -> list[float]:
    """`spark_latencies` in a process of its own: Spark's RocksDB snapshots fail on the raw local files that suit StreamKit."""
    command = [sys.executable, "-m", "tests.bench.latency", str(rows.count), str(rows.keys), str(folder)]
    with (folder / "latency-spark.log").open("w") as errors:
        output = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, check=True, text=True).stdout
    durations: list[float] = json.loads(output.splitlines()[-1])
    return durations


def spark_latencies(session: SparkSession, rows: Rows, folder: Path, name: str) -> list[float]:
    """Seconds of each micro-batch of `EPOCH_RECORDS` records: RocksDB with changelog checkpointing, appended to JSON files."""
    source = parquet_of(Rows(EPOCH_RECORDS * (rows.count // EPOCH_RECORDS), rows.keys, rows.seconds), folder)
    pieces, out, checkpoint = folder / "latency-in", folder / "latency-out", folder / f"checkpoint-{name}"
    for path in (pieces, out, checkpoint):
        shutil.rmtree(path, ignore_errors=True)
    batches = rows.count // EPOCH_RECORDS
    session.read.parquet(str(source)).repartition(batches).write.parquet(str(pieces))
    stream = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(pieces))
    totals = (
        stream.withWatermark("ts", "0 seconds")
        .where("amount > 10")
        .groupBy("user", F.window("ts", "1 minute"))
        .agg(F.count("*"), F.sum("amount"))
    )
    writer = totals.writeStream.format("json").option("path", str(out)).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return steady_seconds(query)[WARM_UP_EPOCHS:]


def _main(count: int, keys: int, folder: Path) -> None:
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.sql.streaming.numRecentProgressUpdates", 1_000)
        .config("spark.sql.streaming.checkpointFileManagerClass", CHECKPOINT_MANAGER)
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )
    print(json.dumps(spark_latencies(session, Rows(count, keys, seed=2), folder, "apart")))


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
