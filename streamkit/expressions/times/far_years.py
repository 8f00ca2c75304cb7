"""
Days of years that Arrow's calendar counts wrongly: it keeps a year in 16 bits.

The calendar repeats every 400 years, days of the week too. So a far day is taken as the same day of the years 1970 to 2369.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.expressions.core.numbers import values_of, with_validity
from streamkit.expressions.core.operation import Datum
from streamkit.zone_offsets import BEYOND

CYCLE_YEARS, CYCLE_DAYS = 400, 146_097
_NEAR_DAYS = 11_000_000  # some 30,000 years


def field_of_days(take: Callable[[Datum], Datum], days: Datum, *, is_year: bool = False) -> Datum:
    """A field of dates by Arrow's function `take`; years count from what they are."""
    if not _has_far(days):
        return take(days)
    near, cycles = _near(days)
    found = take(near)
    if is_year:
        found = pc.add(found, pa.array(cycles * CYCLE_YEARS))
    return found if isinstance(days, pa.Array) else found[0]


def floored_days(days: pa.Array, unit: str) -> pa.Array:
    """The first day of the week, month, quarter or year of dates; ArrowInvalid if no date holds it."""
    if not _has_far(days):
        return pc.floor_temporal(days, unit=unit)
    near, cycles = _near(days)
    found = values_of(pc.floor_temporal(near, unit=unit)).astype(np.int64) + cycles * CYCLE_DAYS
    if (found < np.iinfo(np.int32).min)[np.asarray(days.is_valid())].any():
        raise pa.ArrowInvalid(BEYOND)
    return with_validity(found.astype(np.int32), pa.date32(), days.is_valid())


def _has_far(days: Datum) -> bool:
    numbers = values_of(days)
    return bool(len(numbers)) and (int(numbers.max()) > _NEAR_DAYS or int(numbers.min()) < -_NEAR_DAYS)


def _near(days: Datum) -> tuple[pa.Array, np.ndarray]:
    """The same days of 400 years from 1970 on, and how often 400 years lie between."""
    cycles, near = np.divmod(values_of(days).astype(np.int64), CYCLE_DAYS)
    valid = days.is_valid() if isinstance(days, pa.Array) else pa.scalar(days.is_valid)
    return with_validity(near.astype(np.int32), pa.date32(), valid), cycles
