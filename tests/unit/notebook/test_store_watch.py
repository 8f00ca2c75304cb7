"""Promises of what a notebook shows of a store: its first rows by an order, and which of them have changed."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import ConfigError
from streamkit.notebook import store_watch
from tests.unit.notebook.conftest import send_orders, totals


def test_rows_come_in_the_order_that_was_asked_for(log, worked):
    """The first rows by columns, up or down, are those that pandas finds; the rows that an epoch has changed are marked."""
    view = worked.store("per_customer")
    watch = view.watch("total desc, customer", limit=3)
    repr(watch)
    frame = view.to_pandas().sort_values(["total", "customer"], ascending=[False, True]).head(3)
    assert [row[0] for row in watch._values["rows"]] == frame["customer"].tolist()
    assert [column["title"] for column in watch._values["columns"]] == ["customer", "n", "total"]

    first = watch._values["rows"][0][0]
    send_orders(log, 700 + int(first[1:]), 1)
    sk.run(totals(), log=log, engine="local", trigger="available_now").wait()
    repr(watch)
    assert watch._values["rows"][0][:2] == [first, "11"] and watch._values["fresh"] == [0]
    repr(watch)
    assert watch._values["fresh"] == []  # no epoch since


def test_without_an_order_it_is_that_of_the_store(worked):
    """Rows come as `range` gives them, and only so many."""
    watch = worked.store("per_customer").watch(limit=4)

    assert repr(watch) == "StoreWatch('totals', 'per_customer': 4 rows, epoch 1)"
    assert [row[0] for row in watch._values["rows"]] == ["c0", "c1", "c2", "c3"]


def test_a_large_store_is_read_in_part_and_that_is_said(worked, monkeypatch):
    """Where there are more rows than are put in order, the heading says of how many it speaks."""
    monkeypatch.setattr(store_watch, "READ_ROWS_MAX", 5)
    html = worked.store("per_customer").watch("n desc")._repr_html_()

    assert "rows the first 5 of the store were put in order" in html


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"order_by": "city"}, "has no column 'city' to order by; it has customer, n, total"),
        ({"order_by": "n down"}, "found order_by='n down'; expected columns, as in"),
        ({"limit": 0}, "found limit=0; expected 1 to 1,000 rows"),
    ],
)
def test_what_does_not_fit_is_refused(worked, asked, words):
    """An order by a column that is not there, and a number out of range."""
    with pytest.raises(ConfigError, match=words):
        worked.store("per_customer").watch(**asked)


def test_a_view_of_one_epoch_is_not_watched(worked):
    """Within `at_now` nothing would ever change."""
    with worked.store("per_customer").at_now() as view, pytest.raises(ConfigError, match=r"watch\(\) of a view of at_now\(\)"):
        view.watch()
