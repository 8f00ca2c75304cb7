"""
Run an application for an hour under an even load, and find what grows: latency, memory, handles, files and bytes.

    python -m tests.bench.endurance [--minutes 60] [--engine local|spark] [--records-per-second 10000]        make torture

The topology, its producer (a commit every 10 ms) and its consumer are those of `tests.bench.live`. Each minute is measured. The topics keep
two minutes, so all that the log has should be as large after ten minutes as after an hour. The last sixth is compared with the second one:
the largest reading of each kind may not have grown by more than a quarter and a margin. The exit status is 1 if something grew.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil

from streamkit.log.consume.consumer import Consumer
from streamkit.log.opening import open_log
from tests.bench import live
from tests.bench.background_process import background_process
from tests.kit.kill_tree import family

GROWTH = 1.25
MARGINS = {
    "p50_ms": 5.0,
    "p99_ms": 40.0,
    "memory_mib": 64.0,
    "handles": 20.0,
    "files": 100.0,
}  # of bytes below a folder: BYTES_MARGIN_MIB
BYTES_MARGIN_MIB = 16.0
RETENTION_MS = 120_000
PARTS = 6
START_SECONDS = 120.0
MIB = 1 << 20

Reading = Mapping[str, float]  # what was measured in one period, by its name


def readings(folder: Path, engine: str, records_per_second: int, periods: int, period_seconds: float) -> Iterator[Reading]:
    """Run the application on a new log, and measure it in periods that follow one another."""
    config = {"retention.ms": RETENTION_MS, "segment.ms": RETENTION_MS // 4}
    with open_log(folder) as log:
        log.create_topic("payments", "user string, amount double, sent bigint", key="user", partitions=4, config=config)
    run, send = ["-m", live.MODULE, "run", str(folder), engine], ["-m", live.MODULE, "send", str(folder), str(records_per_second)]
    with open_log(folder) as log, background_process(run) as running, background_process(send):
        end = time.monotonic() + START_SECONDS
        while "totals" not in log.topics():
            assert running.poll() is None and time.monotonic() < end, "the application did not start"
            time.sleep(0.1)
        log.alter_topic("totals", config=config)
        with log.consumer("totals", group="endurance") as consumer:
            for _ in range(periods):
                times = latencies(consumer, period_seconds)
                while not len(times) and running.poll() is None and time.monotonic() < end:  # a busy machine, or the first epoch
                    times = latencies(consumer, period_seconds)
                assert running.poll() is None, "the application has ended"
                assert len(times), "no results came"
                p50, p99 = np.percentile(times, (50, 99))
                yield {"p50_ms": float(p50), "p99_ms": float(p99), **of_processes(running.pid), **of_files(folder)}


def latencies(consumer: Consumer, seconds: float) -> np.ndarray:
    """From `send` to `poll`, in ms, of all results that come in so many seconds."""
    found, end = [np.empty(0)], time.monotonic() + seconds
    while time.monotonic() < end:
        if (table := consumer.poll(timeout=live.POLL_SECONDS)) is not None:
            found.append((time.time_ns() - table["sent"].to_numpy()) / 1e6)
    return np.concatenate(found)


def of_processes(pid: int) -> dict[str, float]:
    """Memory and open files of a process and its descendants."""
    memory = handles = 0
    for one in family(pid):
        with suppress(psutil.NoSuchProcess):
            memory += one.memory_full_info().uss
            handles += one.num_fds()
    return {"memory_mib": memory / MIB, "handles": float(handles)}


def of_files(root: Path) -> dict[str, float]:
    """How many files a log has, and how many MiB are below each of its folders."""
    files, sizes = 0, dict.fromkeys(("slabs", "journal", "plans", "stores", "checkpoints", "catalog", "other"), 0)
    for folder, _, names in os.walk(root):
        kind = Path(folder).relative_to(root).parts[:1]
        for name in names:
            where = kind[0] if kind else name.split(".")[0]
            with suppress(FileNotFoundError):
                sizes[where if where in sizes else "other"] += Path(folder, name).stat().st_size
                files += 1
    return {"files": float(files), **{f"{name}_mib": size / MIB for name, size in sizes.items()}}


def grown(found: Sequence[Reading]) -> list[str]:
    """What is larger in the last sixth of the readings than in the second one, by more than its margin: a line each."""
    part = len(found) // PARTS
    first, last = found[part : 2 * part], found[-part:]
    lines = []
    for name in found[0]:
        before, after = (max(reading[name] for reading in some) for some in (first, last))
        most = before * GROWTH + MARGINS.get(name, BYTES_MARGIN_MIB)
        if after > most:
            lines.append(f"{name}: at most {before:,.1f} at first, {after:,.1f} at last; expected at most {most:,.1f}")
    return lines


def endure(
    folder: Path,
    engine: str,
    records_per_second: int,
    periods: int,
    period_seconds: float,
    tell: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """Run and measure; gives what has grown. `tell` hears of each period."""
    if periods < 2 * PARTS:
        raise ValueError(f"found {periods} periods; expected {2 * PARTS} or more, since sixths of them are compared")
    found: list[Reading] = []
    for reading in readings(folder, engine, records_per_second, periods, period_seconds):
        if not found:
            tell("period " + " ".join(f"{name:>15}" for name in reading))
        found.append(reading)
        tell(f"{len(found):6} " + " ".join(f"{value:15,.1f}" for value in reading.values()))
    return grown(found)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run an application under an even load, and find what grows.")
    parser.add_argument("--minutes", type=int, default=60, help="how long (60), at least 12")
    parser.add_argument("--engine", choices=("local", "spark"), default="local", help="where it runs (local)")
    parser.add_argument("--records-per-second", type=int, default=10_000, help="in 100 commits (10000)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("STREAMKIT_BENCH_FOLDER"), prefix="endurance-") as folder:
        tell = lambda line: print(line, flush=True)  # noqa: E731
        lines = endure(Path(folder, "log"), options.engine, options.records_per_second, options.minutes, 60.0, tell)
    print("\n".join(lines) or "nothing grew")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
