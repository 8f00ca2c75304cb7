"""Windows of event time: as the user declares them, and as the operators of a program apply them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from streamkit.errors import TopologyError
from streamkit.plan.duration import duration_text

WINDOWS_PER_RECORD_MAX = 1_500  # each is a row while an epoch is processed; a day by the minute is 1,440


@dataclass(frozen=True)
class TimeWindow:
    """
    Windows of `size_ms` that start every `advance_ms`, open until stream time is `grace_ms` past their end.

    They close before that if no input has had a record for `close_after_idle_ms`, by the clock; None if they wait for records.
    """

    size_ms: int
    advance_ms: int
    grace_ms: int
    retention_ms: int
    close_after_idle_ms: int | None = None

    def __post_init__(self) -> None:
        if self.size_ms <= 0:
            raise TopologyError("a window's size is 0; expected a positive length of time")
        if not 0 < self.advance_ms <= self.size_ms:
            raise TopologyError(
                f"a window of {duration_text(self.size_ms)} cannot advance by {duration_text(self.advance_ms)}; "
                "expected more than 0 and at most the size, else records would fall between the windows"
            )
        if self.per_record > WINDOWS_PER_RECORD_MAX:
            raise TopologyError(
                f"a window of {duration_text(self.size_ms)} that advances by {duration_text(self.advance_ms)} puts each record into "
                f"{self.per_record:,} windows; expected at most {WINDOWS_PER_RECORD_MAX:,}: make the advance longer, or the size shorter"
            )
        if self.close_after_idle_ms is not None and self.close_after_idle_ms < 1:
            raise TopologyError("close_after_idle is 0; expected a positive length of time, or None to wait for records")
        if self.grace_ms < 0:
            raise TopologyError(f"the grace {self.grace_ms} ms is negative; expected 0 or more")
        if self.retention_ms < self.size_ms + self.grace_ms:
            raise TopologyError(
                f"the retention {duration_text(self.retention_ms)} is shorter than size and grace together "
                f"({duration_text(self.size_ms + self.grace_ms)}); expected at least that, else open windows would be lost"
            )

    def __repr__(self) -> str:
        """As a dataclass, without what is not set: names of stores depend on it, and must stay as they are."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return f"TimeWindow({', '.join(f'{name}={value!r}' for name, value in values.items() if value is not None)})"

    @property
    def per_record(self) -> int:
        """The windows that a record is in, at most."""
        return -(-self.size_ms // self.advance_ms)

    def covers(self, finer: TimeWindow) -> bool:
        """Whether every window of `finer` lies within each window that holds its start."""
        is_tumbling = self.advance_ms == self.size_ms and finer.advance_ms == finer.size_ms
        return is_tumbling and self.size_ms % finer.size_ms == 0

    def __str__(self) -> str:
        advance = "" if self.advance_ms == self.size_ms else f" every {duration_text(self.advance_ms)}"
        shape = "hopping" if advance else "tumbling"
        return f"{shape} {duration_text(self.size_ms)}{advance}, grace {duration_text(self.grace_ms)}{_idle_text(self)}"


@dataclass(frozen=True)
class Windowing:
    """
    How an operator puts rows into windows; its stream time is that of the inputs `streams`.

    It never falls below what it was for `store`, the store of the windows, whatever inputs feed it after a restart.
    """

    size_ms: int
    advance_ms: int
    grace_ms: int
    streams: tuple[int, ...]
    store: str
    close_after_idle_ms: int | None = None

    @property
    def per_record(self) -> int:
        """The windows that a record is in, at most."""
        return -(-self.size_ms // self.advance_ms)

    def has_start(self, first_ms: int, last_ms: int) -> bool:
        """Whether a window begins at `first_ms` or later, and before `last_ms`."""
        return -(-first_ms // self.advance_ms) * self.advance_ms < last_ms

    def __str__(self) -> str:
        times = f"size {duration_text(self.size_ms)}, advance {duration_text(self.advance_ms)}"
        inputs = ", ".join(map(str, self.streams))
        return f"{times}, grace {duration_text(self.grace_ms)}{_idle_text(self)}, stream time of input {inputs}"


def _idle_text(window: TimeWindow | Windowing) -> str:
    idle_ms = window.close_after_idle_ms
    return "" if idle_ms is None else f", closed after {duration_text(idle_ms)} without records"
