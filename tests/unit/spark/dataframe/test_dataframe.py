"""Topics as DataFrames in Spark itself, found without registration."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

import streamkit as sk
from streamkit.functions import count
from tests.unit.spark.dataframe.conftest import T0, amounts, order

pytestmark = pytest.mark.spark


@pytest.fixture
def options(log):
    """The options that name the log and a topic."""
    return lambda topic="orders", **others: {"log": log.root, "topic": topic, **others}


def test_batch(spark, log, options):
    """A topic is a table: read with a condition by which the scan is planned, filtered by Spark, and written in one commit."""
    start = T0 + dt.timedelta(seconds=25)
    chosen = "_timestamp >= timestamp'2026-03-01 00:00:25' and _offset < 12"
    orders = spark.read.format("streamkit").options(**options(where=chosen)).load()
    orders.where(F.col("user") != "u1").write.format("streamkit").options(**options("copy")).mode("append").save()
    places = ["_partition", "_offset"]
    rows = [row for row in log.read("orders", start_time=start, end=12).drop_columns(places).to_pylist() if row["user"] != "u1"]
    copied = log.read("copy").drop_columns(places).to_pylist()
    assert sorted(copied, key=repr) == sorted(rows, key=repr) and len(rows) > 5


@pytest.fixture(params=["true", "false"])
def pushdown(spark, request):
    """Spark's setting that gives filters to sources of Python, in both ways in which a user may have set it."""
    name = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(name)
    spark.conf.set(name, request.param)
    yield request.param
    spark.conf.set(name, before)


def counting():
    """An application with a store that has a row for each user and amount."""
    app = sk.Topology("app")
    app.stream("orders").group_by("user", "amount").agg(n=count("*"), store="all").emit("latest").to("counted")
    return app


@pytest.fixture(params=["topic", "store"])
def table(spark, log, options, request):
    """Makes a DataFrame of 40 rows with the columns `user` and `amount`, of a topic or a store."""
    if request.param == "topic":
        return lambda **others: spark.read.format("streamkit").options(**options(), **others).load()
    sk.run(counting(), log=log, engine="local", tasks=2, trigger="available_now").wait()
    return lambda **others: log.store("app", "all").to_spark(spark, **others)


def test_a_dataframe_that_is_used_twice(spark, table, pushdown):
    """A filter holds for its own use alone: whatever came before, and beside others in one plan, no row is missing."""
    a, b = "user = 'u1' and amount >= 0", "user = 'u2'"
    count_a, count_b = 6, 6  # of the numbers below 40, those that leave 1 and 2 when divided by 7
    places = "_partition = 0 and _offset < 3 and _timestamp < timestamp'2026-03-01 00:00:30Z'"
    used = table()
    narrow = places if "_partition" in used.columns else a
    first = used.where(narrow).count()
    assert 0 < first < 40
    assert [used.where(a).count(), used.count(), used.where(b).count(), used.count()] == [count_a, 40, count_b, 40]
    if pushdown == "false":  # Spark asks no source for filters then
        return
    united = table()
    assert united.where(a).unionAll(united.where(b)).count() == count_a + count_b
    assert united.where(narrow).unionAll(united).count() == first + 40
    joined = table()
    assert joined.where(a).alias("x").crossJoin(joined.where(b).alias("y")).count() == count_a * count_b
    table().createOrReplaceTempView("both")
    both = (
        f"select (select count(*) from both where {narrow}), (select count(*) from both where {b}), (select count(*) from both)"
    )
    assert tuple(spark.sql(both).first()) == (first, count_b, 40)


def test_where_of_a_dataframe_that_is_used_twice(table, pushdown):
    """`where` of the reader holds for all uses, and Spark's filters for their own."""
    used = table(where="user in ('u1', 'u2') and amount < 20")
    assert [used.where("user = 'u1'").count(), used.count(), used.where("user = 'u3'").count(), used.count()] == [3, 6, 0, 6]


def test_a_where_that_cannot_be_said(spark, options):
    """It is an error when the DataFrame is made, which names the columns that there are."""
    with pytest.raises(AnalysisException, match="where is 'price = 3': there is no column 'price'; the columns are user, amount"):
        spark.read.format("streamkit").options(**options(where="price = 3")).load()


def test_a_dataframe_sees_the_log_of_its_first_action(log, table, pushdown):
    """What comes later is seen by a DataFrame that is made later; with Spark's setting also by an action with filters, and those behind it."""
    used = table()
    assert used.where("user = 'u1'").count() == 6
    with log.producer() as producer:
        producer.send_batch("orders", [order(number) for number in range(100, 110)])
    if "n" in used.columns:
        sk.run(counting(), log=log, engine="local", tasks=2, trigger="available_now").wait()
    assert (used.count(), table().count()) == (40, 50)
    assert (used.where("user = 'u1'").count(), used.count()) == ((7, 50) if pushdown == "true" else (6, 40))


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
