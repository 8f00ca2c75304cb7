"""`streamkit store`."""

from __future__ import annotations

import datetime as dt
import json

import numpy as np
import pandas as pd
import pytest

import streamkit as sk
from streamkit.errors import ConfigError, StoreNotFoundError


def rows(output):
    return [line.split() for line in output.splitlines() if line.strip()]


def test_row_of_a_key(streamkit, application):
    """The row of a key is shown below its columns."""
    assert rows(streamkit("store", "get", application, "orders_of", "ann"))[::2] == [["customer", "count"], ["ann", "1"]]


def test_windows_of_a_key(streamkit, application):
    """Of a windowed store all windows of the key are shown; the key is read by the type of its column."""
    found = rows(streamkit("store", "get", application, "hourly", "1001"))

    assert found[0] == ["number", "window_start", "window_end", "total"]
    assert found[2:] == [["1001", "2023-11-14T22:00:00Z", "2023-11-14T23:00:00Z", "2.5"]]


def test_one_window_of_a_key(streamkit, application):
    """A window can be named by its start."""
    found = rows(streamkit("store", "get", application, "hourly", "1002", "--window", "2023-11-14T22:00:00Z"))

    assert found[2:] == [["1002", "2023-11-14T22:00:00Z", "2023-11-14T23:00:00Z"]]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("orders_of", "eve"), ConfigError, "has no row of the key eve"),
        (
            ("hourly", "9"),
            ConfigError,
            r"has no row of the key 9; windows that start up to 2023-11-04T\S+Z have expired: retention",
        ),
        (("hourly", "1001", "--window", "2023-11-15"), ConfigError, "has no row of the key 1001 in the window from 2023-11-15$"),
        (
            ("hourly", "1001", "--window", "2023-11-01"),
            ConfigError,
            r"^the window from 2023-11-01 of the store 'hourly' has expired: retention is 10 days and stream time 2023-11-14T\S+Z$",
        ),
        (("hourly", "x"), ConfigError, "the key column number is int; found 'x'"),
        (("hourly", "1", "2"), ConfigError, "found 2 values of a key; expected 1: number"),
        (("daily", "1"), StoreNotFoundError, "has no store 'daily'; it has"),
    ],
)
def test_what_is_not_there(streamkit, application, arguments, error, message):
    """A missing row, a key that does not fit and a missing store are each named."""
    with pytest.raises(error, match=message):
        streamkit("store", "get", application, *arguments)


def test_the_load_of_a_store(streamkit, application):
    """The keys with most of the newest changes are named, as a table and as JSON; without a store, those of all."""
    table = streamkit("store", "stats", application, "orders_of")
    assert "hot key groups" in table and "ann" in table
    (load,) = json.loads(streamkit("store", "stats", application, "orders_of", "--json"))
    assert load["changes"] == sum(load["by_key_group"]) == sum(load["by_task"]) > 0
    assert "ann" in {hot["key"]["customer"] for hot in load["hottest"]}
    every = json.loads(streamkit("store", "stats", application, "--json"))
    assert {"orders_of", "hourly"} <= {one["store"] for one in every}
    with pytest.raises(StoreNotFoundError, match="it has"):
        streamkit("store", "stats", application, "daily")


def test_stores_of_an_application(streamkit, application):
    """Each store is listed with how its rows are kept, its key, its columns and the size of its changelog."""
    found = json.loads(streamkit("store", "list", application, "--json"))

    assert [(one["store"], one["layout"], one["window_size_ms"], one["key"], one["columns"]) for one in found] == [
        ("orders_of", "key", None, "customer string", "count bigint"),
        ("hourly", "window", 3_600_000, "number int", "total double"),
    ]
    assert [(one["application"], one["retention_ms"], one["changelog_rows"]) for one in found] == [
        (application, None, 2),
        (application, 864_000_000, 3),
    ]
    assert all(one["changelog_bytes"] > 0 for one in found)
    assert json.loads(streamkit("store", "list", "--json")) == found
    assert "window of 1 hour" in streamkit("store", "list")


def test_list_of_what_is_not_there(streamkit, application):
    """An application that does not exist is named, with those that do."""
    with pytest.raises(ConfigError, match="application 'nobody' does not exist; there are order-counts"):
        streamkit("store", "list", "nobody")


@pytest.mark.parametrize("window", ["2023-11-14T22:00Z", "2023-11-14 23:00:00+01:00", "1699999200000"])
def test_windows_are_named_by_any_moment(streamkit, application, window):
    """A window's start may be written in any zone, or in milliseconds since 1970."""
    assert "2023-11-14T22:00:00Z" in streamkit("store", "get", application, "hourly", "1001", "--window", window)


