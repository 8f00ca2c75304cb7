"""A stream joined with a table, or with a global table: each record of the stream with the row of its key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.harness.conformance.interpreter.node import Node
from tests.harness.conformance.interpreter.record import Record, key_bytes
from tests.harness.conformance.interpreter.stream_time import Inputs, InputTimes
from tests.harness.conformance.interpreter.table import Table, value_of
from tests.harness.conformance.interpreter.versioned_store import VersionedStore

Joiner = Callable[[Any, Any, Any], Any]
Mapper = Callable[[Any, Any], Any]


class StreamTableJoin(Node):
    """`mapped` is the key of the row. With a grace period records wait, and are joined in the order of their timestamps."""

    def __init__(self, table: Table, joiner: Joiner, mapped: Mapper, is_left: bool) -> None:
        super().__init__()
        self.table = table
        self.joiner = joiner
        self.mapped = mapped
        self.is_left = is_left

    def receive(self, record: Record) -> None:
        """A record of the stream."""
        if not self._is_dropped(record):
            self._join(record)

    def _is_dropped(self, record: Record) -> bool:
        return record.value is None or (not self.is_left and self.mapped(record.key, record.value) is None)

    def _join(self, record: Record) -> None:
        key = self.mapped(record.key, record.value)
        row = None if key is None else self.table.get_as_of(key, record.timestamp)
        value = value_of(row)
        if value is not None or self.is_left:
            self.forward(record._replace(value=self.joiner(record.key, record.value, value)))


class WaitingStreamTableJoin(StreamTableJoin):
    """
    Records wait until stream time is their timestamp plus grace; a record that is older on arrival is joined at once.

    By our rules no record waits for longer than the table's history goes back to its timestamp.
    """

    def __init__(self, join: StreamTableJoin, grace_ms: int, times: InputTimes, inputs: Inputs) -> None:
        super().__init__(join.table, join.joiner, join.mapped, join.is_left)
        self.grace_ms = grace_ms
        self.times = times
        self.clock = times.of(inputs)
        self.rules = times.rules
        self.waiting: list[tuple[int, bytes, int, Record]] = []
        self.arrived = 0

    def receive(self, record: Record) -> None:
        if self._is_dropped(record):
            return
        self.clock.observe(record.timestamp)
        if self.rules.finals_when_time_passes and not self.rules.time_gives_results:
            self._join_due()
        wait_ms = record.timestamp + self.grace_ms - self.clock.now
        if self._is_forgotten(record.timestamp) or wait_ms < 0 or (self.rules.time_gives_results and not wait_ms):
            self._join(record)
            return
        self.arrived += 1
        order = key_bytes(record.key, by_value=self.rules.keys_are_in_order_of_value) + self.arrived.to_bytes(4, "big")
        self.waiting.append((record.timestamp, order, self.arrived, record))
        self.waiting.sort()
        if not self.rules.time_gives_results:
            self._join_due()

    def pass_time(self) -> None:
        """Join what is due by now."""
        if self.rules.finals_when_time_passes:
            self._join_due()

    def finish(self) -> None:
        """Behind what a record causes: a row that was held back has come since, and may be due by now as well."""
        self.pass_time()

    def _join_due(self) -> None:
        while self.waiting and (self.waiting[0][0] <= self.clock.now - self.grace_ms or self._is_forgotten(self.waiting[0][0])):
            with self.times.at(min(self.waiting[0][0] + self.grace_ms, self.clock.now)):
                self._join(self.waiting.pop(0)[3])

    def _is_forgotten(self, timestamp: int) -> bool:
        """Whether the table's history does not go back to a time, now that the last record has come."""
        if not (self.rules.waits_end_with_history and self.rules.time_gives_results):
            return False
        table: Any = self.table
        while not getattr(getattr(table, "store", None), "is_versioned", False):
            table = table.parent
        history: VersionedStore = table.store
        return timestamp < history.clock.reached - history.retention_ms
