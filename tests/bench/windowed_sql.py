"""`windowed_sql`: the aggregation of `windowed` as a script in SQL, beside the same in Python."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

import streamkit as sk
from streamkit.log.opening import open_log
from streamkit.sql.script.topology import topology_of
from tests.bench import windowed
from tests.bench.rates import EPOCHS, FILES_AN_EPOCH, medians, part_of, rate_row, streamkit_rate
from tests.bench.row import Row
from tests.bench.rows import TOPIC, Rows, fill

RECORDS = 10_000_000


def topology(name: str) -> sk.Topology:
    text = f"""
        CREATE STREAM {TOPIC} (user STRING KEY, amount DOUBLE, ts TIMESTAMP);
        CREATE TABLE totals WITH (KAFKA_TOPIC = '{name}-totals') AS
          SELECT user, COUNT(*) AS payments, SUM(amount) AS total
          FROM {TOPIC}
          WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 0 SECONDS)
          WHERE amount > 10
          GROUP BY user;
    """
    return topology_of(text, name)


def windowed_sql(session: SparkSession, folder: Path, fraction: float = 1) -> Iterator[Row]:
    """The script against the file of Python."""
    count = part_of(RECORDS, fraction)
    rows, root = Rows(count, batch_rows=count // (EPOCHS * FILES_AN_EPOCH)), folder / "log-windowed-sql"
    with open_log(str(root)) as log:
        fill(log, rows, partitions=2)

    def rate(app: sk.Topology) -> float:
        measured = streamkit_rate(session, app, root, count)
        with open_log(str(root)) as log:
            log.delete_topic(f"{app.name}-totals")
        return measured

    sides = medians(lambda name: rate(topology(name)), lambda name: rate(windowed.topology(name)), rounds=4)
    yield rate_row(f"windowed in SQL, {count:,} records", sides, "the same in Python", ">= 0.95")
    shutil.rmtree(root)
