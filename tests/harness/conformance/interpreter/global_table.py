"""A table that every task has whole. Its changes trigger nothing."""

from __future__ import annotations

from typing import Any

from tests.harness.conformance.interpreter.record import Record, Stored
from tests.harness.conformance.interpreter.stream_time import Inputs
from tests.harness.conformance.interpreter.table import Table


class GlobalTable(Table):
    """The last value of each key."""

    def __init__(self) -> None:
        super().__init__(Inputs())
        self.rows: dict[Any, Stored] = {}

    def receive(self, record: Record) -> None:
        """A record sets or deletes the row of its key."""
        if record.key is not None:
            self.rows[record.key] = Stored(record.value, record.timestamp)

    def get(self, key: Any) -> Stored | None:
        return self.rows.get(key)
