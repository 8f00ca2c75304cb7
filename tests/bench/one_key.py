"""`one_key`: two joins and an aggregation on one key, where they share a kernel and where each has its own."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from pyspark.sql import SparkSession

import streamkit as sk
from streamkit import functions as sf
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from tests.bench.rows import TOPIC, Rows, log_of
from tests.bench.windowed import steady_seconds

TABLES = ("users", "levels")
BEFORE_ALL = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def topology(name: str, *, is_shared: bool) -> sk.Topology:
    """The topology; not shared, its key is computed again before each step, so that the compiler cannot know that it stays the same."""
    app = sk.Topology(name)
    rows = app.stream(TOPIC)
    for table in TABLES:
        rows = rows.join(app.table(table), on="user")
        if not is_shared:
            rows = rows.with_columns(user=sf.concat(sf.col("user"), sf.lit("")))
    totals = rows.group_by("user").agg(payments=sf.count("*"), total=sf.sum("amount"), level=sf.max("levels_name"))
    totals.emit("latest").to(f"{name}-totals")
    return app


def seconds(session: SparkSession, rows: Rows, folder: Path, epoch_records: int, name: str, *, is_shared: bool) -> list[float]:
    """Seconds of each epoch, the first one, which loads the tables, left out."""
    with open_log(str(log_of(rows, folder))) as log:
        for table in TABLES:
            if table not in log.topics():
                fill_table(log, table, rows.keys)
        app = topology(name, is_shared=is_shared)
        running = sk.run(app, session, log, tasks=2, trigger="available_now", max_records_per_epoch=epoch_records)
        running.wait()
        return steady_seconds(running.query)


def fill_table(log: Log, table: str, keys: int) -> None:
    """A table with a row for each user, before all payments."""
    log.create_topic(table, f"user string, {table}_name string", key="user", partitions=2)
    with log.producer() as producer:
        rows = [{"user": f"user{key:07d}", f"{table}_name": f"{table}{key % 9}"} for key in range(keys)]
        producer.send_batch(table, [{**row, "_timestamp": BEFORE_ALL} for row in rows])
