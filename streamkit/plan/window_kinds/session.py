"""Sessions: windows of activity, which records extend, begin and merge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from streamkit.arrays import Integers, Mask
from streamkit.plan.closing import are_over
from streamkit.plan.demands import WITH_OLD_VALUES
from streamkit.plan.duration import duration_text
from streamkit.plan.grace import asking_for_grace, idle_in_ms, retention_in_ms
from streamkit.plan.length import Duration, length_ms
from streamkit.plan.windows import SESSION, Windowing, WindowKind, closing_for


@asking_for_grace
def session(
    gap: Duration, *, grace: Duration, retention: Duration | None = None, close_after_idle: Duration | None = None
) -> SessionWindow:
    """
    Windows of activity: records of a group that are at most `gap` apart are in one session.

    A result's `window_start` is the time of the session's first record and `window_end` that of its last, which is part of the
    session. A record that is near two sessions merges them: `emit("every")` deletes each of them, then gives the new one. A
    session is closed, and `emit("final")` gives its result, when stream time is more than gap + grace past its last record; a
    record that could only extend a closed session is late. Everything else is as in `tumbling`.

        session("30 minutes", grace="5 minutes")
    """
    gap_ms, grace_ms = length_ms(gap, "session gap"), length_ms(grace, "grace")
    return SessionWindow(gap_ms, grace_ms, retention_in_ms(retention, gap_ms + grace_ms), idle_in_ms(close_after_idle))


@dataclass(frozen=True)
class SessionWindow(WindowKind):
    """Windows of activity: a record extends the session of its key that is at most `gap_ms` away, or begins one."""

    gap_ms: int
    grace_ms: int
    retention_ms: int
    close_after_idle_ms: int | None = None

    def __post_init__(self) -> None:
        self.check_times(self.gap_ms + self.grace_ms, "gap and grace")

    @property
    def words(self) -> tuple[str, ...]:
        return ("session", duration_text(self.gap_ms))

    @property
    def layout(self) -> str:
        return "session"

    @property
    def shown_size_ms(self) -> None:
        """None: a session is as long as its records make it."""
        return

    @property
    def has_one_length(self) -> bool:
        return False

    @property
    def merges(self) -> bool:
        return True

    @property
    def kept_ms(self) -> int:
        """How long the store keeps a session, from its end: until its result has come, at least."""
        return max(self.retention_ms, self.closes_after_ms)

    @property
    def closes_after_ms(self) -> int:
        """How far stream time is past a session's end when the session closes: until then it may be extended."""
        return self.gap_ms + self.grace_ms + 1

    def windowing(self, streams: tuple[int, ...], store: str, may_lead: bool) -> Windowing:
        """By its last record each may be extended for the gap, and closes a millisecond later, plus grace."""
        return SessionWindowing(self.gap_ms + 1, 1, self.grace_ms, streams, store, self.close_after_idle_ms, may_lead)

    def final_delay_ms(self, is_covered: bool) -> int:
        """A final result has the time of the session's last record."""
        return self.closes_after_ms

    def __str__(self) -> str:
        return f"session gap {duration_text(self.gap_ms)}, {self.ending_text}"


@dataclass(frozen=True)
class SessionWindowing(Windowing):
    """
    Sessions as an operator applies them: each may be extended for `size_ms`, one more than the gap, from its last record on.

    What closes when is counted from the last record, the first time in the key of a stored session.
    """

    assigner: ClassVar[str] = SESSION

    @property
    def plain(self) -> Windowing:
        return Windowing(**vars(self))

    @property
    def declared(self) -> Mapping[str, str]:
        return {"the gap of its sessions": duration_text(self.size_ms - 1)}

    def take_rows(self, windows: Integers, reached: Integers | int) -> Mask:
        """
        Until a millisecond before they close, as in Kafka: what closes at the next millisecond takes no rows any more.

        That is for rows that move no stream time. One that does is judged by the time before it, and by that all sessions near it take rows.
        """
        return ~are_over(self.closes_at(windows) - 1, reached)

    def closing(self, modes: Iterable[str]) -> Windowing | None:
        """
        The sessions that stream time closes, if that must be known.

        It must for final results. Without grace it must also be known which records move stream time: such a record still extends a
        session that is just the gap away, and another record of the same time does not.
        """
        return self if self.grace_ms == 0 else closing_for(self, modes)

    def rows_per_record(self, modes: Iterable[str]) -> int:
        """A row that connects two sessions gives two deletions and a result; with old values each is two rows."""
        return 6 if WITH_OLD_VALUES in modes else 3 if "every" in modes else 1
