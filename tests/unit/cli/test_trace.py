"""`streamkit trace`."""

from __future__ import annotations

import datetime as dt
import json

import pytest

import streamkit as sk
from streamkit.cli import trace
from streamkit.errors import ConfigError

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
FILE = """
import streamkit as sk

app = sk.Topology("shop")
large = app.stream("orders").filter("amount >= 2", name="large")
large.join(app.table("customers", store="customers"), on="customer", name="joined").to("named")
"""

TWICE = """
import streamkit as sk

app = sk.Topology("twice")
app.stream("orders").filter("amount >= 2", name="chosen").to("large")
app.stream("large").filter("amount > 3", name="dear").to("copies")
"""


@pytest.fixture
def file(root, tmp_path):
    """A topology over topics with times of their own, and more rows than a trace takes."""
    with sk.open_log(root) as log:
        for topic in log.topics():
            log.delete_topic(topic)
        log.create_topic("orders", "customer string, amount double, at timestamp", key="customer", timestamp="at", partitions=3)
        log.create_topic("customers", "customer string, city string", key="customer", config={"cleanup.policy": "compact"})
        log.create_topic("named", "customer string, amount double, at timestamp, city string", key="customer")
        with log.producer() as producer:
            producer.send_batch("customers", [{"customer": f"c{number}", "city": f"t{number}"} for number in range(3)])
            rows = [
                {"customer": f"c{number % 4}", "amount": number % 5, "at": START + dt.timedelta(seconds=number)}
                for number in range(40)
            ]
            for row in rows:
                producer.send("orders", row)
    path = tmp_path / "shop.py"
    path.write_text(FILE)
    return path


def epochs(streamkit, file, *options):
    return json.loads(streamkit("trace", str(file), "--json", *options))["epochs"]


def amounts(found, topic="orders"):
    read = [one for epoch in found for one in epoch["records"] if one["topic"] == topic]
    return [(one["row"]["customer"], one["row"]["amount"]) for one in read]


def test_the_newest_records_are_traced(streamkit, file):
    """So many of the newest records of all partitions go through, oldest first, and meet the whole table; the log stays as it was."""
    with sk.open_log(streamkit.root) as log:
        before = log.end_offsets("named")
    found = epochs(streamkit, file, "--max", "7")
    assert amounts(found) == [(f"c{number % 4}", number % 5) for number in range(33, 40)]
    cities = [row["city"] for epoch in found for row in epoch["steps"]["joined"]]
    assert cities == [f"t{number % 4}" for number in range(33, 40) if number % 5 >= 2 and number % 4 < 3]
    with sk.open_log(streamkit.root) as log:
        assert log.end_offsets("named") == before
        assert log.catalog.applications.every() == []


def test_a_condition_chooses_records(streamkit, file):
    """Records for which a condition holds are traced alone; of several streams one has to be named."""
    found = epochs(streamkit, file, "--where", "customer = 'c1' and amount > 2", "--max", "3")
    assert amounts(found) == [("c1", 3), ("c1", 4), ("c1", 3)] or all(
        one == "c1" and amount > 2 for one, amount in amounts(found)
    )
    assert len(found) == 3
    with sk.open_log(streamkit.root) as log:
        log.create_topic("returns", "customer string, amount bigint", key="customer")
    file.write_text(FILE + 'app.stream("returns").to("copies")\n')
    with pytest.raises(
        ConfigError, match="--where is a condition on one topic, and shop reads orders, returns; expected --topic, too"
    ):
        streamkit("trace", str(file), "--where", "amount > 2")
    assert len(epochs(streamkit, file, "--topic", "orders", "--where", "amount > 2", "--max", "2")) == 2
    with pytest.raises(ConfigError, match="--topic 'customers' is no stream of shop; it reads orders, returns"):
        streamkit("trace", str(file), "--topic", "customers")


def test_records_that_the_topology_writes_are_made_again(streamkit, file):
    """Those of a topic that it writes and reads are left out, since the trace makes them; --topic traces them alone."""
    file.write_text(TWICE)
    with pytest.raises(ConfigError, match="there are no records to trace: large is not in the log yet"):
        streamkit("trace", str(file), "--topic", "large")
    for _ in range(2):  # the second run reads what the first has written
        streamkit("run", str(file), "--local", "--once")
    with sk.open_log(streamkit.root) as log:
        assert (log.read("large").num_rows, log.read("copies").num_rows) == (24, 8)
    found = epochs(streamkit, file, "--max", "5")
    chosen = [row["amount"] for epoch in found for row in epoch["steps"].get("chosen", ())]
    assert chosen == [2.0, 3.0, 4.0]
    assert amounts(found, "orders") == [("c3", 0), ("c0", 1), ("c1", 2), ("c2", 3), ("c3", 4)]
    assert amounts(found, "large") == [("c1", 2), ("c2", 3), ("c3", 4)]
    assert [row["amount"] for epoch in found for row in epoch["steps"].get("dear", ())] == [4.0]
    alone = epochs(streamkit, file, "--max", "5", "--topic", "large")
    assert (amounts(alone, "orders"), len(amounts(alone, "large"))) == ([], 5)


def test_the_page_is_written(streamkit, file, tmp_path):
    """Without --json a page is written where it was asked for, which has the records."""
    out = tmp_path / "page.html"
    streamkit("trace", str(file), "--out", str(out), "--max", "5")
    assert "shop: what each record does" in out.read_text() and '"customer": "c3"' in out.read_text()


def test_a_table_that_is_too_large_is_refused(streamkit, file, monkeypatch):
    """A table with more records than a trace keeps in memory is an error that says what to do."""
    monkeypatch.setattr(trace, "TABLE_RECORDS_MAX", 2)
    with pytest.raises(ConfigError, match="the table customers has 3 records, and a trace takes up to 2"):
        streamkit("trace", str(file))
