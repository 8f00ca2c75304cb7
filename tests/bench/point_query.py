"""
Look-ups of one key in a store, from another process, while its application runs: the first of a view, and those that follow.

    python -m tests.bench.point_query [local|spark] [keys] [records a second]        one measurement, as a line of JSON

The topology counts 100,000 keys. A producer commits every 10 ms, and a process of its own asks for a random key every 5 ms. What the first
look-up of a process takes beyond that of a view is the time in which Python loads modules.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

import streamkit as sk
from streamkit import functions as F
from streamkit.log.opening import open_log
from tests.bench.background_process import background_process
from tests.bench.row import Row

KEYS = 100_000
RECORDS_PER_SECOND = 1_000
COMMIT_SECONDS = 0.01
QUERY_SECONDS = 0.005
WARM_UP_SECONDS = 12.0  # longer than the application keeps changes out of its files
QUERIES = 2_000
VIEWS = 20
END_SECONDS = 60.0
MODULE = "tests.bench.point_query"


@dataclass(frozen=True)
class QueryTimes:
    """In ms: the first look-up of a process, that of a new view (the median of some), and those of a view that is kept."""

    process_first: float
    view_first: float
    p50: float
    p99: float


def point_query_rows(folder: Path) -> Iterator[Row]:
    """The first look-up of a view, and the median of those that follow."""
    found = query_times(folder / "log-point-query", "local")
    load = os.getloadavg()[0]
    yield Row("point query from another process, first", found.view_first, "ms", "", None, None, "<= 3", load)
    yield Row("point query from another process, then", found.p50, "ms", "", None, None, "<= 0.5", load)


def query_times(folder: Path, engine: str, keys: int = KEYS, records_per_second: int = RECORDS_PER_SECOND) -> QueryTimes:
    """Run the topology on a new log, and ask for keys once it is warm."""
    with open_log(folder) as log:
        log.create_topic("events", "k bigint, n bigint", key="k", partitions=4)
        with log.producer() as producer:
            for first in range(0, keys, KEYS):
                rows = min(KEYS, keys - first)
                producer.send_batch("events", pa.table({"k": np.arange(first, first + rows), "n": np.ones(rows, np.int64)}))
        with background_process(["-m", MODULE, "run", str(folder), engine]):
            while not any(state.name == "counts" for state in log.catalog.applications.every()):
                time.sleep(0.1)
            log.store("counts", "counts").at_least({"events": log.end_offsets("events")}, END_SECONDS).get(0)
            with background_process(["-m", MODULE, "send", str(folder), str(keys), str(records_per_second)]):
                time.sleep(WARM_UP_SECONDS)
                command = [sys.executable, "-m", MODULE, "ask", str(folder), str(keys)]
                told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return QueryTimes(**json.loads(told))


def run(folder: str, engine: str) -> None:
    """Run the topology until an interrupt."""
    app = sk.Topology("counts")
    app.stream("events").group_by("k").agg(n=F.sum("n"), store="counts").emit("latest").to("counted")
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--master local[2] pyspark-shell")
    with open_log(folder) as log:
        sk.run(app, log=log, engine=engine, tasks=2).wait()  # type: ignore[call-overload]


def send(folder: str, keys: str, records_per_second: str) -> None:
    """Send records of random keys at an even pace, a commit every 10 ms, until an interrupt."""
    chosen, rows = np.random.default_rng(1), max(1, round(int(records_per_second) * COMMIT_SECONDS))
    with open_log(folder) as log, log.producer() as producer:
        due = time.monotonic()
        while True:
            producer.send_batch("events", pa.table({"k": chosen.integers(0, int(keys), rows), "n": np.ones(rows, np.int64)}))
            producer.flush()
            due = max(due + COMMIT_SECONDS, time.monotonic() - 1)
            time.sleep(max(0.0, due - time.monotonic()))


def ask(folder: str, keys: str) -> None:
    """Print how long look-ups take, as JSON."""
    chosen = random.Random(1)

    def timed(work: Callable[[], object]) -> float:
        begun = time.perf_counter()
        assert work() is not None, "every key has a row"
        return (time.perf_counter() - begun) * 1000

    with open_log(folder) as log:
        process_first = timed(lambda: log.store("counts", "counts").get(0))
        firsts = []
        for _ in range(VIEWS):
            firsts.append(timed(lambda: log.store("counts", "counts").get(chosen.randrange(int(keys)))))
            time.sleep(QUERY_SECONDS)
        view, times = log.store("counts", "counts"), []
        for key in range(100):  # of all partitions of the changelog
            view.get(key)
        for _ in range(QUERIES):
            times.append(timed(lambda: view.get(chosen.randrange(int(keys)))))
            time.sleep(QUERY_SECONDS)
    print(
        json.dumps(
            asdict(QueryTimes(process_first, median(firsts), float(np.percentile(times, 50)), float(np.percentile(times, 99))))
        )
    )


def main(work: str, *arguments: str) -> None:
    if work in ("local", "spark"):
        folder = Path(os.environ.get("STREAMKIT_BENCH_FOLDER", "build")) / f"point-query-{work}-{os.getpid()}"
        print(json.dumps(asdict(query_times(folder, work, *map(int, arguments)))))
        return
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # an interrupt would be ignored where a shell began it in the background
    with suppress(KeyboardInterrupt):
        works: dict[str, Callable[..., None]] = {"run": run, "send": send, "ask": ask}
        works[work](*arguments)


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["local"]))
