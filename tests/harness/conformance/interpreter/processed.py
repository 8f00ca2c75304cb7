"""A stream whose records are numbered by key; every so often in stream time the numbers of all keys are told."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from streamkit.log.values.keys import key_groups
from tests.harness.conformance.interpreter.record import Record, key_bytes
from tests.harness.conformance.interpreter.stream import Stream
from tests.harness.conformance.interpreter.stream_time import InputTimes
from tests.harness.conformance.tally import numbered, told


class Processed(Stream):
    """
    The grid of calls begins at 0; a call comes behind what the record causes that passed a point of it, once.

    Each of the `groups` key groups is called by itself, in the order of their numbers, and tells its keys in theirs.
    """

    def __init__(self, parent: Stream, every_ms: int, times: InputTimes, groups: int) -> None:
        super().__init__(parent.inputs, parent.is_rekeyed)
        self.every_ms = every_ms
        self.groups = groups
        self.clock = times.of(parent.inputs)
        self.numbers: dict[Any, int] = {}
        self.called_up_to: int | None = None

    def receive(self, record: Record) -> None:
        """A record of the stream."""
        if record.key is None:
            return
        if record.value is None:
            self.numbers.pop(record.key, None)
            self.forward(record)
            return
        self.numbers[record.key] = self.numbers.get(record.key, 0) + 1
        self.forward(record._replace(value=numbered(record.value, self.numbers[record.key])))

    def skip_past_points(self) -> None:
        """Begin when stream time has come as far as it has: points that it has passed call no more."""
        if self.clock.now >= 0:
            self.called_up_to = self.clock.now // self.every_ms

    def finish(self) -> None:
        """Call, if stream time has passed a point of the grid."""
        now = self.clock.now
        point = now // self.every_ms
        if now < 0 or (self.called_up_to is not None and point <= self.called_up_to):
            return
        self.called_up_to = point
        for key in sorted(self.numbers, key=self._place):
            self.forward(Record(key, told(self.numbers[key], now), now))

    def _place(self, key: Any) -> tuple[int, bytes]:
        """The key group of a key, and where the key stands in it."""
        column = pa.array([key], pa.string() if isinstance(key, str) else pa.int32())
        return int(key_groups([column], self.groups)[0]), key_bytes(key, by_value=True)
