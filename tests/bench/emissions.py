"""`emissions`: the aggregation of `windowed`, whose every change is given, beside the same that gives the newest of each epoch."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from streamkit.log.opening import open_log
from tests.bench import windowed
from tests.bench.rates import EPOCHS, FILES_AN_EPOCH, medians, part_of, rate_row, streamkit_rate
from tests.bench.row import Row
from tests.bench.rows import Rows, fill

RECORDS = 10_000_000


def emissions(session: SparkSession, folder: Path, fraction: float = 1) -> Iterator[Row]:
    """`every` against `latest`."""
    count = part_of(RECORDS, fraction)
    rows, root = Rows(count, batch_rows=count // (EPOCHS * FILES_AN_EPOCH)), folder / "log-emissions"
    with open_log(str(root)) as log:
        fill(log, rows, partitions=2)

    def rate(name: str, emission: str) -> float:
        measured = streamkit_rate(session, windowed.topology(name, emission), root, count)
        with open_log(str(root)) as log:
            log.delete_topic(f"{name}-totals")
        return measured

    sides = medians(lambda name: rate(name, "every"), lambda name: rate(name, "latest"))
    yield rate_row(f"windowed, every change, {count:,} records", sides, "latest", ">= 0.5")
    shutil.rmtree(root)
