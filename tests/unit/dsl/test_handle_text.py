"""Handles as people see them: one line, and a small table in a notebook."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.dsl.handle_text import LINE_LENGTH_MAX

app = sk.Topology("app")
orders = app.stream("orders")
late = orders.filter(F.col("amount") > 15)
users = app.table("users")
HOUR = sk.tumbling("1 hour", grace="0 s")


@pytest.mark.parametrize(
    ("handle", "line"),
    [
        (orders, "Stream(stream orders)"),
        (late.join(users, on="user"), "Stream(stream orders | filter amount > 15 | inner join table users on user)"),
        (users, "Table(table users)"),
        (app.global_table("cities"), "GlobalTable(global table cities)"),
        (late.group_by("user").windowed_by(HOUR), "Grouped(stream orders | filter amount > 15 | group by user, tumbling 1 hour, grace 0 ms)"),
        (late.group_by_key(), "Grouped(stream orders | filter amount > 15 | group by key)"),
        (orders.group_by("user").count(), "Table(stream orders | group by user: count = count(1))"),
    ],
)  # fmt: skip
def test_a_handle_is_one_line(handle, line):
    """A handle says what it is and what led to it."""
    assert repr(handle) == line


def test_a_long_handle_stays_one_line():
    """Of many steps the first and the last are shown; what is still too long is cut."""
    long = orders
    for number in range(30):
        long = long.filter(f"amount > {number}")
    assert repr(long) == "Stream(stream orders | … | filter amount > 29)"

    wide = repr(orders.filter(" or ".join(f"amount > {number}" for number in range(100))))
    assert len(wide) <= LINE_LENGTH_MAX + len("Stream()") and "\n" not in wide and wide.endswith("…)")


def test_a_notebook_shows_steps_with_their_lines():
    """The table in a notebook has a row a step, the names of steps and the user's lines; nothing in it is taken for HTML."""
    shown = orders.filter("amount < 1 and user = '<b>'", name="small")._repr_html_()

    assert shown.count("<tr>") == 3 and "<td>small</td>" in shown and f"{__file__}:" in shown
    assert "&lt;b&gt;" in shown and "<b>&" not in shown
    assert "group by user" in orders.group_by("user")._repr_html_()
