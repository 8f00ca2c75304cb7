"""Stores as DataFrames: the rows of the newest epoch, planned by the driver, read by tasks without the catalog, with filters of keys pushed down."""

from __future__ import annotations

import datetime as dt
import math
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import ConfigError, SchemaError, StoreNotFoundError
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from streamkit.spark.dataframe.options import store_options
from streamkit.spark.dataframe.source import TopicSource
from streamkit.spark.dataframe.store_reader import FilteringStoreReader
from tests.kit.engine_run import fresh_log
from tests.kit.sampling import TAKES_ALL, seeds
from tests.kit.store_layouts import KEY, STORES, WINDOWED, Application, comparable, model, place
from tests.unit.spark.dataframe.conftest import rows_of, spark_schema


@pytest.fixture(scope="module")
def application():
    """An application with stores of all layouts."""
    with fresh_log(on_disk=True) as log:
        made = Application(log, 5)
        for _ in range(3):
            made.run_epoch()
        yield made


def source(application, store, **options):
    return TopicSource({"store": f"app/{store}", "log": application.log.root, **options})


def reader(application, store, filters=()):
    """A reader to which Spark has given filters, as it does where they are switched on."""
    made = FilteringStoreReader(store_options(source(application, store).options), spark_schema(application.view(store).schema))
    assert list(made.pushFilters(list(filters))) == list(filters), "Spark checks all of them once more"
    return made


def read(application, store, filters=()):
    made = reader(application, store, filters)
    return rows_of(made, made.partitions())


def in_any_order(rows):
    return sorted(map(repr, comparable(rows)))


@pytest.mark.parametrize("store", STORES if TAKES_ALL else STORES[::3])
def test_all_rows(application, store, monkeypatch):
    """What `to_arrow` gives, from local stores, and from the changelogs where there are none; tasks open no catalog."""
    expected = application.view(store).to_arrow().to_pylist()
    made = reader(application, store)
    partitions = made.partitions()
    with monkeypatch.context() as patch:
        patch.setattr(Log, "__init__", None)
        assert comparable(rows_of(made, partitions)) == comparable(expected)
        stores = Path(application.log.root, "stores")
        stores.rename(f"{stores}.away")
        try:
            assert comparable(rows_of(made, partitions)) == comparable(expected)
        finally:
            Path(f"{stores}.away").rename(stores)


def test_a_store_that_was_moved_on_is_not_read(application):
    """What was planned is of one epoch, although the application commits others, and moves its local stores on, before tasks read."""
    made = reader(application, "counts")
    partitions = made.partitions()
    expected = application.view("counts").to_arrow().to_pylist()
    application.run_epoch()
    application.run_epoch()
    assert comparable(rows_of(made, partitions)) == comparable(expected)


def test_a_damaged_store_is_read_around(application):
    """Where a local store is damaged the changelogs have its rows."""
    expected = application.view("tumbling").to_arrow().to_pylist()
    stores = Path(application.log.root, "stores")
    shutil.copytree(stores, copy := Path(application.log.root, "copy"))
    for path in stores.rglob("*.run"):
        path.write_bytes(path.read_bytes()[:-60] + b"\x01" * 60)
    try:
        assert comparable(read(application, "tumbling")) == comparable(expected)
    finally:
        shutil.rmtree(stores)
        copy.rename(stores)


COMPARISONS = {
    EqualTo: lambda found, wanted: found == wanted and found != (0,),
    EqualNullSafe: lambda found, wanted: found == wanted,
    GreaterThan: lambda found, wanted: found > wanted,
    GreaterThanOrEqual: lambda found, wanted: found >= wanted,
    LessThan: lambda found, wanted: (0,) < found < wanted,
    LessThanOrEqual: lambda found, wanted: (0,) < found <= wanted,
}


def holds(row, filter):
    """Whether a row passes a filter as Spark has it: null passes none of the comparisons, and NaN is the greatest double."""
    (name,) = filter.attribute
    if isinstance(filter, IsNull):
        return row[name] is None
    if isinstance(filter, StringStartsWith):
        return row[name] is not None and row[name].startswith(filter.value)
    found = place(row[name])
    if isinstance(filter, In):
        return found != (0,) and found in [place(value) for value in filter.value]
    return COMPARISONS[type(filter)](found, place(filter.value))


