"""A filtered or mapped table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.harness.conformance.interpreter.record import Record, Stored
from tests.harness.conformance.interpreter.table import Store, Table, value_of


class DerivedTable(Table):
    """`compute` makes the value from key and value, and is not called for None. Without a store the parent is read."""

    def __init__(self, parent: Table, compute: Callable[[Any, Any], Any], store: Store | None) -> None:
        skips_older = parent.skips_older if store is None else store.is_versioned
        super().__init__(parent.inputs, skips_older=skips_older, wait_ms=parent.wait_ms)
        self.parent = parent
        self.contains_end = parent.contains_end
        self.final_inputs = parent.final_inputs
        self.compute = compute
        self.store = store
        self.reads_history = parent.reads_history if store is None else store.is_versioned

    def enable_old(self, force: bool) -> bool:
        if self.store is not None or self.parent.enable_old(force):
            self.sends_old = True
        return self.sends_old

    def receive(self, record: Record) -> None:
        """A change of the parent."""
        value, old = self._computed(record.key, record.value), self._old(record)
        if self._says_nothing(value, old):
            return
        is_latest: bool | None = record.is_latest
        if self.store is not None:
            is_latest = self.store.put(record.key, value, record.timestamp)
        if is_latest is not None:
            self.forward(Record(record.key, value, record.timestamp, old, is_latest))

    def get(self, key: Any) -> Stored | None:
        if self.store is not None:
            return self.store.get(key)
        return self._view(key, self.parent.get(key))

    def get_as_of(self, key: Any, timestamp: int) -> Stored | None:
        if self.store is not None:
            return self.store.get_as_of(key, timestamp)
        return self._view(key, self.parent.get_as_of(key, timestamp))

    def _old(self, record: Record) -> Any:
        if not self.sends_old:
            return None
        return value_of(self.store.get(record.key)) if self.store is not None else self._computed(record.key, record.old)

    def _computed(self, key: Any, value: Any) -> Any:
        return None if value is None else self.compute(key, value)

    def _view(self, key: Any, row: Stored | None) -> Stored | None:
        value = self._computed(key, value_of(row))
        return None if row is None or value is None else Stored(value, row.timestamp)

    def _says_nothing(self, value: Any, old: Any) -> bool:
        return False


class FilteredTable(DerivedTable):
    """A row that does not match any more becomes a deletion; one that never matched is skipped where old values tell."""

    def __init__(self, parent: Table, condition: Callable[[Any, Any], bool], store: Store | None) -> None:
        super().__init__(parent, lambda key, value: value if condition(key, value) else None, store)
        self.sends_old = parent.enable_old(False)

    def _says_nothing(self, value: Any, old: Any) -> bool:
        return self.sends_old and value is None and old is None and not self.parent.skips_older


class MappedTable(DerivedTable):
    """Values are mapped; deletions stay."""
