"""Windows of the calendar of a time zone: which one holds a moment, where it starts and ends. Times are in ms."""

from __future__ import annotations

import numpy as np

from streamkit.arrays import Integers
from streamkit.expressions.times.time_zones import local_micros, start_of_day_micros, zone_offsets
from streamkit.plan.windows import Calendar

MICROS, DAY_MICROS = 1000, 86_400_000_000
MONDAY = 3  # days from the Monday before 1970 to 1970


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
