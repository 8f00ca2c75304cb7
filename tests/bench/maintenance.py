"""
How much a pass of maintenance delays the commits of a producer beside it: a gigabyte to be merged and compacted.

    python -m tests.bench.maintenance FOLDER [ROUNDS]      prints percentiles of the seconds of a flush, with a pass and without
    python -m tests.bench.maintenance --commit FOLDER      flush small batches until there is a file FOLDER.stop; prints their seconds
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from streamkit.log.maintenance.maintenance import maintain
from streamkit.log.maintenance.throttle import Throttle
from streamkit.log.opening import open_log
from streamkit.log.topic.settings import SettingValue

VALUE_BYTES = 1_000
ROWS_PER_COMMIT = 2_000
COMMITS = 250  # of each of two topics: a gigabyte in all
KEYS = 300_000
BOUND = 64 * 1024 * 1024  # the default of maintenance_bytes_per_second
QUIET_SECONDS = 15.0
PERCENTILES = (50, 99, 99.9, 100)


def fill(root: Path) -> None:
    """A log with a topic to be merged and one to be compacted, half a gigabyte each, in small commits, and one that is committed to."""
    shutil.rmtree(root, ignore_errors=True)
    random = np.random.default_rng(1)
    with open_log(root) as log:
        compacted: dict[str, SettingValue] = {"cleanup.policy": "compact", "segment.ms": 1}
        log.create_topic("merged", "k bigint, v binary", "k", partitions=2, config={"retention.ms": -1})
        log.create_topic("compacted", "k bigint, v binary", "k", partitions=2, config=compacted)
        log.create_topic("beside", "k bigint, v binary", "k", partitions=2)
        with log.producer() as producer:
            for _ in range(COMMITS):
                for topic in ("merged", "compacted"):
                    producer.send_batch(topic, _rows(random, ROWS_PER_COMMIT))
                    producer.flush()


def _rows(random: np.random.Generator, count: int) -> pa.RecordBatch:
    offsets = pa.py_buffer(np.arange(0, (count + 1) * VALUE_BYTES, VALUE_BYTES, dtype=np.int32))
    values = pa.BinaryArray.from_buffers(pa.binary(), count, [None, offsets, pa.py_buffer(random.bytes(count * VALUE_BYTES))])
    return pa.record_batch({"k": random.integers(0, KEYS, count), "v": values})


def commit_until_stopped(root: Path) -> list[float]:
    """Flush a batch of ten rows every few milliseconds, as long as nobody says stop; the seconds of each flush."""
    random, seconds, stop = np.random.default_rng(2), [], Path(f"{root}.stop")
    with open_log(root) as log, log.producer() as producer:
        while not stop.exists():
            batch = _rows(random, 10)
            begun = time.perf_counter()
            producer.send_batch("beside", batch)
            producer.flush()
            seconds.append(time.perf_counter() - begun)
            time.sleep(0.005)
    return seconds


def beside(root: Path, work: Callable[[], object]) -> list[float]:
    """The seconds of the flushes of another process while some work is done here."""
    stop = Path(f"{root}.stop")
    stop.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.bench.maintenance", "--commit", str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        time.sleep(2.0)  # it is on its way
        try:
            work()
        finally:
            stop.touch()
        output = process.communicate()[0]
    found: list[float] = json.loads(output)
    return found[20:]


def maintained(root: Path, bytes_per_second: int | None) -> None:
    """One pass over the whole log, in its own connection."""
    with open_log(root) as log:
        begun = time.perf_counter()
        report = maintain(log, throttle=Throttle(bytes_per_second))
        print(f"    {time.perf_counter() - begun:.1f} s, {report.merged}, {report.rows_compacted} rows compacted", flush=True)


def _shown(name: str, seconds: list[float]) -> str:
    found = ", ".join(f"p{rank:g} {np.percentile(seconds, rank) * 1_000:.1f} ms" for rank in PERCENTILES)
    return f"{name}: {len(seconds)} flushes, {found}, load {os.getloadavg()[0]:.1f}"


def _main(root: Path, rounds: int) -> None:
    for _ in range(rounds):
        for name, bound in (("at 64 MiB a second", BOUND), ("unbounded", None)):
            fill(root)
            print(_shown("quiet", beside(root, lambda: time.sleep(QUIET_SECONDS))), flush=True)
            print(_shown(f"maintenance {name}", beside(root, partial(maintained, root, bound))), flush=True)
    shutil.rmtree(root)


if __name__ == "__main__":
    if sys.argv[1] == "--commit":
        print(json.dumps(commit_until_stopped(Path(sys.argv[2]))))
    else:
        _main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
