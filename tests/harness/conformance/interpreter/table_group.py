"""A table grouped by another key: each change becomes a removal from one group and an addition to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.harness.conformance.interpreter.node import Node
from tests.harness.conformance.interpreter.record import Record
from tests.harness.conformance.interpreter.stream_time import Inputs
from tests.harness.conformance.interpreter.table import Table

Pair = tuple[Any, Any] | None


class TableGroup(Node):
    """`pair` makes a group and a value of a row. A pair that is not there, or of which a half is not, is skipped."""

    def __init__(self, parent: Table, pair: Callable[[Any, Any], Pair]) -> None:
        super().__init__()
        self.inputs: Inputs = parent.inputs
        self.skips_older = parent.skips_older
        self.pair = pair
        parent.enable_old(True)

    def receive(self, record: Record) -> None:
        """Within a group a change is one update; across groups the removal comes first."""
        if self.skips_older and not record.is_latest:
            return
        old, new = self._pair(record.key, record.old), self._pair(record.key, record.value)
        if old is not None and new is not None and old[0] == new[0]:
            self.forward(Record(new[0], new[1], record.timestamp, old[1], record.is_latest))
            return
        if old is not None:
            self.forward(Record(old[0], None, record.timestamp, old[1], record.is_latest))
        if new is not None:
            self.forward(Record(new[0], new[1], record.timestamp, None, record.is_latest))

    def _pair(self, key: Any, value: Any) -> Pair:
        found = None if value is None else self.pair(key, value)
        return None if found is None or found[0] is None or found[1] is None else found
