"""What the tests of several folders share."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest
import typer.main
import typer.testing
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from tests.harness.torture.harnesses import changed, harness_of
from tests.kit.compiled import compile_all
from tests.kit.durations import all_reports, write_durations
from tests.kit.places import KINDS, SHARED_KINDS, Place, all_slabs_in_files, file_place, memory_place, postgres_place
from tests.kit.postgres import Server, binaries
from tests.kit.reporting import run_and_tell
from tests.kit.sampling import TAKES_ALL
from tests.kit.scheduling import (
    OneSessionScheduling,
    further_bugs,
    further_cases,
    further_catalogs,
    further_combinations,
    long_first,
    named_files,
    write_session_tests,
)
from tests.kit.spark import faults, ready_planner
from tests.kit.spark.class_archive import java_options

ROOT = Path(__file__).parents[1]
SESSION_TESTS = "session_tests"
SESSION_FILE = pytest.StashKey[Path]()
RAM = Path("/dev/shm")  # the death of a process loses nothing that was written, so a disk would only cost time
RAM_BYTES_MIN = 4 << 30  # more than the folders of a run hold at any time
SETTINGS = {  # of the session of the run, besides those of a session that StreamKit starts itself
    "spark.python.authenticate.socketTimeout": "120s",  # for a Python process to begin, while others use the machine
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.pyspark.python": sys.executable,
    "spark.pyspark.driver.python": sys.executable,
    "spark.python.daemon.module": "tests.kit.spark.ready_daemon",
    "spark.python.task.killTimeout": "20s",  # a zombie lives long enough to be one
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "OFF",
}
settings.register_profile("untimed", deadline=None)  # on cores that are shared, how long an example takes says nothing
settings.load_profile("untimed")
# Else each worker reads all modules for constants, which takes seconds, and what is drawn depends on what is loaded.
if not TAKES_ALL:
    vars(providers)["is_local_module_file"] = lambda path: False


def pytest_addoption(parser):
    parser.addoption(
        "--all", action="store_true", help="every seeded bug of every harness, every catalog and every case, changed or not"
    )


def pytest_configure(config):
    """Folders of tests are in memory where that has room; each JVM and each Python that a test starts is ready soon."""
    if os.access(RAM, os.W_OK) and shutil.disk_usage(RAM).free >= RAM_BYTES_MIN:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(RAM))
    os.environ.setdefault("JDK_JAVA_OPTIONS", java_options())
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else hundreds of processes compile all of us, each for itself
    sys.dont_write_bytecode = False


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session):
    """Before workers start, what all of them import is compiled, once."""
    if getattr(session.config.option, "numprocesses", None):
        compile_all(session.config, ROOT)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """A worker is told where it writes down which tests use the session of Spark."""
    node.workerinput[SESSION_TESTS] = str(session_tests_of(node.config))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With several workers, what uses the session of Spark shares one."""
    return OneSessionScheduling(config, log, session_tests_of(config))


def session_tests_of(config):
    """The file of tests that use the session, which the workers write and the scheduler reads: one for the run."""
    if SESSION_FILE not in config.stash:
        folder = tempfile.TemporaryDirectory(prefix="streamkit-tests-")
        config.add_cleanup(folder.cleanup)
        config.stash[SESSION_FILE] = Path(folder.name) / "session.json"
    return config.stash[SESSION_FILE]


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is made meanwhile stays, so no garbage is looked for among ever more objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before the scheduler hears that the collection is finished, and reads the file
def pytest_collection_finish(session):
    gc.freeze()  # a million objects of modules and tests, which stay, are not looked at whenever garbage is collected
    if SESSION_TESTS in (told := getattr(session.config, "workerinput", {})):
        write_session_tests(Path(told[SESSION_TESTS]), session.items)


@pytest.hookimpl
def pytest_runtest_protocol(item, nextitem):
    """A worker tells no more of a test than somebody wants to know."""
    if not hasattr(item.config, "workerinput"):
        return None
    run_and_tell(item, nextitem)
    return True


def pytest_report_header(config):
    """Name the harnesses that run every seeded bug, catalog and case, and say why."""
    names = changed()
    return [f"all bugs, catalogs and cases of harnesses that changed, or what they guard: {', '.join(names)}"] if names else []


def pytest_collection_modifyitems(config, items):
    """What runs, and in which order: see tests/kit/scheduling.py."""
    named = named_files(config.invocation_params.args, config.invocation_params.dir)
    harnesses = {None, *changed()}
    is_all = config.getoption("--all") or "STREAMKIT_TORTURE" in os.environ

    def takes_all(file):
        return is_all or file in named or harness_of(file) in harnesses

    for further_of in (further_bugs, further_catalogs, further_combinations, further_cases):
        further = {*further_of(items, takes_all)}
        config.hook.pytest_deselected(items=[*further])
        items[:] = [item for item in items if item not in further]
    items[:] = long_first(items)


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


@pytest.fixture(scope="session", autouse=True)
def _one_command_line():
    """The tree of all commands is made once, and not for each call of the program: it takes longer than most commands do."""
    made = cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        for place in ("typer.main.get_command", "typer.testing._get_command"):
            patch.setattr(place, made)
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
def fault_folder(tmp_path_factory):
    """Where the Python processes of Spark look for faults that a test ordered."""
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="session")
def spark(fault_folder, fast_folder):
    """One Spark session for the whole run, with the same Python processes for all: two threads, four attempts a task, quiet."""
    from pyspark.sql import SparkSession

    from streamkit.spark.session import AT_START

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    environment = {**faults.settings(fault_folder, faults.__name__), "PYTHONPATH": str(ROOT)}
    python, planner = ready_planner.start(fast_folder, environment)  # whose path is short enough for a socket
    builder = SparkSession.builder.master("local[2,4]").appName("streamkit tests")
    for name, value in (AT_START | SETTINGS).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.sparkContext.environment.update(environment)
    session.sparkContext.pythonExec = python
    yield session
    session.stop()
    planner.communicate()


@pytest.fixture(scope="module")
def slabs_in_files():
    """Each slab is a file, however small: for tests of files, and of what becomes of them."""
    with all_slabs_in_files():
        yield
