"""Promises of profiles of topics: each figure is what DuckDB finds, and is told of the rows that were read."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.errors import ConfigError

START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
COLUMNS = (
    "id bigint NOT NULL, customer string, amount double, price decimal(9,2), placed timestamp, ok boolean, tags array<string>"
)


def orders(count, first=0):
    for n in range(first, first + count):
        yield {
            "id": n,
            "customer": f"c{n % 17}",
            "amount": None if n % 5 == 0 else n / 7,
            "price": Decimal(n) / 4,
            "placed": START + dt.timedelta(minutes=n % 60),
            "ok": n % 3 == 0,
            "tags": ["x"] if n % 2 else None,
        }


@pytest.fixture
def log():
    with sk.open_log(":memory:") as opened:
        opened.create_topic("orders", COLUMNS, key="id", partitions=2)
        with opened.producer() as producer:
            for first in range(0, 2_000, 100):
                producer.send_batch("orders", list(orders(100, first)))
                producer.flush()
        yield opened


def test_figures_are_those_of_a_database(log):
    """Nulls, distinct values, bounds and means of all columns are what DuckDB finds in the same rows."""
    profile, rows = log.topic("orders").profile(), log.read("orders")
    assert (profile.rows, profile.rows_read, profile.deletions) == (2_000, 2_000, 0)
    for name in ("id", "customer", "amount", "price", "placed", "ok"):
        mean = f"avg({name})" if name in ("id", "amount", "price") else "NULL"
        figures = f"count(*) - count({name}), count(DISTINCT {name}), min({name}), max({name}), {mean}"
        found = duckdb.from_arrow(rows).aggregate(figures).fetchall()[0]
        column = profile[name]
        assert (column.nulls, column.distinct, column.least, column.greatest) == found[:4]
        assert column.mean == (None if found[4] is None else pytest.approx(float(found[4])))
    tags = profile["tags"]
    assert (tags.type, tags.nulls, tags.distinct, tags.least, tags.mean) == ("array<string>", 1_000, None, None, None)


def test_rows_that_are_read_are_bounded_and_told(log):
    """Not many more rows are read than asked for, from early and late frames, and the profile says so."""
    profile = log.topic("orders").profile(rows=400)
    assert 300 <= profile.rows_read <= 500 and profile.rows == 2_000
    assert profile["id"].least < 300 and profile["id"].greatest > 1_700
    assert f"2,000 rows, {profile.rows_read} read, in frames spread over the topic" in repr(profile)
    assert repr(profile).splitlines()[1].split() == ["column", "type", "nulls", "distinct", "min", "max", "mean"]
    assert log.topic("orders").profile(rows=1).rows_read >= 1
    with pytest.raises(ConfigError, match="found a profile of 0 rows; expected 1 or more"):
        log.topic("orders").profile(rows=0)


def test_a_notebook_shows_a_table_and_pandas_has_values(log):
    """The HTML has a row a column, with text that is no HTML; pandas has Python values, and deletions are told."""
    with log.producer() as producer:
        producer.send("orders", {**next(orders(1, 5_000)), "customer": "<b>zed</b>"})
        producer.delete("orders", {"id": 1})
    profile = log.topic("orders").profile()
    html = profile._repr_html_()
    assert "&lt;b&gt;zed" in html and "<b>zed" not in html and "2,002 rows, all read, 1 of them deletions" in html
    assert profile.to_pandas().loc["id", "max"] == 5_000
    with pytest.raises(KeyError, match="found 'city'; expected one of id, customer"):
        profile["city"]


def test_an_empty_topic_has_a_profile():
    """Without rows there are no bounds and no means."""
    with sk.open_log(":memory:") as log:
        log.create_topic("empty", COLUMNS, key="id")
        profile = log.topic("empty").profile()
        assert profile.rows == 0 and {(c.nulls, c.least, c.mean) for c in profile.columns} == {(0, None, None)}


def test_values_at_the_ends_of_their_types_have_figures():
    """Integers that no double keeps, decimals of 38 digits, and times beyond those of Python have bounds, and numbers a mean."""
    most = 2**63 - 1
    columns = {
        "whole": pa.array([most, -most]),
        "exact": pa.array([Decimal("9" * 38), None], pa.decimal128(38, 0)),
        "parted": pa.array([float("inf"), 0.0]),
        "day": pa.array([106_751_991, -106_751_991], pa.int32()).cast(pa.date32()),
        "moment": pa.array([most, -most]).cast(pa.timestamp("us", "UTC")),
        "local": pa.array([most, -most]).cast(pa.timestamp("us")),
        "code": pa.array([b"\xff", b"a"]),
    }
    with sk.open_log(":memory:") as log:
        log.create_topic("ends", pa.table(columns).schema)
        with log.producer() as producer:
            producer.send_batch("ends", pa.table(columns))
        profile = log.topic("ends").profile()
    assert (profile["whole"].least, profile["whole"].greatest, profile["whole"].mean) == (-most, most, 0.0)
    assert profile["exact"].greatest == Decimal("9" * 38) and profile["parted"].mean == float("inf")
    assert profile["day"].greatest == "+294247-01-10" and profile["moment"].greatest.startswith("+294247-01-10T04:00:54")
    assert "294247" in repr(profile) and "294247" in profile._repr_html_() and profile["code"].least == b"a"
