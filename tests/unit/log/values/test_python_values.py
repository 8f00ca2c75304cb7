"""Promises of rows as Python values: every time that a topic holds comes out, and goes in again."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from streamkit.clock import HandClock
from streamkit.errors import SchemaError
from streamkit.log.opening import open_log
from streamkit.log.rows.conversion import DAYS_MAX
from streamkit.log.rows.event_time import TIME_MS_MAX
from streamkit.log.values.python_values import python_values

UTC = dt.timezone.utc
TYPES = {"day": pa.date32(), "at": pa.timestamp("us", "UTC"), "local": pa.timestamp("us")}
NEAR = {"day": dt.date(2026, 1, 31), "at": dt.datetime(2026, 1, 31, 12, tzinfo=UTC), "local": dt.datetime(2026, 1, 31, 12)}
EDGES = {  # the first and the last that each column takes, and on both sides of the years 1 and 9999
    "day": [-DAYS_MAX, -719_163, -719_162, 2_932_896, 2_932_897, DAYS_MAX],
    "at": [1 - (1 << 63), -62_135_596_800_000_001, -62_135_596_800_000_000, 253_402_300_799_999_999, 253_402_300_800_000_000, (1 << 63) - 1],
}  # fmt: skip
EDGES["local"] = EDGES["at"]


@pytest.fixture
def log():
    log = open_log(":memory:", HandClock(1000))
    config = {"message.timestamp.after.max.ms": (1 << 63) - 1}
    log.create_topic("t", "day date, at timestamp, local timestamp_ntz", partitions=1, config=config)
    return log


def edges():
    return pa.table(
        {name: pa.array(EDGES[name]).cast(pa.int32() if name == "day" else pa.int64()).view(TYPES[name]) for name in TYPES}
    )


def own_columns(rows):
    return [{name: row[name] for name in TYPES} for row in rows]


def test_rows_with_any_time_are_decoded(log):
    """A time that a datetime can be is one; another is numpy's, to the day or the microsecond."""
    with log.producer() as producer:
        producer.send_batch("t", edges())
    rows = log.decode("t", log.read("t"))

    for name, unit in (("day", "D"), ("at", "us"), ("local", "us")):
        values = [row[name] for row in rows]
        assert [isinstance(value, np.datetime64) for value in values] == [True, True, False, False, True, True]
        assert [int(np.array(_naive(value), f"M8[{unit}]").astype(np.int64)) for value in values] == EDGES[name]


def _naive(value):
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def test_what_is_decoded_can_be_sent(log):
    """Decoded rows go in again, one by one and all at once, beside rows with nearer times and with none."""
    rows = [*own_columns(edges_of(log)), NEAR, dict.fromkeys(TYPES)]
    with log.producer() as producer:
        for row in rows:
            producer.send("t", row)
        producer.send_batch("t", rows)
        producer.send_batch("t", rows[::-1])
    assert own_columns(log.decode("t", log.read("t"))) == rows + rows + rows[::-1]


def edges_of(log):
    log.create_topic("edges", "day date, at timestamp, local timestamp_ntz", partitions=1)
    with log.producer() as producer:
        producer.send_batch("edges", edges())
    return log.decode("edges", log.read("edges"))


@pytest.mark.parametrize("time_ms", [TIME_MS_MAX, -TIME_MS_MAX, 1_700_000_000_000_000])
def test_any_event_time_is_decoded(log, time_ms):
    """An event time that was given in a wrong unit keeps no row of the topic from being decoded."""
    with log.producer() as producer:
        producer.send("t", NEAR, timestamp_ms=time_ms)
        producer.send("t", NEAR, timestamp_ms=1)
    times = [row["_timestamp"] for row in log.decode("t", log.read("t"))]

    assert times == [np.datetime64(time_ms, "ms"), dt.datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)]


@pytest.mark.parametrize("kind", [pa.timestamp("s", "UTC"), pa.timestamp("ns"), pa.date32()])
def test_tables_of_other_units_are_decoded(kind):
    """Chunks, nulls and units that no topic has make no difference."""
    column = pa.chunked_array([pa.array([None, 0], kind), pa.array([1], kind), pa.array([], kind)])

    assert python_values(column) == column.to_pylist()


@pytest.mark.parametrize("form", [lambda column: column, lambda column: column.dictionary_encode()])
def test_a_refused_time_is_named(log, form):
    """A time that does not fit its column is named in the error, whatever its year."""
    far = form(pa.array([1 << 62]).view(pa.timestamp("us", "UTC")))
    rows = pa.table({"day": far, "at": far, "local": far})
    with (
        log.producer() as producer,
        pytest.raises(SchemaError, match=r"row 0, column 'day': found 4611686018427387904 .* expected date"),
    ):
        producer.send_batch("t", rows)
