"""Windows of event time: as the user declares them, and as the operators of a program apply them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TypeAlias

from streamkit.errors import TopologyError
from streamkit.plan.duration import duration_text

DAY_MS, LONGEST_DAYS = 86_400_000, {"day": 1, "week": 7, "month": 31}
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

    @property
    def words(self) -> tuple[str, ...]:
        """What tells the windows apart in a generated name."""
        return ("per", duration_text(self.size_ms))

    def covers(self, finer: Window) -> bool:
        """Whether every window of `finer` lies within each window that holds its start."""
        if not isinstance(finer, TimeWindow):
            return False
        is_tumbling = self.advance_ms == self.size_ms and finer.advance_ms == finer.size_ms
        return is_tumbling and self.size_ms % finer.size_ms == 0

    @property
    def layout(self) -> str:
        """How the store of the windows has its keys."""
        return "window"

    @property
    def shown_size_ms(self) -> int | None:
        """How far a window's end is behind its start; None if that differs."""
        return self.size_ms

    @property
    def kept_ms(self) -> int:
        """How long the store keeps a window, from its start."""
        return self.retention_ms

    def windowing(self, streams: tuple[int, ...], store: str, may_lead: bool) -> Windowing:
        """How an operator applies them."""
        return Windowing(self.size_ms, self.advance_ms, self.grace_ms, streams, store, self.close_after_idle_ms, may_lead)

    @property
    def closes_after_ms(self) -> int:
        """How far stream time is past a window's end when the window closes."""
        return self.grace_ms

    def final_delay_ms(self, is_covered: bool) -> int:
        """How far a final result's own time may be behind the moment at which it comes; less if a wider window covers these."""
        return self.closes_after_ms + (1 if is_covered else self.size_ms)

    def __str__(self) -> str:
        advance = "" if self.advance_ms == self.size_ms else f" every {duration_text(self.advance_ms)}"
        shape = "hopping" if advance else "tumbling"
        return f"{shape} {duration_text(self.size_ms)}{advance}, grace {duration_text(self.grace_ms)}{_idle_text(self)}"


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
class SessionWindow:
    """Windows of activity: a record extends the session of its key that is at most `gap_ms` away, or begins one."""

    gap_ms: int
    grace_ms: int
    retention_ms: int
    close_after_idle_ms: int | None = None

    def __post_init__(self) -> None:
        _check_times(self.grace_ms, self.retention_ms, self.gap_ms + self.grace_ms, "gap and grace")

    @property
    def words(self) -> tuple[str, ...]:
        """What tells the windows apart in a generated name."""
        return ("session", duration_text(self.gap_ms))

    def covers(self, finer: Window) -> bool:
        """False: where a session ends depends on its records."""
        return False

    @property
    def layout(self) -> str:
        """How the store of the windows has its keys."""
        return "session"

    @property
    def shown_size_ms(self) -> int | None:
        """How far a window's end is behind its start; None if that differs."""
        return None

    @property
    def kept_ms(self) -> int:
        """How long the store keeps a window, from its end: until its result has come, at least."""
        return max(self.retention_ms, self.gap_ms + self.grace_ms + 1)

    def windowing(self, streams: tuple[int, ...], store: str, may_lead: bool) -> Windowing:
        """How an operator applies them: by its last record each may be extended for the gap, and closes a millisecond later, plus grace."""
        return Windowing(self.gap_ms + 1, 1, self.grace_ms, streams, store, self.close_after_idle_ms, may_lead)

    @property
    def closes_after_ms(self) -> int:
        """How far stream time is past a session's end when the session closes."""
        return self.gap_ms + self.grace_ms + 1

    def final_delay_ms(self, is_covered: bool) -> int:
        """How far a final result's own time may be behind the moment at which it comes; it has the time of the session's last record."""
        return self.closes_after_ms

    def __str__(self) -> str:
        return f"session gap {duration_text(self.gap_ms)}, grace {duration_text(self.grace_ms)}{_idle_text(self)}"


