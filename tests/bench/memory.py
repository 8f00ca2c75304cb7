"""
Peak memory of driver, JVM and workers over a whole run, measured from outside.

    python -m tests.bench.memory RECORDS FOLDER      the run itself, in a process of its own
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil

POLL_SECONDS = 0.05  # a peak of a short run is short
MEGABYTE = 1 << 20


def peak_megabytes(records: int, folder: Path) -> float:
    """The largest sum of private memory (USS) of a run's processes, in MiB."""
    return peak_megabytes_of(folder / f"memory-{records}.log", "tests.bench.memory", str(records), str(folder))


def peak_megabytes_of(log: Path, module: str, *arguments: str) -> float:
    """The same of a module that Python runs; `log` gets its output. RuntimeError if it fails."""
    command = [sys.executable, "-m", module, *arguments]
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
        peak = 0
        while process.poll() is None:
            peak = max(peak, _private_bytes(psutil.Process(process.pid)))
            time.sleep(POLL_SECONDS)
    if process.returncode:
        raise RuntimeError(f"{module} {' '.join(arguments)} failed; see {log}")
    return peak / MEGABYTE


def _private_bytes(root: psutil.Process) -> int:
    total = 0
    for process in (root, *root.children(recursive=True)):
        try:
            total += process.memory_full_info().uss
        except psutil.Error:
            continue  # it ended meanwhile
    return total


def _run(records: int, folder: Path) -> None:
    from streamkit.spark.session import get_or_create_session
    from tests.bench.rows import Rows
    from tests.bench.windowed import streamkit_seconds

    session = get_or_create_session("memory")
    streamkit_seconds(session, Rows(records), folder, 1_000_000, f"memory-{records}")


if __name__ == "__main__":
    _run(int(sys.argv[1]), Path(sys.argv[2]))