@pytest.mark.parametrize(
    "window", ["yesterday", "2013-13-01", "99999-01-01", "99999999999999999999", "now", "nan", "", "5.5", "0001-01-01"]
)
def test_window_that_is_no_moment_is_refused(streamkit, application, window):
    """A text that is not a moment, or a moment at which no window can start, is an error that says so."""
    with pytest.raises(ConfigError, match=r"found the time|the window from 0001-01-01 of the store 'hourly' has expired"):
        streamkit("store", "get", application, "hourly", "1001", "--window", window)


@pytest.mark.parametrize(
    "moment",
    ["yesterday", "2013-13-01", 10**20, np.int64(2**62), float("nan"), 1.5, True, pd.NaT, np.datetime64("NaT"), object()],
)
def test_view_refuses_what_is_no_moment(root, application, moment):
    """In Python too, a window's start is a moment or an error."""
    with sk.open_log(root) as log:
        hourly = log.store(application, "hourly")
        for look_up in (lambda: hourly.get(1001, window_start=moment), lambda: hourly.range(moment)):
            with pytest.raises(ConfigError, match=r"found the time .* expected a datetime, ISO 8601 text"):
                look_up()


@pytest.mark.parametrize(
    "moment",
    [
        "2023-11-14T22:00Z", 1_699_999_200_000, dt.datetime(2023, 11, 14, 22), pd.Timestamp("2023-11-14 23:00+01:00"),
        np.datetime64("2023-11-14T22:00"), np.int64(1_699_999_200_000),
    ],
)  # fmt: skip
def test_view_takes_moments_of_any_kind(root, application, moment):
    """A window's start may be a datetime of Python, pandas or numpy, text, or milliseconds."""
    with sk.open_log(root) as log:
        row = log.store(application, "hourly").get(1001, window_start=moment)

    assert row is not None
    assert row["total"] == 2.5


def test_rows_of_a_store(streamkit, application):
    """All rows in the order of their keys, those whose keys begin so, and those between two keys."""
    every = json.loads(streamkit("store", "scan", application, "orders_of", "--json"))
    assert [row["customer"] for row in every] == sorted(row["customer"] for row in every)
    assert len(every) == int(streamkit("store", "count", application, "orders_of"))
    assert json.loads(streamkit("store", "count", application, "orders_of", "--json"))["rows"] == len(every)

    def scanned(*options):
        return [row["customer"] for row in json.loads(streamkit("store", "scan", application, "orders_of", *options, "--json"))]

    assert scanned("--prefix", "ann") == ["ann"]
    assert scanned("--starts-with", "a") == [row["customer"] for row in every if row["customer"].startswith("a")]
    assert scanned("--from", "b") == [row["customer"] for row in every if row["customer"] >= "b"]
    assert scanned("--before", "b") == [row["customer"] for row in every if row["customer"] < "b"]
    assert scanned("--limit", "1") == scanned("--max", "1") == [every[0]["customer"]]  # as records are counted by consume


def test_windows_of_a_store(streamkit, application):
    """Windows are chosen by their start, of one key or of all."""

    def scanned(*options):
        return [row["number"] for row in json.loads(streamkit("store", "scan", application, "hourly", *options, "--json"))]

    assert 1001 in scanned("--from", "2023-11-14T22:00:00Z", "--before", "2023-11-14T22:00:01Z")
    for behind in ("2023-11-14T22:00:00.0005Z", "2023-11-14T22:00:00.0000001Z"):  # less than a millisecond
        assert scanned("--from", behind, "--before", "2023-11-14T22:00:01Z") == []
        assert 1001 in scanned("--before", behind)
        with pytest.raises(ConfigError, match="has no row of the key 1001 in the window"):
            streamkit("store", "get", application, "hourly", "1001", "--window", behind)
    assert scanned("--from", "2023-11-15") == []
    assert scanned("--prefix", "1002", "--before", "2023-11-15") == [1002]
    with pytest.raises(ConfigError, match="found 2 values of a key; expected 1 at most: number"):
        streamkit("store", "scan", application, "hourly", "--prefix", "1", "--prefix", "2")
    with pytest.raises(ConfigError, match="found the time 'noon'"):
        streamkit("store", "scan", application, "hourly", "--from", "noon")
    with pytest.raises(ConfigError, match="a range goes without the beginning of a text"):
        streamkit("store", "scan", application, "orders_of", "--from", "a", "--starts-with", "b")


def test_a_table_says_that_there_are_more_rows(streamkit, application):
    """What a limit has left out is told beside the table, and only then."""
    count = int(streamkit("store", "count", application, "orders_of"))
    assert count > 1
    more = "There are more rows than these 1: see --limit."
    assert more in streamkit("store", "scan", application, "orders_of", "--limit", "1")
    assert "more rows" not in streamkit("store", "scan", application, "orders_of", "--limit", str(count))
