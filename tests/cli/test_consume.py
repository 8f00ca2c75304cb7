"""`streamkit consume`."""

from __future__ import annotations

import base64
import csv
import io
import json

import pytest

import streamkit as sk


def test_table_shows_values(streamkit):
    """A table has the topic's own columns; numbers of records are not split by commas, null is empty."""
    lines = [line.split() for line in streamkit("consume", "orders").splitlines() if line.strip()]

    assert lines[0] == ["customer", "number", "amount"]
    assert lines[2:] == [["ann", "1001", "2.5"], ["bob", "1002"], ["1003", "12,000,000"], ["3", "of", "3", "records"]]


def test_table_says_that_there_is_more(streamkit):
    """A table that was cut says how many records there are."""
    output = streamkit("consume", "orders", "--max", "2")

    assert "2 of 3 records; --max N shows more" in output
    assert "1003" not in output


def test_json_is_one_record_a_line(streamkit):
    """JSON has every column and the record's own: event time, partition, offset."""
    records = [json.loads(line) for line in streamkit("consume", "orders", "--format", "json").splitlines()]

    assert [record["number"] for record in records] == [1001, 1002, 1003]
    assert records[1] == {
        "customer": "bob", "number": 1002, "amount": None,
        "_timestamp": "2023-11-14T22:14:20Z", "_partition": 0, "_offset": 1,
    }  # fmt: skip


def test_json_marks_deletions(streamkit):
    """A deletion says that it is one; other records do not speak of it."""
    records = [json.loads(line) for line in streamkit("consume", "customers", "--format", "json").splitlines()]

    assert [(record["name"], record["city"], record.get("_deleted")) for record in records] == [
        ("ann", "Oslo", None),
        ("ann", None, True),
    ]


def test_csv_can_be_read_back(streamkit):
    """Comma-separated values have a line of names; null is empty."""
    rows = list(csv.DictReader(io.StringIO(streamkit("consume", "orders", "--format", "csv", "--max", "2"))))

    assert [(row["customer"], row["amount"], row["_offset"], row["_deleted"]) for row in rows] == [
        ("ann", "2.5", "0", "false"),
        ("bob", "", "1", "false"),
    ]


def test_empty_topic_has_names_only(streamkit, root):
    """A topic without records prints its columns, and no record."""
    with sk.open_log(root) as log:
        log.create_topic("empty", "a int", key="a")

    assert streamkit("consume", "empty", "--format", "csv") == "a,_timestamp,_partition,_offset,_deleted\n"
    assert streamkit("consume", "empty", "--format", "json") == ""
    assert "0 of 0 records" in streamkit("consume", "empty")


@pytest.fixture
def events(root):
    """A topic of JSON values: one, a deletion."""
    with sk.open_log(root) as log:
        log.create_topic("events", format="json", partitions=1)
        with log.producer() as producer:
            producer.send("events", {"key": "k", "value": {"n": [1, "é"]}}, timestamp_ms=0)
            producer.delete("events", {"key": "k"}, timestamp_ms=1)
    return "events"


def test_opaque_topics_are_decoded(streamkit, events):
    """Values of a format are printed as what they are: within JSON as JSON, in tables and files as text."""
    (value, deletion) = (json.loads(line) for line in streamkit("consume", events, "--format", "json").splitlines())
    assert (value["key"], value["value"], deletion["key"], deletion["_deleted"]) == ("k", {"n": [1, "é"]}, "k", True)
    (row, _) = csv.DictReader(io.StringIO(streamkit("consume", events, "--format", "csv")))
    assert (row["key"], json.loads(row["value"])) == ("k", {"n": [1, "é"]})
    assert '{"n": [1, "é"]}' in streamkit("consume", events)


def test_bytes_can_be_seen_raw(streamkit, events):
    """What cannot be or shall not be decoded is printed in base 64."""
    value = json.loads(streamkit("consume", events, "--format", "json", "--raw").splitlines()[0])

    assert base64.b64decode(value["value"]).decode() == '{"n":[1,"é"]}'
