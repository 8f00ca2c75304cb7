"""Dates and times by a pattern: texts to values, values to texts."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Mask
from streamkit.civil_dates import civil_from_days, days_from_civil, is_leap
from streamkit.expressions.core.numbers import values_of
from streamkit.expressions.times.datetime_patterns import Field, Pattern
from streamkit.expressions.times.field_expressions import is_zone, names_of, regular_expression
from streamkit.expressions.times.java_expressions import is_clear, java_groups
from streamkit.time_zone import ZoneError, canonical_zone, fixed_offset, spelt_zone
from streamkit.zone_offsets import (
    DAY_SECONDS,
    SECOND_MICROS,
    held_moments,
    offsets_of,
)

_RANGES = {
    "M": (1, 12),
    "d": (1, 31),
    "D": (1, 366),
    "H": (0, 23),
    "k": (1, 24),
    "K": (0, 11),
    "h": (1, 12),
    "m": (0, 59),
    "s": (0, 59),
}
_RANGES_OF_JAVA = {**_RANGES, "y": (-999_999_999, 999_999_999), "H": (0, 24), "h": (0, 12), "k": (0, 24)}
REGIONS = {  # what Java reads the short names of zones as
    "PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "MST": "America/Denver", "MDT": "America/Denver", "CST": "America/Chicago",
    "CDT": "America/Chicago", "EST": "America/New_York", "EDT": "America/New_York", "BST": "Europe/London", "CET": "Europe/Paris",
    "CEST": "Europe/Paris", "JST": "Asia/Tokyo", "IST": "Asia/Kolkata",
}  # fmt: skip
LONG_NAMES = {
    "PST": "Pacific Standard Time", "PDT": "Pacific Daylight Time", "MST": "Mountain Standard Time", "MDT": "Mountain Daylight Time",
    "CST": "Central Standard Time", "CDT": "Central Daylight Time", "EST": "Eastern Standard Time", "EDT": "Eastern Daylight Time",
    "GMT": "Greenwich Mean Time", "BST": "British Summer Time", "CET": "Central European Standard Time", "CEST": "Central European Summer Time",
    "JST": "Japan Standard Time", "IST": "India Standard Time",
}  # fmt: skip
_LIMIT = (1 << 63) // SECOND_MICROS - DAY_SECONDS
Numbers = dict[str, np.ndarray]


class TimeReading:
    """
    The texts of one array, read by one pattern: local times in microseconds since 1970, and which texts fit.

    `given` has for each letter of the pattern which texts have such a field: a text may leave out what is between brackets.
    """

    def __init__(self, texts: pa.StringArray, pattern: Pattern, zone: str | None) -> None:
        self._texts = texts
        self._pattern = pattern
        self._zone = zone
        self.micros = np.zeros(len(texts), np.int64)
        self.fits = np.zeros(len(texts), bool)
        self.given: dict[str, Mask] = {}
        self._read()

    def _read(self) -> None:
        rest = np.asarray(self._texts.is_valid())
        if self._pattern.width and not self._pattern.has_zone and (not self._pattern.is_java or is_clear(self._pattern)):
            rest = rest & ~self._read_fixed()
        if rest.any():
            self._read_by_expression(np.flatnonzero(rest))

    def _read_fixed(self) -> np.ndarray:
        """Read the texts whose every character stands at its place; which they are."""
        cells, places = fixed_cells(self._texts, self._pattern.width or 0)
        done = np.zeros(len(self._texts), bool)
        if not len(places):
            return done
        sound = np.ones(len(places), bool)
        numbers: Numbers = {}
        start = 0
        for part in self._pattern.parts:
            if isinstance(part, str):
                wanted = np.frombuffer(part.encode(), np.uint8)
                sound &= (cells[:, start : start + len(wanted)] == wanted).all(axis=1)
                start += len(wanted)
            elif isinstance(part, Field):
                width = part.width or 0
                value = np.zeros(len(places), np.int64)
                for column in range(start, start + width):
                    digit = cells[:, column] - np.uint8(48)  # wraps below "0", so that one comparison does
                    sound &= digit <= 9
                    value = value * 10 + digit
                value = value * 10 ** (9 - width) if part.letter == "S" else value
                sound &= _enter(numbers, part, value, is_java=self._pattern.is_java)
                start += width
        self._note_given(numbers, places)
        micros, exists = local_times(numbers, len(places), self._pattern.is_java, self._has_own_era())
        exists &= self._are_of_eras(numbers)
        self.micros[places], held = self._moments(micros)
        self.fits[places] = sound & exists & held
        done[places] = sound
        return done

    def _read_by_expression(self, places: np.ndarray) -> None:
        """Read texts of any form by a regular expression."""
        sound, groups = self._groups(self._texts.take(pa.array(places)))
        numbers: Numbers = {}
        zones: pa.StringArray | None = None
        for field, group in groups:
            present = np.asarray(pc.greater(pc.binary_length(group), 0))
            if field.letter == "z":
                group = _regions(group)
            if is_zone(field):
                zones = group if zones is None else pc.if_else(pa.array(present), group, zones)
                continue
            value = _group_numbers(group, field, present)
            if field.letter == "y":
                sound &= ~((value == 0) & np.asarray(pc.starts_with(group, "-")))
            sound &= _enter(numbers, field, value, present, is_java=self._pattern.is_java)
        self._note_given(numbers, places)
        micros, exists = local_times(numbers, len(places), self._pattern.is_java, self._has_own_era())
        exists &= self._are_of_eras(numbers)
        moments, known = self._moments_in(micros, zones, sound)
        self.micros[places] = moments
        self.fits[places] = sound & exists & known

    def _groups(self, texts: pa.StringArray) -> tuple[Mask, list[tuple[Field, pa.StringArray]]]:
        """Which texts have the form of the pattern, and what stands there for each field; empty where a text leaves it out."""
        if self._pattern.is_java and not is_clear(self._pattern):
            return java_groups(texts, self._pattern)
        expression, fields = regular_expression(self._pattern)
        found = pc.extract_regex(texts, pattern=expression)
        return np.asarray(found.is_valid()).copy(), [(field, found.field(name).fill_null("")) for name, field in fields]

    def gives(self, *letters: str) -> Mask:
        """Which texts have a field of one of these letters."""
        found = np.zeros(len(self._texts), bool)
        for letter in letters:
            found |= self.given.get(letter, False)
        return found

    def _note_given(self, numbers: Numbers, places: np.ndarray) -> None:
        for letter in (key[0] for key in numbers if key.endswith("?")):
            self.given.setdefault(letter, np.zeros(len(self._texts), bool))[places] = numbers[f"{letter}?"]

    def _are_of_eras(self, numbers: Numbers) -> np.ndarray | bool:
        """Which years are some of an era, which begins with 1: those that Java reads by the letter y, and not by u."""
        if not self._pattern.is_java or "y" not in numbers or self._has_own_era():
            return True
        return np.asarray(~numbers["y?"] | (numbers["y"] >= 1))

    def _has_own_era(self) -> bool:
        """Whether the year is read by the letter u, of years before the first one, too, and not by y."""
        return self._pattern.is_java and "y" not in re.sub("'[^']*'", "", self._pattern.text)

    def _moments(self, micros: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The moments of local times, and which of them a timestamp holds."""
        return (micros, np.ones(len(micros), bool)) if self._zone is None else held_moments(micros, offsets_of(self._zone))

    def _moments_in(self, micros: np.ndarray, zones: pa.StringArray | None, sound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if zones is None:
            return self._moments(micros)
        moments, known = moments_by_zone(micros, zones, self._zone or "UTC")
        return (micros if self._zone is None else moments), known


def moments_by_zone(micros: np.ndarray, zones: pa.StringArray, default: str) -> tuple[np.ndarray, np.ndarray]:
    """Moments of local times, each in its own zone, or the default where it names none; and which zones and moments there are."""
    encoded = zones.dictionary_encode()
    places = np.asarray(encoded.indices)
    moments, known = micros.copy(), np.ones(len(micros), bool)
    for number, name in enumerate(encoded.dictionary.to_pylist()):
        mine = places == number
        try:
            moments[mine], known[mine] = held_moments(micros[mine], offsets_of(_offset_name(name) if name else default))
        except ZoneError:
            known[mine] = False
    return moments, known


def _regions(names: pa.StringArray) -> pa.StringArray:
    """The regions that short names of zones stand for; other names as they are."""
    encoded = names.dictionary_encode()
    known = pa.array([REGIONS.get(name.upper(), name) for name in encoded.dictionary.to_pylist()], pa.string())
    return known.take(encoded.indices)


def _offset_name(text: str) -> str:
    return "Z" if text in ("z", "Z") else spelt_zone(text)


def fixed_cells(texts: pa.StringArray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of the texts that have exactly `width` of them, a row each; and the places of these texts."""
    _, offsets_buffer, data = texts.buffers()
    count = len(texts)
    offsets = np.frombuffer(offsets_buffer, np.int32, count + 1, texts.offset * 4) if count else np.zeros(1, np.int32)
    fitting = np.diff(offsets) == width
    if texts.null_count:
        fitting &= np.asarray(texts.is_valid())
    places = np.flatnonzero(fitting)
    if not len(places):
        return np.zeros((0, width), np.uint8), places
    content = np.frombuffer(data, np.uint8)
    starts = offsets[:-1][places]
    if len(places) == count:  # back to back
        return content[starts[0] : starts[0] + count * width].reshape(count, width), places
    return content[starts[:, None] + np.arange(width)], places


def _enter(
    numbers: Numbers, field: Field, value: np.ndarray, present: np.ndarray | None = None, *, is_java: bool = False
) -> np.ndarray:
    """Note a field's number; which rows are in its range, and agree with what the field was before."""
    letter = "M" if field.letter == "L" else field.letter
    if letter == "y" and field.count == 2:
        value = value + 2000
    if letter == "S":
        value = value // 1000  # of nanoseconds
    least, most = (_RANGES_OF_JAVA if is_java else _RANGES).get(letter, (None, None))
    there = np.ones(len(value), bool) if present is None else present
    sound = np.ones(len(value), bool) if least is None else ~there | ((value >= least) & (value <= most))
    if letter in numbers:
        before, known = numbers[letter], numbers[f"{letter}?"]
        sound &= ~(there & known) | (before == value)
        value, there = np.where(there, value, before), there | known
    numbers[letter], numbers[f"{letter}?"] = value, there
    return np.asarray(sound)


def _group_numbers(group: pa.StringArray, field: Field, present: np.ndarray) -> np.ndarray:
    names = names_of(field)
    if names:
        lower = pa.array([name.lower() for name in names])
        return np.asarray(pc.index_in(pc.ascii_lower(group), value_set=lower).fill_null(-1)) + _first(field)
    digits = pc.utf8_rpad(group, 9, "0") if field.letter == "S" else pc.utf8_ltrim(group, characters="+")
    return np.asarray(pc.if_else(pa.array(present), digits, "0").cast(pa.int64()))


def _first(field: Field) -> int:
    return 1 if field.letter in "MLqQ" else 0


def local_times(numbers: Numbers, count: int, is_java: bool = False, has_own_era: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """
    Microseconds since 1970 of the fields' numbers, and whether there is such a time.

    As Java reads them, the 31st of a shorter month of a year that is given is its last day, and a weekday must be that of the date,
    and hour 24 is the midnight behind the day. Half a day without an hour is the middle of it. Of a text that is no whole date
    the weekday is that of the week of the first of the month. A year with an era of its own, the letter u, is not counted by another.
    """
    year, month, day = _number(numbers, "y", 1970, count), _number(numbers, "M", 1, count), _number(numbers, "d", 1, count)
    known = numbers.get("y?", np.zeros(count, bool))
    is_whole = _are_given(numbers, "yMd", count)
    is_date = is_whole | _are_given(numbers, "yD", count)
    year = _with_era(numbers, year, known, is_java, has_own_era)
    if is_java:
        year, month, day = _java_date(numbers, (year, month, day), is_whole, is_date)
    days, exists = days_from_civil(year, month, day)
    if "D" in numbers:
        days, exists = _by_day_of_year(numbers, year, days, exists, is_last=~known if is_java else np.zeros(count, bool))
    if "E" in numbers:
        exists = exists & (~numbers["E?"] | ((days + 3) % 7 == numbers["E"]) | (~is_date if is_java else False))
    if "G" in numbers and "y" in numbers:
        agrees = ~is_date | (_is_before_christ(numbers) == (year < 1)) | ~numbers["G?"] if has_own_era else numbers["y"] >= 1
        exists = exists & (~known | agrees)
    if is_java:
        is_midnight = _number(numbers, "H", 0, count) == 24
        exists = exists & ~(is_midnight & ((_number(numbers, "m", 0, count) != 0) | (_number(numbers, "s", 0, count) != 0)))
        exists = exists & ~(is_midnight & (_number(numbers, "S", 0, count) != 0))
        if is_midnight.any():
            numbers["H"] = np.where(is_midnight, 0, numbers["H"])
            days = days + (is_midnight & is_date)
    hour, agrees = _hour(numbers, count)
    if is_java and "a" in numbers:
        has_time = np.logical_or.reduce([_are_given(numbers, letter, count) for letter in "HkKhmsS"])
        hour = np.where(numbers["a?"] & ~has_time, numbers["a"] * 12 + 6, hour)
    seconds = days * DAY_SECONDS + hour * 3600 + _number(numbers, "m", 0, count) * 60 + _number(numbers, "s", 0, count)
    exists = exists & agrees & (np.abs(seconds) < _LIMIT)
    return np.where(exists, seconds, 0) * SECOND_MICROS + _number(numbers, "S", 0, count), exists


def _number(numbers: Numbers, letter: str, missing: int, count: int) -> np.ndarray:
    if letter not in numbers:
        return np.full(count, missing, np.int64)
    there = numbers[f"{letter}?"]
    return numbers[letter] if there.all() else np.where(there, numbers[letter], missing)


def _with_era(numbers: Numbers, year: np.ndarray, known: np.ndarray, is_java: bool, has_own_era: bool) -> np.ndarray:
    """The years counted from the first of their eras on; Java counts one so that no text gives, too."""
    if "G" not in numbers:
        return year
    is_counted = ~known if has_own_era else known | is_java
    return np.where(_is_before_christ(numbers) & is_counted, 1 - year, year)


def _is_before_christ(numbers: Numbers) -> np.ndarray:
    return np.asarray(numbers["G?"] & (numbers["G"] == 0))


def _java_date(
    numbers: Numbers, date: tuple[np.ndarray, np.ndarray, np.ndarray], is_whole: np.ndarray, is_date: np.ndarray
) -> tuple[np.ndarray, ...]:
    """The year, month and day, with the last day of a month for one up to 31, and the weekday where there is no date to compare it with."""
    year, month, day = date
    if is_whole.any():
        lengths = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])[np.clip(month, 1, 12) - 1] + (
            (month == 2) & is_leap(year)
        )
        day = np.where(is_whole & (day <= 31), np.minimum(day, lengths), day)
    return _by_weekday(numbers, (year, month, day), numbers["E?"] & ~is_date) if "E" in numbers else (year, month, day)


def _by_weekday(numbers: Numbers, date: tuple[np.ndarray, np.ndarray, np.ndarray], moved: np.ndarray) -> tuple[np.ndarray, ...]:
    """The year, month and day of each date; of the first of a month the day of that name in its week, if the date is to be moved."""
    year, month, day = date
    first, _ = days_from_civil(year, month, np.ones_like(day))
    found = civil_from_days(first - (first + 3) % 7 + numbers["E"])
    given = _are_given(numbers, "d", len(day))
    return np.where(moved, found[0], year), np.where(moved, found[1], month), np.where(moved & ~given, found[2], day)


def _are_given(numbers: Numbers, letters: str, count: int) -> np.ndarray:
    """Which rows have all of these fields."""
    found = np.ones(count, bool)
    for letter in letters:
        found &= numbers.get(f"{letter}?", False)
    return found


def _by_day_of_year(
    numbers: Numbers, year: np.ndarray, days: np.ndarray, exists: np.ndarray, is_last: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The days by their number in the year, and which there are: the month and the day must be the same, or be some that count no more."""
    there, number = numbers["D?"], numbers["D"]
    ones = np.ones_like(year)
    first, _ = days_from_civil(year, ones, ones)
    date = first + number - 1
    _, month, day = civil_from_days(date)
    agrees = number <= 365 + is_leap(year)
    for letter, found in (("M", month), ("d", day)):
        if letter in numbers:
            agrees = agrees & (~numbers[f"{letter}?"] | (numbers[letter] == found) | is_last)
    agrees = agrees & (exists | ~is_last)
    return np.where(there, date, days), np.where(there, agrees, exists)


def _hour(numbers: Numbers, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The hour of the day, and whether the fields agree on it."""
    zero, none = np.zeros(count, np.int64), np.zeros(count, bool)

    def found(letter: str) -> tuple[np.ndarray, np.ndarray]:
        return numbers.get(letter, zero), numbers.get(f"{letter}?", none)

    (whole, has_whole), (clock, has_clock) = found("H"), found("k")
    (half, has_half), (small, has_small), (evening, has_evening) = found("K"), found("h"), found("a")
    agrees = ~(has_clock & has_whole) | (clock % 24 == whole)
    agrees &= ~(has_small & has_half) | (small % 12 == half)
    whole, has_whole = np.where(has_whole, whole, clock % 24), has_whole | has_clock
    half, has_half = np.where(has_half, half, small % 12), has_half | has_small
    agrees &= ~(has_whole & has_half) | (whole % 12 == half)
    agrees &= ~(has_whole & has_evening) | (whole // 12 == evening)
    late = np.where(has_evening, 12 * evening, 0)
    return np.where(has_whole, whole, np.where(has_half, half, 0) + late), agrees


class Writing:
    """Local times (microseconds since 1970) as texts by a pattern; `offsets` are seconds east of UTC, `zone` is the zone's name."""

    def __init__(self, local: np.ndarray, zone: str | None, offsets: np.ndarray | None) -> None:
        self._zone = zone
        self._offsets = offsets
        days = np.floor_divide(local, DAY_SECONDS * SECOND_MICROS)
        self._days = days
        self._second = np.floor_divide(local - days * (DAY_SECONDS * SECOND_MICROS), SECOND_MICROS)
        self._micro = local - (days * DAY_SECONDS + self._second) * SECOND_MICROS
        self._date: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def texts(self, pattern: Pattern) -> pa.StringArray:
        """One text a time."""
        width = pattern.width
        if width and self._fits_fixed(pattern):
            return self._fixed(pattern, width)
        columns = [pa.scalar(part) if isinstance(part, str) else self._column(part, pattern) for part in pattern.flat]
        if not any(isinstance(column, pa.Array) for column in columns):
            return pa.repeat("".join(str(part) for part in pattern.flat), len(self._days))
        return pc.binary_join_element_wise(*columns, "")

    def _fits_fixed(self, pattern: Pattern) -> bool:
        if not any(field.letter == "y" for field in pattern.fields):
            return True
        year = self._number("y")
        return not len(year) or (int(year.min()) >= 0 and int(year.max()) <= 9999 and not _has_era(pattern))

    def _fixed(self, pattern: Pattern, width: int) -> pa.StringArray:
        """All texts at once, digit by digit."""
        count = len(self._days)
        cells = np.empty((count, width), np.uint8)
        start = 0
        for part in pattern.parts:
            if isinstance(part, str):
                cells[:, start : start + len(part)] = np.frombuffer(part.encode(), np.uint8)
                start += len(part)
                continue
            assert isinstance(part, Field)
            size = part.width or 0
            value = (self._micro * 1000 // 10 ** (9 - size)) if part.letter == "S" else self._number(part.letter)
            value = value.astype(np.uint32)
            for column in range(start + size - 1, start - 1, -1):
                rest = value // np.uint32(10)
                cells[:, column] = value - rest * np.uint32(10) + np.uint32(48)
                value = rest
            start += size
        offsets = np.arange(0, (count + 1) * width, width, dtype=np.int64) if width else np.zeros(count + 1, np.int64)
        if count * width >= 2**31:
            return pa.LargeStringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(cells)).cast(pa.string())
        return pa.StringArray.from_buffers(count, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(cells))

    def _column(self, field: Field, pattern: Pattern) -> pa.StringArray:
        if names := names_of(field):
            return pa.array(names).take(pa.array(self._number(field.letter) - _first(field)))
        if is_zone(field):
            return self._zone_texts(field, pattern)
        if field.letter == "S":
            digits = pc.utf8_lpad(pa.array(self._micro).cast(pa.string()), 6, "0")
            return pc.utf8_slice_codeunits(pc.utf8_rpad(digits, 9, "0"), 0, field.count)
        value = self._number(field.letter)
        if field.letter == "y":
            return _years(np.where(value >= 1, value, 1 - value) if _has_era(pattern) else value, field)
        return pc.utf8_lpad(pa.array(value).cast(pa.string()), field.count, "0")

    def _zone_texts(self, field: Field, pattern: Pattern) -> pa.StringArray:
        assert self._zone is not None
        assert self._offsets is not None
        if field.letter == "z" and pattern.is_java:
            return self._java_names(field)
        if field.letter in "Vz":
            return pa.repeat(_zone_name(self._zone, field), len(self._days))
        different, places = np.unique(self._offsets, return_inverse=True)
        return pa.array([offset_text(int(seconds), field) for seconds in different]).take(pa.array(places.reshape(-1)))

    def _java_names(self, field: Field) -> pa.StringArray:
        """The names that a zone has at these times, such as PST in winter and PDT in summer."""
        assert self._zone is not None
        assert self._offsets is not None
        different, firsts, places = np.unique(self._offsets, return_index=True, return_inverse=True)
        seconds = (self._days * DAY_SECONDS + self._second)[firsts] - different
        names = [java_zone_name(self._zone, int(moment), field.count) for moment in seconds]
        return pa.array(names, pa.string()).take(pa.array(places.reshape(-1)))

    def _number(self, letter: str) -> np.ndarray:
        if letter == "A":
            return np.asarray(self._second * 1000 + self._micro // 1000)
        if letter in "nN":
            return np.asarray(self._micro * 1000 + (self._second * 1_000_000_000 if letter == "N" else 0))
        if letter in "ec":  # of weeks that begin on Sunday
            return np.asarray((self._days + 4) % 7 + 1)
        if letter in "HkKhms" or letter == "a":
            hour = self._second // 3600
            return {  # type: ignore[no-any-return]
                "H": lambda: hour, "k": lambda: (hour + 23) % 24 + 1, "K": lambda: hour % 12, "h": lambda: (hour + 11) % 12 + 1, "a": lambda: hour // 12,
                "m": lambda: self._second // 60 % 60, "s": lambda: self._second % 60,
            }[letter]()  # fmt: skip
        if letter == "E":
            return np.asarray((self._days + 3) % 7)
        if self._date is None:
            self._date = civil_from_days(self._days)
        year, month, day = self._date
        if letter in "qQ":
            return np.asarray((month + 2) // 3)
        if letter == "G":
            return np.asarray((year >= 1).astype(np.int64))
        if letter == "D":
            ones = np.ones_like(year)
            return np.asarray(self._days - days_from_civil(year, ones, ones)[0] + 1)
        if letter == "F":
            return np.asarray((day - 1) % 7 + 1)
        return {"y": year, "M": month, "L": month, "d": day}[letter]


def _has_era(pattern: Pattern) -> bool:
    return any(field.letter == "G" for field in pattern.fields)


def _years(value: np.ndarray, field: Field) -> pa.StringArray:
    if field.count == 2:
        return pc.utf8_lpad(pa.array(np.abs(value) % 100).cast(pa.string()), 2, "0")
    digits = pc.utf8_lpad(pa.array(np.abs(value)).cast(pa.string()), field.count, "0")
    most = 10**field.count if field.count >= 4 else 10**18
    sign = pa.array(["", "-", "+"]).take(pa.array(np.where(value < 0, 1, np.where(value >= most, 2, 0))))
    return pc.binary_join_element_wise(sign, digits, "")


def _zone_name(zone: str, field: Field) -> str:
    """The name of a zone; the ones of regions change with the season and are refused before."""
    if field.letter == "V":
        return zone
    long = {"UTC": "Coordinated Universal Time", "GMT": "Greenwich Mean Time", "UT": "Coordinated Universal Time"}
    if zone in long and field.count == 4:
        return long[zone]
    return "UTC" if zone == "UT" else zone


def java_zone_name(zone: str, moment: int, count: int) -> str:
    """The name that Java gives a zone at a moment, in seconds since 1970: a short one, or with four letters a long one."""
    plain = _zone_name(zone, Field("z", count))
    if fixed_offset(zone) is not None:
        return plain
    try:
        name = dt.datetime.fromtimestamp(moment, zoneinfo.ZoneInfo(zone)).tzname()
    except (ValueError, OverflowError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return plain
    if name is None or not name.isalpha():
        return plain
    return LONG_NAMES.get(name, plain) if count == 4 else name


def has_one_name(zone: str) -> bool:
    """Whether the zone's name is the same all year."""
    return fixed_offset(canonical_zone(zone)) is not None


def offset_text(seconds: int, field: Field) -> str:
    """An offset as the field writes it."""
    hours, rest = divmod(abs(seconds), 3600)
    minutes, last = divmod(rest, 60)
    sign = "-" if seconds < 0 else "+"
    return _OFFSET_TEXTS[field.letter if field.letter != "Z" else f"Z{field.count}"](sign, hours, minutes, last, field.count)


def _x_text(sign: str, hours: int, minutes: int, seconds: int, count: int) -> str:
    colon = ":" if count in (3, 5) else ""
    text = f"{sign}{hours:02}"
    if count > 1 or minutes:
        text += f"{colon}{minutes:02}"
    return f"{text}{colon}{seconds:02}" if count >= 4 and seconds else text


def _upper_x_text(sign: str, hours: int, minutes: int, seconds: int, count: int) -> str:
    shown = hours or minutes or (seconds and count >= 4)
    return _x_text(sign, hours, minutes, seconds, count) if shown else "Z"


def _lower_x_text(sign: str, hours: int, minutes: int, seconds: int, count: int) -> str:
    shown = hours or minutes or (seconds and count >= 4)
    return _x_text(sign if shown else "+", hours, minutes, seconds, count)


def _localised_text(sign: str, hours: int, minutes: int, seconds: int, count: int) -> str:
    if not (hours or minutes or seconds):
        return "GMT"
    if count == 4:
        return f"GMT{sign}{hours:02}:{minutes:02}" + (f":{seconds:02}" if seconds else "")
    rest = f":{minutes:02}" + (f":{seconds:02}" if seconds else "") if minutes or seconds else ""
    return f"GMT{sign}{hours}{rest}"


def _plain_text(sign: str, hours: int, minutes: int, seconds: int, count: int) -> str:
    return f"{sign if hours or minutes else '+'}{hours:02}{minutes:02}"


_OFFSET_TEXTS: dict[str, Callable[[str, int, int, int, int], str]] = {
    "X": _upper_x_text, "x": _lower_x_text, "O": _localised_text, "Z1": _plain_text, "Z2": _plain_text, "Z3": _plain_text,
    "Z4": lambda sign, hours, minutes, seconds, count: _localised_text(sign, hours, minutes, seconds, 4), "Z5": _upper_x_text,
}  # fmt: skip


def written(values: pa.Array, pattern: Pattern, zone: str | None) -> pa.StringArray:
    """Times as texts; with a zone the values are moments, and local times in it are written."""
    micros = values_of(values).astype(np.int64)
    offsets = None
    if zone is not None:
        offsets = offsets_of(zone).at(np.floor_divide(micros, SECOND_MICROS))
        micros = micros + offsets * SECOND_MICROS
    texts = Writing(micros, None if zone is None else canonical_zone(zone), offsets).texts(pattern)
    return texts if not values.null_count else pc.if_else(values.is_valid(), texts, None)
