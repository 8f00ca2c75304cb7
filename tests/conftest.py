"""What the tests of several folders share."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from tests.durations import all_reports, write_durations
from tests.places import KINDS, SHARED_KINDS, Place, file_place, memory_place, postgres_place
from tests.postgres import Server, binaries
from tests.scheduling import further_bugs, long_first, named_files, share_a_worker
from tests.torture.harnesses import changed, harness_of

RAM = Path("/dev/shm")  # the death of a process loses nothing that was written, so a disk would only cost time
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.pyspark.python": sys.executable,
    "spark.pyspark.driver.python": sys.executable,
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.python.task.killTimeout": "20s",  # a zombie lives long enough to be one
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "OFF",
}
settings.register_profile("untimed", deadline=None)  # on cores that are shared, how long an example takes says nothing
settings.load_profile("untimed")


def pytest_addoption(parser):
    parser.addoption("--all-bugs", action="store_true", help="every seeded bug of every harness, not one of each test")


def pytest_configure(config):
    """With several workers, tests of one group share one, and what comes first in the order below begins first."""
    if config.getoption("dist", "no") == "load":
        config.option.dist, config.option.loadscopereorder = "loadgroup", False


def pytest_report_header(config):
    """Harnesses of which every seeded bug is taken, and why."""
    names = changed()
    return [f"all seeded bugs of harnesses that changed, or what they guard: {', '.join(names)}"] if names else []


def pytest_collection_modifyitems(config, items):
    """What runs, and in which order: see tests/scheduling.py."""
    named = named_files(config.invocation_params.args, config.invocation_params.dir)
    harnesses = {*changed()}
    all_bugs = config.getoption("--all-bugs") or "STREAMKIT_TORTURE" in os.environ
    further = {*further_bugs(items, lambda file: all_bugs or file in named or harness_of(file) in harnesses)}
    config.hook.pytest_deselected(items=[*further])
    items[:] = long_first([item for item in items if item not in further])
    share_a_worker(items)


def pytest_terminal_summary(terminalreporter, config):
    """With --durations, all of them are kept in build/durations.txt."""
    if config.getoption("durations") is not None:
        write_durations(config.rootpath / "build" / "durations.txt", all_reports(terminalreporter))


@pytest.fixture(scope="session", autouse=True)
def _first_partition():
    """Rows without a key begin in partition 0, so that tests can say where they are, and a seed says all of a simulation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamkit.log.produce.outbox._anywhere", lambda: 0)
        yield


@pytest.fixture(scope="session")
def postgres():
    """A private PostgreSQL server for the whole run."""
    programs = binaries()
    if programs is None:
        pytest.skip("no PostgreSQL is installed here: initdb and postgres are neither on PATH nor in /usr/lib/postgresql/*/bin")
    server = Server(programs)
    yield server
    server.stop()


def place_of(request, folder) -> Place:
    """An empty place of the kind that the fixture is asked for."""
    if request.param == "memory":
        return memory_place()
    return file_place(folder) if request.param == "file" else postgres_place(request.getfixturevalue("postgres"), folder)


@pytest.fixture(params=KINDS)
def place(request, tmp_path) -> Place:
    """An empty place for a log, once for each kind of catalog."""
    return place_of(request, tmp_path)


@pytest.fixture(scope="session")
def fast_folder():
    """A folder for logs that need no disk, in memory where that can be."""
    with tempfile.TemporaryDirectory(prefix="streamkit-", dir=RAM if os.access(RAM, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture(params=SHARED_KINDS)
def shared_place(request, fast_folder) -> Place:
    """An empty place for a log, once for each kind of catalog that processes can share, where nothing waits for a disk."""
    return place_of(request, Path(tempfile.mkdtemp(dir=fast_folder)))


@pytest.fixture(scope="session")
def spark():
    """One Spark session for the whole run: two threads, four attempts a task, quiet."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2,4]").appName("streamkit tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
