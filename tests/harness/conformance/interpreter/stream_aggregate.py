"""An aggregate of a stream by key, without windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.harness.conformance.interpreter.node import Receiver
from tests.harness.conformance.interpreter.record import Record
from tests.harness.conformance.interpreter.table import StoredTable

Adder = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Aggregation:
    """What an aggregate starts from, and how two aggregates become one. How a value is added is known for each input."""

    initial: Any
    merge: Adder


class StreamAggregate(StoredTable):
    """Records without key or value are dropped. The timestamp is the largest so far."""

    aggregation: Aggregation
    first_replaces_nothing = False

    def receiver(self, add: Adder) -> Receiver:
        """Who takes the records of one input."""
        return lambda record: self._receive(record, add)

    def _receive(self, record: Record, add: Adder) -> None:
        if record.key is None or record.value is None:
            return
        row = self.store.get(record.key)
        old = self.aggregation.initial if row is None else row.value
        timestamp = record.timestamp if row is None else max(record.timestamp, row.timestamp)
        replaced = None if row is None and self.first_replaces_nothing else old
        self.keep(Record(record.key, add(record.value, old), timestamp, replaced))
