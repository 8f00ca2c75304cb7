"""An aggregate of a grouped table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.harness.conformance.interpreter.record import Record
from tests.harness.conformance.interpreter.stream_aggregate import Adder
from tests.harness.conformance.interpreter.table import StoredTable, value_of


class TableAggregate(StoredTable):
    """The old value is subtracted first, if there is an aggregate; then the new one is added."""

    begin: Callable[[Any], Any]
    add: Adder
    subtract: Adder

    def receive(self, record: Record) -> None:
        """A change within a group."""
        row = self.store.get(record.key)
        before = aggregate = value_of(row)
        timestamp = record.timestamp if row is None else max(record.timestamp, row.timestamp)
        if record.old is not None and aggregate is not None:
            aggregate = self.subtract(record.old, aggregate)
        elif record.value is None:
            timestamp = record.timestamp
        if record.value is not None:
            aggregate = self.begin(record.value) if aggregate is None else self.add(record.value, aggregate)
        self.keep(Record(record.key, aggregate, timestamp, before))
