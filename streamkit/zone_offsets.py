"""
Time zones: their offsets at every moment, and what converts between moments and local times.

Offsets are those of the tz database (the package tzdata, else the system's). A local time that
a zone skips moves forward by what is skipped; of two moments with the same local time the earlier is taken, as in Java.
"""

from __future__ import annotations

import importlib.resources
import re
import struct
import zoneinfo
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from streamkit.civil_dates import days_from_civil, is_leap, last_day_of_month
from streamkit.time_zone import ZoneError, canonical_zone, fixed_offset, unknown_zone

DAY_SECONDS = 86_400
SECOND_MICROS = 1_000_000
BEYOND = "the time is beyond the range of timestamps"
_HELD_SECONDS = (2**63 - 1) // SECOND_MICROS
_CYCLE_SECONDS = 146_097 * DAY_SECONDS  # 400 years: the calendar repeats, days of the week too
_RULES_UNTIL = 2500  # years that a table spells out; later ones are those 400, 800, … years before
_RULE = re.compile(r"(<[^>]+>|[A-Za-z]+)([+-]?[\d:]+)(?:(<[^>]+>|[A-Za-z]+)([+-]?[\d:]+)?(?:,([^,]+),([^,]+))?)?")


@dataclass(frozen=True)
class ZoneOffsets:
    """
    The offsets of a zone, in seconds east of UTC: `seconds[i]` holds before the moment `changes[i]`, the last one after all.

    `earlier[i]` is the local time from which on the next offset is taken where both would do; `later[i]` where the later one is wanted.
    """

    changes: np.ndarray
    seconds: np.ndarray
    earlier: np.ndarray
    later: np.ndarray
    repeats: bool

    @property
    def is_fixed(self) -> bool:
        return not len(self.changes)

    def at(self, moments: np.ndarray) -> np.ndarray:
        """The offset at each moment, a number of seconds since 1970."""
        return self._found(self.changes, moments)

    def of_local(self, locals: np.ndarray) -> np.ndarray:
        """The offset of each local time; the earlier moment's where there are two, the one before a gap within it."""
        return self._found(self.earlier, locals)

    def of_local_near(self, locals: np.ndarray, near: np.ndarray) -> np.ndarray:
        """As `of_local`, but where a local time comes twice and the later one has the offset `near`, that."""
        late = self._found(self.later, locals)
        return np.where(late == near, late, self.of_local(locals))

    def _found(self, borders: np.ndarray, moments: np.ndarray) -> np.ndarray:
        if self.is_fixed or not len(moments):
            return np.full(len(moments), self.seconds[0])
        least, most = int(moments.min()), int(moments.max())
        if most >= borders[-1] and self.repeats:
            moments = _in_table(moments, borders[-1])
            least, most = int(moments.min()), int(moments.max())
        first, last = np.searchsorted(borders, [least, most], side="right")
        if first == last:
            return np.full(len(moments), self.seconds[first])
        return np.asarray(self.seconds[first + np.searchsorted(borders[first:last], moments, side="right")])


