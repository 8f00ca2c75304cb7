"""Lengths of time, from `timedelta` or text to whole milliseconds and back."""

from __future__ import annotations

import datetime as dt
import re
from fractions import Fraction

from streamkit.errors import ConfigError

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS
DURATION_MAX_MS = 100 * 365 * DAY_MS  # longer is a mistake, such as seconds taken for milliseconds

UNITS_MS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), SECOND_MS),
    **dict.fromkeys(("min", "minute", "minutes"), MINUTE_MS),
    **dict.fromkeys(("h", "hour", "hours"), HOUR_MS),
    **dict.fromkeys(("d", "day", "days"), DAY_MS),
    **dict.fromkeys(("w", "week", "weeks"), WEEK_MS),
}
_CALENDAR_UNITS = frozenset(("mo", "month", "months", "y", "year", "years", "quarter", "quarters"))
_MONTHS = 'windows of calendar months are tumbling("1 month", grace=…, time_zone="UTC")'
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]+)\s*,?")
_EXPECTED = 'expected a timedelta or text such as "10 minutes", "1 hour", "500 ms", "1 day"'


def duration_ms(value: dt.timedelta | str, what: str = "duration") -> int:
    """
    Return a length of time in milliseconds.

    `value` is a timedelta, or text of numbers with units (ms, seconds, minutes, hours, days, weeks). Raises ConfigError,
    which names `what`, for anything else: a bare number, a calendar unit, a fraction of a millisecond, a negative
    length, more than 100 years.
    """
    length_ms = signed_duration_ms(value, what)
    if length_ms < 0:
        raise ConfigError(f"the {what} {str(value)!r} is negative; expected a length of time")
    return length_ms


def signed_duration_ms(value: dt.timedelta | str, what: str = "duration") -> int:
    """As `duration_ms`, of a length that may be negative, such as "-5 seconds"."""
    exact_ms = _exact_ms(value, what)
    if exact_ms != int(exact_ms):
        raise ConfigError(f"the {what} {value!r} is not a whole number of milliseconds; expected one")
    if abs(exact_ms) >= DURATION_MAX_MS:
        raise ConfigError(f"the {what} {str(value)!r} is 100 years or more; expected less: is the unit right?")
    return int(exact_ms)


def duration_text(length_ms: int) -> str:
    """A length of time in the largest unit that divides it; `duration_ms` is its inverse."""
    for unit, unit_ms in (("week", WEEK_MS), ("day", DAY_MS), ("hour", HOUR_MS), ("minute", MINUTE_MS), ("second", SECOND_MS)):
        if length_ms and length_ms % unit_ms == 0:
            count = length_ms // unit_ms
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{length_ms} ms"


def _exact_ms(value: dt.timedelta | str, what: str) -> Fraction:
    if isinstance(value, dt.timedelta):
        return Fraction(value // dt.timedelta(microseconds=1), 1_000)
    if isinstance(value, str):
        return _parse(value, what)
    raise ConfigError(f"the {what} {value!r} has no unit; {_EXPECTED}")


def _parse(text: str, what: str) -> Fraction:
    rest = text.strip().lower()
    negative = rest.startswith("-")
    rest = rest.removeprefix("-")
    total = Fraction(0)
    if not rest:
        raise ConfigError(f"the {what} {text!r} cannot be read; {_EXPECTED}")
    while rest:
        match = _PART.match(rest)
        if match is None:
            raise ConfigError(f"the {what} {text!r} cannot be read; {_EXPECTED}")
        total += Fraction(match[1]) * _unit_ms(match[2], text, what)
        rest = rest[match.end() :].lstrip()
    return -total if negative else total


def _unit_ms(unit: str, text: str, what: str) -> int:
    if unit in UNITS_MS:
        return UNITS_MS[unit]
    if unit in _CALENDAR_UNITS:
        windows = f"; {_MONTHS}" if what == "window size" and unit.startswith("mo") else ""
        raise ConfigError(f"the {what} {text!r} has a calendar unit, whose length varies; expected days or weeks{windows}")
    raise ConfigError(
        f"the {what} {text!r} has the unknown unit {unit!r}; expected one of ms, seconds, minutes, hours, days, weeks"
    )
