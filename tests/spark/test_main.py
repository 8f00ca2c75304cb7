"""A topology file as a process: what signals do to it, and that the next run goes on where it stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from streamkit.spark.run import run
from tests.spark import faults
from tests.spark.conftest import QUICK_JVM, assert_equals_pandas, flights_of
from topologies import flight_delays

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.filterwarnings("ignore:the session lacks")]

FILE = Path(flight_delays.__file__)
WAIT_SECONDS = 200


@pytest.fixture
def started(tmp_path):
    """Starts commands in a process group of their own, as a terminal does; none outlives the test."""
    processes = []

    def start(*command):
        with (tmp_path / "output.txt").open("w") as output:
            environment = os.environ | {"JDK_JAVA_OPTIONS": QUICK_JVM}
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
        processes.append(psutil.Process(process.pid))
        return process

    yield start
    for process in processes:
        for one in family(process):
            one.kill()


def family(process):
    """A process and all that it started, while they live."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def committed(log):
    """The last committed epoch."""
    states = log.catalog.applications()
    return states[0].epoch if states else 0


@pytest.mark.parametrize(("number", "send"), [(signal.SIGTERM, os.kill), (signal.SIGINT, os.killpg)], ids=["SIGTERM", "Ctrl-C"])
def test_signal(spark, few_flights, started, tmp_path, number, send):
    """SIGTERM to the process and Ctrl-C in its terminal end it without a traceback; nothing stays behind but whole epochs."""
    log = few_flights()
    process = started(sys.executable, str(FILE), "--log", log.root, "--tasks", "2", "--max-records-per-epoch", "600")
    faults.wait_until(lambda: committed(log) > 0 or process.poll() is not None, WAIT_SECONDS)
    others = family(psutil.Process(process.pid))
    send(process.pid, number)

    assert process.wait(WAIT_SECONDS) == 128 + number
    assert "Traceback" not in (tmp_path / "output.txt").read_text()
    psutil.wait_procs(others, 20)
    assert [one for one in others if one.is_running()] == []
    assert run(flight_delays.app, spark, log, drain=True).wait(WAIT_SECONDS)
    assert_equals_pandas(log, flights_of(3))
