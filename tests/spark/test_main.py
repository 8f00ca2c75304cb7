"""A topology file as a process: what signals do to it, and that the next run goes on where it stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from streamkit.launch.main import main
from streamkit.spark.session import get_or_create_session
from tests.crash.kill_tree import family, kill, outliving
from tests.spark import faults
from tests.spark.conftest import assert_equals_pandas, flights_of
from topologies import flight_delays

FILE = Path(flight_delays.__file__)
WAIT_SECONDS = 200


@pytest.fixture
def started(tmp_path):
    """Starts commands in a process group of their own, as a terminal does; none outlives the test."""
    processes = []

    def start(*command):
        with (tmp_path / "output.txt").open("a") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        processes.append(process)
        return process

    yield start
    for process in processes:
        kill(family(process.pid))


def committed(log):
    """The last committed epoch."""
    states = log.catalog.applications()
    return states[0].epoch if states else 0


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
    assert log.catalog.applications() == []


@pytest.mark.slow
def test_signals(spark, few_flights, started, tmp_path):
    """
    SIGTERM to the process and Ctrl-C in its terminal end it without a traceback, with the code that shells expect.

    Nothing stays behind but whole epochs; the next run goes on there.
    """
    log = few_flights()
    for number, send in ((signal.SIGTERM, os.kill), (signal.SIGINT, os.killpg)):
        process = started(sys.executable, str(FILE), "--log", log.root, "--tasks", "1", "--max-records-per-epoch", "600")
        wait_for_an_epoch(log, process)
        others = family(process.pid)
        send(process.pid, number)

        assert process.wait(WAIT_SECONDS) == 128 + number
        assert outliving(others, 20) == []
    assert "Traceback" not in (tmp_path / "output.txt").read_text()
    main(flight_delays.app, ["--log", log.root, "--drain"])
    assert_equals_pandas(log, flights_of(3))


def test_progress_without_a_terminal(spark, few_flights, monkeypatch, capsys):
    """Where standard error is no terminal, a line now and then says how far the run is: epoch, records, rate, lag and late ones."""
    log = few_flights(days=3)
    monkeypatch.setattr("streamkit.launch.progress.LINE_SECONDS", 0.1)
    main(flight_delays.app, ["--log", log.root, "--drain", "--max-records-per-epoch", "600"])

    line = r"^\S+Z flight-delays: epoch (\d+), [\d,]+ records, [\d,]+ records/s, lag ([\d,]+), late [\d,]+$"
    found = re.findall(line, capsys.readouterr().err, re.MULTILINE)
    assert len(found) > 1 and [int(epoch) for epoch, _ in found] == sorted(int(epoch) for epoch, _ in found)
    lags = [int(lag.replace(",", "")) for _, lag in found]
    assert lags[0] > 0 and lags == sorted(lags, reverse=True)
