"""Maintenance in a process of its own: it does what a thread did, says what went wrong, and never outlives the application."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest

from streamkit import background_process
from streamkit.clock import HandClock
from streamkit.log.maintenance.throttle import StoppedError
from streamkit.log.maintenance_process import FailedPassError, MaintenanceProcess
from streamkit.log.opening import open_log
from streamkit.log.upkeep import Upkeep
from tests.kit.waiting import wait_until

SOON_SECONDS = 10


@pytest.fixture
def log(tmp_path):
    with open_log(tmp_path / "log") as log:
        log.create_topic("t", "v bigint", partitions=1)
        yield log


@pytest.fixture
def apart(log):
    with closing(MaintenanceProcess(log.location, log.settings)) as process:
        yield process


def append(log, count):
    with log.producer() as producer:
        for number in range(count):
            producer.send("t", {"v": number})
            producer.flush()


def processes(of=None):
    """The processes that maintain a log for an application."""
    return [one for one in psutil.Process(of).children() if is_for_maintenance(one)]


def is_for_maintenance(process):
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return "streamkit.log.maintenance_process" in " ".join(process.cmdline())
    return False


def has_another(process):
    """Whether there is a process, and not this one."""
    return processes() not in ([], [process])


def has_gone_on(running, passes):
    return running.passes > passes


def extents(log):
    return log.catalog.manifest.extents(log.topic("t").id, 0)


def test_works(log, apart):
    """It starts with the first order, moves small commits into a file, merges, and ends when it is closed."""
    append(log, 4)
    assert not processes()
    assert "extents=4" in apart.do("relieve")
    assert len(extents(log)) == 1
    append(log, 8)
    (process,) = processes()
    apart.do("maintain")
    assert processes() == [process]
    assert len(extents(log)) < 3
    assert log.read("t")["v"].to_pylist() == [*range(4), *range(8)]
    apart.close()
    assert not processes()
    with pytest.raises(StoppedError):
        apart.do("maintain")


def test_settings_are_those_of_the_application(log):
    """What was set on the log, and is in no file or environment, holds for its maintenance."""
    log.settings = replace(log.settings, inline_slab_bytes=0, file_delete_delay_ms=1)
    append(log, 8)
    with closing(MaintenanceProcess(log.location, log.settings)) as apart:
        apart.do("maintain")
        wait_until(lambda: "files_deleted=8" in apart.do("maintain"))


def test_a_pass_that_fails_is_logged(log, caplog):
    """The traceback and what the process logs are logged here, and the next pass is made."""
    caplog.set_level(logging.INFO)
    log.settings = replace(log.settings, inline_slab_bytes=0)
    append(log, 8)
    files = [file for file in Path(log.root, "slabs").rglob("*") if file.is_file()]
    kept = {file: file.read_bytes() for file in files}
    for file in files:
        file.write_bytes(b"\0" * len(kept[file]))
    with Upkeep(log, 1, 1, interval_ms=5) as running:
        wait_until(lambda: "a pass of maintenance failed" in caplog.text)
        passes = running.passes
        for file in files:
            file.write_bytes(kept[file])
        wait_until(lambda: running.passes > passes)

    assert "Traceback" in caplog.text and "CorruptionError" in caplog.text
    told = [record for record in caplog.records if record.name == "streamkit.log.maintenance.failures"]
    assert told and not any("WARNING" in record.getMessage() or record.name in record.getMessage() for record in told)


def test_a_process_that_is_killed(log, caplog):
    """The loss is logged, and the next pass starts another."""
    append(log, 8)
    with Upkeep(log, 1, 1, interval_ms=5) as running:
        wait_until(lambda: running.passes)
        for _ in range(2):
            (process,) = processes()
            process.kill()
            wait_until(partial(has_another, process))
            passes = running.passes
            wait_until(partial(has_gone_on, running, passes))

    assert not processes()
    assert f"ended with -{signal.SIGKILL.value}" in caplog.text


def test_close_does_not_wait_for_a_slow_pass(log):
    """Closed while it writes at a rate that would take hours, it ends at once, and the rows are where they were."""
    apart = MaintenanceProcess(log.location, replace(log.settings, maintenance_bytes_per_second=1))
    append(log, 8)
    outcome: list[BaseException] = []

    def work():
        try:
            apart.do("maintain")
        except StoppedError as error:
            outcome.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: any(file.is_file() for file in Path(log.root, "slabs").rglob("*")))  # it writes
    start = time.monotonic()
    apart.close()
    thread.join()

    assert time.monotonic() - start < SOON_SECONDS / 2
    assert outcome and not processes()
    assert log.read("t")["v"].to_pylist() == [*range(8)]


APPLICATION = """
import os, sys, time
from streamkit.log.opening import open_log
from streamkit.log.upkeep import Upkeep
with open_log(sys.argv[1]) as log, Upkeep(log, 1, 1, interval_ms=5) as running:
    while not running.passes:
        time.sleep(0.01)
    fork = os.fork()
    if fork:
        print(fork, flush=True)
    time.sleep(600)
