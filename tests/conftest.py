"""What the tests of several folders share."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from tests.places import KINDS, SHARED_KINDS, Place, file_place, memory_place, postgres_place
from tests.postgres import Server, binaries

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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With several workers, all that needs Spark goes to one of them."""
    from tests.scheduling import OneSparkScheduling

    return OneSparkScheduling(config, log)


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
