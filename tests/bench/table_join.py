"""`table_join`: a stream meets a table, and every record is written out."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

import streamkit as sk
from streamkit.log.opening import open_log
from tests.bench import windowed
from tests.bench.kafka_streams import kafka_streams_rows
from tests.bench.one_key import fill_table
from tests.bench.rates import EPOCHS, FILES_AN_EPOCH, medians, part_of, rate_row, streamkit_rate
from tests.bench.row import Row
from tests.bench.rows import TOPIC, Rows, fill

RECORDS = 10_000_000
TABLE = "users"
FIRST_SECOND = 60  # behind all users, whose time is 0


def table_join(session: SparkSession, folder: Path, fraction: float = 1) -> Iterator[Row]:
    """Beside `windowed` over the same records, 1.5 M records/s where that makes 4 M, and beside Kafka Streams where it can be had."""
    count = part_of(RECORDS, fraction)
    root = folder / "log-table-join"
    rows = Rows(count, batch_rows=count // (EPOCHS * FILES_AN_EPOCH), first_second=FIRST_SECOND)
    with open_log(str(root)) as log:
        fill(log, rows, partitions=2)
        fill_table(log, TABLE, rows.keys)

    def joined(name: str) -> float:
        rate = streamkit_rate(session, topology(name), root, count + rows.keys)  # the first epoch has the table
        _check_output(root, f"{name}-joined", count)
        return rate

    sides = medians(joined, lambda name: streamkit_rate(session, windowed.topology(name), root, count))
    yield rate_row(f"stream-table join, {count:,} records", sides, "windowed, the same records", ">= 0.375")
    yield from kafka_streams_rows(rows, folder, joined)
    shutil.rmtree(root)


def topology(name: str) -> sk.Topology:
    app = sk.Topology(name)
    app.stream(TOPIC).join(app.table(TABLE), on="user").to(f"{name}-joined")
    return app


def _check_output(root: Path, topic: str, count: int) -> None:
    """AssertionError unless every record found its user; the topic is deleted."""
    with open_log(str(root)) as log:
        written = sum(log.end_offsets(topic).values())
        assert written == count, f"{written} of {count} records were joined"
        log.delete_topic(topic)
