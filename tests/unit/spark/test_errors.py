"""Errors of tasks, of the planner and of the commit, as they come out of `wait`."""

from __future__ import annotations

import datetime as dt
import os
import re
import signal
import sys
import threading
import traceback
from pathlib import Path

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.options import AVAILABLE_NOW
from streamkit.errors import ConfigError, CorruptionError, EvaluationError, FencedError
from streamkit.launch.run import run
from streamkit.log.opening import open_log
from streamkit.spark.spark_run import SparkRun
from tests.kit.spark.faults import wait_until
from tests.unit.spark.conftest import assert_equals_pandas, flights_of
from topologies import flight_delays

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("slabs_in_files")]

WAIT_SECONDS = 200


@pytest.fixture
def readings(tmp_path):
    """A log with readings, one of which is no number, and one without a sensor."""
    with open_log(tmp_path / "log") as log:
        log.create_topic("readings", "sensor string, value string, at timestamp", key="sensor", timestamp="at", partitions=1)
        with log.producer() as producer:
            for second, (sensor, value) in enumerate((("a", "1"), (None, "2"), ("b", "3"), ("b", "none"))):
                at = dt.datetime(2024, 1, 1, 0, 0, second, tzinfo=dt.timezone.utc)
                producer.send("readings", {"sensor": sensor, "value": value, "at": at})
        yield log


EXPECTED = (
    r"^topic readings, partition 0, offset 3, key sensor = 'b': CAST\(value AS INT\) failed with value = 'none': "
    r"'none' cannot be read as int\n  at .*test_errors\.py:\d+$"
)


def sums(text="value != 'none'"):
    app = sk.Topology("sums")
    numbers = app.stream("readings").filter(text).select(number=F.col("value").cast("int"))
    numbers.group_by("sensor").agg(total=F.sum("number"), store="totals").to("totals")
    return app


def wait_for_an_epoch(running):
    wait_until(lambda: running.progress() or not running.is_active, WAIT_SECONDS)


def interrupt_the_wait():
    """Ctrl-C as soon as the main thread waits for a run."""
    wait_until(lambda: any(frame.f_code is SparkRun._ended.__code__ for frame in frames_of_main_thread()), WAIT_SECONDS)
    os.kill(os.getpid(), signal.SIGINT)


def frames_of_main_thread():
    number = threading.main_thread().ident
    assert number is not None
    return (frame for frame, _ in traceback.walk_stack(sys._current_frames()[number]))


def test_dropped_records_are_counted_and_an_idle_driver_is_fenced(spark, readings):
    """
    A record without a key cannot be grouped: it is dropped, counted, and in the progress.

    A run without work learns that a newer one has taken over; it does not wait for records to come.
    """
    older = run(sums(), spark, readings, tasks=1)
    wait_for_an_epoch(older)
    assert sum(older.total("null_key").values()) == sum(older.progress()[0]["null_key"].values()) == 1
    assert sorted(readings.read("totals").select(["sensor", "total"]).to_pylist(), key=str) == [
        {"sensor": "a", "total": 1},
        {"sensor": "b", "total": 3},
    ]
    assert run(sums(), spark, readings, trigger=AVAILABLE_NOW).wait(WAIT_SECONDS)

    with pytest.raises(FencedError):
        older.wait(WAIT_SECONDS)


def test_a_function_that_fails_where_small_epochs_are_run(spark, readings):
    """An epoch that fails in the driver's process fails in Spark's tasks, too, and the error is theirs, with the user's line."""
    app = sk.Topology("sums")

    def number(value):
        return int(value)

    app.stream("readings").select(number=F.udf(number, "int")("value")).group_by("sensor").agg(n=F.sum("number")).to("totals")
    with pytest.raises(EvaluationError) as caught:
        run(app, spark, readings, tasks=1).wait(WAIT_SECONDS)
    assert re.search(r"topic readings, partition 0, offset 3.*\n.*at .*test_errors\.py:\d+", str(caught.value), re.DOTALL)
    assert readings.read("totals").num_rows == 0