def _in_table(moments: np.ndarray, end: int) -> np.ndarray:
    """The moments, those after the table some times 400 years earlier."""
    cycles = np.maximum(-((end - 1 - moments) // _CYCLE_SECONDS), 0)
    return np.asarray(moments - cycles * _CYCLE_SECONDS)


def local_micros(micros: np.ndarray, offsets: ZoneOffsets) -> np.ndarray:
    """Local times of moments, both in microseconds since 1970; ArrowInvalid beyond the range of timestamps."""
    return _all_held(_later(micros, offsets.at(np.floor_divide(micros, SECOND_MICROS))))


def moment_micros(local: np.ndarray, offsets: ZoneOffsets, near: np.ndarray | None = None) -> np.ndarray:
    """
    Moments of local times, both in microseconds since 1970; of two moments that with the offset at the moment `near`, else the earlier.

    ArrowInvalid beyond the range of timestamps.
    """
    return _all_held(held_moments(local, offsets, near))


def held_moments(local: np.ndarray, offsets: ZoneOffsets, near: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """As `moment_micros`, and which moments a timestamp can hold; the others are 0."""
    seconds = np.floor_divide(local, SECOND_MICROS)
    if near is None or offsets.is_fixed:
        return _later(local, -offsets.of_local(seconds))
    wanted = offsets.at(np.floor_divide(near, SECOND_MICROS))
    return _later(local, -offsets.of_local_near(seconds, wanted))


def _later(micros: np.ndarray, seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times so many seconds later, and which of them 64 bits hold: Arrow's and numpy's sums come round again without a word."""
    shift = seconds * SECOND_MICROS
    moved = micros + shift
    held = ((micros ^ moved) & (shift ^ moved)) >= 0
    return np.where(held, moved, 0), held


def _all_held(found: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    micros, held = found
    if not held.all():
        raise pa.ArrowInvalid(BEYOND)
    return micros


def start_of_day_micros(days: np.ndarray, offsets: ZoneOffsets) -> np.ndarray:
    """As `start_of_day_seconds`, in microseconds; ArrowInvalid beyond the range of timestamps."""
    moments = start_of_day_seconds(days, offsets)
    if (np.abs(moments) > _HELD_SECONDS).any():
        raise pa.ArrowInvalid(BEYOND)
    return np.asarray(moments * SECOND_MICROS)


def start_of_day_seconds(days: np.ndarray, offsets: ZoneOffsets) -> np.ndarray:
    """The first moment of each day; where a zone skips midnight, the moment from which on it is that day."""
    local = days.astype(np.int64) * DAY_SECONDS
    moments = local - offsets.of_local(local)
    after = offsets.at(moments)
    skipped = moments + after - local  # above zero within a gap: how far the local clock has jumped
    if skipped.any():
        places = np.searchsorted(offsets.changes, moments, side="right") - 1
        changed = offsets.changes[np.maximum(places, 0)]
        moments = np.where((skipped > 0) & (places >= 0), changed, moments)
    return np.asarray(moments)


@lru_cache(maxsize=1024)
def offsets_of(zone: str) -> ZoneOffsets:
    """The offsets of a zone by its name; ZoneError if there is none."""
    name = canonical_zone(zone)
    fixed = fixed_offset(name)
    if fixed is not None:
        return _table(np.array([], np.int64), np.array([fixed], np.int64), False)
    changes, seconds, rule = _read(_file(name))
    if rule and "," in rule:
        changes, seconds = _extended(changes, seconds, rule)
        return _table(changes, seconds, True)
    return _table(changes, seconds, False)


def zone_offsets(zone: str) -> ZoneOffsets:
    """As `offsets_of`, for a name that stands in a row: ArrowInvalid if there is no such zone."""
    try:
        return offsets_of(zone)
    except ZoneError as error:
        raise pa.ArrowInvalid(str(error)) from None


def _file(name: str) -> bytes:
    """The compiled rules of a region."""
    try:
        return importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    except (ModuleNotFoundError, FileNotFoundError):
        found = next((path for path in (Path(root, name) for root in zoneinfo.TZPATH) if path.is_file()), None)
        if found is None:
            raise ZoneError(unknown_zone(name)) from None
        return found.read_bytes()


def _read(content: bytes) -> tuple[np.ndarray, np.ndarray, str]:
    """Changes, offsets, and the rule for what follows, of a file in the format TZif (RFC 8536)."""
    start, size = 0, 4
    counts = struct.unpack(">6l", content[20:44])
    if content[4:5] >= b"2":  # then the same again, with 8 bytes a moment
        isutc, isstd, leaps, times, types, letters = counts
        start = 44 + times * 5 + types * 6 + letters + leaps * 8 + isstd + isutc
        counts = struct.unpack(">6l", content[start + 20 : start + 44])
        size = 8
    isutc, isstd, leaps, times, types, letters = counts
    place = start + 44
    changes = np.frombuffer(content, f">i{size}", times, place).astype(np.int64)
    kinds = np.frombuffer(content, np.uint8, times, place + times * size)
    place += times * (size + 1)
    offsets = np.array(
        [struct.unpack(">l", content[place + 6 * kind : place + 6 * kind + 4])[0] for kind in range(types)], np.int64
    )
    place += types * 6 + letters + leaps * (size + 4) + isstd + isutc
    rule = content[place:].decode("ascii").strip("\n") if size == 8 else ""
    return changes, np.concatenate([offsets[:1], offsets[kinds]]), rule


def _table(changes: np.ndarray, seconds: np.ndarray, repeats: bool) -> ZoneOffsets:
    real = np.flatnonzero(np.diff(seconds))  # changes of the name alone are none
    changes, seconds = changes[real], seconds[np.concatenate([[0], real + 1])]
    before, after = seconds[:-1], seconds[1:]
    earlier = np.maximum.accumulate(changes + np.maximum(before, after)) if len(changes) else changes
    later = np.maximum.accumulate(changes + after) if len(changes) else changes
    return ZoneOffsets(changes, seconds, earlier, later, repeats)


def _extended(changes: np.ndarray, seconds: np.ndarray, rule: str) -> tuple[np.ndarray, np.ndarray]:
    """The changes and those that the rule makes after them."""
    match = _RULE.fullmatch(rule)
    if not match:
        raise ZoneError(f"the tz database has a rule that cannot be read: {rule!r}")
    standard = -_clock_seconds(match[2])
    summer = -_clock_seconds(match[4]) if match[4] else standard + 3600
    years = np.arange(1970, _RULES_UNTIL)
    starts = _rule_seconds(match[5], years) - standard
    ends = _rule_seconds(match[6], years) - summer
    moments = np.concatenate([starts, ends])
    values = np.concatenate([np.full(len(years), summer), np.full(len(years), standard)])
    order = np.argsort(moments, kind="stable")
    moments, values = moments[order], values[order]
    new = moments > (changes[-1] if len(changes) else -(2**62))
    return np.concatenate([changes, moments[new]]), np.concatenate([seconds, values[new]])


def _clock_seconds(text: str) -> int:
    """Seconds of [+-]hh[:mm[:ss]]."""
    parts = [int(part) for part in text.lstrip("+-").split(":")]
    total = sum(part * unit for part, unit in zip(parts, (3600, 60, 1)))
    return -total if text.startswith("-") else total


def _rule_seconds(text: str, years: np.ndarray) -> np.ndarray:
    """The local second of a rule such as M3.2.0/2 in each year: March, second Sunday, 2 o'clock."""
    day, _, clock = text.partition("/")
    seconds = _clock_seconds(clock or "2")
    ones = np.ones_like(years)
    if day.startswith("M"):
        month, week, weekday = (int(part) for part in day[1:].split("."))
        first, _ = days_from_civil(years, month * ones, ones)
        ahead = (weekday - (first + 4)) % 7  # 1970-01-01 was a Thursday
        days = first + ahead + 7 * (week - 1)
        length = last_day_of_month(years, month * ones)
        days = np.where(days >= first + length, days - 7, days)
    else:
        start, _ = days_from_civil(years, ones, ones)
        number = int(day.lstrip("J"))
        days = start + number - (1 if day.startswith("J") else 0)
        if day.startswith("J"):
            days = days + ((number >= 60) & is_leap(years))
    return np.asarray(days * DAY_SECONDS + seconds)
