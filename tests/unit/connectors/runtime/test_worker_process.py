"""A worker in a process of its own: it does what one in threads does, says what went wrong, and never outlives the application."""

from __future__ import annotations

import json
import signal
import sys
from contextlib import suppress
from functools import partial

import psutil
import pytest

import streamkit as sk
from streamkit.connectors.runtime import status
from streamkit.connectors.runtime.worker_process import WorkerProcess, worker_processes
from streamkit.errors import SetupError
from streamkit.launch.connections import Connections
from tests.kit.program import Program
from tests.kit.waiting import wait_until


@pytest.fixture
def log(tmp_path):
    with sk.open_log(tmp_path / "log") as log:
        yield log


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def reading(folder, **settings):
    """A source of files in a folder."""
    found = {"connector.class": "FileSource", "path": str(folder), "topic": "numbers", "schema": "n bigint", **settings}
    return {"numbers-in": found}


def write(folder, name, numbers):
    (folder / f"{name}.new").write_text("".join(json.dumps({"n": n}) + "\n" for n in numbers))
    (folder / f"{name}.new").rename(folder / f"{name}.json")


def processes(of=None):
    """The processes that run connectors of an application."""
    return [one for one in psutil.Process(of).children() if runs_connectors(one)]


def runs_connectors(process):
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return "streamkit.connectors.runtime.worker_process" in " ".join(process.cmdline())
    return False


def has_another(process):
    """Whether there is a process, and not this one."""
    return processes() not in ([], [process])


def is_read(log, count):
    return "numbers" in log.topics() and sum(log.end_offsets("numbers").values()) == count


def numbers_in(log):
    return sorted(log.read("numbers")["n"].to_pylist())


def test_works(log, folder):
    """It reads what comes, in another process, and ends when it is stopped, with its tasks."""
    running = WorkerProcess(reading(folder), log).start()
    write(folder, "1", range(5))
    wait_until(lambda: is_read(log, 5))
    assert len(processes()) == 1
    (one,) = status.read_status(log)
    assert one.worker.split("-")[-2] == str(processes()[0].pid)
    running.check()
    assert not running.wait(0)
    running.stop()
    assert not processes()
    assert {one.state for one in status.read_status(log)} == {status.STOPPED}


def test_one_that_is_killed_is_started_again(log, folder, caplog):
    """Another process goes on where it was: nothing is lost, nothing doubled."""
    running = WorkerProcess(reading(folder), log).start()
    try:
        for number in range(2):
            write(folder, str(number), range(5 * number, 5 * number + 5))
            wait_until(partial(is_read, log, 5 * number + 5))
            (process,) = processes()
            process.kill()
            wait_until(partial(has_another, process))
    finally:
        running.stop()
    assert numbers_in(log) == [*range(10)]
    assert caplog.text.count(f"the process that runs numbers-in ended with -{signal.SIGKILL.value}") == 2
    assert not processes()


def test_a_task_that_fails(log, folder):
    """Its error is raised here as it was there; the worker goes on until it is stopped."""
    running = WorkerProcess(reading(folder), log).start()
    try:
        (folder / "1.json").write_text("no JSON\n")
        with pytest.raises(sk.StreamKitError, match=r"1\.json"):
            wait_until(running.check)
        assert len(processes()) == 1
    finally:
        running.stop()


def test_connectors_that_cannot_be_made_there(log):
    """Who starts them is told why, and no process is left."""
    twice = reading("/a") | {"other": reading("/a")["numbers-in"] | {"connector.class": "no.such:Class"}}
    with pytest.raises(SetupError, match=r"ConfigError: connector\.class='no\.such:Class': there is no module"):
        worker_processes(twice, log, 2)
    assert not processes()


def test_several_share_the_tasks(log, folder):
    """Each process has some of the tasks, all rows come once, and all end together."""
    running = worker_processes(reading(folder, **{"tasks.max": 4}), log, 2)
    try:
        for number in range(8):
            write(folder, str(number), range(5 * number, 5 * number + 5))
        wait_until(lambda: is_read(log, 40))
        wait_until(lambda: len({one.worker for one in status.read_status(log) if one.state == status.RUNNING}) == 2)
    finally:
        for one in running:
            one.stop()
    assert numbers_in(log) == [*range(40)]
    assert not processes()


APPLICATION = """
import sys, time
import streamkit as sk
app = sk.Topology("copy")
app.stream(sk.files(sys.argv[2], topic="numbers"), schema="n bigint").to("copied")
with sk.open_log(sys.argv[1]) as log:
    running = sk.run(app, log=log, engine="local")
    print("ready", flush=True)
    time.sleep(600)
"""


def test_it_ends_with_the_application(log, folder):
    """However the application ends, its connectors do too."""
    application = Program(None, log.root, str(folder), code=APPLICATION)
    assert application.stdout.readline() == "ready\n"
    (process,) = processes(application.pid)
    application.kill()
    application.communicate()
    wait_until(lambda: not process.is_running())


def connections(log, folder, **settings):
    app = sk.Topology("copy")
    app.stream(sk.files(folder, topic="numbers", config=settings), schema="n bigint").to("copied")
    return Connections(app.connections, log, is_bounded=False)


@pytest.mark.parametrize(("settings", "count"), [({}, 1), ({"tasks.max": 64}, 2)])
def test_a_run_has_as_many_as_tasks_and_cores(log, folder, monkeypatch, settings, count):
    """Connectors of a run that goes on are in a process for each task, up to the cores of the host."""
    monkeypatch.setattr("streamkit.launch.connections.available_cores", lambda: 2)
    log.create_topic("numbers", "n bigint")
    begun = connections(log, folder, **settings)
    begun.begin(lambda: False)
    assert len(processes()) == count
    begun.stop()
    assert not processes()


@pytest.mark.parametrize("reason", ["no interpreter", "no class there"])
def test_where_no_process_can_run_them(log, folder, monkeypatch, reason):
    """They run in threads then, as they do where the log is in memory."""
    log.create_topic("numbers", "n bigint")
    begun = connections(log, folder)
    if reason == "no interpreter":
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
    else:
        for configuration in begun._configurations.values():
            configuration["connector.class"] = "__main__:Source"
    try:
        begun.begin(lambda: False)
        write(folder, "1", range(5))
        wait_until(lambda: is_read(log, 5))
        assert not processes()
    finally:
        begun.stop()
