"""Windows of event time: as the user declares them, and as the operators of a program apply them."""

from __future__ import annotations

from dataclasses import dataclass

from streamkit.errors import TopologyError
from streamkit.plan.duration import duration_text

WINDOWS_PER_RECORD_MAX = 1_500  # each is a row while an epoch is processed; a day by the minute is 1,440


@dataclass(frozen=True)
class TimeWindow:
    """Windows of `size_ms` that start every `advance_ms`, open until stream time is `grace_ms` past their end."""

    size_ms: int
    advance_ms: int
    grace_ms: int
    retention_ms: int

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
        if self.grace_ms < 0:
            raise TopologyError(f"the grace {self.grace_ms} ms is negative; expected 0 or more")
        if self.retention_ms < self.size_ms + self.grace_ms:
            raise TopologyError(
                f"the retention {duration_text(self.retention_ms)} is shorter than size and grace together "
                f"({duration_text(self.size_ms + self.grace_ms)}); expected at least that, else open windows would be lost"
            )

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
        return f"{shape} {duration_text(self.size_ms)}{advance}, grace {duration_text(self.grace_ms)}"


@dataclass(frozen=True)
class JoinWindow:
    """
    Which records of two streams meet: a left record at t meets those of the right stream in [t - before_ms, t + after_ms].

    Either may be negative. `grace_ms` is how long past its window a record without a partner waits for late ones.
    """

    before_ms: int
    after_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.before_ms + self.after_ms < 0:
            raise TopologyError(
                f"the window of a join ends before it begins: before={duration_text(self.before_ms)}, "
                f"after={duration_text(self.after_ms)}; expected -before to be at most after"
            )
        if self.grace_ms < 0:
            raise TopologyError(f"the grace {self.grace_ms} ms is negative; expected 0 or more")

    @property
    def size_ms(self) -> int:
        """From its first to its last moment."""
        return self.before_ms + self.after_ms

    def __str__(self) -> str:
        sides = f"{duration_text(self.before_ms)} before to {duration_text(self.after_ms)} after"
        return f"within {sides}, grace {duration_text(self.grace_ms)}"


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
        return f"{times}, grace {duration_text(self.grace_ms)}, stream time of input {inputs}"
