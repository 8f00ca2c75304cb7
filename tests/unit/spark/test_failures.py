"""Tasks, workers, executors and driver processes that fail at the worst moments: the figures stay those of pandas."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from streamkit.engine.runs.options import Options
from streamkit.launch.run import run
from streamkit.spark.spark_run import start_query
from tests.kit.spark import faults
from tests.unit.spark.conftest import append_flights, assert_equals_pandas, flights_of, orphans, staged
from topologies import flight_delays

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("slabs_in_files")]

WAIT_SECONDS = 200
RECORDS_MAX = 2_000


def finish(log, spark):
    """Run to the end, as a new start would, and check that nothing of dead generations is left."""
    assert run(flight_delays.app, spark, log, drain=True).wait(WAIT_SECONDS)
    assert orphans(log) == set()
    assert log.catalog.manifest.check() == ()


def test_failing_tasks(spark, few_flights, fault):
    """A task that fails before its slab, one that fails after it, and a worker that is killed when it has finished: each is retried."""
    log = few_flights()
    folder = fault(
        kernel__in_operator=faults.raise_in_operator,
        kernel__slab_durable=faults.raise_after_slab,
        kernel__finished=faults.die_when_finished,
    )
    running = run(flight_delays.app, spark, log, tasks=2, max_records_per_epoch=2_500, drain=True)

    assert running.wait(WAIT_SECONDS)
    assert len(faults.struck(folder)) == 3
    assert len(orphans(log)) == 2  # two attempts had written theirs
    assert running.status()["generation"] == 1
    assert_equals_pandas(log, flights_of(3))


def test_lost_slabs(spark, few_flights, fault):
    """An epoch whose slabs have gone when it commits is dropped whole, and run again by a new generation."""
    log = few_flights()
    folder = fault(kernel__finished=faults.lose_slabs)
    running = run(flight_delays.app, spark, log, tasks=2, max_records_per_epoch=2_500, drain=True)

    assert running.wait(WAIT_SECONDS)
    assert "lose_slabs-3" in faults.struck(folder)
    assert running.status()["generation"] == 2
    assert {epoch.generation for epoch in log.catalog.epochs.last(1)} == {2}
    assert_equals_pandas(log, flights_of(3))


def test_tasks_that_restore_their_stores(spark, few_flights, fault):
    """Workers say how far they are, the driver shows it while nothing is committed, and nothing is left of it when the run has ended."""
    log = few_flights()
    assert run(flight_delays.app, spark, log, tasks=2, trigger="available_now").wait(WAIT_SECONDS)
    shutil.rmtree(Path(log.root, "stores"))
    append_flights(log, flights_of(4).iloc[len(flights_of(3)) :])
    folder = fault(state__before_open=faults.hold_restores)
    running = run(flight_delays.app, spark, log, drain=True)
    faults.wait_until(running.restoring)
    told, last = running.status()["restoring"][0], running.progress()[-1]

    assert (told["tasks"], told["changes"] > 0, told["seconds_left"] is not None) == (2, True, True)
    assert last["epoch"] == running.status()["epoch"] + 1 and last["restoring"]
    (folder / "go_on").touch()
    assert running.wait(WAIT_SECONDS)
    assert running.restoring() == []
    assert_equals_pandas(log, flights_of(4))


def test_tasks_keep_stores_apart_from_the_log(spark, few_flights, tmp_path):
    """Spark's tasks, and small epochs in the driver, use the folder that the driver's settings name, and so does Spark's checkpoint."""
    log = few_flights()
    for records in (0, 20_000):  # epochs of at most so many run in the driver's process
        log.settings = replace(log.settings, local_dir=str(tmp_path / f"disk-{records}"), local_epoch_records=records)
        running = run(flight_delays.app, spark, log, tasks=2, trigger="available_now")
        assert running.checkpoint.is_relative_to(tmp_path / f"disk-{records}") and not running.checkpoint.is_relative_to(log.root)
        assert running.wait(WAIT_SECONDS)
        assert not running.checkpoint.exists() and list(log.storage.list("checkpoints")) == []
        stores = sorted(owner.parent.name for owner in (tmp_path / f"disk-{records}").rglob("OWNER"))

        assert set(stores) == {"0-of-2", "1-of-2"}
        assert not Path(log.root, "stores").exists()
        append_flights(log, flights_of(4).iloc[len(flights_of(3)) :])


def test_zombie_of_a_cancelled_job(spark, few_flights, fault):
    """A task that outlives its job stages a slab that nobody adopts, and that the next start collects."""
    log = few_flights()
    folder = fault(kernel__in_operator=faults.outlive_the_job)
    stopped = run(flight_delays.app, spark, log, tasks=2, max_records_per_epoch=2_500)
    faults.wait_until((folder / "outlive_the_job-1").exists)
    stopped.stop()
    before = staged(log)
    (folder / "cancelled").touch()
    faults.wait_until(lambda: staged(log) > before)

    assert stopped.status()["epoch"] == 0
    finish(log, spark)
    assert_equals_pandas(log, flights_of(3))


def replay(running, spark, records_max=RECORDS_MAX):
    """Restart the query of the same generation on the same checkpoint, until nothing is left."""
    job = replace(running.job, records_max=records_max)
    return start_query(spark, job, running.checkpoint, Options(drain=True)).awaitTermination(WAIT_SECONDS)


def test_checkpoint_that_knows_less(spark, few_flights, fault):
    """
    Spark's checkpoint is not asked where to go on, whatever it has lost.

    The planner dies behind the offsets of batch 0: they are replayed. The commit dies behind epochs 1 and 2: their replay does
    nothing. The offsets of batch 1 get lost themselves, and it is planned again with all that has come in since: only what is
    not committed is processed. In the end all files are torn, and the next start does not mind.
    """
    log = few_flights(days=2)
    fault(epoch__planned=faults.die_once, commit__after_commit=faults.die_twice)
    running = run(flight_delays.app, spark, log, tasks=2, max_records_per_epoch=RECORDS_MAX)
    with pytest.raises(StreamingQueryException):
        running.query.awaitTermination(WAIT_SECONDS)
    assert running.status()["epoch"] == 0
    for epoch in (1, 2):
        with pytest.raises(StreamingQueryException):
            replay(running, spark)
        assert running.status()["epoch"] == epoch
    newest = max((file.name for file in (running.checkpoint / "offsets").glob("[0-9]*")), key=int)
    (running.checkpoint / "offsets" / newest).unlink()
    append_flights(log, flights_of(3).iloc[len(flights_of(2)) :])
    assert replay(running, spark, 1_000_000)
    assert (running.records(), running.status()["generation"]) == (len(flights_of(3)) + 3_322, 1)

    for number, file in enumerate(file for file in running.checkpoint.rglob("*") if file.is_file()):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2 * (number % 2)])
    finish(log, spark)
    assert list(Path(log.root).glob("checkpoints/*/*")) == []
    assert_equals_pandas(log, flights_of(3))
    running.stop()  # nobody waited for its query, so its heartbeat goes on until now
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("streamkit-pulse")]
