"""
From the death of a run to the first new result, while another process stands by.

    python -m tests.bench.takeover local|spark        one measurement, as a line of JSON

The topology of `live` runs, a producer commits every 10 ms, and the run is killed with all its processes. A result is new if it holds
a record that was sent after that.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamkit.log.opening import open_log
from tests.bench import live
from tests.bench.background_process import background_process
from tests.bench.row import Row

ENGINES = ("local", "spark")
WARM_UP_SECONDS = 20.0
POLL_SECONDS = 60.0
TOPOLOGY = """
import streamkit as sk
from streamkit import functions as F

app = sk.Topology("live")
windows = app.stream("payments").group_by("user").windowed_by(sk.tumbling("1 minute", grace="0 seconds"))
windows.agg(payments=F.count("*"), total=F.sum("amount"), sent=F.max("sent")).emit("latest").to("totals")
"""


def takeover_rows(folder: Path) -> Iterator[Row]:
    """Seconds in one process and on Spark."""
    for engine in ENGINES:
        seconds = takeover_seconds(folder / f"log-takeover-{engine}", engine)
        yield Row(f"takeover by a standby, {engine}", seconds, "s", "-", None, None, "<= 3", os.getloadavg()[0])


def takeover_seconds(folder: Path, engine: str) -> float:
    """Seconds from the kill of a warm run to the first result that holds what was sent after it."""
    shutil.rmtree(folder, ignore_errors=True)  # the standby would start an application of an earlier measurement
    with open_log(folder) as log:
        log.create_topic("payments", "user string, amount double, sent bigint", key="user", partitions=4)
    file = folder / "topology.py"
    file.write_text(TOPOLOGY)
    options = [str(file), "--log", str(folder), "--tasks", "2", *(["--local"] if engine == "local" else [])]
    send = ["-m", live.MODULE, "send", str(folder), str(live.RECORDS_PER_SECOND)]
    command = ["-m", "streamkit.cli"]
    apart: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    with (
        open_log(folder) as log,
        background_process([*command, "run", *options], **apart) as running,
        background_process(send, **apart),
    ):
        while "totals" not in log.topics():
            time.sleep(0.1)
        with background_process([*command, "standby", *options], **apart), log.consumer("totals", group="takeover") as consumer:
            end = time.monotonic() + WARM_UP_SECONDS
            while time.monotonic() < end:
                consumer.poll(timeout=1)
            os.killpg(running.pid, signal.SIGKILL)
            killed_ns = time.time_ns()
            while True:
                table = consumer.poll(timeout=POLL_SECONDS)
                assert table is not None, f"nobody took the application over within {POLL_SECONDS} s"
                if max(table["sent"].to_pylist()) > killed_ns:
                    return (time.time_ns() - killed_ns) / 1e9


if __name__ == "__main__":
    place = Path(os.environ.get("STREAMKIT_BENCH_FOLDER", "build")) / f"takeover-{sys.argv[1]}-{os.getpid()}"
    print(json.dumps({"seconds": takeover_seconds(place, sys.argv[1])}))
