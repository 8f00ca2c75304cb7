"""Connectors that a topology asks for, beside its query on Spark."""

from __future__ import annotations

import json

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.connectors.runtime import status
from tests.kit.waiting import wait_until
from tests.unit.connectors.conftest import _quick_looks  # noqa: F401 (of its own accord)

pytestmark = pytest.mark.spark


def test_from_files_to_files(spark, tmp_path):
    """Files that come before, between and during runs are summed on Spark, and each sum goes out to a file once; all ends with the run."""
    inbox, outbox = tmp_path / "in", tmp_path / "out"
    inbox.mkdir()

    def write(name, *rows):
        hidden = inbox / f".{name}"
        hidden.write_text("".join(json.dumps({"city": city, "n": n}) + "\n" for city, n in rows))
        hidden.rename(inbox / name)

    def totals():
        paths = sorted((outbox / "totals").glob("*.jsonl"))  # named by partition and offset
        lines = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
        return {city: [row["total"] for row in lines if row["city"] == city] for city in ("Oslo", "Rome")}

    app = sk.Topology("sums")
    numbers = app.stream(sk.files(inbox, topic="numbers"), schema="city string, n int", key="city")
    numbers.group_by("city").agg(total=F.sum("n")).to(sk.files(outbox, topic="totals", format="json"))
    write("1.jsonl", ("Oslo", 1), ("Rome", 10), ("Oslo", 2))
    with sk.open_log(tmp_path / "log") as log:
        assert sk.run(app, spark, log, tasks=2, trigger="available_now").wait(200)
        assert totals() == {"Oslo": [3], "Rome": [10]}
        write("2.jsonl", ("Rome", 20))
        running = sk.run(app, spark, log)
        try:
            wait_until(lambda: totals()["Rome"] == [10, 30])
            write("3.jsonl", ("Oslo", 4))
            wait_until(lambda: totals()["Oslo"] == [3, 7])
        finally:
            running.stop()
        assert not running.is_active and totals() == {"Oslo": [3, 7], "Rome": [10, 30]}
        assert {one.connector: one.state for one in status.read_status(log)} == dict.fromkeys(
            ("files.in-source", "files.out-sink"), status.STOPPED
        )
        assert log.read("numbers").num_rows == 5
