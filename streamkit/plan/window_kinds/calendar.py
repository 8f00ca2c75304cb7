"""Windows of the calendar of a time zone: of local days, weeks or months. Times are in ms."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from streamkit.arrays import Integers
from streamkit.errors import TopologyError
from streamkit.log.rows.event_time import TIME_MS_MAX
from streamkit.plan.grace import idle_in_ms, retention_in_ms
from streamkit.plan.length import Duration, length_ms
from streamkit.plan.windows import Windowing, WindowKind
from streamkit.time_zone import ZoneError, canonical_zone
from streamkit.zone_offsets import local_micros, start_of_day_micros, zone_offsets

DAY_MS, LONGEST_DAYS = 86_400_000, {"day": 1, "week": 7, "month": 31}
SECOND_MS, MICROS, DAY_MICROS = 1000, 1000, 86_400_000_000
MONDAY = 3  # days from the Monday before 1970 to 1970
_OF_CALENDAR = re.compile(r"(\d{1,4})\s*(day|week|month)s?")


def windows_of_calendar(
    size: Duration, time_zone: str, grace: Duration, retention: Duration | None, close_after_idle: Duration | None
) -> CalendarWindow:
    """The windows that `tumbling` declares with a time zone."""
    calendar, grace_ms = calendar_of(size, time_zone), length_ms(grace, "grace")
    retention_ms = retention_in_ms(retention, calendar.longest_ms + grace_ms)
    return CalendarWindow(calendar, grace_ms, retention_ms, idle_in_ms(close_after_idle))


def calendar_of(size: Duration, time_zone: str) -> Calendar:
    """So many days, weeks or months of a zone; TopologyError if the size is anything else, or there is no such zone."""
    text = f"{size.days} days" if isinstance(size, dt.timedelta) and size == dt.timedelta(size.days) else str(size)
    found = _OF_CALENDAR.fullmatch(text.strip())
    if found is None or int(found[1]) < 1:
        raise TopologyError(
            f"windows of {text!r} in a time zone; expected 1 to 9999 days, weeks or months, such as '1 day', '1 week' or '12 months', or no "
            "time_zone="
        )
    if not isinstance(time_zone, str):
        raise TopologyError(f"time_zone={time_zone!r}; expected the name of a zone, such as 'Europe/Berlin'")
    try:
        return Calendar(found[2], int(found[1]), canonical_zone(time_zone))
    except ZoneError as error:
        raise TopologyError(f"time_zone={time_zone!r}: {error}") from None


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
class CalendarWindow(WindowKind):
    """Windows of local days, weeks or months, side by side: the calendar says where each ends."""

    calendar: Calendar
    grace_ms: int
    retention_ms: int
    close_after_idle_ms: int | None = None

    def __post_init__(self) -> None:
        self.check_times(self.size_ms + self.grace_ms, "the longest window and grace")

    @property
    def size_ms(self) -> int:
        """The most that a window lasts."""
        return self.calendar.longest_ms

    @property
    def words(self) -> tuple[str, ...]:
        """The zone as names have it: an offset such as +02:00 is plus02.00."""
        return ("per", str(self.calendar).translate({ord("/"): " ", ord("+"): "plus", ord(":"): "."}))

    @property
    def shown_size_ms(self) -> int:
        """The most that a window lasts."""
        return self.size_ms

    @property
    def has_one_length(self) -> bool:
        return False

    @property
    def identity(self) -> Hashable:
        return type(self), self.calendar

    @property
    def why_not_read(self) -> str:
        return "was given windows of a time zone; expected windows of one length, as sk.tumbling(…) without time_zone= makes them"

    def windowing(self, streams: tuple[int, ...], store: str, may_lead: bool) -> Windowing:
        size_ms, idle_ms = self.size_ms, self.close_after_idle_ms
        return CalendarWindowing(size_ms, size_ms, self.grace_ms, streams, store, idle_ms, may_lead, calendar=self.calendar)

    def final_delay_ms(self, is_covered: bool) -> int:
        return self.closes_after_ms + self.size_ms

    def __str__(self) -> str:
        return f"tumbling {self.calendar}, {self.ending_text}"


@dataclass(frozen=True)
class CalendarWindowing(Windowing):
    """Windows of a calendar as an operator applies them, which are at most of the size; each is known by its start."""

    own_field: ClassVar[str] = "calendar"
    calendar: Calendar = field(kw_only=True)

    @property
    def apart_ms(self) -> int:
        """A zone's days begin with a second."""
        return SECOND_MS

    @property
    def closing_wait_ms(self) -> int:
        """Keys of tables have the end of a window first."""
        return self.grace_ms

    @property
    def declared(self) -> Mapping[str, str]:
        return {"the calendar of its windows": str(self.calendar)}

    def holding(self, times: Integers) -> tuple[Integers, Integers]:
        starts = starts_at(self.calendar, times)
        return starts, starts

    def ends(self, windows: Integers) -> Integers:
        return ends_of(self.calendar, windows)

    def closed(self, times: Integers) -> Integers:
        return numbers_at(self.calendar, self._without_grace(times)) - 1

    def first_open(self, times: Integers) -> Integers:
        """The window that holds what stream time is without the grace."""
        return starts_at(self.calendar, self._without_grace(times))

    def _without_grace(self, times: Integers) -> Integers:
        """
        The moments that are the grace before stream time: windows that end by then have closed.

        Stream time may be anything, such as what says that there was no record yet. Windows hold event times, so before the first of these none
        has closed, and behind the last window all have: no further does the calendar go.
        """
        found: Integers = np.clip(times, self.grace_ms - TIME_MS_MAX, self.grace_ms + TIME_MS_MAX + self.size_ms) - self.grace_ms
        return found

    def closing_time(self, reached: int, wait_ms: int) -> int:
        """Where the window ends that holds `reached`, and the grace: so long as the longest takes, others would be closed, too."""
        if reached < -TIME_MS_MAX:  # no record has begun a window
            return reached
        return int(self.ends(starts_at(self.calendar, np.array([reached], np.int64)))[0]) + self.grace_ms

    def has_any(self, first_ms: int, last_ms: int) -> bool:
        return True

    @property
    def times_text(self) -> str:
        return str(self.calendar)