@dataclass(frozen=True)
class SlidingWindow:
    """Windows of the records that are at most `difference_ms` apart: one ends at each record, one begins just behind it."""

    difference_ms: int
    grace_ms: int
    retention_ms: int
    close_after_idle_ms: int | None = None

    def __post_init__(self) -> None:
        _check_times(self.grace_ms, self.retention_ms, self.difference_ms + self.grace_ms, "difference and grace")

    @property
    def words(self) -> tuple[str, ...]:
        """What tells the windows apart in a generated name."""
        return ("sliding", duration_text(self.difference_ms))

    def covers(self, finer: Window) -> bool:
        """False: where windows begin depends on the records."""
        return False

    @property
    def layout(self) -> str:
        """How the store of the windows has its keys."""
        return "sliding"

    @property
    def shown_size_ms(self) -> int | None:
        """How far a window's end is behind its start; None if that differs."""
        return self.difference_ms

    @property
    def kept_ms(self) -> int:
        """How long the store keeps a window, from its start: as long as a record in time can still meet it, at least."""
        return max(self.retention_ms, 2 * self.difference_ms + self.grace_ms + 2)

    def windowing(self, streams: tuple[int, ...], store: str, may_lead: bool) -> Windowing:
        """How an operator applies them: the last moment is part of a window."""
        return Windowing(self.difference_ms + 1, 1, self.grace_ms, streams, store, self.close_after_idle_ms, may_lead)

    @property
    def closes_after_ms(self) -> int:
        """How far stream time is past a window's end when the window closes: the last moment is part of it."""
        return self.grace_ms + 1

    def final_delay_ms(self, is_covered: bool) -> int:
        """How far a final result's own time may be behind the moment at which it comes; all records may be at the window's start."""
        return self.difference_ms + self.closes_after_ms

    def __str__(self) -> str:
        return f"sliding {duration_text(self.difference_ms)}, grace {duration_text(self.grace_ms)}{_idle_text(self)}"


@dataclass(frozen=True)
class Calendar:
    """So many days, weeks (from Monday) or months of a time zone, counted from 1970."""

    unit: str
    count: int
    zone: str

    @property
    def longest_ms(self) -> int:
        """The most that one of them lasts: a zone may put its clocks back, by a day if it crosses the date line."""
        return (LONGEST_DAYS[self.unit] * self.count + 1) * DAY_MS

    def __str__(self) -> str:
        return f"{self.count} {self.unit}{'s' if self.count > 1 else ''} of {self.zone}"


@dataclass(frozen=True)
class CalendarWindow:
    """Windows of local days, weeks or months, side by side: the calendar says where each ends."""

    calendar: Calendar
    grace_ms: int
    retention_ms: int
    close_after_idle_ms: int | None = None

    def __post_init__(self) -> None:
        _check_times(self.grace_ms, self.retention_ms, self.size_ms + self.grace_ms, "the longest window and grace")

    @property
    def size_ms(self) -> int:
        """The most that a window lasts."""
        return self.calendar.longest_ms

    @property
    def words(self) -> tuple[str, ...]:
        """What tells the windows apart in a generated name."""
        return ("per", str(self.calendar).replace("/", " "))

    def covers(self, finer: Window) -> bool:
        """False: windows of a calendar lie within others of it by chance alone."""
        return False

    @property
    def layout(self) -> str:
        """How the store of the windows has its keys."""
        return "window"

    @property
    def shown_size_ms(self) -> int | None:
        """The most that a window's end is behind its start."""
        return self.size_ms

    @property
    def kept_ms(self) -> int:
        """How long the store keeps a window, from its start."""
        return self.retention_ms

    def windowing(self, streams: tuple[int, ...], store: str, may_lead: bool) -> Windowing:
        """How an operator applies them."""
        size_ms, idle_ms = self.size_ms, self.close_after_idle_ms
        return Windowing(size_ms, size_ms, self.grace_ms, streams, store, idle_ms, may_lead, calendar=self.calendar)

    @property
    def closes_after_ms(self) -> int:
        """How far stream time is past a window's end when the window closes."""
        return self.grace_ms

    def final_delay_ms(self, is_covered: bool) -> int:
        """How far a final result's own time may be behind the moment at which it comes."""
        return self.closes_after_ms + self.size_ms

    def __str__(self) -> str:
        return f"tumbling {self.calendar}, grace {duration_text(self.grace_ms)}{_idle_text(self)}"


