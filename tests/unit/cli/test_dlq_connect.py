"""`streamkit dlq` with dead letters of connectors."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.errors import SchemaError
from topologies.connectors.sqlite_connector import SqliteSink


class PickySink(SqliteSink):
    """A table that takes no negative numbers, and finds the lowest of them first."""

    def insert(self, rows):
        negative = [(value, row) for row, value in enumerate(rows["n"].to_pylist()) if value < 0]
        if negative:
            raise SchemaError("found a negative number", (min(negative)[1],))
        super().insert(rows)


@pytest.fixture
def letters(root, tmp_path):
    """A sink that has left out two of three records; returns a function that runs the sink again."""

    def deliver():
        with sk.open_log(root) as log:
            settings = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"}
            run([PickySink("out", {"path": str(tmp_path / "out.db"), "topics": "numbers", **settings})], log, once=True)
        with closing(sqlite3.connect(tmp_path / "out.db")) as database:
            return [n for (n,) in database.execute("SELECT n FROM numbers")]

    with sk.open_log(root) as log, log.producer() as producer:
        log.create_topic("numbers", "n int", partitions=1)
        log.create_topic("bad", format="bytes", partitions=1)
        producer.send_batch("numbers", [{"n": n, "_headers": [("trace", b"1")]} for n in (-1, 2, -3)])
    return deliver


def test_they_are_listed_and_shown(streamkit, letters):
    """A list counts them by connector, stage and error; each is shown with its record and place."""
    letters()
    (found,) = [row for row in json.loads(streamkit("dlq", "list", "--json")) if row["topic"] == "bad"]
    assert (found["application"], found["operator"], found["error"], found["records"]) == (
        "out",
        "TASK_PUT",
        "streamkit.errors.SchemaError",
        2,
    )
    shown = [json.loads(line) for line in streamkit("dlq", "show", "bad", "--json").splitlines()]
    assert [(one["topic"], one["partition"], one["offset"], one["value"]) for one in shown] == [
        ("numbers", 0, 0, '{"n": -1}'), ("numbers", 0, 2, '{"n": -3}'),
    ]  # fmt: skip


def test_they_are_sent_again_once(streamkit, root, letters):
    """A replay sends their records to the topic again in the order of before, headers and all, with the attempt; a second replay nothing."""
    assert letters() == [2]
    for _ in range(2):
        streamkit("dlq", "replay", "bad")
    with sk.open_log(root) as log:
        rows = log.read("numbers", ["n", "_headers"]).to_pylist()
    assert [row["n"] for row in rows] == [-1, 2, -3, -1, -3]
    headers = [tuple(header.values()) for header in rows[3]["_headers"]]
    assert headers == [("trace", b"1"), ("__streamkit.errors.attempt", b"2")]
    assert letters() == [2]
    shown = [json.loads(line) for line in streamkit("dlq", "show", "bad", "--json").splitlines()]
    assert [one["attempt"] for one in shown] == [2, 2, 1, 1]
