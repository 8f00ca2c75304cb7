"""spark-submit with two executors, an archive of StreamKit, and a Python that has none of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pyspark
import pytest

from tests.spark import faults
from tests.spark.conftest import assert_equals_pandas, flights_of, orphans
from tests.wheel.test_wheel import build_wheel
from topologies import flight_delays

pytestmark = pytest.mark.slow

SPARK_HOME = Path(pyspark.__file__).parent
WAIT_SECONDS = 280
BOTH_EXECUTORS = (  # no task before there are two, however late the second one starts: else all kernels may run on the first
    *("--conf", "spark.cores.max=2"),
    *("--conf", "spark.scheduler.minRegisteredResourcesRatio=1.0"),
    *("--conf", f"spark.scheduler.maxRegisteredResourcesWaitingTime={WAIT_SECONDS}s"),
)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """What `make build` puts into dist."""
    folder = tmp_path_factory.mktemp("archive")
    return shutil.copy(build_wheel(folder), folder / "streamkit.zip")


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


@pytest.fixture(autouse=True)
def work_folder():
    """Spark's workers leave their files in its installation; what was not there before is removed."""
    folder = SPARK_HOME / "work"
    before = set(folder.glob("*"))
    yield
    for left in set(folder.glob("*")) - before:
        shutil.rmtree(left)
    if folder.exists() and not before:
        folder.rmdir()


def environment_with(python):
    """The environment of a user who has that Python and nothing of the checkout."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "STREAMKIT_LOG", "STREAMKIT_CONF")}
    kept["STREAMKIT_MAINTENANCE_INTERVAL_MS"] = (
        "0"  # else the driver's maintenance collects the orphan when the run lasts a minute
    )
    return kept | {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}


def submit(archive, python, folder, *arguments, **settings):
    """What spark-submit prints; it must succeed."""
    configuration = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    answer = subprocess.run(
        [
            SPARK_HOME / "bin" / "spark-submit",
            *("--master", "local-cluster[2,1,1024]"),
            *("--py-files", f"{archive},{faults.__file__}"),
            *("--conf", "spark.log.level=ERROR", "--conf", f"spark.python.authenticate.socketTimeout={WAIT_SECONDS}s"),
            *(*BOTH_EXECUTORS, *configuration),
            *(flight_delays.__file__, *arguments),
        ],
        cwd=folder,
        env=environment_with(python),
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stderr


def test_executor_killed_between_the_kernels(archive, bare_python, few_flights, fault, tmp_path):
    """
    Two executors share a log; one is killed when its first kernel is done and the other executor has used what it sent.

    The kernel runs again elsewhere, and stages its slab again. One of the two slabs is adopted, the other is not, and nothing differs.
    """
    log = few_flights(days=1)
    fault_folder = fault(state__before_open=faults.kill_executor, kernel__finished=faults.note_finished)
    environment = faults.settings(fault_folder, "faults", ("state.before_open", "kernel.finished"))  # both in executors
    output = submit(
        archive,
        bare_python,
        tmp_path,
        *("--log", log.root, "--drain", "--tasks", "2", "--max-records-per-epoch", "5000"),
        **{f"spark.executorEnv.{name}": value for name, value in environment.items()},
    )

    assert "Lost executor" in output
    assert {epoch.generation for epoch in log.catalog.epochs(1)} == {1}
    assert "kill_executor-3" in faults.struck(fault_folder)
    assert orphans(log)
    assert_equals_pandas(log, flights_of(1))
