"""A stream joined with itself over one store, as Kafka Streams does when it optimizes the topology."""

from __future__ import annotations

from typing import Any

from tests.harness.conformance.interpreter.join_store import JoinStore
from tests.harness.conformance.interpreter.node import Node
from tests.harness.conformance.interpreter.record import Record
from tests.harness.conformance.interpreter.stream_stream_join import Joiner

Json = dict[str, Any]


class SelfJoin(Node):
    """A record is joined with earlier ones, they with it, and it with itself. So all find a match, and all are inner joins."""

    def __init__(self, node: Json, joiner: Joiner) -> None:
        super().__init__()
        self.before_ms, self.after_ms = node["before_ms"], node["after_ms"]
        self.retention_ms = self.before_ms + self.after_ms + node["grace_ms"]
        self.joiner = joiner
        self.store = JoinStore(self.retention_ms, 0)
        self.newest = -1

    def receive(self, record: Record) -> None:
        """A record of the stream."""
        if record.key is None or record.value is None:
            return
        self._join(record)
        self.store.put(record)

    def _join(self, record: Record) -> None:
        moment = record.timestamp
        self.newest = max(self.newest, moment)
        joins_itself = moment > self.newest - self.retention_ms + 1
        for other in self._fetch(record, self.before_ms, self.after_ms):
            self._send(record, record.value, other.value, other.timestamp)
        for other in self._fetch(record, self.after_ms, self.before_ms):
            if joins_itself and other.timestamp > moment:
                self._send(record, record.value, record.value, moment)
                joins_itself = False
            self._send(record, other.value, record.value, other.timestamp)
        if joins_itself:
            self._send(record, record.value, record.value, moment)

    def _fetch(self, record: Record, before_ms: int, after_ms: int) -> list[Record]:
        return self.store.fetch(record.key, max(0, record.timestamp - before_ms), max(0, record.timestamp + after_ms))

    def _send(self, record: Record, left: Any, right: Any, timestamp: int) -> None:
        self.forward(Record(record.key, self.joiner(record.key, left, right), max(record.timestamp, timestamp)))
