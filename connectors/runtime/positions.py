"""Positions of sources: a compacted topic, written in the transaction of the rows."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.source import Position
from streamkit.log.log import Log
from streamkit.log.produce.producer import Producer

TOPIC = "__connect_positions"
SCHEMA = "connector string NOT NULL, split string NOT NULL, position string"


def declare_positions(log: Log) -> None:
    """Create the topic unless it is there."""
    log.create_topic(TOPIC, SCHEMA, key=["connector", "split"], partitions=1, config={"cleanup.policy": "compact"})


def read_positions(log: Log, connector: str) -> dict[str, Position]:
    """The committed position of each split of a connector."""
    if TOPIC not in log.topics():
        return {}
    rows = log.read(TOPIC)
    found = rows.filter(pc.equal(rows["connector"], connector)).select(["split", "position"]).to_pylist()
    newest = {row["split"]: row["position"] for row in found}
    return {split: json.loads(position) for split, position in newest.items() if position is not None}


def send_positions(producer: Producer, connector: str, positions: Mapping[str, Position]) -> None:
    """Send positions along with the rows before them."""
    if positions:
        producer.send_batch(TOPIC, _rows(connector, positions))


def forget_positions(producer: Producer, connector: str, splits: Mapping[str, Position]) -> None:
    """Send the deletion of positions, so that a source begins anew there."""
    for split in splits:
        producer.delete(TOPIC, {"connector": connector, "split": split})


def _rows(connector: str, positions: Mapping[str, Position]) -> pa.Table:
    texts = [json.dumps(position, separators=(",", ":"), sort_keys=True) for position in positions.values()]
    return pa.table({"connector": [connector] * len(texts), "split": list(positions), "position": texts})
