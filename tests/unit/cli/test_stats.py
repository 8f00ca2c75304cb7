"""`streamkit stats` and `streamkit maintain`."""

from __future__ import annotations

import json

import pytest

import streamkit as sk
from streamkit.errors import TopicNotFoundError
from tests.unit.cli.conftest import fill

pytestmark = pytest.mark.usefixtures("slabs_in_files")


@pytest.fixture
def root(tmp_path):
    """A log of this minute, as rates are those of the last one."""
    return fill(tmp_path / "log")


def append(root, topic, count):
    with sk.open_log(root) as log, log.producer() as producer:
        for number in range(count):
            producer.send(topic, {"customer": "eve", "number": number, "amount": 1.0})
            producer.flush()


def rows_of(output):
    return [line.split() for line in output.splitlines()]


def test_sizes_of_all_topics(streamkit, root):
    """Every topic is shown with its partitions, records, bytes, frames, files, rate and times."""
    with sk.open_log(root) as log:
        size = log.describe("orders")["bytes"]
    row = next(row for row in rows_of(streamkit("stats")) if row[:1] == ["orders"])

    assert row[:9] == ["orders", "1", "3", f"{size:,}", "1", "1", "0.05", "2023-11-14", "22:13:20"]


def test_rates_are_rounded(streamkit, root):
    """A rate has two digits in a table, and all of them in JSON."""
    append(root, "orders", 1)
    row = next(row for row in rows_of(streamkit("stats")) if row[:1] == ["orders"])

    assert row[6] == "0.067"
    orders = next(topic for topic in json.loads(streamkit("stats", "--json"))["topics"] if topic["topic"] == "orders")
    assert [part["records_per_second"] for part in orders["partitions"]] == [pytest.approx(4 / 60)]


def test_partitions_of_a_topic(streamkit, root):
    """A topic is shown by partition, with its offsets; one that does not exist is an error."""
    append(root, "orders", 2)
    row = next(row for row in rows_of(streamkit("stats", "orders")) if row[:1] == ["0"])

    assert [row[position] for position in (0, 1, 2, 3, 5, 6)] == ["0", "0", "5", "5", "3", "3"]
    with pytest.raises(TopicNotFoundError):
        streamkit("stats", "nothing")


def test_lag_of_groups(streamkit, root):
    """A consumer group is shown with its state, members and lag; one that does not read the topic is left out."""
    with sk.open_log(root) as log:
        log.groups.reset("billing", {"orders": {0: 1}})

    assert ["billing", "Empty", "0", "orders", "2"] in rows_of(streamkit("stats"))
    assert ["billing", "Empty", "0", "orders", "2"] in rows_of(streamkit("stats", "orders"))
    assert "billing" not in streamkit("stats", "customers")
    (group,) = json.loads(streamkit("stats", "--json"))["groups"]
    assert group == {"group": "billing", "state": "Empty", "members": 0, "lag": {"orders": 2}}


def test_lag_of_applications(streamkit, root, application):
    """An application is shown with the records that wait for it; one that does not read the topic is left out."""
    append(root, "orders", 4)

    assert [application, "2", "orders", "4"] in [row[:4] for row in rows_of(streamkit("stats"))]
    assert application in streamkit("stats", "orders")
    assert application not in streamkit("stats", "customers")


def test_json_has_all_figures(streamkit):
    """As JSON, the same figures are numbers, times in ms, partition by partition."""
    found = json.loads(streamkit("stats", "orders", "--json"))

    assert [topic["topic"] for topic in found["topics"]] == ["orders"]
    partition = found["topics"][0]["partitions"][0]
    assert (partition["records"], partition["oldest_ms"], partition["newest_ms"]) == (3, 1_700_000_000_000, 1_700_000_120_000)
    assert partition["appended_ms"] > 1_700_000_120_000
    assert partition["records_per_second"] == 0.05


def test_maintain_says_what_it_did(streamkit, root):
    """Small files are merged, old records dropped, and the report says so; a second pass has nothing to do."""
    append(root, "orders", 20)
    output = streamkit("maintain", "orders")

    assert "20 frames into 1 files" in output or "16 frames into 1 files" in output
    assert "1 frames by retention" in output and "held back by  nobody" in output
    report = json.loads(streamkit("maintain", "--json"))
    assert (report["merged"]["swaps"], report["dropped"]["extents"], report["files_deleted"]) == (0, 0, 0)
    assert "files wait to be deleted" in streamkit("stats")
