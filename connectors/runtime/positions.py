"""Positions of sources: a compacted topic, written in the transaction of the rows."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.runtime.identity import IDENTITY
from streamkit.connectors.runtime.internal_topic import declare_internal_topic, has_topic
from streamkit.connectors.runtime.targets import TARGETS
from streamkit.connectors.source import Position, Source
from streamkit.errors import ConfigError
from streamkit.log.log import Log
from streamkit.log.produce.producer import Producer

TOPIC = "__connect_positions"
SCHEMA = "connector string NOT NULL, split string NOT NULL, position string"


def declare_positions(log: Log) -> None:
    """Create the topic unless it is there."""
    declare_internal_topic(log, TOPIC, SCHEMA, ["connector", "split"])


def read_positions(log: Log, connector: str) -> dict[str, Position]:
    """The committed position of each split of a connector."""
    found = read_with_targets(log, connector)
    return {split: {name: value for name, value in one.items() if name != TARGETS} for split, one in found.items()}


def read_with_targets(log: Log, connector: str) -> dict[str, Position]:
    """The same, each with the topics that have what lies before it."""
    if not has_topic(log, TOPIC):
        return {}
    rows = log.read(TOPIC)
    found = rows.filter(pc.equal(rows["connector"], connector)).select(["split", "position"]).to_pylist()
    newest = {row["split"]: row["position"] for row in found}
    return {split: json.loads(position) for split, position in newest.items() if position is not None}


def check_position(kind: type[Source], connector: str, split: str, position: Position) -> None:
    """ConfigError unless a position, as `read_positions` gives it, is one that a source of this class can go on from."""
    own = {name: value for name, value in position.items() if name != IDENTITY}
    fault = kind.position_fault(split, own)
    if fault is None and not isinstance(position.get(IDENTITY, ""), str):
        fault = f"{IDENTITY!r} is {position[IDENTITY]!r}; expected a text"
    if fault is None:
        return
    example = f", such as {shlex.quote(json.dumps(kind.POSITION.example))}" if kind.POSITION is not None else ""
    raise ConfigError(
        f"connector {connector}: {json.dumps(own)} is no position of {split}: {fault}. To set one: streamkit connect offsets set {connector} "
        f"{shlex.quote(split)} POSITION{example}; to read all again: streamkit connect offsets reset {connector}"
    )


def send_positions(producer: Producer, connector: str, positions: Mapping[str, Position]) -> None:
    """Send positions along with the rows before them."""
    if positions:
        texts = [json.dumps(position, separators=(",", ":"), sort_keys=True) for position in positions.values()]
        producer.send_batch(TOPIC, pa.table({"connector": [connector] * len(texts), "split": list(positions), "position": texts}))


def forget_positions(producer: Producer, connector: str, splits: Iterable[str]) -> None:
    """Have no positions of these splits."""
    for split in splits:
        producer.delete(TOPIC, {"connector": connector, "split": split})


def change_positions(log: Log, connector: str, positions: Mapping[str, Position | None]) -> None:
    """Commit positions for a connector that does not run; None forgets one, so that the source begins at the beginning there."""
    declare_positions(log)
    with log.producer() as producer, producer.transaction():
        send_positions(producer, connector, {split: position for split, position in positions.items() if position is not None})
        forget_positions(producer, connector, [split for split, position in positions.items() if position is None])
