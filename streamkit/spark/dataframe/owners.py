"""Whose sequences a producer counts: a compacted topic, written in the transaction of the first batch."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.runtime.internal_topic import declare_internal_topic, has_topic
from streamkit.log.log import Log
from streamkit.log.topic.topic import Topic

TOPIC = "__spark_producers"
SCHEMA = "producer string NOT NULL, owner string"
BATCHES = "batch writes"


def owner_of_query(query_id: str) -> str:
    """How a streaming query, which its checkpoint names, is called as an owner."""
    return f"the streaming query {query_id}"


def declare_owners(log: Log) -> Topic:
    """The topic, which is created unless it is there."""
    declare_internal_topic(log, TOPIC, SCHEMA, ["producer"])
    return log.catalog.topics.get(TOPIC)


def read_owner(log: Log, producer: str) -> str | None:
    """Who counts the producer's sequences; None if nobody does yet."""
    if not has_topic(log, TOPIC):
        return None
    rows = log.read(TOPIC)
    found = rows.filter(pc.equal(rows["producer"], producer))["owner"].to_pylist()
    return found[-1] if found else None


def owner_row(producer: str, owner: str) -> pa.Table:
    """The row that says so."""
    return pa.table({"producer": [producer], "owner": [owner]})
