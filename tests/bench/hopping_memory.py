"""
`hopping_memory`: records that are in 360 windows each, beside the same in one; without Spark, whose own memory would hide theirs.

    python -m tests.bench.hopping_memory ADVANCE_SECONDS EMISSION RECORDS FOLDER      the run itself, in a process of its own
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
    """Peak memory of a process that runs the whole application; `every` also beside one window of as many rows, whose epochs are as full."""
    for emission, records in RECORDS.items():
        records = max(1, round(records * fraction))
        sides = [(WINDOWS, records), (1, records), *([(1, WINDOWS * records)] if emission == "every" else [])]
        measured = [[_peak(windows, emission, count, folder) for windows, count in sides] for _ in range(ROUNDS)]
        many, one, *as_many_rows = (median(peaks) for peaks in zip(*measured, strict=True))
        work, load = f"peak memory, {WINDOWS} windows a record, {emission}, {records:,} records", os.getloadavg()[0]
        yield Row(work, many, "MiB", "one window", one, many / one, "<= 2", load)
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


def _peak(windows: int, emission: str, records: int, folder: Path) -> float:
    arguments = (str(SIZE_SECONDS // windows), emission, str(records), str(folder / "log-hopping"))
    return peak_megabytes_of(folder / "hopping-memory.log", "tests.bench.hopping_memory", *arguments)


def _run(advance_seconds: int, emission: str, records: int, root: Path) -> None:
    with open_log(str(root)) as log:
        fill(log, payments(records), partitions=2)
        sk.run(topology(advance_seconds, emission), log=log, tasks=2, trigger="available_now", engine="local").wait()
    shutil.rmtree(root)


if __name__ == "__main__":
    _run(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
