"""A record of bytes without a value is a deletion, as in Kafka: for tables, streams, views, compaction and readers, however it was sent."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from tests.kit.sampling import combined

AT_MS = 1_700_000_000_000
CHANGES = [("a", 1), ("b", 2), ("a", 3), ("b", None), ("c", 4)]


def send_rows(producer, is_opaque):
    for key, n in CHANGES:
        value = None if n is None else {"n": n}
        row = {"key": key, "value": value} if is_opaque else {"key": key.encode(), "value": encoded(n)}
        producer.send("raw", row, timestamp_ms=AT_MS)


def send_rows_with_deletions(producer, is_opaque):
    for key, n in CHANGES:
        own = key if is_opaque else key.encode()
        if n is None:
            producer.delete("raw", {"key": own}, timestamp_ms=AT_MS)
        else:
            producer.send("raw", {"key": own, "value": {"n": n} if is_opaque else encoded(n)}, timestamp_ms=AT_MS)


def send_a_batch(producer, _is_opaque):
    keys, values = [key.encode() for key, _ in CHANGES], [encoded(n) for _, n in CHANGES]
    producer.send_batch(
        "raw", pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())}), timestamp_ms=AT_MS
    )


def encoded(n):
    return None if n is None else json.dumps({"n": n}).encode()


@pytest.mark.parametrize(
    ("send", "is_opaque", "epoch_rows"),
    combined([send_rows, send_rows_with_deletions, send_a_batch], [True, False], [1, 1_000], together=1),
)
def test_a_null_value_deletes_its_key(tmp_path, send, is_opaque, epoch_rows):
    """The table lacks the key, what is made of the table too, and a stream counts no value that is not there."""
    with sk.open_log(tmp_path) as log:
        if is_opaque:
            log.create_topic("raw", format="json", config={"retention.ms": -1})
        else:
            log.create_topic("raw", "key binary, value binary", key="key", config={"retention.ms": -1})
        with log.producer() as producer:
            send(producer, is_opaque)
        app = sk.Topology("app")
        table = app.table("raw", value_format="json", schema="id string, n int", key="id", store="t")
        table.group_by(z=F.lit(1)).agg(n=F.sum("n"), store="g")
        table.to_stream().to("out")
        other = sk.Topology("other")
        other.stream("raw", value_format="json", schema="id string, n int", key="id").group_by_key().count(store="c")
        for topology in (app, other):
            sk.run(topology, log=log, engine="local", drain=True, max_records_per_epoch=epoch_rows).wait()

        assert sorted((row["id"], row["n"]) for row in log.store("app", "t").to_arrow().to_pylist()) == [("a", 3), ("c", 4)]
        assert [row["n"] for row in log.store("app", "g").to_arrow().to_pylist()] == [7]
        assert {row["id"]: row["count"] for row in log.store("other", "c").to_arrow().to_pylist()} == {"a": 2, "b": 1, "c": 1}
        assert [row["id"] for row in log.read("out").to_pylist() if row["_deleted"]] == ["b"]
        if is_opaque:
            assert [row["key"] for row in log.read("raw").to_pylist() if row["_deleted"]] == [b"b"]
