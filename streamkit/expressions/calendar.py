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


def is_leap(year: np.ndarray) -> np.ndarray:
    """Which years have a 29th of February."""
    return np.asarray((year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0)))


def _exists(year: np.ndarray, month: np.ndarray, day: np.ndarray) -> np.ndarray:
    has_month = (month >= 1) & (month <= 12)
    last = _MONTH_DAYS[np.where(has_month, month, 0)] - ((month == 2) & ~is_leap(year))
    return np.asarray(has_month & (day >= 1) & (day <= last))
