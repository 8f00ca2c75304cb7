"""A trace of a log's records says what a run over them does: in the same order, at the same places, with the same headers and times."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.cli.trace import _records, _table
from streamkit.testing.newest_records import newest_records
from streamkit.testing.trace import trace
from tests.kit.sampling import seeds

START_MS = 1_793_491_200_000
EPOCH = dt.datetime(1970, 1, 1)


def shop():
    """Orders counted by hour, those that fail, and orders beside payments of the same customer."""
    app = sk.Topology("shop", on_error=sk.dead_letter("refused"))
    orders = app.stream("orders", timestamp="at")
    checked = orders.map_values(inverse, "inverse int, of string", name="inverted")
    hours = checked.with_columns(g=F.lit(1)).group_by("g").windowed_by(sk.tumbling("1 hour", grace="2 minutes"))
    hours.agg(n=F.count("*"), total=F.sum("inverse"), store="hourly").emit("final").to("hours")
    app.stream("payments").join(
        orders, on="customer", within=sk.within(before="5 minutes", after="5 minutes", grace="3 minutes"), suffix="_2"
    ).to("paid")
    app.stream("payments").select("amount", source=F.element_at("_headers", 1)["value"].cast("string")).to("sources")
    return app


def inverse(row):
    return {"inverse": 60 // row["amount"], "of": row["customer"]}


def filled(seed):
    """A log with records out of order, null keys, headers, times of the append, and partitions whose first records were deleted."""
    chance = random.Random(seed)
    log = sk.open_log(":memory:")
    key = "customer" if chance.random() < 0.7 else None
    log.create_topic("orders", "customer string, amount int, at timestamp_ntz", key, partitions=chance.randint(1, 4))
    times = {"message.timestamp.type": "LogAppendTime"} if chance.random() < 0.3 else {}
    log.create_topic("payments", "customer string, amount int", key, partitions=chance.randint(1, 3), config=times)
    with log.producer() as producer:
        for number in range(chance.randint(5, 60)):
            time_ms = START_MS + number * 240_000 - chance.choice([0, 0, 0, 200_000, 5_000_000])
            row = {"customer": chance.choice(["ann", "bob", None]), "amount": number % 5}
            if chance.random() < 0.6:
                at = EPOCH + dt.timedelta(milliseconds=time_ms) if chance.random() < 0.9 else None
                producer.send("orders", {**row, "at": at}, timestamp_ms=START_MS)
            else:
                producer.send("payments", {**row, "_headers": [("from", b"%d" % number)]}, timestamp_ms=time_ms)
            if chance.random() < 0.5:
                producer.flush()
    for topic in ("orders", "payments"):
        ends = log.end_offsets(topic)
        log.delete_records(topic, {partition: end // 4 for partition, end in ends.items()})
    return log


def values(rows):
    """Rows as texts, in no order, without the places where a log keeps them."""
    own = [
        {name: value for name, value in row.items() if name not in ("_partition", "_offset", "_timestamp", "record")}
        for row in rows
    ]
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in own)


@pytest.mark.parametrize("seed", seeds(12))
def test_a_trace_of_a_log_is_a_run_over_it(seed):
    """All records of a random log go through at their own places, and give the results, dead letters and counts that a run gives."""
    with filled(seed) as log:
        streams = ["orders", "payments"]
        rows = newest_records(shop(), log, {name: _records(log, name, None) for name in streams}, 10_000)
        traced = trace(shop(), rows, log=log, max_records=10_000, drain=True)
        run = sk.run(shop(), log=log, engine="local", drain=True)
        run.wait()
        taken = [
            (one["topic"], one["row"]["_partition"], one["row"]["_offset"]) for epoch in traced.epochs for one in epoch["records"]
        ]
        expected = [(name, row["_partition"], row["_offset"]) for name in streams for row in log.read(name).to_pylist()]
        assert sorted(set(taken)) == sorted(expected)
        for topic in ("hours", "paid", "sources", "refused"):
            written = [row for epoch in traced.epochs for row in epoch["written"].get(topic, [])]
            assert values(written) == values(log.decode(topic, log.read(topic)) if topic in log.topics() else [])
        late = sum(reasons.get("late", 0) for epoch in traced.epochs for reasons in epoch["left_out"].values())
        assert late == sum(dict(step.counts).get("late", 0) for step in run.steps())


@pytest.mark.parametrize("users", [[], [{"id": "a", "name": "Ann"}]])
def test_a_table_of_a_log_may_be_empty(users):
    """The rows of a table that were there before the traced records are processed first, whether there are any or none."""
    app = sk.Topology("visits")
    app.stream("clicks").join(app.table("users"), on={"user": "id"}, how="left").to("named")
    with sk.open_log(":memory:") as log:
        log.create_topic("clicks", "n int, user string", "n", partitions=2)
        log.create_topic("users", "id string, name string", "id", partitions=2, config={"cleanup.policy": "compact"})
        with log.producer() as producer:
            producer.send_batch("users", users)
            producer.send("clicks", {"n": 1, "user": "a"})
        rows = newest_records(app, log, {"clicks": _records(log, "clicks", None)}, 10)
        traced = trace(app, rows, before={"users": _table(log, "users")}, log=log)
    (written,) = [row for epoch in traced.epochs for row in epoch["written"].get("named", [])]
    assert written["name"] == (users[0]["name"] if users else None)
