"""
Each query of Nexmark, by StreamKit and by DuckDB over the same events.

A million events on disk under STREAMKIT_TORTURE=1, else some thousand in memory, which last as long: a hundred seconds. Each topology takes them in
epochs and with two tasks. Spark runs them too: one of them, or all under STREAMKIT_TORTURE=1.
"""

from __future__ import annotations

import datetime as dt
import importlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.testing import TopologyTestDriver
from tests.kit.sampling import TAKES_ALL
from tests.unit.topologies.nexmark.reference import QUERIES, Reference, newest
from topologies.nexmark import q12, q14
from topologies.nexmark.generator import BEGIN, BID, generate, load

EVENTS = 1_000_000 if TAKES_ALL else 2_400
FEW = 4_000
EPOCHS = 4 if TAKES_ALL else 2
EPOCHS_ON_SPARK = 4 if TAKES_ALL else 2
OUT_OF_ORDER = dt.timedelta(seconds=2.5)  # less than the grace of all queries: nothing is late
TABLES = {  # what is the newest row of each of these; all other queries give rows that stay
    "q3": ["id"],
    "q4": ["category"],
    "q6": ["seller"],
    "q9": ["id"],
    "q15": ["day"],
    "q16": ["channel", "day"],
    "q17": ["auction", "day"],
    "q18": ["bidder", "auction"],
    "q19": ["auction", "rank_number"],
}
BUGS = [  # (query, what is written there, what a bug makes of it)
    ("q3", "category = 10", "category = 11"),
    ("q4", "bid_dateTime <= expires", "bid_dateTime > expires"),
    ("q5", '"10 seconds", "2 seconds"', '"8 seconds", "2 seconds"'),
    ("q6", "[-10:]", "[:10]"),
    ("q8", 'sk.tumbling("10 seconds"', 'sk.tumbling("5 seconds"'),
    ("q9", '"price * 1000000000', '"-price * 1000000000'),
    ("q11", 'sk.session("10 seconds"', 'sk.session("9 seconds"'),
    ("q15", "price < 10_000", "price <= 100_000"),
    ("q18", '"extra"), "dateTime"', '"extra"), "price"'),
    ("q19", "fields, 10", "fields, 9"),
    ("q20", '"1 hour"', '"10 ms"'),
]
BIDS = {"schema": str(BID), "key": "auction"}


@pytest.fixture(scope="module")
def events():
    per_second = EVENTS / 100
    return generate(
        EVENTS, seed=7, events_per_second=per_second, out_of_order_group=int(per_second * OUT_OF_ORDER.total_seconds())
    )


@pytest.fixture(scope="module")
def log(tmp_path_factory, events):
    with sk.open_log(tmp_path_factory.mktemp("nexmark") if TAKES_ALL else ":memory:") as log:
        load(log, events, partitions=3)
        yield log


@pytest.fixture(scope="module")
def reference(events):
    return Reference(events)


@pytest.mark.parametrize("query", QUERIES)
def test_it_gives_what_duckdb_gives(query, log, reference):
    """The rows that a query gives, or the newest of each key where it keeps a table, are those of the reference, each as often."""
    app = importlib.import_module(f"topologies.nexmark.{query}").app
    sk.run(app, log=log, tasks=2, max_records_per_epoch=EVENTS // EPOCHS, drain=True, engine="local").wait()

    found = log.read(f"nexmark_{query}")
    assert reference.rows(query) > 0
    assert reference.difference(query, newest(found, TABLES[query]) if query in TABLES else found) == ""


@pytest.mark.spark
@pytest.mark.parametrize("query", QUERIES if TAKES_ALL else ["q16"])
def test_it_gives_the_same_on_spark(query, spark, tmp_path):
    """A run on Spark gives what DuckDB gives, of four thousand events: every function and operator of a query is there, too."""
    few = generate(FEW, seed=7, events_per_second=FEW / 100, out_of_order_group=100)
    app = importlib.import_module(f"topologies.nexmark.{query}").app
    with sk.open_log(tmp_path) as log:
        load(log, few, partitions=3)
        sk.run(app, spark, log=log, tasks=2, max_records_per_epoch=FEW // EPOCHS_ON_SPARK, drain=True).wait()
        found = log.read(f"nexmark_{query}")

    assert Reference(few).difference(query, newest(found, TABLES[query]) if query in TABLES else found) == ""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug[0])
def test_a_wrong_topology_is_found_out(bug):
    """The comparison tells a topology that is wrong in one place."""
    query, written, instead = bug
    few = generate(FEW, seed=7, events_per_second=FEW / 100, out_of_order_group=100)
    text = Path(importlib.import_module(f"topologies.nexmark.{query}").__file__ or "").read_text(encoding="utf-8")
    assert text.count(written) == 1
    found: dict[str, Any] = {"__name__": query}
    exec(text.replace(written, instead), found)
    with sk.open_log(":memory:") as log:
        load(log, few, partitions=1)
        sk.run(found["app"], log=log, tasks=1, drain=True, engine="local").wait()
        rows = log.read(f"nexmark_{query}")

    assert Reference(few).difference(query, newest(rows, TABLES[query]) if query in TABLES else rows) != ""


def test_the_hours_of_query_14():
    """Over two days of bids every kind of hour is there."""
    events = generate(400, seed=1, events_per_second=1 / 600, out_of_order_group=1)
    with TopologyTestDriver(q14.app, topics={"bid": {**BIDS, "timestamp": "dateTime"}}) as driver:
        driver.pipe("bid", events.bid)
        found = driver.read_arrow("nexmark_q14")

    assert set(found["bidTimeType"].to_pylist()) == {"dayTime", "nightTime", "otherTime"}
    assert Reference(events).difference("q14", found) == ""


def test_the_clock_of_query_12(events):
    """In a topic that takes its event times from the clock, windows are those of the moments at which bids arrived."""
    bids = events.bid.slice(0, 60)
    topics = {"bid": {**BIDS, "config": {"message.timestamp.type": "LogAppendTime"}}}
    with TopologyTestDriver(q12.app, topics=topics, start_time=BEGIN) as driver:
        for start in range(0, 60, 10):
            driver.pipe("bid", bids.slice(start, 10))
            driver.advance_wall_clock("4 seconds")
        driver.drain()
        arrived = driver.log.read("bid", ["_timestamp"])
        found = driver.read_arrow("nexmark_q12")

    assert len(set(found["window_start"].to_pylist())) == 3
    place = bids.schema.get_field_index("dateTime")
    at = pa.array([BEGIN + dt.timedelta(seconds=4 * (row // 10)) for row in range(60)], bids.schema.field(place).type)
    assert sorted(arrived["_timestamp"].to_pylist()) == at.to_pylist()
    by_arrival = type(events)(events.person, events.auction, bids.set_column(place, "dateTime", at))
    assert Reference(by_arrival).difference("q12", found) == ""
