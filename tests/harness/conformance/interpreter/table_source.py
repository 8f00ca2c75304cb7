"""A table made of a topic, of a stream, or of the answers of a foreign-key join: the last value of each key."""

from __future__ import annotations

from tests.harness.conformance.interpreter.record import Record
from tests.harness.conformance.interpreter.stream_time import Inputs
from tests.harness.conformance.interpreter.table import Store, StoredTable, value_of


class TableSource(StoredTable):
    """`has_store`: the store is really there, because someone named it or needs it. Without it there are no old values."""

    def __init__(self, inputs: Inputs, store: Store, has_store: bool, *, wait_ms: int | None = None) -> None:
        super().__init__(inputs, store, wait_ms=wait_ms)
        self.has_store = has_store

    def enable_old(self, force: bool) -> bool:
        if not force and not self.has_store and not self.sends_old:
            return False
        self.has_store = True
        return super().enable_old(force)

    def receive(self, record: Record) -> None:
        """A record sets or deletes the row of its key."""
        if record.key is not None:
            self.keep(record._replace(old=value_of(self.store.get(record.key))))
