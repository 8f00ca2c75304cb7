"""Cumulative windows, as Flink's CUMULATE: from the start of each day, say, to the end of each of its hours."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from streamkit.arrays import Integers
from streamkit.errors import TopologyError
from streamkit.plan.duration import duration_text
from streamkit.plan.grace import asking_for_grace, idle_in_ms, retention_in_ms
from streamkit.plan.length import Duration, length_ms
from streamkit.plan.window_kinds.hopping import WINDOWS_PER_RECORD_MAX
from streamkit.plan.windows import Windowing, WindowKind


@asking_for_grace
def cumulative(
    size: Duration,
    step: Duration,
    *,
    grace: Duration,
    retention: Duration | None = None,
    close_after_idle: Duration | None = None,
) -> CumulativeWindow:
    """
    Windows that begin together and grow by `step` up to the size: each record is in those that end after it.

    Stretches of the size stand side by side, aligned to 1970-01-01T00:00Z. In each, the windows are [start, start + step),
    [start, start + 2 * step) and so on, up to [start, start + size), as `CUMULATE` of Flink has them. So their results say what has come
    since the start of the stretch. Each window takes late records until stream time is `grace` past its own end.
    `size` must be a whole multiple of `step`: TopologyError if it is not, or for more than 1,500 windows a stretch. Everything else is
    as in `tumbling`, but that there is no time zone: days of 23 or 25 hours are no multiples of a step.

        cumulative("1 day", step="1 hour", grace="10 minutes")
    """
    size_ms, step_ms, grace_ms = length_ms(size, "window size"), length_ms(step, "step"), length_ms(grace, "grace")
    retention_ms = retention_in_ms(retention, size_ms + grace_ms)
    return CumulativeWindow(size_ms, step_ms, grace_ms, retention_ms, idle_in_ms(close_after_idle))


@dataclass(frozen=True)
class CumulativeWindow(WindowKind):
    """Windows of `step_ms`, twice that and so on up to `size_ms`, which begin together every `size_ms`."""

    size_ms: int
    step_ms: int
    grace_ms: int
    retention_ms: int
    close_after_idle_ms: int | None = None

    def __post_init__(self) -> None:
        if self.size_ms <= 0 or self.step_ms <= 0:
            raise TopologyError("the size or the step of cumulative windows is 0; expected positive lengths of time")
        if self.size_ms % self.step_ms:
            raise TopologyError(
                f"cumulative windows of {duration_text(self.size_ms)} cannot grow by {duration_text(self.step_ms)}; "
                "expected a size that is a whole multiple of the step, else the last one would be longer than the size"
            )
        if (steps := self.size_ms // self.step_ms) > WINDOWS_PER_RECORD_MAX:
            raise TopologyError(
                f"cumulative windows of {duration_text(self.size_ms)} that grow by {duration_text(self.step_ms)} put a record into up to "
                f"{steps:,} windows; expected at most {WINDOWS_PER_RECORD_MAX:,}: make the step longer, or the size shorter"
            )
        self.check_times(self.size_ms + self.grace_ms, "size and grace")

    @property
    def words(self) -> tuple[str, ...]:
        return ("cumulative", duration_text(self.size_ms), "by", duration_text(self.step_ms))

    @property
    def layout(self) -> str:
        """With both bounds: windows that begin together are known by their ends, by which they close and expire."""
        return "kept_session"

    @property
    def shown_size_ms(self) -> None:
        """None: windows grow."""
        return

    @property
    def has_one_length(self) -> bool:
        return False

    @property
    def kept_ms(self) -> int:
        """How long the store keeps a window, from its end: until the retention is over for the stretch that would end there."""
        return self.retention_ms - self.size_ms

    @property
    def identity(self) -> Hashable:
        return type(self), self.size_ms, self.step_ms

    @property
    def why_not_read(self) -> str:
        return "was given cumulative windows; expected windows of one length, as sk.tumbling(…) makes them, or sessions"

    def windowing(self, streams: tuple[int, ...], store: str, may_lead: bool) -> Windowing:
        idle_ms, step_ms = self.close_after_idle_ms, self.step_ms
        return CumulativeWindowing(self.size_ms, step_ms, self.grace_ms, streams, store, idle_ms, may_lead, step_ms=step_ms)

    def final_delay_ms(self, is_covered: bool) -> int:
        return self.closes_after_ms + self.size_ms

    def __str__(self) -> str:
        return f"cumulative {duration_text(self.size_ms)} by {duration_text(self.step_ms)}, {self.ending_text}"


@dataclass(frozen=True)
class CumulativeWindowing(Windowing):
    """
    Cumulative windows as an operator applies them, each known by its end: a multiple of the step, which is the advance, too.

    They are the windows that hopping ones of this size and advance would be, without what lies before the start of the stretch.
    """

    own_field: ClassVar[str] = "step_ms"
    step_ms: int = field(kw_only=True)

    @property
    def closing_wait_ms(self) -> int:
        """Keys have the end of a window first."""
        return self.grace_ms

    @property
    def declared(self) -> Mapping[str, str]:
        return {
            "the size of its windows": duration_text(self.size_ms),
            "the step of its windows": duration_text(self.step_ms),
        }

    def holding(self, times: Integers) -> tuple[Integers, Integers]:
        """From the end of the step that holds each time to the end of the stretch that does."""
        return (times // self.step_ms + 1) * self.step_ms, (times // self.size_ms + 1) * self.size_ms

    def ends(self, windows: Integers) -> Integers:
        return windows

    def bounds(self, windows: Integers) -> tuple[Integers, Integers]:
        """A window that ends where a stretch does began with it, and not with the next."""
        return (windows - 1) // self.size_ms * self.size_ms, windows

    def closed(self, times: Integers) -> Integers:
        numbers: Integers = (times - self.grace_ms) // self.step_ms
        return numbers

    def closing_time(self, reached: int, wait_ms: int) -> int:
        """Where the stretch ends that holds `reached`, and the grace: what waits longer has begun later."""
        return (reached // self.size_ms + 1) * self.size_ms + self.grace_ms

    @property
    def times_text(self) -> str:
        return f"cumulative, size {duration_text(self.size_ms)}, step {duration_text(self.step_ms)}"
