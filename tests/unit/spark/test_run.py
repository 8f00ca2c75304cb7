"""A topology on Spark: the same figures as pandas, and what its handle tells."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest

from streamkit.engine.runs.options import AVAILABLE_NOW
from streamkit.launch.run import run
from streamkit.log.opening import open_log
from streamkit.spark.session import LOCAL_FILES
from tests.kit.oracle import flights as oracle
from tests.kit.sampling import first
from tests.unit.spark.conftest import append_flights, assert_equals_pandas, flights_of
from topologies import flight_data, flight_delays

pytestmark = pytest.mark.spark

WAIT_SECONDS = 200


def slabs(log):
    return set(log.storage.list("slabs"))


@pytest.fixture(scope="module")
def year(tmp_path_factory, spark):
    """The demo, run to its end: its log and the handle of the run."""
    with open_log(tmp_path_factory.mktemp("year") / "log") as log:
        flight_data.load(log, progress=False)
        finished = run(flight_delays.app, spark, log, tasks=2, drain=True)
        assert finished.wait(WAIT_SECONDS)
        yield log, finished


def test_whole_year(year):
    """The delays of the whole year equal what pandas finds in the files, in all rows."""
    assert_equals_pandas(year[0], oracle.flights())


def test_handle(year):
    """Status, progress and totals say what was done; the checkpoint of a run that ended is gone."""
    log, finished = year
    expected = oracle.daily_delays()
    epochs = finished.progress()

    assert repr(finished) == "Run('flight-delays', ended, generation 1)"
    assert "<td>state</td><td>ended</td>" in finished._repr_html_() and "<td>epoch</td><td>2</td>" in finished._repr_html_()
    assert finished.status() == {
        "application": "flight-delays",
        "active": False,
        "generation": 1,
        "epoch": 2,
        "stream_time_ms": epochs[-1]["stream_time_ms"],
        "tasks": 2,
        "drained": True,
        "waits_for": None,
        "restoring": [],
    }
    assert finished.records() == finished.backlog() == sum(epoch["records"] for epoch in epochs) == 336_776 + 3_322
    assert finished.total("written") == {"daily_delays": len(expected)}
    assert finished.total("late") == finished.total("null_key") == {}
    assert list(log.storage.list("checkpoints")) == []


def test_store(year):
    """The store holds the same rows as the topic, and finds them by key."""
    view = year[1].store("daily_delays")
    row = oracle.daily_delays().iloc[1_000]
    key = {"origin": row["origin"], "airline": row["airline"]}

    assert view.to_arrow().num_rows == len(oracle.daily_delays())
    assert view.get(**key, window_start=row["window_start"])["flights"] == row["flights"]


def test_plan(year):
    """Spark's plan has one exchange per kernel and nothing else that shuffles, sorts or converts rows."""
    operators = [line.strip(" +-*(1)").split("[")[0].split(" ")[0] for line in year[1].explain().splitlines() if line]

    assert operators == [
        "WriteToDataSourceV2",
        "Exchange",
        "MapInArrow",
        "Exchange",
        "Project",
        "MicroBatchScan",
    ]
    assert operators.count("Exchange") == year[1].program.stages


def test_second_run_changes_nothing(year, spark):
    """After a drain, loading again adds nothing, and another run finds nothing to do."""
    log, _ = year
    before = slabs(log), log.end_offsets("daily_delays")
    flight_data.load(log, progress=False)
    again = run(flight_delays.app, spark, log, drain=True)

    assert again.wait(WAIT_SECONDS)
    assert (slabs(log), log.end_offsets("daily_delays")) == before
    assert (again.records(), again.status()["generation"], again.status()["epoch"]) == (0, 2, 2)


@pytest.mark.parametrize(("tasks", "partitions", "records"), first(1, [(5, 4, 2_000), (1, 1, 2_500), (7, 4, 600)]))
def test_any_tasks_partitions_and_cuts(spark, few_flights, tasks, partitions, records, tmp_path):
    """
    The figures depend neither on tasks nor on partitions nor on where epochs are cut, and any thread may run topologies.

    A session without a setting that only a new one can have is told its name. Tasks write copies to every storage root:
    with those in the log's own folder lost, the results are read from the others.
    """
    log = few_flights(days=2, partitions=partitions)
    log.set_storage([str(tmp_path / "second")])
    assert log.repair().lacking == ()
    options = {"tasks": tasks, "max_records_per_epoch": records, "drain": True}
    spark.conf.set("spark.hadoop.fs.file.impl", "another")
    with (
        pytest.warns(UserWarning, match=r"lacks spark\.hadoop\.fs\.file\.impl=.*RawLocalFileSystem"),
        ThreadPoolExecutor(1) as threads,
    ):
        finished = threads.submit(lambda: run(flight_delays.app, spark, log, **options)).result()
    spark.conf.set("spark.hadoop.fs.file.impl", LOCAL_FILES)

    assert finished.wait(WAIT_SECONDS)
    assert finished.status()["epoch"] > 5_000 / records
    shutil.rmtree(Path(log.root) / "slabs")
    assert_equals_pandas(log, flights_of(2))


def test_late_records_are_counted(spark, few_flights):
    """Records that come after their window has closed are dropped, counted, and in the progress; the others count."""
    log = few_flights(days=3, partitions=1)
    first = run(flight_delays.app, spark, log, trigger=AVAILABLE_NOW)
    assert first.wait(WAIT_SECONDS)
    append_flights(log, flights_of(1))
    second = run(flight_delays.app, spark, log, drain=True)
    assert second.wait(WAIT_SECONDS)
    late = oracle.is_late(pd.concat([flights_of(3), flights_of(1)], ignore_index=True))

    assert late.sum() > 100
    assert sum(second.total("late").values()) == late.sum()
    assert sum(second.progress()[1]["late"].values()) == late.sum()


def test_a_rebuilt_store_goes_on_under_spark(spark, few_flights):
    """A store that was rebuilt before the query is what Spark's tasks go on from: the figures are those of all flights."""
    log = few_flights(days=3, partitions=2)
    first = run(flight_delays.app, spark, log, trigger=AVAILABLE_NOW, tasks=3)
    assert first.wait(WAIT_SECONDS)
    before = log.store("flight-delays", "daily_delays").to_arrow().num_rows
    again = run(flight_delays.app, spark, log, drain=True, rebuild=["daily_delays"])
    assert again.wait(WAIT_SECONDS)

    assert before and again.status()["generation"] == 3
    assert_equals_pandas(log, flights_of(3))
