"""
Tasks that stay on their executors.

On the session of the tests, where all tasks have one place: plans, results, and what happens when Spark is not as expected. Under
torture (STREAMKIT_TORTURE=1) on a small cluster: how many tasks change their executors, also when one is killed.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pyspark
import pytest

from streamkit.engine.runs.moves import EXECUTORS, moves
from streamkit.engine.runs.options import AVAILABLE_NOW
from streamkit.launch.run import run
from streamkit.spark import spark_run, task_placement
from streamkit.spark.preferred_locations import numbers_by_task
from streamkit.spark.task_placement import SWITCH, placement_on
from tests.kit.waiting import wait_until
from tests.unit.spark.conftest import append_flights, assert_equals_pandas, flights_of
from topologies import flight_delays

IS_TORTURE = bool(os.environ.get("STREAMKIT_TORTURE"))
ROOT = Path(__file__).parents[3]
WAIT_SECONDS = 200
UNION = "spark.sql.unionOutputPartitioning"
TASKS, KERNELS = 4, 2
EPOCH_RECORDS = 250
RUN = f"""
import sys

import streamkit as sk
from topologies.flight_delays import app

running = sk.run(app, log=sys.argv[1], tasks={TASKS}, max_records_per_epoch={EPOCH_RECORDS})
sys.stdin.read()  # until the test has seen enough
print("moves:", running.status()["moves"])
running.stop()
"""


@pytest.fixture
def as_cluster(monkeypatch):
    """The session of the tests is taken for one with several executors."""
    for module in (task_placement, spark_run):
        monkeypatch.setattr(module, "is_cluster", lambda session: True)


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.name == task_placement.__name__]


@pytest.mark.parametrize("tasks", [1, 3, 64])
def test_numbers_lead_to_their_tasks(spark, tasks):
    """Rows with the number of a task are in the partition of that task when Spark hashes them."""
    numbers = numbers_by_task(spark, tasks)
    rows = spark.createDataFrame([(number,) for number in numbers], "task int").repartition(tasks, "task")
    found = rows.selectExpr("task", "spark_partition_id() AS partition").collect()

    assert sorted(found, key=lambda row: row["partition"]) == [(number, task) for task, number in enumerate(numbers)]


def test_placed_tasks_have_the_same_results(spark, few_flights, as_cluster, caplog, monkeypatch):
    """
    With an exchange for each kernel as without placement, and united with locations, results are those of pandas.

    A run goes on where one without placement has stopped, and the other way round.
    """
    log, table = few_flights(days=1), flights_of(5)
    for day, placed in ((1, False), (2, True), (3, False), (4, True)):
        monkeypatch.setattr(task_placement, "is_cluster", lambda session, placed=placed: placed)
        running = run(flight_delays.app, spark, log, tasks=3, trigger=AVAILABLE_NOW, max_records_per_epoch=2_000)
        assert running.wait(WAIT_SECONDS)
        plan = running.explain()
        assert (plan.count("Exchange "), plan.count("Union")) == (KERNELS, KERNELS if placed else 0)
        append_flights(log, table.iloc[len(flights_of(day)) : len(flights_of(day + 1))])
    assert run(flight_delays.app, spark, log, drain=True).wait(WAIT_SECONDS)

    assert warnings_of(caplog) == []
    assert running.status()["moves"] == 0
    assert {len(epoch[EXECUTORS]) for epoch in running.progress()} == {KERNELS * 3}
    assert_equals_pandas(log, table)


def test_one_place_needs_no_placement(spark, few_flights):
    """On a master without executors nothing is placed, and no epoch says where it ran."""
    assert placement_on(spark, 1, 2) is None
    running = run(flight_delays.app, spark, few_flights(days=1), tasks=2, drain=True)
    assert running.wait(WAIT_SECONDS)

    assert "moves" not in running.status()
    assert [epoch for epoch in running.progress() if EXECUTORS in epoch] == []


def test_unions_that_are_not_by_partition(spark, few_flights, as_cluster, caplog):
    """Where Spark would make other tasks than expected, one warning says what it makes, and the query runs without placement."""
    log = few_flights(days=1)
    spark.conf.set(UNION, "false")
    try:
        running = run(flight_delays.app, spark, log, tasks=2, drain=True)
        assert running.wait(WAIT_SECONDS)
    finally:
        spark.conf.unset(UNION)

    (warning,) = warnings_of(caplog)
    assert "cannot be placed with this Spark: Spark makes UnknownPartitioning" in warning
    assert "Union" not in running.explain()
    assert_equals_pandas(log, flights_of(1))


def test_classes_that_are_not_there(spark, as_cluster, caplog, monkeypatch):
    """A Spark in which a class has another name is used without placement, with one warning."""
    with caplog.at_level(logging.WARNING):
        assert placement_on(spark, 2, 3) is not None
        monkeypatch.setattr("streamkit.spark.preferred_locations.DATASET", "NoDataset")
        assert placement_on(spark, 2, 3) is None

    assert len(warnings_of(caplog)) == 1


# On a cluster


torture = pytest.mark.skipif(not IS_TORTURE, reason="a cluster takes a minute to start and to run so many epochs")


@pytest.fixture
def spark_home(tmp_path):
    """Spark, in whose folder executors may work: else they would leave theirs where it is installed."""
    home = tmp_path / "spark"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    return home


@contextmanager
def started(log, home, *settings, before_run=""):
    """A run of small epochs, all by Spark's tasks, on two executors of one core each; its process, which ends with the block."""
    conf = {
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
        **dict(settings),
    }
    words = ["--master", "local-cluster[2,1,1024]", *(f"--conf {name}={value}" for name, value in conf.items()), "pyspark-shell"]
    environment = os.environ | {
        "PYSPARK_SUBMIT_ARGS": " ".join(words),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "STREAMKIT_LOCAL_EPOCH_RECORDS": "0",
        "STREAMKIT_MAINTENANCE_INTERVAL_MS": "0",
    }
    output = home.with_name("output.txt")
    with output.open("wb") as file:
        command = [sys.executable, "-c", before_run + RUN, log.root]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file, stderr=file, env=environment, cwd=home.parent)
        try:
            yield process
        finally:
            process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 0, output.read_text()


