"""The proleptic Gregorian calendar on numpy arrays, for any year."""

from __future__ import annotations

import numpy as np

_DAYS_BEFORE_1970 = 719_468  # days from 0000-03-01
_DAYS_PER_ERA = 146_097  # 400 years
_MONTH_DAYS = np.array([0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


def days_from_civil(year: np.ndarray, month: np.ndarray, day: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Days since 1970-01-01, and whether the date exists; if it does not, the number means nothing."""
    march_year = year - (month <= 2)  # years that start in March have their leap day last
    era = march_year // 400
    year_of_era = march_year - era * 400
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days = era * _DAYS_PER_ERA + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - _DAYS_BEFORE_1970
    return days, _exists(year, month, day)


def civil_from_days(days: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Year, month and day of days since 1970-01-01."""
    since = days.astype(np.int64) + _DAYS_BEFORE_1970
    era = since // _DAYS_PER_ERA
    day_of_era = since - era * _DAYS_PER_ERA
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153  # months from March
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = np.where(shifted < 10, shifted + 3, shifted - 9)
    return year_of_era + era * 400 + (month <= 2), month, day


def months_later(days: np.ndarray, months: np.ndarray) -> np.ndarray:
    """The same day of the month so many months later, or the last of that month if it is shorter."""
    year, month, day = civil_from_days(days)
    total = year * 12 + (month - 1) + months
    new_year, new_month = total // 12, total % 12 + 1
    moved, _ = days_from_civil(new_year, new_month, np.minimum(day, last_day_of_month(new_year, new_month)))
    return moved


def last_day_of_month(year: np.ndarray, month: np.ndarray) -> np.ndarray:
    """How many days a month has."""
    return np.asarray(_MONTH_DAYS[month] - ((month == 2) & ~is_leap(year)))


def is_leap(year: np.ndarray) -> np.ndarray:
    """Which years have a 29th of February."""
    return np.asarray((year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0)))


def _exists(year: np.ndarray, month: np.ndarray, day: np.ndarray) -> np.ndarray:
    has_month = (month >= 1) & (month <= 12)
    return np.asarray(has_month & (day >= 1) & (day <= last_day_of_month(year, np.where(has_month, month, 0))))