"""


def test_it_ends_with_the_application(log):
    """However the application ends, its maintenance does too, even if a process that was forked from it goes on."""
    with subprocess.Popen([sys.executable, "-c", APPLICATION, log.root], stdout=subprocess.PIPE, text=True) as application:
        assert application.stdout is not None
        fork = int(application.stdout.readline())
        try:
            (process,) = processes(application.pid)
            application.kill()
            application.wait()
            wait_until(lambda: not process.is_running(), SOON_SECONDS)
            assert psutil.pid_exists(fork)
        finally:
            os.kill(fork, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_to_a_group_are_for_the_application(log, apart, number):
    """Ctrl-C and the end of a service reach all processes of a group; the one for maintenance goes on until it is closed."""
    apart.do("maintain")
    (process,) = processes()
    process.send_signal(number)
    apart.do("maintain")
    assert processes() == [process]


def test_one_that_is_killed_before_it_is_ready(log, monkeypatch):
    """The next pass starts another; a thread takes its place only where no process can run."""
    with monkeypatch.context() as patch:
        patch.setattr(background_process, "PROGRAM", "import os; os.kill(os.getpid(), 9)")
        apart = MaintenanceProcess(log.location, log.settings)
    for _ in range(2):
        with pytest.raises(FailedPassError, match=f"ended with -{signal.SIGKILL.value}; the next pass starts another"):
            apart.do("maintain")


def test_places_of_imports_that_are_no_texts(log, monkeypatch):
    """Python passes over them, and so does the process."""
    monkeypatch.setattr(sys, "path", [*sys.path, Path("/nowhere"), b"/nowhere", 1])
    append(log, 8)
    with closing(MaintenanceProcess(log.location, log.settings)) as apart:
        assert "extents=8" in apart.do("relieve")


def test_modules_of_the_working_folder_are_not_imported(log, apart, tmp_path, monkeypatch):
    """A file named like a module of Python does no harm where the application itself does not import it."""
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    for name in ("json", "logging", "queue"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('not this one')")
    monkeypatch.chdir(tmp_path)
    append(log, 4)
    assert "extents=4" in apart.do("maintain")


@pytest.mark.parametrize("program", ["/nowhere/python", "/bin/false"])
def test_where_no_process_can_run(log, monkeypatch, caplog, program):
    """Maintenance goes on in a thread, and says so once."""
    monkeypatch.setattr(sys, "executable", program)
    append(log, 8)
    with Upkeep(log, 1, 1, interval_ms=5) as running:
        wait_until(lambda: running.passes > 2)

    assert caplog.text.count("goes on in a thread") == 1
    assert len(extents(log)) == 1


def test_a_log_with_a_clock_of_its_own(tmp_path):
    """No other process knows what time it is there, so a thread maintains it."""
    with open_log(tmp_path / "log", HandClock(0)) as log, Upkeep(log, 1, 1, interval_ms=5) as running:
        wait_until(lambda: running.passes > 2)
        assert not processes()


def test_a_failure_has_its_traceback(apart, log):
    """An error in the process is an error here."""
    with pytest.raises(FailedPassError, match="KeyError: 'no work'"):
        apart.do("no work")
    apart.do("maintain")