def some_filter(chosen, rows, names):
    name = chosen.choice(names)
    kind = chosen.choice([EqualTo, EqualTo, EqualTo, In, IsNull, *COMPARISONS])
    values = [value for row in rows if (value := row[name]) is not None]
    if kind is IsNull:
        return IsNull((name,))
    if kind is In:
        return In((name,), tuple(chosen.choice(values) for _ in range(chosen.randrange(1, 4))))
    return kind((name,), chosen.choice(values))


@pytest.mark.parametrize("store", STORES if TAKES_ALL else STORES[::3])
def test_filters_leave_nothing_out(application, store):
    """Random filters of keys, values and windows: what passes them is read, row by row once, and often little else."""
    rows = model(application, store)
    chosen = random.Random(store)
    names = [*KEY, *KEY, "v", *(["window_start", "window_end"] if store in WINDOWED else [])]
    for _ in seeds(8):
        filters = [some_filter(chosen, rows, names) for _ in range(chosen.randrange(1, 5))]
        found = read(application, store, filters)
        passing = [row for row in rows if all(holds(row, one) for one in filters)]
        assert in_any_order(row for row in found if all(holds(row, one) for one in filters)) == in_any_order(passing), filters
        assert len(found) <= len(rows)


def test_filters_choose_what_is_read(application):
    """Keys that are named are looked up alone, beginnings and windows are read as ranges, and one key of windows is in one key group."""
    counts, hourly = model(application, "counts"), model(application, "tumbling")
    row = next(row for row in counts if None not in (row["s"], row["n"], row["d"]) and not math.isnan(row["d"]))
    whole = [EqualTo((name,), row[name]) for name in KEY]
    assert comparable(read(application, "counts", whole)) == comparable([row])
    assert len(reader(application, "counts", whole).partitions()) == 1
    twice = [EqualTo(("s",), row["s"]), In(("n",), (row["n"], row["n"])), In(("d",), (0.0, -0.0, row["d"]))]
    wanted = [one for one in counts if (one["s"], one["n"]) == (row["s"], row["n"]) and one["d"] in (0.0, row["d"])]
    assert in_any_order(read(application, "counts", twice)) == in_any_order(wanted)
    begin = [one for one in counts if one["s"] == row["s"]]
    assert in_any_order(read(application, "counts", whole[:1])) == in_any_order(begin)
    later = [one for one in begin if one["n"] is not None and one["n"] >= row["n"]]
    found = read(application, "counts", [whole[0], GreaterThanOrEqual(("n",), row["n"])])
    assert in_any_order(found) == in_any_order(later)
    start = hourly[len(hourly) // 2]["window_start"]
    assert len(read(application, "tumbling", [EqualTo(("window_start",), start)])) == sum(
        one["window_start"] == start for one in hourly
    )
    assert len(read(application, "tumbling", [LessThan(("window_start",), start)])) <= sum(
        one["window_start"] <= start for one in hourly
    )
    one_key = reader(application, "sessions", whole)
    assert [len(partition.groups) for partition in one_key.partitions()] == [1]
    nobody = [EqualTo(("s",), "no such text"), *whole[1:]]
    assert read(application, "counts", nobody) == []
    assert read(application, "counts", [EqualTo(("n",), dt.date(2026, 1, 1))]) != [], "what does not fit is Spark's to compare"


def test_times_in_keys(tmp_path):
    """Constants with a zone are compared with times that have one, and those without a zone with times that have none; others are Spark's."""
    log = open_log(tmp_path / "log")
    log.create_topic("in", "at timestamp, local timestamp_ntz, v int", key=["at", "local"])
    app = sk.Topology("app")
    app.stream("in").group_by("at", "local").agg(n=F.count("*"), store="counts").emit("latest").to("out")
    moments = [dt.datetime(2026, 1, 1, hour) for hour in range(6)]
    with log, log.producer() as producer:
        for moment in moments:
            producer.send("in", {"at": moment.replace(tzinfo=dt.timezone.utc), "local": moment, "v": 1}, timestamp_ms=1)
        producer.flush()
        sk.run(app, log=log, engine="local", trigger="available_now").wait()
        schema = spark_schema(log.store("app", "counts").schema)

        def rows(*filters):
            made = FilteringStoreReader(store_options({"store": "app/counts", "log": log.root}), schema)
            made.pushFilters(list(filters))
            return len(rows_of(made, made.partitions()))

        zoned = moments[3].replace(tzinfo=dt.timezone(dt.timedelta(hours=0)))
        assert rows(EqualTo(("at",), zoned)) == 1
        assert rows(EqualTo(("at",), moments[3])) == len(moments)
        assert rows(GreaterThanOrEqual(("at",), zoned)) == 3
        assert rows(EqualTo(("at",), zoned), LessThan(("local",), moments[3])) == 1
        assert rows(EqualTo(("at",), zoned), EqualTo(("local",), zoned)) == 1
        assert rows(EqualTo(("at",), zoned), EqualTo(("local",), moments[3])) == 1
        assert rows(EqualTo(("at",), zoned), EqualTo(("local",), moments[2])) == 0


def test_columns(application):
    """The schema is that of the rows, and `columns` chooses some of them."""
    assert source(application, "counts").schema() == "`s` string, `n` bigint, `d` double, `c` bigint, `v` bigint"
    assert source(application, "tumbling", columns="c, s").schema() == "`c` bigint, `s` string"
    made = source(application, "tumbling", columns="c, s")
    some = application.view("tumbling").schema
    schema = spark_schema(pa.schema([some.field(name) for name in ("c", "s")]))
    found = made.reader(schema)
    assert set(rows_of(found, found.partitions())[0]) == {"c", "s"}


def test_what_does_not_fit_is_said(application):
    """Unknown applications, stores and columns are told with those that there are; streams and writes take topics."""
    with pytest.raises(StoreNotFoundError, match=r"has no store 'daily'; it has .*counts"):
        source(application, "daily").schema()
    with pytest.raises(ConfigError, match=r"application 'other' does not exist; there are app"):
        TopicSource({"store": "other/daily", "log": application.log.root}).schema()
    with pytest.raises(SchemaError, match="the store app/counts has no column 'price'; it has s, n, d, c, v"):
        source(application, "counts", columns="price").schema()
    texts = spark_schema(pa.schema([("c", pa.string())]))
    with pytest.raises(SchemaError, match=r"the store app/counts: the schema asks for c string, expected bigint"):
        source(application, "counts").reader(texts).partitions()
    with pytest.raises(ConfigError, match="store is 'counts'; expected the application and the store"):
        TopicSource({"store": "counts", "log": application.log.root}).schema()
    with pytest.raises(ConfigError, match="the option topic is unknown"):
        source(application, "counts", topic="in").schema()
    with pytest.raises(ConfigError, match=r"a store is read by spark\.read; a stream takes a topic"):
        source(application, "counts").streamReader(None)
    with pytest.raises(ConfigError, match=r"a store is read by spark\.read; a write takes a topic"):
        source(application, "counts").writer(None, False)


@pytest.mark.spark
def test_in_spark(application, spark):
    """A store is a table that is found without registration; `to_spark` gives it, with the filters of keys in the plan of its scan."""
    view = application.view("counts")
    options = {"log": application.log.root, "store": "app/counts"}
    table = spark.read.format("streamkit").options(**options).load()
    assert table.count() == view.count()
    some = table.where("s = 'a' and n >= 0").select("s", "n", "c")
    wanted = [row for row in view.to_rows() if row["s"] == "a" and row["n"] is not None and row["n"] >= 0]
    assert sorted(row.asDict()["c"] for row in some.collect()) == sorted(row["c"] for row in wanted)
    own = application.view("tumbling")
    assert own.to_spark(spark).where("window_start < '1970-01-01 00:00:05+00:00'").count() == len(own.windows(end=5000))
    with own.at_now() as fixed:
        before = fixed.count()
        application.run_epoch()
        assert fixed.to_spark(spark).count() == before
