"""Promises of what a notebook shows of a topic: the newest rows, as they come, and nothing twice."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import ConfigError, TopicNotFoundError
from streamkit.notebook import topic_watch
from tests.unit.notebook.conftest import send_orders


def ids(watch):
    repr(watch)
    place = [column["title"] for column in watch._values["columns"]].index("id")
    return [int(row[place]) for row in watch._values["rows"]]


def test_the_newest_rows_come_first(log):
    """What is there is shown at once; what comes is put before it, is marked, and is counted."""
    watch = log.watch("orders", rows=5)
    assert len(ids(watch)) == 5 and watch._values["fresh"] == []
    send_orders(log, 500, 1)
    assert ids(watch)[0] == 500 and watch._values["fresh"] == [0] and len(watch._values["rows"]) == 5
    assert ids(watch)[0] == 500 and watch._values["fresh"] == []
    assert repr(watch).startswith("TopicWatch(topic orders: 5 rows, rows since it is watched 1")


def test_a_condition_chooses(log):
    """Only rows for which the condition holds are shown and counted, those that are there and those that come."""
    watch = log.watch("orders", where="amount >= 15 and customer = 'c3'", rows=50)
    assert sorted(ids(watch)) == [number for number in range(60, 70) if number % 7 == 3]
    send_orders(log, 140, 14)
    assert set(ids(watch)) == {66, 143, 150} and "rows that match since it is watched 2" in repr(watch)


def test_too_many_rows_are_left_out_and_counted(log, monkeypatch):
    """Of a look only the newest rows are read, and it says how many were not."""
    monkeypatch.setattr(topic_watch, "READ_ROWS", 20)
    watch = log.watch("orders", rows=50)
    assert len(ids(watch)) == 20
    send_orders(log, 100, 70)
    assert len(ids(watch)) == 40 and "came too fast to be shown 50" in repr(watch)
    assert "rows since it is watched 70" in repr(watch)  # all that came, which is what a rate is of


def test_a_chart_has_the_rows_of_the_table(log):
    """A chart has a line for each value of the third column, of the rows for which the condition holds."""
    html = log.watch("orders", where="id < 20", chart=("_timestamp", "amount", "customer"))._repr_html_()

    assert html.count("<path d=") >= 7 and "● c6" in html and "<title>amount over _timestamp, by customer</title>" in html


def test_a_topic_that_goes_is_said(log):
    """A topic that is deleted, or made again, ends the looks with a note."""
    watch, other = log.watch("orders"), log.watch("orders")
    repr(watch), repr(other)
    log.delete_topic("orders")
    assert "TopicNotFoundError: topic 'orders' does not exist" in repr(watch)
    log.create_topic("orders", "id bigint")
    assert "was deleted, and created again" in repr(other)


def test_values_of_a_format_are_decoded():
    """Rows of an opaque topic are shown as their format has them, deletions are marked, and text is no HTML."""
    with sk.open_log(":memory:") as log:
        log.create_topic("events", format="json", partitions=1)
        with log.producer() as producer:
            producer.send("events", {"key": "a", "value": {"city": "<b>Rome</b>"}})
            producer.delete("events", {"key": "a"})
        html = log.watch("events")._repr_html_()
        assert "&lt;b&gt;Rome" in html and "<b>Rome" not in html and "<th>deleted</th>" in html


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"where": "city = 'Rome'"}, "city"),
        ({"rows": 501}, "found rows=501; expected 1 to 500"),
        ({"chart": ("_timestamp",)}, "expected two or three columns"),
        ({"chart": ("customer", "amount")}, "goes over 'customer', which is string; expected times or numbers"),
        ({"chart": ("id", "customer")}, "shows 'customer', which is string; expected numbers"),
        ({"chart": ("id", "city")}, "has no column 'city' to draw"),
    ],
)
def test_what_does_not_fit_is_refused(log, asked, words):
    """Conditions and charts of columns that are not there, or not of a fitting type, are refused at once."""
    with pytest.raises(ConfigError, match=words):
        log.watch("orders", **asked)
    with pytest.raises(TopicNotFoundError):
        log.watch("nothing")
