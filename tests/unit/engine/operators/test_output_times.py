"""The event time of what a topology writes: that which the topic declares, as of what a producer writes."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import EvaluationError
from streamkit.testing.driver import TopologyTestDriver

UTC = dt.timezone.utc
SCHEMA = "k string, at timestamp, v int"
NTZ = SCHEMA.replace("timestamp", "timestamp_ntz")
OUTPUTS: dict[str, dict[str, Any]] = {
    "plain": {"schema": SCHEMA, "key": "k"},
    "timed": {"schema": SCHEMA, "key": "k", "timestamp": "at"},
    "ntz": {"schema": NTZ, "key": "k", "timestamp": "at"},
    "own key": {"schema": SCHEMA, "key": ["k", "at"], "timestamp": "at"},
    "compacted": {"schema": SCHEMA, "key": "k", "timestamp": "at", "config": {"cleanup.policy": "compact"}},
}


def rows(chance, declared):
    """Rows with times before 1970 and within a millisecond, and deletions; each with the time under which it is written."""
    for number in range(12):
        moment = dt.datetime(1970, 1, 1, tzinfo=UTC) + dt.timedelta(microseconds=chance.randrange(-(10**12), 10**12))
        at = moment if "timestamp_ntz" not in declared["schema"] else moment.replace(tzinfo=None)
        row = {"k": chance.choice("ab"), "at": at, "v": number}
        is_deletion = chance.random() < 0.3
        key = [declared["key"]] if isinstance(declared["key"], str) else declared["key"]
        yield ({name: row[name] for name in key} if is_deletion else row), is_deletion, chance.randrange(10**6)


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_topology_writes_as_a_producer_does(name):
    """What passes through a topology into a topic has the event times that a producer would have given it there."""
    declared = OUTPUTS[name]
    app = sk.Topology("writes")
    stream = app.stream("in", schema=declared["schema"], key=declared["key"])
    if name == "compacted":
        stream.to_table(store="t").to("out")
    else:
        stream.to("out")
    undeclared = {part: value for part, value in declared.items() if part in ("schema", "key")}
    with TopologyTestDriver(app, topics={"in": undeclared, "out": declared, "twin": declared}) as driver:
        for row, is_deletion, time in rows(random.Random(name), declared):
            for topic in ("in", "twin"):
                driver.delete(topic, row, timestamp=time) if is_deletion else driver.pipe(topic, row, timestamp=time)
        assert shown(driver.read("out")) == shown(driver.read("twin"))


def shown(found):
    return [{name: value for name, value in row.items() if name not in ("_partition", "_offset")} for row in found]


def test_null_is_an_error_that_names_the_record():
    """As for producers; the message has the topic that is written, too."""
    app = sk.Topology("writes")
    app.stream("in", schema="k string, ms bigint", key="k").select("k", at=F.timestamp_millis("ms")).to("out")
    with TopologyTestDriver(app, topics={"out": {"schema": "k string, at timestamp", "key": "k", "timestamp": "at"}}) as driver:
        driver.pipe("in", {"k": "a", "ms": 5}, timestamp=1)
        expected = r"topic in, partition 0, offset 1, key k = 'b': column 'at' is null, and it is the event time of the topic out"
        with pytest.raises(EvaluationError, match=expected) as error:
            driver.pipe("in", {"k": "b", "ms": None}, timestamp=2)
        assert "test_output_times.py" in str(error.value)


@pytest.mark.parametrize("mode", ["every", "latest", "final"])
def test_results_have_the_time_of_the_column(mode):
    """Newest, final and all results of windows, whose start is the topic's time; deletions of a table, too."""
    app = sk.Topology("writes")
    counts = app.stream("in", schema="k string", key="k").group_by_key().windowed_by(sk.tumbling("10 s", grace="0 s")).count()
    counts.emit(mode).to("out")
    schema = "k string, window_start timestamp, window_end timestamp, count bigint"
    out: dict[str, Any] = {"schema": schema, "key": ["k", "window_start", "window_end"], "timestamp": "window_start"}
    if mode == "latest":
        out["config"] = {"cleanup.policy": "compact"}
    with TopologyTestDriver(app, topics={"out": out}) as driver:
        for time in (1_000, 2_000, 13_000, 29_000):
            driver.pipe("in", {"k": "a"}, timestamp=time)
        driver.drain()
        assert {int(row["_timestamp"].timestamp()) for row in driver.read("out")} == {0, 10, 20}


def test_late_records_have_the_time_of_the_column():
    """A topic of late records may have a time column."""
    app = sk.Topology("writes")
    stream = app.stream("in", schema=SCHEMA, key="k")
    windows = sk.tumbling("10 s", grace="0 s")
    stream.group_by_key().windowed_by(windows, late_to="late").agg(n=F.count("*"), store="n")
    schema = f"{SCHEMA}, window_start timestamp, window_end timestamp"
    with TopologyTestDriver(app, topics={"late": {"schema": schema, "key": "k", "timestamp": "at"}}) as driver:
        for time in (50_000, 1_000):
            driver.pipe("in", {"k": "a", "at": dt.datetime.fromtimestamp(7, UTC), "v": 1}, timestamp=time)
        assert [row["_timestamp"].timestamp() for row in driver.read("late")] == [7.0]


def test_a_topic_that_is_stamped_on_append_has_the_time_of_the_epoch():
    """Under LogAppendTime event times are those at which rows arrive, whatever the rows say."""
    app = sk.Topology("writes")
    app.stream("in", schema=SCHEMA, key="k").to("out")
    out = {"schema": SCHEMA, "key": "k", "timestamp": "at", "config": {"message.timestamp.type": "LogAppendTime"}}
    with TopologyTestDriver(app, topics={"out": out}) as driver:
        driver.pipe("in", {"k": "a", "at": None, "v": 1}, timestamp=1)
        assert [row["_timestamp"] for row in driver.read("out")] == [driver.now]
