"""Hopping windows: of one size, one every advance; tumbling ones are those whose advance is the size."""

from __future__ import annotations

from dataclasses import dataclass, fields

from streamkit.errors import TopologyError
from streamkit.plan.duration import duration_text
from streamkit.plan.grace import asking_for_grace, idle_in_ms, retention_in_ms
from streamkit.plan.length import Duration, length_ms
from streamkit.plan.windows import Windowing, WindowKind

WINDOWS_PER_RECORD_MAX = 1_500  # each is a row while an epoch is processed; a day by the minute is 1,440


@asking_for_grace
def hopping(
    size: Duration,
    advance: Duration,
    *,
    grace: Duration,
    retention: Duration | None = None,
    close_after_idle: Duration | None = None,
) -> TimeWindow:
    """
    Windows of one size that start every `advance`: each record is in about size / advance of them.

    TopologyError if `advance` is longer than the size, or so short that a record is in more than 1,500 windows (a day by the
    minute is 1,440; each costs a row). Everything else is as in `tumbling`.

        hopping("1 hour", "15 minutes", grace="10 minutes")
    """
    return windows_of_grid(size, advance, grace, retention, close_after_idle)


def windows_of_grid(
    size: Duration, advance: Duration, grace: Duration, retention: Duration | None, close_after_idle: Duration | None
) -> TimeWindow:
    """The windows of these lengths; ConfigError if one is no length of time, TopologyError if they do not fit each other."""
    size_ms, grace_ms = length_ms(size, "window size"), length_ms(grace, "grace")
    retention_ms = retention_in_ms(retention, size_ms + grace_ms)
    return TimeWindow(size_ms, length_ms(advance, "window advance"), grace_ms, retention_ms, idle_in_ms(close_after_idle))


@dataclass(frozen=True)
class TimeWindow(WindowKind):
    """Windows of `size_ms` that start every `advance_ms`."""

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
        self.check_times(self.size_ms + self.grace_ms, "size and grace")

    def __repr__(self) -> str:
        """As a dataclass, without what is not set: names of stores depend on it, and must stay as they are."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return f"TimeWindow({', '.join(f'{name}={value!r}' for name, value in values.items() if value is not None)})"

    @property
    def per_record(self) -> int:
        """The windows that a record is in, at most."""
        return -(-self.size_ms // self.advance_ms)

    @property
    def words(self) -> tuple[str, ...]:
        return ("per", duration_text(self.size_ms))

    @property
    def is_tumbling(self) -> bool:
        """Whether the windows stand side by side."""
        return self.advance_ms == self.size_ms

    def covers(self, finer: WindowKind) -> bool:
        if not isinstance(finer, TimeWindow):
            return False
        return self.is_tumbling and finer.is_tumbling and self.size_ms % finer.size_ms == 0

    @property
    def shown_size_ms(self) -> int:
        return self.size_ms

    def windowing(self, streams: tuple[int, ...], store: str, may_lead: bool) -> Windowing:
        return Windowing(self.size_ms, self.advance_ms, self.grace_ms, streams, store, self.close_after_idle_ms, may_lead)

    def final_delay_ms(self, is_covered: bool) -> int:
        return self.closes_after_ms + (1 if is_covered else self.size_ms)

    def __str__(self) -> str:
        advance = "" if self.is_tumbling else f" every {duration_text(self.advance_ms)}"
        shape = "tumbling" if self.is_tumbling else "hopping"
        return f"{shape} {duration_text(self.size_ms)}{advance}, {self.ending_text}"


INSTANT = TimeWindow(1, 1, 0, 1)  # covers nothing: no final result is nearer than the size of its own window
