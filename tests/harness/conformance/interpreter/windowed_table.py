"""What the aggregates of all kinds of windows have in common: they send updates, or final results."""

from __future__ import annotations

from typing import Any

from tests.harness.conformance.interpreter.emission import Emission
from tests.harness.conformance.interpreter.node import Receiver
from tests.harness.conformance.interpreter.record import Record, Stored, Windowed
from tests.harness.conformance.interpreter.stream_aggregate import Adder, Aggregation
from tests.harness.conformance.interpreter.stream_time import Inputs, InputTimes, StreamTime
from tests.harness.conformance.interpreter.table import Table
from tests.harness.conformance.interpreter.window_store import WindowStore

Json = dict[str, Any]


def tumbling_ms(window: Json) -> int:
    """The length of windows that stand side by side; 0 for others."""
    is_tumbling = window["type"] == "tumbling" or window.get("advance_ms") == window.get("size_ms", 0)
    return window["size_ms"] if is_tumbling else 0


class WindowedTable(Table):
    """`window` is the case's node. Each input has its own stream time in Kafka Streams; here they are equal by Kafka's rules off."""

    too_late: Receiver

    def __init__(self, window: Json, times: InputTimes, emission: Emission, **table: Any) -> None:
        super().__init__(**table)
        self.grace_ms: int = window["grace_ms"]
        self.is_final = window.get("emit") == "on_close"
        self.times = times
        self.rules = times.rules
        self.emission = emission
        self.aggregation = Aggregation(None, lambda first, second: None)
        self.clocks: list[StreamTime] = []
        self.closed_before = -1
        self.given: dict[Any, Stored] = {}
        self.final_inputs = self._final_inputs(window)
        if self.is_final:
            self.inputs = self.final_inputs

    def get(self, key: Any) -> Stored | None:
        row = self._row(key)
        is_met_late = self.is_final and self.rules.finals_are_met_when_given
        return self.given.get(key) if is_met_late and row is not None else row

    def _window_store(self, retention_ms: int) -> WindowStore:
        """A store for windows by their start; the one for final results, which is in the order of time, shows a millisecond more."""
        return WindowStore(None if self.rules.windows_are_kept else retention_ms + self.is_final)

    def _final_inputs(self, window: Json) -> Inputs:
        if window["type"] == "session":
            return self.inputs.final(self.grace_ms + window["gap_ms"], 1)
        if window["type"] == "sliding":
            return self.inputs.final(self.grace_ms, window["time_difference_ms"] + 1)
        return self.inputs.final(self.grace_ms, window["size_ms"], tumbling_ms(window))

    def receiver(self, add: Adder) -> Receiver:
        """Who takes the records of one input."""
        clock = self.times.of(self.inputs)
        self.clocks.append(clock)
        return lambda record: self._receive(record, add, clock)

    @property
    def clock(self) -> StreamTime:
        """The stream time of all inputs, by StreamKit's rules."""
        return self.clocks[0]

    def pass_time(self) -> None:
        """Send the final results that are due by now."""
        if self.is_final:
            self._send_closed(self.clock.now)

    def _receive(self, record: Record, add: Adder, clock: StreamTime) -> None:
        if self._is_dropped(record):
            return
        clock.observe(record.timestamp)
        if self.is_final and self.rules.finals_when_time_passes:
            if not self.rules.time_gives_results:
                self._send_closed(clock.now)
            self._add(record, add, clock)
            return
        may_close = self._add(record, add, clock)
        if self.is_final and may_close and self.emission.is_time():
            self._send_closed(clock.now)

    def _is_dropped(self, record: Record) -> bool:
        return record.key is None

    def _row(self, key: Any) -> Stored | None:
        """What a window has come to by now."""
        raise NotImplementedError

    def _give(self, record: Record, due: int) -> None:
        """Send a final result, which was due at this moment."""
        self.given[record.key] = Stored(record.value, record.timestamp)
        with self.times.at(due):
            self.forward(record)

    def _add(self, record: Record, add: Adder, clock: StreamTime) -> bool:
        """Add a record to its windows. Whether it may close windows."""
        raise NotImplementedError

    def _send_closed(self, now: int) -> None:
        """Send the final results of the windows that have closed since the last time."""
        raise NotImplementedError

    def _update(self, key: Windowed, value: Any, old: Any, timestamp: int) -> None:
        if not self.is_final:
            self.send(Record(key, value, timestamp, old))

    def _replaced(self, row: Stored | None, old: Any) -> Any:
        """The old value of a change: what the row was, or the initial value."""
        return None if row is None and self.rules.first_result_replaces_nothing else old
