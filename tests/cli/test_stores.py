"""`streamkit store`."""

from __future__ import annotations

import pytest

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
        (("hourly", "9"), ConfigError, "has no row of the key 9"),
        (("hourly", "1001", "--window", "2023-11-15"), ConfigError, "has no row of the key 1001 in the window from 2023-11-15"),
        (("hourly", "x"), ConfigError, "the key column number is int; found 'x'"),
        (("hourly", "1", "2"), ConfigError, "found 2 values of a key; expected 1: number"),
        (("daily", "1"), StoreNotFoundError, "has no store 'daily'; it has"),
    ],
)
def test_what_is_not_there(streamkit, application, arguments, error, message):
    """A missing row, a key that does not fit and a missing store are each named."""
    with pytest.raises(error, match=message):
        streamkit("store", "get", application, *arguments)
