"""Topics as DataFrames in Spark itself, found without registration."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.sql import functions as F

from tests.unit.spark.dataframe.conftest import T0, amounts

pytestmark = pytest.mark.spark


@pytest.fixture
def options(log):
    """The options that name the log and a topic."""
    return lambda topic="orders", **others: {"log": log.root, "topic": topic, **others}


def test_batch(spark, log, options):
    """A topic is a table: read with the filters of times and offsets in the plan of the scan alone, and written in one commit."""
    start = T0 + dt.timedelta(seconds=25)
    orders = spark.read.format("streamkit").options(**options()).load()
    chosen = orders.where((F.col("_timestamp") >= F.lit(start)) & (F.col("_offset") < 12) & (F.col("user") != "u1"))
    plan = chosen._jdf.queryExecution().executedPlan().toString()
    chosen.write.format("streamkit").options(**options("copy")).mode("append").save()
    places = ["_partition", "_offset"]
    rows = [row for row in log.read("orders", start_time=start, end=12).drop_columns(places).to_pylist() if row["user"] != "u1"]
    copied = log.read("copy").drop_columns(places).to_pylist()
    assert sorted(copied, key=repr) == sorted(rows, key=repr) and len(rows) > 5
    assert "user" in plan and "_offset" not in plan.split("BatchScan")[0].split("Filter")[1]


def test_stream(spark, log, options, tmp_path):
    """
    A stream from topic to topic, exactly once: a batch that Spark repeats is there once.

    Spark repeats a batch whose end it has not noted, as after a death between the log's commit and that note.
    """

    def run():
        read = spark.readStream.format("streamkit").options(**options(maxRecordsPerTrigger="15")).load()
        written = read.select("user", (F.col("amount") * 2).alias("amount")).writeStream.format("streamkit")
        written = written.options(**options("copy", id="doubled")).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = written.trigger(availableNow=True).start()
        query.awaitTermination()
        return [progress["batchId"] for progress in query.recentProgress]

    assert run() == [0, 1, 2]
    for name in ("2", ".2.crc"):  # the second only where the session writes checksums, which the first of a run may do
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=name != "2")
    assert run() == [2]
    assert amounts(log) == [2.0 * number for number in range(40)]
