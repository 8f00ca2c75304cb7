"""A table whose changes are held back: for some time, or until the window of their key has closed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.harness.conformance.interpreter.record import Record, Stored, key_bytes
from tests.harness.conformance.interpreter.stream_time import InputTimes
from tests.harness.conformance.interpreter.table import Table

Json = dict[str, Any]


class BufferFullError(Exception):
    """More rows are held back than the buffer may have."""


@dataclass
class Held:
    """A row that is held back: since when, its last change, the value before the first one, and the time of the row in its table."""

    since: int
    record: Record
    prior: Any
    time: int


@dataclass(frozen=True)
class Leaving:
    """
    A row whose wait has ended, at the moment `due`: ahead of the record that is under way, or with it.

    `turn`: how many rows of its key have left there before.
    """

    is_ahead: bool
    turn: int
    due: int
    held: Held


class SuppressedTable(Table):
    """Who reads the table sees what was sent last, not what is held back."""

    def __init__(self, parent: Table, node: Json, times: InputTimes) -> None:
        self.is_final = node["until"] == "window_closes"
        late = parent.inputs.behind(parent.inputs.delay_ms() + node.get("ms", 0))
        super().__init__(parent.final_inputs or late if self.is_final else late, wait_ms=parent.wait_ms)
        self.parent = parent
        self.contains_end = parent.contains_end
        self.delay_ms: int = parent.wait_ms or 0 if self.is_final else node["ms"]
        buffer = node.get("buffer", {})
        self.max_records: int | None = buffer.get("max_records")
        self.stops = buffer.get("when_full") == "shut_down"
        self.times = times
        self.clock = times.of(self.inputs)
        self.rules = times.rules
        self.held: dict[Any, Held] = {}
        self.leaving: list[Leaving] = []
        self.sent: dict[Any, int] = {}
        self.sends_old = parent.enable_old(True)

    def enable_old(self, force: bool) -> bool:
        return self.parent.enable_old(force)

    def get(self, key: Any) -> Stored | None:
        if key not in self.held:
            return self.parent.get(key)
        prior = self.held[key].prior
        timestamp = self.sent.get(key, -1) if self.rules.rows_that_were_sent_have_times else -1
        return None if prior is None else Stored(prior, timestamp)

    def receive(self, record: Record) -> None:
        """A change of the parent."""
        self.clock.observe(record.timestamp)
        if self.is_final and self.rules.finals_when_time_passes and not self.rules.time_gives_results:
            self._send_due()
        since = record.key.end + self._extra_ms if self.is_final else record.timestamp
        row, held = self.parent.get(record.key), self.held.get(record.key)
        time = record.timestamp if row is None else row.timestamp
        if held is None:
            self.held[record.key] = Held(since, record, record.old, time)
        else:
            held.record, held.time = record, time
        if self._sends_at_the_end:
            self._end_wait(record.key, is_first=held is None)
        elif not (self.is_final and self.rules.time_gives_results):
            self._send_due()
        self._keep_in_bounds()

    def pass_time(self) -> None:
        """Send the final results that are due by now, and what has left before the record that moves the time."""
        if self.is_final and self.rules.finals_when_time_passes:
            self._send_due()
        self._send_leaving()

    def finish(self) -> None:
        """Behind what a record causes: send what has left, and what is due by now. Of a key that the record changed, that is its first change."""
        if not self._sends_at_the_end:
            return
        for key in [key for key in self.held if self._leaves_here(key)]:
            self._leave(key, self._due(key))
        self._send_leaving()

    def _send_leaving(self) -> None:
        """Rows come by the moment since which they waited, then by key; what a key sends once more comes behind all that."""
        leaving, self.leaving = self.leaving, []
        for one in sorted(leaving, key=self._place):
            self._send(one.held, one.due, one.is_ahead)

    def _place(self, one: Leaving) -> tuple[bool, int, int, bytes]:
        return not one.is_ahead, one.turn, one.held.since, self._order(one.held.record.key)

    @property
    def _extra_ms(self) -> int:
        """Windows that contain their end take records for a millisecond more than Kafka Streams waits."""
        return int(self.parent.contains_end and self.rules.suppress_waits_for_closed_windows)

    @property
    def _sends_at_the_end(self) -> bool:
        return not self.is_final and self.rules.limits_when_time_passes

    def _due(self, key: Any) -> int:
        return self.held[key].since + self.delay_ms

    def _is_due(self, key: Any) -> bool:
        return self._due(key) <= self.clock.now

    def _leaves_here(self, key: Any) -> bool:
        """Whether a wait ends where the change under way stands. Results that stand before a record do not end what it ends."""
        if self._sends_at_the_end:
            return not self.times.is_ahead and self._due(key) <= self.clock.reached
        return self._is_due(key)

    def _end_wait(self, key: Any, is_first: bool) -> None:
        """End the wait of a key that has just changed, if it ends here: at once if the first change is as late as the limit already."""
        if is_first and self._is_due(key):
            self._leave(key, self.clock.now)
        elif self._leaves_here(key):
            self._leave(key, self._due(key))

    def _send_due(self) -> None:
        while self.held and self._is_due(key := self._first()):
            self._let_go(key)

    def _keep_in_bounds(self) -> None:
        """Rows whose wait is over leave anyhow, so they do not count."""
        while (
            self.max_records is not None
            and len(waiting := [key for key in self.held if not self._leaves_here(key)]) > self.max_records
        ):
            if self.stops:
                raise BufferFullError(f"found {len(waiting)} rows held back; expected at most {self.max_records}")
            self._let_go(self._first_of(waiting))

    def _first(self) -> Any:
        return self._first_of(self.held)

    def _first_of(self, keys: Iterable[Any]) -> Any:
        return min(keys, key=lambda key: (self.held[key].since, self._order(key)))

    def _order(self, key: Any) -> bytes:
        return key_bytes(key, by_value=self.rules.keys_are_in_order_of_value)

    def _let_go(self, key: Any) -> None:
        if self._sends_at_the_end:
            self._leave(key, self.clock.now)
        else:
            held = self.held.pop(key)
            self._send(held, held.since + self.delay_ms)

    def _leave(self, key: Any, due: int) -> None:
        """A row waits no longer, and will be sent, behind those of its key that leave here already."""
        is_ahead = self.times.is_ahead
        turn = sum(one.held.record.key == key and one.is_ahead == is_ahead for one in self.leaving)
        self.leaving.append(Leaving(is_ahead, turn, due, self.held.pop(key)))

    def _send(self, held: Held, due: int, is_ahead: bool = True) -> None:
        record = held.record._replace(is_latest=True)
        if self.rules.old_is_last_emitted:
            record = record._replace(old=held.prior)
        self.sent[record.key] = held.time
        if record.value is not None or not self.is_final:
            with self.times.at(due, is_ahead):
                self.forward(record)
