"""A topology file as a process: what it says when it fails, what signals do to it, and that the next run goes on where it stopped."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from streamkit.launch.main import main
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from streamkit.names import spark_log_path
from streamkit.spark.session import get_or_create_session
from tests.kit.kill_tree import family, kill, outliving
from tests.kit.spark import faults
from tests.unit.spark.conftest import append_flights, assert_equals_pandas, flights_of
from topologies import flight_delays

FILE = Path(flight_delays.__file__)
WAIT_SECONDS = 200
ONE_CORE = {"PYSPARK_SUBMIT_ARGS": "--master local[1,4] pyspark-shell"}  # one worker to start
OPTIONS = ("--tasks", "1", "--max-records-per-epoch", "600")
RATIOS = """
import streamkit as sk
from streamkit import functions as F

app = sk.Topology("ratios")
app.stream("orders").with_columns(ratio=F.col("n") / F.col("m")).to("out")
if __name__ == "__main__":
    sk.main(app)
"""
ENDED = "a run ended with"
ALL_RUNS = f"""
import runpy, sys
from streamkit.cli.main import main

def ended(run):
    try:
        run()
    except SystemExit as end:
        print("{ENDED}", end.code, file=sys.stderr, flush=True)

failing, going_on, root, *options = sys.argv[1:]
sys.argv = ["streamkit", "run", failing, "--once", "--log", root]
ended(main)
sys.argv = [going_on, "--log", root, *options]
ended(lambda: runpy.run_path(going_on, run_name="__main__"))
runpy.run_path(going_on, run_name="__main__")
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """Starts commands in a process group of their own, as a terminal does, which write to a file; none outlives the tests."""
    processes = []

    def start(file, *command, **environment):
        with file.open("w") as output:
            environment = os.environ | environment
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
        processes.append(process)
        return process

    yield start
    for process in processes:
        kill(family(process.pid))


@dataclass
class Terminated:
    """A process whose first run failed, whose second got Ctrl-C, and which was sent SIGTERM in the third, all on one JVM."""

    log: Log
    file: Path
    code: int
    said: list[str]  # up to the end of each run
    survivors: list[psutil.Process]


@pytest.fixture(scope="module")
def terminated(loaded, started, tmp_path_factory):
    """One process for what a run says that fails and for both signals, since each needs a JVM of its own, which takes ten seconds."""
    folder = tmp_path_factory.mktemp("terminated")
    file, output = folder / "ratios.py", folder / "output.txt"
    file.write_text(RATIOS)
    with open_log(shutil.copytree(loaded(3, 2), folder / "log")) as log:
        log.create_topic("orders", "user string, n int, m int", key="user", partitions=1)
        with log.producer() as producer:
            producer.send("orders", {"user": "ann", "n": 1, "m": 0})
        command = (sys.executable, "-c", ALL_RUNS, str(file), str(FILE), log.root, *OPTIONS)
        process = started(output, *command, COLUMNS="80", **ONE_CORE)
        wait_for_an_epoch(log, process)
        os.killpg(process.pid, signal.SIGINT)
        faults.wait_until(lambda: output.read_text().count(ENDED) == 2 or process.poll() is not None, WAIT_SECONDS)
        wait_for_an_epoch(log, process)
        others = family(process.pid)
        process.terminate()
        code = process.wait(WAIT_SECONDS)
        yield Terminated(log, file, code, output.read_text().split(ENDED), outliving(others, 20))


def committed(log):
    """The last committed epoch of the flights."""
    return max((state.epoch for state in log.catalog.applications.every() if state.name == "flight-delays"), default=0)


def wait_for_an_epoch(log, process):
    before = committed(log)
    faults.wait_until(lambda: committed(log) > before or process.poll() is not None, WAIT_SECONDS)


def test_signal_while_spark_starts(spark, few_flights, monkeypatch):
    """A signal that comes before the query runs ends the program then, and no generation is started."""
    log = few_flights()

    def interrupted_start(name, spark_log=None):
        os.kill(os.getpid(), signal.SIGTERM)
        return get_or_create_session(name, spark_log)

    monkeypatch.setattr("streamkit.spark.command.get_or_create_session", interrupted_start)
    with pytest.raises(SystemExit) as end:
        main(flight_delays.app, ["--log", log.root, "--once"])

    assert end.value.code == 128 + signal.SIGTERM
    assert log.catalog.applications.every() == []


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_says_what_is_ours_and_spark_writes_a_file(terminated):
    """A run that fails prints its own few lines and the message last; Spark's lines and the JVM's frames are in the file that is named."""
    failure, interrupted, _ = terminated.said
    lines = failure.splitlines()
    file = Path(terminated.log.root) / spark_log_path("ratios")

    assert interrupted.splitlines()[0] == " 1"
    assert lines[-2].startswith("EvaluationError: topic orders, partition ") and "divide by zero" in lines[-2]
    assert lines[-1] == f"  at {terminated.file}:6"
    assert f"what Spark said is in {file}; --verbose shows it" in lines
    assert len(lines) < 10 and "WARN" not in failure
    assert "\tat org.apache.spark" in file.read_text() and "divide by zero" in file.read_text()


@pytest.mark.slow
def test_signals_and_progress(spark, terminated, monkeypatch, capsys):
    """
    SIGTERM to the process and Ctrl-C in its terminal end a run without a traceback, with the code that shells expect.

    Nothing stays behind but whole epochs; the next run goes on there. Where standard error is no terminal, a line now and then
    says how far that is: epoch, records, rate, lag and late ones.
    """
    _, interrupted, ended = terminated.said
    assert ended.splitlines()[0] == f" {128 + signal.SIGINT}"
    assert (terminated.code, terminated.survivors) == (128 + signal.SIGTERM, [])
    assert all("Traceback" not in said and "flight-delays: " in said for said in (interrupted, ended))
    monkeypatch.setattr("streamkit.launch.progress.LINE_SECONDS", 0.0)
    monkeypatch.setattr("streamkit.launch.progress.POLL_SECONDS", 0.02)
    more = flights_of(5)
    append_flights(terminated.log, more[more["day"] > 3])  # the runs that were ended may have taken all there was
    main(flight_delays.app, ["--log", terminated.log.root, "--drain", "--max-records-per-epoch", "100"])
    assert_equals_pandas(terminated.log, more)

    line = r"^\S+Z flight-delays: epoch (\d+), [\d,]+ records, [\d,]+ records/s, lag ([\d,]+), late [\d,]+$"
    found = re.findall(line, capsys.readouterr().err, re.MULTILINE)
    assert len(found) > 1 and [int(epoch) for epoch, _ in found] == sorted(int(epoch) for epoch, _ in found)
    lags = [int(lag.replace(",", "")) for _, lag in found]
    assert lags[0] > 0 and lags == sorted(lags, reverse=True)
