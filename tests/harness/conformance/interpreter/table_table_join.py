"""Two tables joined by key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.harness.conformance.interpreter.node import Receiver
from tests.harness.conformance.interpreter.record import Record, Stored
from tests.harness.conformance.interpreter.table import Store, Table, value_of

Joiner = Callable[[Any, Any], Any]


class TableTableJoin(Table):
    """A change of either side is joined with the row of the other side as it is now."""

    replaces_what_it_gave = False
    deletes_what_vanished = False

    def __init__(self, left: Table, right: Table, joiner: Joiner, how: str, store: Store | None) -> None:
        skips_older = store is not None and store.is_versioned
        super().__init__(left.inputs | right.inputs, skips_older=skips_older, wait_ms=left.wait_ms)
        self.left, self.right = left, right
        self.contains_end = left.contains_end
        if left.final_inputs is not None and right.final_inputs is not None:
            self.final_inputs = left.final_inputs | right.final_inputs
        self.joiner = joiner
        self.keeps_left, self.keeps_right = how in ("left", "outer"), how == "outer"
        self.store = store
        self.given: dict[Any, Any] = {}
        self.reads_history = skips_older
        if self.keeps_left:
            left.enable_old(True)
        if self.keeps_right:
            right.enable_old(True)

    def enable_old(self, force: bool) -> bool:
        self.left.enable_old(True)
        self.right.enable_old(True)
        return super().enable_old(force)

    def receiver_left(self) -> Receiver:
        """Who takes the changes of the left table."""
        return lambda record: self._receive(record, True, self._joined)

    def receiver_right(self) -> Receiver:
        """Who takes the changes of the right table."""
        return lambda record: self._receive(record, False, lambda mine, other: self._joined(other, mine))

    def get(self, key: Any) -> Stored | None:
        if self.store is not None:
            return self.store.get(key)
        left, right = self.left.get(key), self.right.get(key)
        value = self._joined(value_of(left), value_of(right))
        return None if value is None else Stored(value, max(row.timestamp for row in (left, right) if row is not None))

    def get_as_of(self, key: Any, timestamp: int) -> Stored | None:
        return self.get(key) if self.store is None else self.store.get_as_of(key, timestamp)

    def _receive(self, record: Record, is_left: bool, join: Joiner) -> None:
        side, other = (self.left, self.right) if is_left else (self.right, self.left)  # which may be one table
        is_kept, other_tells = (self.keeps_left, self.keeps_right) if is_left else (self.keeps_right, self.keeps_left)
        if record.key is None or (side.skips_older and not record.is_latest):
            return
        row = other.get(record.key)
        partner = value_of(row)
        is_deleted = record.value is None and self.given.get(record.key) is not None
        vanishes = self.deletes_what_vanished and is_deleted and not other_tells  # which tells its own deletion anyway
        is_alone = is_kept and (record.value is not None or record.old is not None)
        if partner is None and not is_alone and not vanishes:
            return
        timestamp = record.timestamp if row is None else max(record.timestamp, row.timestamp)
        self._keep(Record(record.key, join(record.value, partner), timestamp, join(record.old, partner), record.is_latest))

    def _joined(self, left: Any, right: Any) -> Any:
        has_left, has_right = left is not None or self.keeps_right, right is not None or self.keeps_left
        is_there = has_left and has_right and (left is not None or right is not None)
        return self.joiner(left, right) if is_there else None

    def _keep(self, record: Record) -> None:
        is_latest: bool | None = record.is_latest
        if self.store is not None:
            is_latest = self.store.put(record.key, record.value, record.timestamp)
        if is_latest is None:
            return
        if self.replaces_what_it_gave:
            record = record._replace(old=self.given.get(record.key))
        if is_latest:
            self.given[record.key] = record.value
        self.send(record._replace(is_latest=is_latest))
