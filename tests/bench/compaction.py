"""
Compaction: 100-byte records of 100,000 keys in four partitions, all but the newest of each key superseded.

    python -m tests.bench.compaction FOLDER      compact the log in a folder, in a process of its own; prints the seconds
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa

from streamkit.log.opening import open_log

KEYS = 100_000
BATCH_ROWS = 250_000
PAYLOAD_BYTES = 76  # beside a key of 11 bytes, two offsets of 4 and the time
TOPIC = "users"
POLL_SECONDS = 0.02
MEGABYTE = 1 << 20


def fill(root: Path, records: int) -> float:
    """A new log with the records; returns the seconds that writing them took."""
    shutil.rmtree(root, ignore_errors=True)
    random = np.random.default_rng(1)
    names = pa.array([f"user{number:07d}" for number in range(KEYS)])
    offsets = pa.py_buffer(np.arange(0, (BATCH_ROWS + 1) * PAYLOAD_BYTES, PAYLOAD_BYTES, dtype=np.int32))
    seconds = 0.0
    with open_log(root) as log:
        log.create_topic(TOPIC, "user string, payload binary", "user", None, 4, {"cleanup.policy": "compact"})
        for _ in range(0, records, BATCH_ROWS):
            payload = pa.py_buffer(random.bytes(BATCH_ROWS * PAYLOAD_BYTES))
            values = pa.BinaryArray.from_buffers(pa.binary(), BATCH_ROWS, [None, offsets, payload])
            users = names.take(pa.array(random.integers(0, KEYS, BATCH_ROWS)))
            begun = time.perf_counter()
            with log.producer() as producer:
                producer.send_batch(TOPIC, pa.record_batch({"user": users, "payload": values}))
            seconds += time.perf_counter() - begun
    return seconds


def compact_apart(root: Path) -> tuple[float, float]:
    """Compact the log in a process of its own: the seconds it takes, and the process's largest private memory in MiB."""
    command = [sys.executable, "-m", "tests.bench.compaction", str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        peak = 0
        while process.poll() is None:
            peak = max(peak, _private_bytes(process.pid))
            time.sleep(POLL_SECONDS)
        assert process.stdout is not None
        output = process.stdout.read()
    if process.returncode:
        raise RuntimeError(f"the compaction of {root} failed")
    return float(output), peak / MEGABYTE


def _private_bytes(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_full_info().uss)
    except psutil.Error:
        return 0  # it has just ended


def _main(root: Path) -> None:
    with open_log(root) as log:
        begun = time.perf_counter()
        report = log.compact(TOPIC)
        print(time.perf_counter() - begun)
    assert report.rows_after == KEYS, report


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
