"""Promises of times outside the years 1 to 9999: shown like all others, and read back as what they are."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamkit as sk
from streamkit import functions as F
from streamkit.connectors.files.far_times import time_text
from streamkit.connectors.files.record_text import parse_texts
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.errors import SchemaError
from streamkit.schema import SchemaColumn

MICROSECONDS = 1_700_000_000_000_000  # given as milliseconds
SHOWN = "+55840-11-08T22:13:20Z"
ROW = {"n": 1, "day": 2_932_897, "at": 253_402_300_800_000_001, "local": -62_135_596_800_000_001}
TYPES = {"n": pa.int32(), "day": pa.date32(), "at": pa.timestamp("us", "UTC"), "local": pa.timestamp("us")}
TEXTS = {"n": 1, "day": "+10000-01-01", "at": "+10000-01-01T00:00:00.000001Z", "local": "+0000-12-31T23:59:59.999999"}
ANY_TIME = {"message.timestamp.after.max.ms": (1 << 63) - 1}


@pytest.fixture
def far(root):
    """Topics with a row of a wrong event time, and one with wrong times in its columns."""
    with sk.open_log(root) as log:
        log.create_topic("far", "n int, day date, at timestamp, local timestamp_ntz", partitions=1, config=ANY_TIME)
        log.create_topic("twin", "n int, day date, at timestamp, local timestamp_ntz", partitions=1, config=ANY_TIME)
        log.alter_topic("orders", config=ANY_TIME)
        with log.producer() as producer:
            producer.send_batch("far", row_of(ROW), timestamp_ms=MICROSECONDS)
            producer.send("far", {"n": 2, "day": None, "at": None, "local": None}, timestamp_ms=0)
            producer.send("orders", {"customer": "eve", "number": 1004, "amount": 1.0}, timestamp_ms=MICROSECONDS)
    return root


def row_of(values):
    arrays = {name: pa.array([value], pa.int32() if name in ("n", "day") else pa.int64()) for name, value in values.items()}
    return pa.table({name: array if name == "n" else array.view(TYPES[name]) for name, array in arrays.items()})


def numbers_of(root, topic):
    with sk.open_log(root) as log:
        rows = log.read(topic)
    return [rows[name].cast(pa.int32() if name in ("n", "day") else pa.int64()).to_pylist() for name in (*TYPES, "_timestamp")]


@pytest.mark.parametrize("options", [(), ("--follow", "--from-beginning", "--max", "4")])
def test_a_wrong_unit_hides_no_record(streamkit, far, options):
    """A record whose time was given in microseconds is shown, and so are all others of the topic."""
    rows = [json.loads(line) for line in streamkit("consume", "orders", "--json", *options).splitlines()]

    assert [row["_timestamp"] for row in rows][2:] == ["2023-11-14T22:15:20Z", SHOWN]
    assert "1004" in streamkit("consume", "orders", *options)
    assert SHOWN in streamkit("consume", "orders", "--format", "csv", *options)


def test_columns_show_such_times(streamkit, far):
    """Dates and times of all types are shown with a sign before the year, in a table, in JSON and in CSV."""
    assert [str(text) for text in TEXTS.values()] in [line.split() for line in streamkit("consume", "far").splitlines()]
    assert json.loads(streamkit("consume", "far", "--json").splitlines()[0]).items() >= TEXTS.items()
    row = next(csv.DictReader(io.StringIO(streamkit("consume", "far", "--format", "csv"))))
    assert row.items() >= {name: str(text) for name, text in TEXTS.items()}.items()


@pytest.mark.parametrize("form", ["json", "csv"])
def test_what_is_printed_is_read_back(streamkit, far, tmp_path, form):
    """What `consume` prints of such times, `produce` reads as the same times."""
    (tmp_path / f"f.{form}").write_text(streamkit("consume", "far", "--format", form))
    streamkit("produce", "twin", str(tmp_path / f"f.{form}"))

    assert numbers_of(far, "twin") == numbers_of(far, "far")


def test_stats_show_such_times(streamkit, far):
    """A wrong event time keeps no topic out of the table, and the start of 1970 is a time."""
    lines = streamkit("stats").splitlines()

    assert "2023-11-14 22:13:20   +55840-11-08 22:13:20" in next(line for line in lines if line.lstrip().startswith("orders"))
    assert "1970-01-01 00:00:00   1970-01-01 00:00:00" in next(line for line in lines if line.lstrip().startswith("customers"))
    assert "+55840-11-08 22:13:20" in streamkit("stats", "orders")


def test_applications_show_such_times(streamkit, far):
    """Stream times and windows in such years are shown, with the row of a key and with those of all windows."""
    app = sk.Topology("counts")
    windows = app.stream("orders").group_by("number").windowed_by(sk.tumbling("1 hour", grace="0 seconds", retention="10 days"))
    windows.agg(count=F.count("*"), store="hourly")
    with sk.open_log(far) as log:
        run_available(start(log.catalog, log.storage, sk.compile(app, log), tasks=1))
        hourly = log.store("counts", "hourly")
        found = hourly.get(1004, window_start=MICROSECONDS // 3_600_000 * 3_600_000)
        assert found is not None and found == hourly.get(1004, window_start=found["window_start"])

    assert found["window_start"] == np.datetime64("55840-11-08T22", "us")
    assert SHOWN in streamkit("apps", "describe", "counts")
    assert SHOWN in streamkit("apps", "list")
    assert "+55840-11-08T22:00:00Z   +55840-11-08T23:00:00Z" in streamkit("store", "get", "counts", "hourly", "1004")


@pytest.mark.parametrize(
    ("type_name", "text"),
    [
        ("timestamp", "+294247-01-10T04:00:54.775808Z"),
        ("timestamp", "+9999999-01-01T00:00:00Z"),
        ("timestamp", "+2023-02-29"),
        ("timestamp_ntz", "-290308-12-21T19:59:05.224191"),
        ("timestamp_ntz", "+55840-11-08T22:13:20Z"),
        ("date", "+5881580-07-12"),
        ("date", "+55840-13-01"),
        ("date", "+99999999-01-01"),
    ],
)
def test_what_no_column_holds_is_refused(type_name, text):
    """A year that the type does not hold, and a day that no calendar has, are refused with their row."""
    with pytest.raises(SchemaError, match=r"row 1, column 'at': found .*, expected"):
        parse_texts(SchemaColumn("at", type_name), pa.array(["2026-01-31", text]))


@given(st.integers(1 - (1 << 63), (1 << 63) - 1), st.sampled_from(["Z", "", "+00:00"]))
def test_every_moment_goes_round(number, zone):
    """The text of any moment is read as that moment."""
    texts = pa.array([None, time_text(np.datetime64(number, "us"), zone), "2026-01-31"])
    read = parse_texts(SchemaColumn("at", "timestamp"), texts).cast(pa.int64()).to_pylist()

    assert read == [None, number, int(dt.datetime(2026, 1, 31, tzinfo=dt.timezone.utc).timestamp()) * 1_000_000]


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_every_day_goes_round(number):
    """The text of any date is read as that date."""
    texts = pa.array([None, time_text(np.datetime64(number, "D")), "1970-01-02"])

    assert parse_texts(SchemaColumn("day", "date"), texts).cast(pa.int32()).to_pylist() == [None, number, 1]


@pytest.mark.parametrize("options", [(), ("--json",)])
@pytest.mark.parametrize(
    "query", ["SELECT * FROM far", "SELECT * FROM far EMIT CHANGES LIMIT 2", "PRINT far FROM BEGINNING LIMIT 2"]
)
def test_queries_of_sql_show_them(streamkit, far, query, options):
    """Tables and JSON show them, for queries that are run once and queries that go on, also inside lists and maps."""
    declared = "CREATE STREAM far (n INT, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ); SET 'auto.offset.reset' = 'earliest'"
    out = streamkit("sql", *options, "-e", declared, "-e", query)
    assert all(TEXTS[name] in out for name in ("day", "at", "local"))


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_values_with_far_times_inside_are_shown(streamkit, far, options):
    """Lists, and maps by times."""
    declared = "CREATE STREAM far (n INT, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ)"
    out = streamkit("sql", *options, "-e", declared, "-e", "SELECT array(at) AS list, map(at, day) AS m FROM far WHERE n = 1")
    assert out.count(TEXTS["at"]) == 2 and TEXTS["day"] in out