def numbers_at(calendar: Calendar, times: Integers) -> Integers:
    """The number of the window that holds each moment; windows follow each other in time."""
    distinct, places = np.unique(
        np.asarray(times, np.int64) // MICROS, return_inverse=True
    )  # seconds: no window starts within one
    days = local_micros(distinct * 1_000_000, zone_offsets(calendar.zone)) // DAY_MICROS
    if calendar.unit == "month":
        days = days.astype("M8[D]").astype("M8[M]").astype(np.int64)
    elif calendar.unit == "week":
        days = (days + MONDAY) // 7
    found: Integers = (days // calendar.count)[places].reshape(np.shape(times))
    return found


def starts_of(calendar: Calendar, numbers: Integers) -> Integers:
    """The first moment of the windows of these numbers."""
    first = np.asarray(numbers, np.int64) * calendar.count
    if calendar.unit == "month":
        first = first.astype("M8[M]").astype("M8[D]").astype(np.int64)
    elif calendar.unit == "week":
        first = first * 7 - MONDAY
    found: Integers = start_of_day_micros(first, zone_offsets(calendar.zone)) // MICROS
    return found


def starts_at(calendar: Calendar, times: Integers) -> Integers:
    """The start of the window that holds each moment."""
    return starts_of(calendar, numbers_at(calendar, times))


def ends_of(calendar: Calendar, starts: Integers) -> Integers:
    """The end of the windows that start then: where the next one starts."""
    return starts_of(calendar, numbers_at(calendar, starts) + 1)
