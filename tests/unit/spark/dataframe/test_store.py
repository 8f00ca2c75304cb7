"""Stores as DataFrames: the rows of the newest epoch, planned by the driver, read by tasks without the catalog, as far as `where` asks for them."""

from __future__ import annotations

import datetime as dt
import json
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
)

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import ConfigError, SchemaError, StoreNotFoundError
from streamkit.expressions.analysis.row_condition import RowCondition
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from streamkit.spark.dataframe.source import TopicSource
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


SIGNS = {EqualTo: "=", EqualNullSafe: "<=>", GreaterThan: ">", GreaterThanOrEqual: ">=", LessThan: "<", LessThanOrEqual: "<="}


def constant(value):
    """A value in SQL."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # a text may stand in these quotes, with these escapes
    if isinstance(value, float):
        return f"{value!r}D" if math.isfinite(value) else f"double('{value}')"
    if isinstance(value, dt.datetime):
        return f"timestamp{'' if value.tzinfo else '_ntz'}'{value:%Y-%m-%d %H:%M:%S.%f}'"
    return f"date'{value}'" if isinstance(value, dt.date) else str(value)


def sql(filter):
    """A filter in SQL."""
    (name,) = filter.attribute
    if isinstance(filter, IsNull):
        return f"{name} is null"
    if isinstance(filter, In):
        return f"{name} in ({', '.join(map(constant, filter.value))})"
    return f"{name} {SIGNS[type(filter)]} {constant(filter.value)}"


def reader(application, store, filters=(), **options):
    """A reader of the rows that pass filters."""
    where = {"where": " and ".join(map(sql, filters))} if filters else {}
    return source(application, store, **where, **options).reader(spark_schema(application.view(store).schema))


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
    found = place(row[name])
    if isinstance(filter, In):
        return found != (0,) and found in [place(value) for value in filter.value]
    return COMPARISONS[type(filter)](found, place(filter.value))


def some_filter(chosen, rows, names):
    name = chosen.choice(names)
    kind = chosen.choice([EqualTo, EqualTo, EqualTo, In, In, In, IsNull, *COMPARISONS])
    values = [value for row in rows if (value := row[name]) is not None]
    if kind is IsNull:
        return IsNull((name,))
    if kind is In:
        return In((name,), tuple(chosen.choice(values) for _ in range(chosen.randrange(1, 4))))
    return kind((name,), chosen.choice(values))


@pytest.mark.parametrize("store", STORES if TAKES_ALL else STORES[::3])
def test_where_gives_what_passes(application, store):
    """Random filters of keys, values and windows: what passes them is read, row by row once, and nothing else."""
    rows = model(application, store)
    chosen = random.Random(store)
    names = [*KEY, *KEY, "v", *(["window_start", "window_end"] if store in WINDOWED else [])]
    for _ in seeds(6):
        filters = [some_filter(chosen, rows, names) for _ in range(chosen.randrange(1, 5))]
        found = read(application, store, filters)
        passing = [row for row in rows if all(holds(row, one) for one in filters)]
        assert in_any_order(found) == in_any_order(passing), filters


def all_read(application, store, filters, monkeypatch):
    """What is read before the condition is checked on each row."""
    made = reader(application, store, filters)
    partitions = made.partitions()
    with monkeypatch.context() as patch:
        patch.setattr(RowCondition, "kept", lambda self, rows: rows)
        return rows_of(made, partitions)


def test_where_chooses_what_is_read(application, monkeypatch):
    """Keys that are named are looked up alone, beginnings and windows are read as ranges, and one key of windows is in one key group."""
    counts, hourly = model(application, "counts"), model(application, "tumbling")
    row = next(row for row in counts if None not in (row["s"], row["n"], row["d"]) and not math.isnan(row["d"]))
    whole = [EqualTo((name,), row[name]) for name in KEY]
    assert comparable(all_read(application, "counts", whole, monkeypatch)) == comparable([row])
    assert len(reader(application, "counts", whole).partitions()) == 1
    twice = [EqualTo(("s",), row["s"]), In(("n",), (row["n"], row["n"])), In(("d",), (0.0, -0.0, row["d"]))]
    wanted = [one for one in counts if (one["s"], one["n"]) == (row["s"], row["n"]) and one["d"] in (0.0, row["d"])]
    assert in_any_order(all_read(application, "counts", twice, monkeypatch)) == in_any_order(wanted)
    begin = [one for one in counts if one["s"] == row["s"]]
    assert in_any_order(all_read(application, "counts", whole[:1], monkeypatch)) == in_any_order(begin)
    later = [one for one in begin if one["n"] is not None and one["n"] >= row["n"]]
    found = all_read(application, "counts", [whole[0], GreaterThanOrEqual(("n",), row["n"])], monkeypatch)
    assert in_any_order(found) == in_any_order(later)
    start = hourly[len(hourly) // 2]["window_start"]
    assert len(all_read(application, "tumbling", [EqualTo(("window_start",), start)], monkeypatch)) == sum(
        one["window_start"] == start for one in hourly
    )
    assert len(all_read(application, "tumbling", [LessThan(("window_start",), start)], monkeypatch)) <= sum(
        one["window_start"] <= start for one in hourly
    )
    one_key = reader(application, "sessions", whole)
    assert [len(partition.groups) for partition in one_key.partitions()] == [1]
    nobody = [EqualTo(("s",), "no such text"), *whole[1:]]
    assert all_read(application, "counts", nobody, monkeypatch) == []


def test_where_of_all_kinds(application):
    """What chooses nothing is checked on each row: or, not, functions, the columns that are not keys; names ignore case."""
    rows = application.view("counts").to_rows()
    schema = spark_schema(application.view("counts").schema)

    def found(text, **options):
        made = source(application, "counts", where=text, **options).reader(schema)
        return in_any_order(rows_of(made, made.partitions()))

    assert found("S = 'a' or n = 3") == in_any_order(row for row in rows if row["s"] == "a" or row["n"] == 3)
    assert found("not (n > 0) and length(s) = 1") == in_any_order(
        row for row in rows if row["n"] is not None and row["n"] <= 0 and row["s"] is not None and len(row["s"]) == 1
    )
    assert found("c + 1 > 2 and 1 <= v") == in_any_order(row for row in rows if row["c"] > 1 and row["v"] >= 1)
    assert found("n between 0 and 3 or s is null") == in_any_order(
        row for row in rows if row["s"] is None or (row["n"] is not None and 0 <= row["n"] <= 3)
    )
    assert found("true") == in_any_order(rows)
    assert found("s = null") == found("false") == []


def test_times_in_keys(tmp_path):
    """Times with a zone and without one are compared as SQL does, whichever the constant has; those without one are in UTC."""
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
            text = " and ".join(map(sql, filters))
            made = TopicSource({"store": "app/counts", "log": log.root, "where": text}).reader(schema)
            return len(rows_of(made, made.partitions()))

        zoned = moments[3].replace(tzinfo=dt.timezone(dt.timedelta(hours=0)))
        assert rows(EqualTo(("at",), zoned)) == 1
        assert rows(EqualTo(("at",), moments[3])) == 1
        assert rows(GreaterThanOrEqual(("at",), zoned)) == 3
        assert rows(EqualTo(("at",), zoned), LessThan(("local",), moments[3])) == 0
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
    with pytest.raises(ConfigError, match="where is 'price = 3': there is no column 'price'; the columns are s, n, d, c, v"):
        source(application, "counts", where="price = 3").schema()
    with pytest.raises(ConfigError, match="store is 'counts'; expected the application and the store"):
        TopicSource({"store": "counts", "log": application.log.root}).schema()
    with pytest.raises(ConfigError, match="the option topic is unknown"):
        source(application, "counts", topic="in").schema()
    with pytest.raises(ConfigError, match=r"a store is read by spark\.read; a stream needs a topic"):
        source(application, "counts").streamReader(None)
    with pytest.raises(ConfigError, match=r"a store is read by spark\.read; a write needs a topic"):
        source(application, "counts").writer(None, False)


def test_to_spark_takes_a_session(application):
    """Anything else is named, and so is a condition that cannot be said of the store."""
    with pytest.raises(ConfigError, match=r"to_spark\(\) needs a SparkSession, .*; found None"):
        application.view("counts").to_spark(None)


@pytest.mark.spark
def test_in_spark(application, spark):
    """A store is a table that is found without registration; `to_spark` gives it, whole or the rows that `where` asks for."""
    view = application.view("counts")
    options = {"log": application.log.root, "store": "app/counts"}
    table = spark.read.format("streamkit").options(**options).load()
    assert table.count() == view.count()
    some = spark.read.format("streamkit").options(**options, where="s = 'a' and n >= 0").load().select("s", "n", "c")
    wanted = [row for row in view.to_rows() if row["s"] == "a" and row["n"] is not None and row["n"] >= 0]
    assert sorted(row.asDict()["c"] for row in some.collect()) == sorted(row["c"] for row in wanted)
    assert some.where("c > 1").count() == sum(row["c"] > 1 for row in wanted)
    own = application.view("tumbling")
    early = "window_start < timestamp'1970-01-01 00:00:05'"
    assert own.to_spark(spark, where=early).count() == len(own.windows(end=5000))
    with pytest.raises(ConfigError, match="there is no column 'price'"):
        own.to_spark(spark, where="price = 3")
    with own.at_now() as fixed:
        before = fixed.count()
        application.run_epoch()
        assert fixed.to_spark(spark).count() == before
        assert fixed.to_spark(spark, where=early).count() == len(fixed.windows(end=5000))
