"""
spark-submit on a master of its own that has no worker yet: an archive of StreamKit, and a Python that has none of its own.

The run says what it waits for; then there are two executors, of which one dies.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyspark
import pytest

from tests.kit.spark import faults
from tests.kit.waiting import wait_until
from tests.unit.spark.conftest import assert_equals_pandas, flights_of
from topologies import flight_delays

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
SPARK_HOME = Path(pyspark.__file__).parent
DEPLOY = "org.apache.spark.deploy"
WAIT_SECONDS = 280
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.log.level": "ERROR",
    "spark.python.authenticate.socketTimeout": f"{WAIT_SECONDS}s",
    "spark.cores.max": "2",
}
SOON = f"""
import runpy
from streamkit.launch import progress

progress.LINE_SECONDS = 0.5
runpy.run_path({flight_delays.__file__!r}, run_name="__main__")
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """What `make build` puts into dist, compiled, or a dozen processes would do that; tests/unit/wheel shows that the wheel has all modules."""
    folder = tmp_path_factory.mktemp("archive")
    for package in ("streamkit", "pyspark_streamkit"):
        shutil.copytree(ROOT / package, folder / "packages" / package)
    for compiled in (folder / "packages").rglob(f"__pycache__/*.{sys.implementation.cache_tag}.pyc"):
        compiled.rename(compiled.parents[1] / f"{compiled.name.partition('.')[0]}.pyc")  # where the importer of archives looks
    return shutil.make_archive(str(folder / "streamkit"), "zip", folder / "packages")


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory):
    """A Python with the dependencies of this one, in which StreamKit cannot be imported."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = next((folder / "lib").glob("python*")) / "site-packages"
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")  # its own .pth files do not count there
    python = folder / "bin" / "python"
    failed = subprocess.run([python, "-c", "import streamkit"], cwd=folder, env=environment_with(python), check=False)
    assert failed.returncode == 1
    return python


def environment_with(python):
    """The environment of a user who has that Python and nothing of the checkout."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "STREAMKIT_LOG", "STREAMKIT_CONF")}
    kept["STREAMKIT_MAINTENANCE_INTERVAL_MS"] = (
        "0"  # else the driver's maintenance collects the orphan when the run lasts a minute
    )
    return kept | {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}


@contextmanager
def started(output, python, program, *arguments):
    """A program of Spark that writes into a file, and ends with the block."""
    with output.open("wb") as file:
        command = [SPARK_HOME / "bin" / program, *arguments]
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment_with(python), cwd=output.parent)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def said(output, pattern):
    """What a pattern finds in an output so far."""
    return re.search(pattern, output.read_text(errors="replace"))


def test_executor_killed_between_the_kernels(archive, bare_python, few_flights, fault, tmp_path):
    """
    While no worker is there, the lines of the run name the master that gave it no executor; as soon as there is one it goes on.

    Two executors share a log; one is killed when its first kernel is done and the other executor has used what it sent.
    The kernel runs again elsewhere, and stages its slab again, and nothing differs.
    """
    log = few_flights(days=1)
    fault_folder = fault(state__before_open=faults.kill_executor, kernel__finished=faults.note_finished)
    environment = faults.settings(fault_folder, "faults", ("state.before_open", "kernel.finished"))  # both in executors
    settings = SETTINGS | {f"spark.executorEnv.{name}": value for name, value in environment.items()}
    (tmp_path / "soon.py").write_text(SOON)
    master, driver, worker = (tmp_path / name for name in ("master.txt", "driver.txt", "worker.txt"))
    here = ("--host", "127.0.0.1", "--webui-port", "0")
    with started(master, bare_python, "spark-class", f"{DEPLOY}.master.Master", *here, "--port", "0"):
        wait_until(lambda: said(master, r"Starting Spark master at (spark://\S+)"))
        url = said(master, r"Starting Spark master at (spark://\S+)")[1]
        submitted = (
            *("--master", url, "--py-files", f"{archive},{faults.__file__}"),
            *(part for name, value in settings.items() for part in ("--conf", f"{name}={value}")),
            *(str(tmp_path / "soon.py"), "--log", log.root, "--drain", "--tasks", "2", "--max-records-per-epoch", "5000"),
        )
        with started(driver, bare_python, "spark-submit", *submitted) as process:
            waits = rf"waits for executors: {url} has given the application none"
            planned = partial(Path(log.root).glob, "checkpoints/*/*/offsets/0")  # so that all cores are the planner's until then
            wait_until(lambda: process.poll() is not None or (said(driver, waits) and any(planned())), WAIT_SECONDS)
            assert process.poll() is None, driver.read_text()
            room = ("--cores", "2", "--memory", "2g", "--work-dir", str(tmp_path / "work"))
            with started(worker, bare_python, "spark-class", f"{DEPLOY}.worker.Worker", *here, *room, url):
                assert process.wait(WAIT_SECONDS) == 0, driver.read_text()

    assert said(driver, "Lost executor")
    assert {epoch.generation for epoch in log.catalog.epochs.last(1)} == {1}
    assert "kill_executor-3" in faults.struck(fault_folder)
    assert_equals_pandas(log, flights_of(1))
