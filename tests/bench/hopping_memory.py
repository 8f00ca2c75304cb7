"""
`hopping_memory`: records that are in 360 windows each, beside the same in one.

On Spark as its users run it: driver, JVM and workers together. Without Spark in one process, where nothing hides the records.

    python -m tests.bench.hopping_memory ENGINE ADVANCE_SECONDS EMISSION RECORDS FOLDER      the run itself, in a process of its own
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import streamkit as sk
from streamkit import functions as sf
from streamkit.log.opening import open_log
from tests.bench.memory import peak_megabytes_of
from tests.bench.row import Row
from tests.bench.rows import TOPIC, Rows, fill

ROUNDS = 3
RECORDS = {"latest": 2_000_000, "every": 40_000}  # in 360 windows these are 14.4 M rows, which `every` writes
KEYS = 1_000
SIZE_SECONDS = 3_600
WINDOWS = 360


def hopping_memory(session: object, folder: Path, fraction: float = 1) -> Iterator[Row]:
    """Peak memory of the processes that run the whole application; `every` also beside one window of as many rows, whose epochs are as full."""
    for engine, emission in [("spark", "every"), ("local", "latest"), ("local", "every")]:
        records = max(1, round(RECORDS[emission] * fraction))
        is_alone = (engine, emission) == ("local", "every")
        sides = [(WINDOWS, records), (1, records), *([(1, WINDOWS * records)] if is_alone else [])]
        measured = [[_peak(engine, windows, emission, count, folder) for windows, count in sides] for _ in range(ROUNDS)]
        many, one, *as_many_rows = (median(peaks) for peaks in zip(*measured, strict=True))
        where = "on Spark" if engine == "spark" else "one process"
        work, load = f"peak memory, {WINDOWS} windows a record, {emission}, {records:,} records, {where}", os.getloadavg()[0]
        yield Row(work, many, "MiB", "one window", one, many / one, "-" if is_alone else "<= 2", load)
        for other in as_many_rows:
            yield Row(work, many, "MiB", "one window, as many rows", other, many / other, "-", load)


def payments(records: int) -> Rows:
    """An hour of them, from a window's size on, as there are no windows before 1970."""
    return Rows(records, keys=KEYS, seconds=SIZE_SECONDS, first_second=SIZE_SECONDS)


def topology(advance_seconds: int, emission: str) -> sk.Topology:
    app = sk.Topology("hopping")
    windows = sk.hopping(f"{SIZE_SECONDS} seconds", f"{advance_seconds} seconds", grace="0 seconds")
    counts = app.stream(TOPIC).group_by("user").windowed_by(windows).agg(payments=sf.count("*"), total=sf.sum("amount"))
    counts.emit(emission).to("totals")
    return app


def _peak(engine: str, windows: int, emission: str, records: int, folder: Path) -> float:
    arguments = (engine, str(SIZE_SECONDS // windows), emission, str(records), str(folder / "log-hopping"))
    return peak_megabytes_of(folder / "hopping-memory.log", "tests.bench.hopping_memory", *arguments)


def _run(engine: str, advance_seconds: int, emission: str, records: int, root: Path) -> None:
    with open_log(str(root)) as log:
        fill(log, payments(records), partitions=2)
        app = topology(advance_seconds, emission)
        if engine == "local":
            sk.run(app, log=log, tasks=2, trigger="available_now", engine="local").wait()
        else:
            from streamkit.spark.session import get_or_create_session

            sk.run(app, log=log, tasks=2, trigger="available_now", spark=get_or_create_session("hopping")).wait()
    shutil.rmtree(root)


if __name__ == "__main__":
    _run(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), Path(sys.argv[5]))
