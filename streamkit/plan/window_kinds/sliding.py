"""Sliding windows: of the records that are close to each other, one window around each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from streamkit.arrays import Integers
from streamkit.plan.duration import duration_text
from streamkit.plan.grace import asking_for_grace, idle_in_ms, retention_in_ms
from streamkit.plan.length import Duration, length_ms
from streamkit.plan.windows import SLIDING, Windowing, WindowKind


@asking_for_grace
def sliding(
    difference: Duration, *, grace: Duration, retention: Duration | None = None, close_after_idle: Duration | None = None
) -> SlidingWindow:
    """
    Windows of the records of a group that are at most `difference` apart: [start, start + difference], both ends included.

    One window ends at each record, and one begins a millisecond behind each record that others follow within that time; a window
    without records does not exist. A window is closed when stream time is more than `grace` past its end. Windows do not begin
    before 1970: records within `difference` of that moment share the window that begins there. Everything else is as in
    `tumbling`; `retention` is twice the difference and the grace unless given.

        sliding("10 minutes", grace="1 minute")
    """
    difference_ms, grace_ms = length_ms(difference, "time difference"), length_ms(grace, "grace")
    return SlidingWindow(
        difference_ms, grace_ms, retention_in_ms(retention, 2 * difference_ms + grace_ms), idle_in_ms(close_after_idle)
    )


@dataclass(frozen=True)
class SlidingWindow(WindowKind):
    """Windows of the records that are at most `difference_ms` apart: one ends at each record, one begins just behind it."""

    difference_ms: int
    grace_ms: int
    retention_ms: int
    close_after_idle_ms: int | None = None

    def __post_init__(self) -> None:
        self.check_times(self.difference_ms + self.grace_ms, "difference and grace")

    @property
    def words(self) -> tuple[str, ...]:
        return ("sliding", duration_text(self.difference_ms))

    @property
    def layout(self) -> str:
        return "sliding"

    @property
    def shown_size_ms(self) -> int:
        return self.difference_ms

    @property
    def kept_ms(self) -> int:
        """How long the store keeps a window, from its start: as long as a record in time can still meet it, at least."""
        return max(self.retention_ms, 2 * self.difference_ms + self.grace_ms + 2)

    @property
    def closes_after_ms(self) -> int:
        """How far stream time is past a window's end when the window closes: the last moment is part of it."""
        return self.grace_ms + 1

    def windowing(self, streams: tuple[int, ...], store: str, may_lead: bool) -> Windowing:
        """The last moment is part of a window."""
        return SlidingWindowing(self.difference_ms + 1, 1, self.grace_ms, streams, store, self.close_after_idle_ms, may_lead)

    def final_delay_ms(self, is_covered: bool) -> int:
        """All records may be at the window's start."""
        return self.difference_ms + self.closes_after_ms

    def __str__(self) -> str:
        return f"sliding {duration_text(self.difference_ms)}, {self.ending_text}"


@dataclass(frozen=True)
class SlidingWindowing(Windowing):
    """Sliding windows as an operator applies them: of `size_ms`, one more than the difference, since both ends are part of them."""

    assigner: ClassVar[str] = SLIDING

    @property
    def plain(self) -> Windowing:
        return Windowing(**vars(self))

    @property
    def takes_tombstones(self) -> bool:
        """False, as in Kafka Streams."""
        return False

    @property
    def declared(self) -> Mapping[str, str]:
        return {"the difference of its sliding windows": duration_text(self.size_ms - 1)}

    def rows_per_record(self, modes: Iterable[str]) -> int:
        """How many windows hold a row depends on the rows."""
        return 1

    def holding(self, times: Integers) -> tuple[Integers, Integers]:
        """Of all windows that may hold a record, the last begins with it; before 1970 none does."""
        return (times - self.size_ms + 1).clip(0), times

    def bounds(self, windows: Integers) -> tuple[Integers, Integers]:
        """The end is part of a window."""
        return windows, self.ends(windows) - 1