Window: TypeAlias = TimeWindow | SessionWindow | SlidingWindow | CalendarWindow
INSTANT = TimeWindow(1, 1, 0, 1)  # covers nothing: no final result is nearer than the size of its own window


@dataclass(frozen=True)
class Windowing:
    """
    How an operator puts rows into windows; its stream time is that of the inputs `streams`.

    It never falls below what it was for `store`, the store of the windows, whatever inputs feed it after a restart. `may_lead`
    says that rows may be newer than stream time, so that windows may be stored that begin after it. `may_lag` says that rows may
    have been due before their places, and that between the two other inputs may have moved stream time, which readers report.
    Windows of a `calendar` are at most of the size.
    """

    size_ms: int
    advance_ms: int
    grace_ms: int
    streams: tuple[int, ...]
    store: str
    close_after_idle_ms: int | None = None
    may_lead: bool = False
    may_lag: bool = False
    calendar: Calendar | None = None

    @property
    def per_record(self) -> int:
        """The windows that a record is in, at most."""
        return -(-self.size_ms // self.advance_ms)

    def has_start(self, first_ms: int, last_ms: int) -> bool:
        """Whether a window begins at `first_ms` or later, and before `last_ms`."""
        return self.calendar is not None or -(-first_ms // self.advance_ms) * self.advance_ms < last_ms

    def __str__(self) -> str:
        times = f"size {duration_text(self.size_ms)}, advance {duration_text(self.advance_ms)}"
        times = times if self.calendar is None else str(self.calendar)
        inputs = ", ".join(map(str, self.streams))
        return f"{times}, grace {duration_text(self.grace_ms)}{_idle_text(self)}, stream time of input {inputs}"


def closing_for(window: Windowing, modes: Iterable[str]) -> Windowing | None:
    """The windows whose close readers report: if final results are asked for, or if it decides which rows are late."""
    return window if "final" in modes or window.may_lag else None


@dataclass(frozen=True)
class Settling:
    """
    When no change of a window can come any more: once the stream time of `window` is `wait_ms` past the window's start.

    Of a session it is counted from its end.
    """

    window: Windowing
    wait_ms: int

    def text(self) -> str:
        """The moment, in words."""
        return f"{duration_text(self.wait_ms)} of stream time of {self.window.store}"


def settled_together(tables: Iterable[tuple[Settling, ...]]) -> tuple[Settling, ...]:
    """When the windows of several tables are settled, all of them; empty if it is not known of one."""
    each = tuple(tables)
    return tuple(dict.fromkeys(one for settlings in each for one in settlings)) if all(each) else ()


def _idle_text(window: Window | Windowing) -> str:
    idle_ms = window.close_after_idle_ms
    return "" if idle_ms is None else f", closed after {duration_text(idle_ms)} without records"


def _check_times(grace_ms: int, retention_ms: int, needed_ms: int, what: str) -> None:
    if grace_ms < 0:
        raise TopologyError(f"the grace {grace_ms} ms is negative; expected 0 or more")
    if retention_ms < needed_ms:
        raise TopologyError(
            f"the retention {duration_text(retention_ms)} is shorter than {what} together ({duration_text(needed_ms)}); "
            "expected at least that, else open windows would be lost"
        )
