"""
PARSE_DATE reads dates as Java's SimpleDateFormat does, and not as the other functions of times.

Numbers have any number of digits, unless another number follows at once, and may be beyond their range: 2021-02-30 is the second of March.
What follows the date in the text does not matter, and weekdays are not compared. Before 15 October 1582 dates are those of the Julian calendar.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from streamkit.expressions.times.datetime_patterns import MONTHS, WEEKDAYS

_TOKEN = re.compile(r"(?P<field>(?P<letter>[A-Za-z])(?P=letter)*)|(?P<literal>(?:[^A-Za-z']|'[^']*')+)")
_NUMBERS = frozenset("yYMdDHkKhmsS")
_MILLIS = {"H": 3_600_000, "k": 3_600_000, "K": 3_600_000, "h": 3_600_000, "m": 60_000, "s": 1000, "S": 1}
_DAY_MILLIS = 86_400_000
_CENTURY_START = 1946  # two digits are a year from this one on
_ERA_DAYS, _DAYS_BEFORE_1970 = 146_097, dt.date(1970, 1, 1).toordinal()
FIRST_GREGORIAN_DAY = dt.date(1582, 10, 15).toordinal() - _DAYS_BEFORE_1970
_JULIAN_DAY_OF_1970 = 2_440_588
_NUMBER_MAX = 2**31 - 1
_YEAR_MAX = 200_000_000
_ABBREVIATED = 3
Read = Callable[[str, int], tuple[int, int]]  # of a text and a place: the number there, and where it ends


@lru_cache(maxsize=256)
def date_reader(pattern: str) -> Callable[[str], int] | None:
    """
    What gives the days since 1970 that a text of the pattern spells, or raises ValueError.

    None for a pattern with letters that mean something else to the other functions, or nothing, and for one that says a part twice.
    """
    steps: list[tuple[str, Read]] = []
    place, letters = 0, ""
    tokens = list(_TOKEN.finditer(pattern))
    for number, token in enumerate(tokens):
        if token.start() != place:
            return None
        place = token.end()
        if token["literal"]:
            steps.append(("", _literal(re.sub(r"''|'([^']*)'", lambda quoted: quoted[1] or "'", token["literal"]))))
            continue
        letter, width = token["letter"], len(token["field"])
        letters += letter
        following = tokens[number + 1] if number + 1 < len(tokens) else None
        steps.append((letter, _reader(letter, width, is_limited=following is not None and _is_number(following))))
    if place != len(pattern) or not set(letters) <= _NUMBERS | {"E", "a"} or not _says_each_once(letters):
        return None
    return lambda text: _days(text, steps)


def is_read_alike(pattern: str) -> bool:
    """Whether a text that Java's DateTimeFormatter reads by the pattern is the same date here, but for days that a month does not have."""
    return re.fullmatch(r"(?=.*yyyy)[^A-Za-z'[\]]*(?:(?:yyyy|MM?|MMM|dd?)[^A-Za-z'[\]]*)*", pattern) is not None


def _says_each_once(letters: str) -> bool:
    """Whether year, day, hour and so on are each said by one field, so that none is said in two ways."""
    kinds = ("yY", "dD", "MD", "HkKh", "m", "s", "S", "E", "a")
    return all(sum(letters.count(one) for one in kind) <= 1 for kind in kinds) and not (
        set("aE") & set(letters) and "D" in letters
    )


def _is_number(token: re.Match[str]) -> bool:
    if token["literal"]:
        return token["literal"].lstrip("'")[:1].isdigit()
    return token["letter"] in _NUMBERS and not (token["letter"] == "M" and len(token["field"]) >= _ABBREVIATED)


def _literal(wanted: str) -> Read:
    def read(text: str, place: int) -> tuple[int, int]:
        if not text.startswith(wanted, place):
            raise ValueError(f"{wanted!r} is missing in {text!r} behind {text[:place]!r}")
        return 0, place + len(wanted)

    return read


def _reader(letter: str, width: int, is_limited: bool) -> Read:
    if letter == "M" and width >= _ABBREVIATED:
        return _names({short: number for number, name in enumerate(MONTHS, 1) for short in (name, name[:_ABBREVIATED])})
    if letter == "E":
        return _names({short: 0 for name in WEEKDAYS for short in (name, name[:_ABBREVIATED])})
    if letter == "a":
        return _names({"AM": 0, "PM": 1})
    digits = re.compile(rf"\d{{1,{width}}}" if is_limited else r"\s*\d+")
    is_short = letter in "yY" and width <= 2

    def read(text: str, place: int) -> tuple[int, int]:
        match = digits.match(text, place)
        if match is None or int(match[0]) > _NUMBER_MAX:
            raise ValueError(f"there is no number for {letter!r} in {text!r} behind {text[:place]!r}")
        found = int(match[0])
        if is_short and found < 100:
            found += _CENTURY_START // 100 * 100
            found += 100 if found < _CENTURY_START else 0
        return found, match.end()

    return read


def _names(names: Mapping[str, int]) -> Read:
    """What reads the longest name that is there, in any case."""
    pattern = re.compile("|".join(sorted(names, key=len, reverse=True)), re.IGNORECASE)
    numbers = {name.lower(): number for name, number in names.items()}

    def read(text: str, place: int) -> tuple[int, int]:
        match = pattern.match(text, place)
        if match is None:
            raise ValueError(f"there is no name of a month, a weekday or half a day in {text!r} behind {text[:place]!r}")
        return numbers[match[0].lower()], match.end()

    return read


def _days(text: str, steps: list[tuple[str, Read]]) -> int:
    found: dict[str, int] = {}
    place = 0
    for letter, read in steps:
        number, place = read(text, place)
        found[letter] = number
    year, month = found.get("y", found.get("Y", 1970)), found.get("M", 1)
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    behind = found.get("D", found.get("d", 1)) - 1
    days = _first_of_month(year, month, text) + behind
    if days < FIRST_GREGORIAN_DAY:
        days = _first_of_julian_month(year, month) + behind
    hours = {letter: found[letter] for letter in "HkKh" if letter in found}
    if hours.get("k") == 24:
        hours["k"] = 0
    if hours.get("h") == 12:
        hours["h"] = 0
    millis = sum(number * _MILLIS[letter] for letter, number in {**found, **hours}.items() if letter in _MILLIS)
    if not hours or hours.keys() & {"K", "h"}:
        millis += found.get("a", 0) * 12 * _MILLIS["h"]
    more, rest = divmod(millis, _DAY_MILLIS)
    if rest:
        raise ValueError(f"{text!r} has a time of the day; expected a date")
    if not -(2**31) <= days + more < 2**31:
        raise ValueError(f"{text!r} is beyond all dates")
    return days + more


def _first_of_month(year: int, month: int, text: str) -> int:
    """The days from 1970 to the first of a month of any year: the calendar is the same every 400 years."""
    if year > _YEAR_MAX:
        raise ValueError(f"{text!r} is beyond all dates")
    eras, within = divmod(year, 400)
    return dt.date(within + 400, month, 1).toordinal() + (eras - 1) * _ERA_DAYS - _DAYS_BEFORE_1970


def _first_of_julian_month(year: int, month: int) -> int:
    """The days from 1970 to the first of a month in the calendar that has a leap year every four years."""
    years, months = year + 4800 - (month < 3), (month + 9) % 12  # from the first of March
    return 1 + (153 * months + 2) // 5 + 365 * years + years // 4 - 32_083 - _JULIAN_DAY_OF_1970
