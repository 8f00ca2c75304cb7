"""How the values of a text file are spelled: what stands for null, commas in numbers, patterns of dates and times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from streamkit.errors import ConfigError
from streamkit.expressions.core.numbers import with_validity
from streamkit.expressions.times.datetime_formats import TimeReading
from streamkit.expressions.times.datetime_patterns import Pattern, PatternError, parsing_pattern
from streamkit.formats.number_texts import is_number
from streamkit.formats.time_texts import TIMES

_DAY_MICROS = 86_400_000_000
_LETTERS_OF_DATES = "GyMLdDEQq"


@dataclass(frozen=True)
class Spelling:
    """
    The spelling of a file's values; ConfigError for a pattern that cannot be one.

    The patterns have Spark's letters, as in `to_date`; where there is none, dates and times are ISO 8601. `has_commas` says that numbers
    of CSV have a comma before the fraction, and maybe points between thousands. `nulls` are texts of CSV that are null without quotes.
    """

    nulls: tuple[str, ...] = ("",)
    has_commas: bool = False
    date_format: str | None = None
    timestamp_format: str | None = None

    def __post_init__(self) -> None:
        for text, is_of_dates in ((self.date_format, True), (self.timestamp_format, False)):
            if text is not None:
                _check_pattern(text, is_of_dates=is_of_dates)

    def has_commas_in(self, type: str) -> bool:
        """Whether values of a type are numbers with commas."""
        return self.has_commas and (is_number(type) or type.startswith("decimal"))

    def format_of(self, type: str) -> str | None:
        """The pattern of the values of a type, if they have one."""
        return self.date_format if type == "date" else self.timestamp_format if type in TIMES else None

    @property
    def timestamp_type(self) -> str | None:
        """What times of the pattern are: `timestamp` if they name their zone, else `timestamp_ntz`; None without a pattern."""
        if self.timestamp_format is None:
            return None
        return "timestamp" if _pattern(self.timestamp_format).has_zone else "timestamp_ntz"

    def check_column(self, name: str, type: str) -> None:
        """ConfigError for a column of local times whose pattern has a zone, which would be lost."""
        if type == "timestamp_ntz" and self.timestamp_type == "timestamp":
            raise ConfigError(
                f"the format {self.timestamp_format!r} of times has a zone, and the column {name!r} is timestamp_ntz, which has none; "
                "expected a column of type timestamp, or a pattern without a zone"
            )


ISO = Spelling()


def read_times(texts: pa.Array, type: str, format: str) -> pa.Array:
    """Texts by a pattern as `date`, `timestamp` (in UTC where they name no zone) or `timestamp_ntz`; ArrowInvalid if one does not fit."""
    reading = TimeReading(texts, _pattern(format), "UTC" if type == "timestamp" else None)
    valid = texts.is_valid()
    if not (reading.fits | ~np.asarray(valid)).all():
        raise pa.ArrowInvalid(f"a text is not written as {format}")
    if type == "date":
        return with_validity((reading.micros // _DAY_MICROS).astype(np.int32), pa.date32(), valid)
    return with_validity(reading.micros, pa.timestamp("us", "UTC" if type == "timestamp" else None), valid)


@lru_cache(maxsize=64)
def _pattern(text: str) -> Pattern:
    return parsing_pattern(text)


def _check_pattern(text: str, *, is_of_dates: bool) -> None:
    what = f"the format {text!r} of {'dates' if is_of_dates else 'times'}"
    try:
        letters = {field.letter for field in _pattern(text).fields}
    except PatternError as error:
        raise ConfigError(f"{what} cannot be used: {error}") from None
    of_day = sorted(letters - set(_LETTERS_OF_DATES))
    if not letters & set(_LETTERS_OF_DATES):
        raise ConfigError(f"{what} has no part of a date; expected a pattern such as dd.MM.yyyy")
    if is_of_dates and of_day:
        raise ConfigError(
            f"{what} has {', '.join(of_day)}, and a date has no time of day; expected a pattern such as dd.MM.yyyy, or the format of times"
        )