def test_small_epochs_of_a_query_that_goes_on(spark, readings):
    """Epochs that Spark does not hear of are in progress, status and records; the run stops, and the next goes on behind them."""
    running = run(sums(), spark, readings, tasks=1)
    for number in range(1, 4):
        wait_until(lambda number=number: running.records() == 3 + number, WAIT_SECONDS)
        with readings.producer() as producer:
            producer.send("readings", {"sensor": "a", "value": "1", "at": dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc)})
    wait_until(lambda: running.records() == 7, WAIT_SECONDS)
    running.stop()
    assert (running.status()["epoch"], len(running.progress())) == (4, 4)
    assert {batch["batchId"] for batch in running.query.recentProgress} <= {0}  # which is empty, as ever
    assert run(sums(), spark, readings, drain=True).wait(WAIT_SECONDS)
    assert {row["sensor"]: row["total"] for row in readings.store("sums", "totals").to_arrow().to_pylist()} == {"a": 4, "b": 3}


@pytest.mark.parametrize("records", [0, -5])
def test_epochs_without_records_are_refused(spark, readings, records):
    """An epoch of no record at all is an error, and not the default."""
    with pytest.raises(ConfigError, match=f"max_records_per_epoch={records}; expected at least 1"):
        run(sums(), spark, readings, max_records_per_epoch=records)


def test_evaluation_error(spark, readings):
    """A value that an expression refuses ends the run with the value in the message; nothing became visible."""
    failing = run(sums("true"), spark, readings, tasks=1)

    with pytest.raises(EvaluationError, match=EXPECTED):
        failing.wait(WAIT_SECONDS)
    assert (failing.status()["epoch"], failing.is_active) == (0, False)
    assert readings.read("totals").num_rows == 0
    assert list(Path(readings.root).glob("checkpoints/*/*")) == []


def test_of_several_failures_that_of_the_first_record_is_told(spark, readings):
    """Its record, expression and values, although an expression before it fails in a later record."""
    app = sk.Topology("several")
    stream = app.stream("readings")
    stream.select(number=F.col("value").cast("int"), part=F.lit(1) / (F.length("value") - F.lit(1))).to("parts")

    with pytest.raises(
        EvaluationError, match=r"^topic readings, partition 0, offset 0, key sensor = 'a': 1.0 / CAST\(length\(value\) - 1 AS"
    ):
        run(app, spark, readings, tasks=1).wait(WAIT_SECONDS)


@pytest.mark.parametrize("records", [None, 1], ids=["in a task", "in the planner"])
def test_corruption_error(spark, readings, records):
    """A damaged frame ends the run, wherever it is read, and is named: topic, partition, offset, file, position."""
    (extent,) = readings.catalog.manifest.cut([readings.topic("readings").id], {}).extents
    with (Path(readings.root) / extent.path).open("r+b") as slab:
        slab.seek(extent.position + 160)
        slab.write(b"\xff\x00\xff\x00")
    failing = run(sums(), spark, readings, tasks=1, max_records_per_epoch=records)

    with pytest.raises(CorruptionError) as caught:
        failing.wait(WAIT_SECONDS)
    assert str(caught.value) == (
        f"the frame of topic readings, partition 0, offset 0, in {extent.path} at position {extent.position} is damaged: "
        "the checksum of its payload does not match; restore the file from a copy"
    )


def test_two_drivers_and_an_interrupt(spark, few_flights):
    """
    Of two runs of one application the older is fenced with a clear error, and the newer goes on.

    An interrupt while a notebook waits for that stops it; the next one goes on where it stopped.
    """
    log = few_flights(days=2)
    older = run(flight_delays.app, spark, log, tasks=2, max_records_per_epoch=800)
    wait_for_an_epoch(older)
    newer = run(flight_delays.app, spark, log, tasks=2, max_records_per_epoch=800)
    with pytest.raises(FencedError, match="generation 1 cannot commit, generation 2 has started since"):
        older.wait(WAIT_SECONDS)
    wait_for_an_epoch(newer)
    threading.Thread(target=interrupt_the_wait).start()
    with pytest.raises(KeyboardInterrupt):
        newer.wait(WAIT_SECONDS)

    assert not newer.is_active
    assert run(flight_delays.app, spark, log, drain=True).wait(WAIT_SECONDS)
    assert_equals_pandas(log, flights_of(2))
