"""
`nexmark`: what a million events cost in processor time, by query and by the size of epochs, beside Flink SQL.

Each query runs over three logs. The first run warms up. The difference of the other two, over the difference of their events, is what
a million more events cost: start, compilation and planning are in neither figure. Results are in StreamKit's topics, durably; Flink
drops its own. Processor time, because it is the same however busy the machine is with other things.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from tests.bench.nexmark.cost import Run, costs, runs_of
from tests.bench.nexmark.events import write_log
from tests.bench.nexmark.flink import flink_runs
from tests.bench.row import Row, absent

QUERIES = tuple(f"q{number}" for number in range(23) if number != 6)  # Flink has no OVER on rows that change
STATELESS = ("q0", "q1", "q14", "q22")  # where a sink that drops everything does less than one that keeps it
RUN_SECONDS = 3_600
PEER = "Flink SQL, mini-batches of 2 s or 50,000 rows, drops its results"


@dataclass(frozen=True)
class Size:
    """How many records an epoch has, how many events the three logs have, and what is wanted beside Flink."""

    epoch_records: int
    events: tuple[int, int, int]
    mean_wanted: str
    query_wanted: str

    def of(self, fraction: float) -> Size:
        """That fraction of the events."""
        warm_up, small, large = (max(1_000, round(count * fraction)) for count in self.events)
        return Size(self.epoch_records, (warm_up, small, max(large, small + 1_000)), self.mean_wanted, self.query_wanted)


SIZES = (
    Size(4_000_000, (100_000, 500_000, 1_500_000), ">= 4", "-"),
    Size(100_000, (100_000, 500_000, 1_500_000), ">= 2", ">= 1"),
    Size(1_000, (10_000, 20_000, 100_000), "-", "-"),
)
FLINK_EVENTS = SIZES[0].events


def nexmark_rows(session: SparkSession, folder: Path, fraction: float = 1) -> Iterator[Row]:
    """A row for each size of epochs and query, and the geometric mean of each size."""
    runs = flink_runs(folder, QUERIES, Size(0, FLINK_EVENTS, "", "").of(fraction).events)
    if isinstance(runs, str):
        yield absent("Nexmark on Flink", runs)
    theirs = {} if isinstance(runs, str) else costs(runs)
    for size in SIZES:
        mine = costs(_runs(folder / "nexmark", size.of(fraction)))
        work = f"epochs of {size.epoch_records:,}"
        for query in QUERIES:
            yield _row(
                f"Nexmark {query}, {work}", mine[query], theirs.get(query), "-" if query in STATELESS else size.query_wanted
            )
        both = [query for query in QUERIES if query in theirs]
        mean = _geometric_mean([mine[query] for query in both or QUERIES])
        beside = _geometric_mean([theirs[query] for query in both]) if both else None
        yield _row(f"Nexmark, geometric mean of {len(both or QUERIES)}, {work}", mean, beside, size.mean_wanted)


def _runs(folder: Path, size: Size) -> list[Run]:
    """What each of StreamKit's runs took, in a process of their own."""
    logs = [folder / str(events) for events in size.events]
    for log, events in zip(logs, size.events, strict=True):
        write_log(log, events)
    line = [sys.executable, "-m", "tests.bench.nexmark.run", ",".join(QUERIES), str(size.epoch_records), *map(str, logs)]
    done = subprocess.run(line, check=False, capture_output=True, text=True, timeout=RUN_SECONDS)
    assert done.returncode == 0, f"Nexmark failed: {done.stderr[-2000:]}"
    shutil.rmtree(folder)
    return runs_of(done.stdout)


def _row(work: str, mine: float, theirs: float | None, wanted: str) -> Row:
    ratio = None if theirs is None else theirs / mine
    return Row(work, mine, "CPU s/M events", PEER if theirs else "", theirs, ratio, wanted, os.getloadavg()[0])


def _geometric_mean(numbers: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, numbers)) / len(numbers))
