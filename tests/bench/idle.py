"""What an application costs that has nothing to do: processor time and memory of its processes, on Spark and in one process."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from streamkit.log.opening import open_log
from tests.bench import live
from tests.bench.background_process import background_process
from tests.bench.row import Row
from tests.kit.kill_tree import family

ENGINES = ("local", "spark")
WARM_UP_SECONDS = 20.0
MEASURED_SECONDS = 30.0
MIB = 1 << 20


def idle_rows(folder: Path) -> Iterator[Row]:
    """Per cent of a core, and MiB, of the topology of `live` without a producer."""
    for engine in ENGINES:
        root = folder / f"log-idle-{engine}"
        with open_log(root) as log:
            log.create_topic("payments", "user string, amount double, sent bigint", key="user", partitions=4)
            with log.producer() as producer:
                producer.send("payments", {"user": "user00000", "amount": 1.0, "sent": 0})
            with background_process(["-m", live.MODULE, "run", str(root), engine]) as running:
                while "totals" not in log.topics() or not sum(log.end_offsets("totals").values()):
                    time.sleep(0.1)
                time.sleep(WARM_UP_SECONDS)
                before = _cpu_seconds(running.pid)
                time.sleep(MEASURED_SECONDS)
                share = (_cpu_seconds(running.pid) - before) / MEASURED_SECONDS * 100
                memory = _memory_mib(running.pid)
        shutil.rmtree(root)
        load = os.getloadavg()[0]
        yield Row(f"idle application, {engine}", share, "% of a core", "", None, None, "<= 2", load)
        yield Row(f"idle application, {engine}, memory", memory, "MiB", "", None, None, "-", load)


def _cpu_seconds(pid: int) -> float:
    found = 0.0
    for one in family(pid):
        with suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            found += times.user + times.system
    return found


def _memory_mib(pid: int) -> float:
    found = 0
    for one in family(pid):
        with suppress(psutil.NoSuchProcess):
            found += one.memory_full_info().uss
    return found / MIB