def epochs_of(log):
    """The metrics of all epochs so far, oldest first."""
    applications = log.catalog.applications
    if flight_delays.app.name not in {state.name for state in applications.every()}:
        return []
    return [epoch.metrics for epoch in log.catalog.epochs.last(applications.get(flight_delays.app.name).id, 1_000)]


def has_more(log, epochs):
    return len(epochs_of(log)) > epochs


def executor_process(process, number):
    """The JVM of an executor below the process of a driver."""
    for child in process.children(recursive=True):
        words = [] if child.status() == psutil.STATUS_ZOMBIE else child.cmdline()
        if "--executor-id" in words and words[words.index("--executor-id") + 1] == number:
            return child
    raise AssertionError(f"no executor {number}")


def check_placed(epochs):
    """Over many epochs, at most a task or two ran elsewhere than before, and both executors have as many."""
    assert len(epochs) >= 8
    assert moves(epochs) <= 2
    owned = sorted(epochs[-1][EXECUTORS].count(name) for name in set(epochs[-1][EXECUTORS]))
    assert owned == [KERNELS * TASKS // 2] * 2


def kill_one(log, table, home, before_run=""):
    """
    Run some epochs, kill an executor at work, and go on until its successor has had tasks in twelve epochs.

    Returns the epochs before the kill, all epochs, and how many flights there were.
    """
    sent = len(flights_of(1))
    with started(log, home, before_run=before_run) as process:
        wait_until(lambda: len(epochs_of(log)) >= 12, WAIT_SECONDS)
        before = epochs_of(log)
        executor_process(psutil.Process(process.pid), "0").send_signal(signal.SIGKILL)
        settled = 0
        while settled < 12:
            append_flights(log, table.iloc[sent : sent + 100])
            sent += 100
            assert sent < len(table), "no executor came in the place of the one that was killed"
            wait_until(partial(has_more, log, len(epochs_of(log))), WAIT_SECONDS)
            settled = sum(any(name.endswith(":2") for name in epoch[EXECUTORS]) for epoch in epochs_of(log)[len(before) :])
    return before, epochs_of(log), sent


@torture
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_tasks_stay_where_their_stores_are(few_flights, spark_home, record_property):
    """
    On two executors no task moves, so each opens the stores of its own tasks alone.

    One is killed at work: its tasks run on the other one, until a successor is there and has a half. What was counted stays exact.
    """
    log, table = few_flights(days=1), flights_of(7)
    before, every, sent = kill_one(log, table, spark_home)

    record_property("tried", {"moves of tasks": moves(every), "tasks": sum(len(epoch[EXECUTORS]) for epoch in every)})
    assert {epoch.generation for epoch in log.catalog.epochs.last(1)} == {1}
    check_placed(before[3:])
    check_placed(every[-9:])
    assert run(flight_delays.app, log=log, engine="local", drain=True).wait(WAIT_SECONDS)
    assert_equals_pandas(log, table.iloc[:sent])


def unplaced(log, home):
    """Epochs in which Spark chooses: about half of the tasks run on another of two executors than before."""
    with started(log, home, (SWITCH, "false")):
        wait_until(lambda: len(epochs_of(log)) >= 12, WAIT_SECONDS)
    epochs = epochs_of(log)[3:]
    tasks = (len(epochs) - 1) * KERNELS * TASKS
    assert 0.25 * tasks < moves(epochs) < 0.75 * tasks
    return epochs


def placed_once(log, home):
    """Epochs behind the death of an executor that keeps its tasks."""
    return kill_one(log, flights_of(7), home, PLACED_ONCE)[1][-9:]


PLACED_ONCE = """
from streamkit.spark.task_placement import TaskPlacement

place = TaskPlacement._place
TaskPlacement._place = lambda self, executors: None if len(self._executors) == 2 else place(self, executors)
"""
BUGS = {"tasks are not placed": unplaced, "a dead executor keeps its tasks": placed_once}


@torture
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("bug", BUGS)
def test_tasks_that_move_are_caught(bug, few_flights, spark_home):
    """Where tasks are not asked for on an executor that is there, the check of their places fails."""
    epochs = BUGS[bug](few_flights(days=1), spark_home)

    with pytest.raises(AssertionError):
        check_placed(epochs)
