"""Java's SimpleDateFormat over columns, in UTC and English: times as texts, and texts as times, as leniently as Java reads them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.errors import ConfigError

MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_LETTERS = "GyuMLdHhKkmsSaEDzZX"
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_DAY_MS = 86_400_000
_ZONE = r"(?:UTC|GMT|Z|(?:GMT)?[+-][0-9]{1,2}:?[0-9]{2}|[+-][0-9]{2})"


@dataclass(frozen=True)
class DateFormatPart:
    """A letter and how often it stands there; or, without a letter, a text."""

    letter: str
    count: int
    text: str = ""


@dataclass(frozen=True)
class SimpleDateFormat:
    """A pattern of SimpleDateFormat; ConfigError for a letter that it has not, or one that is not supported (`wWFY`)."""

    pattern: str

    def __post_init__(self) -> None:
        for token in self.tokens:
            if token.letter and token.letter not in _LETTERS:
                raise ConfigError(
                    f"the pattern {self.pattern!r} has the letter {token.letter!r}; expected letters of {_LETTERS}, others within quotes"
                )

    @cached_property
    def tokens(self) -> tuple[DateFormatPart, ...]:
        """The pattern's letters and texts, in order."""
        found, place = [], 0
        while place < len(self.pattern):
            match = _TOKEN.match(self.pattern, place)
            if match is None:
                raise ConfigError(f"the pattern {self.pattern!r} has only one quote of a pair; expected '' for a quote itself")
            quoted, letter = match[1], match[2]
            text = match[0] if quoted is None else (quoted.replace("''", "'") or "'")
            found.append(DateFormatPart(letter, len(match[0])) if letter else DateFormatPart("", 0, text))
            place = match.end()
        return tuple(found)

    def formatted(self, milliseconds: pa.Array) -> pa.Array:
        """Milliseconds since 1970 as texts."""
        fields = _Fields(np.asarray(milliseconds.fill_null(0)).astype(np.int64))
        parts = [
            pa.scalar(token.text) if not token.letter else _written(token, fields, is_alone=len(self.tokens) == 1)
            for token in self.tokens
        ]
        texts = pc.binary_join_element_wise(*parts, "") if parts else pa.scalar("")
        if isinstance(texts, pa.Scalar):
            texts = pa.array([texts.as_py()] * len(milliseconds), pa.string())
        return pc.if_else(milliseconds.is_valid(), texts, pa.scalar(None, pa.string()))

    def parsed(self, texts: pa.Array) -> tuple[pa.Array, pa.BooleanArray]:
        """Texts as milliseconds since 1970, and which of them the pattern does not fit; what follows it is not looked at."""
        found = pc.extract_regex(texts, self._regex)
        is_wrong = pc.and_(pc.is_valid(texts), pc.is_null(found))
        fields = {field.name: pc.struct_field(found, [field.name]) for field in found.type}
        numbers = _moments(self.tokens, fields, len(texts))
        return pa.array(numbers, pa.int64(), mask=np.asarray(pc.is_null(found))), is_wrong

    @cached_property
    def _regex(self) -> str:
        groups = []
        for place, token in enumerate(self.tokens):
            following = self.tokens[place + 1] if place + 1 < len(self.tokens) else None
            is_adjacent = following is not None and _is_number(following)
            groups.append(re.escape(token.text) if not token.letter else f"(?P<f{place}>{_read(token, is_adjacent=is_adjacent)})")
        return "(?i)^" + "".join(groups)


class _Fields:
    """The parts of moments, each worked out when it is asked for."""

    def __init__(self, milliseconds: Integers) -> None:
        self.days, self.of_day = np.divmod(milliseconds, _DAY_MS)
        self._dates = self.days.astype("M8[D]")

    @cached_property
    def months(self) -> Integers:
        return self._dates.astype("M8[M]").astype(np.int64)

    @cached_property
    def year(self) -> Integers:
        return np.asarray(self.months // 12 + 1970)

    @cached_property
    def month(self) -> Integers:
        return np.asarray(self.months % 12)

    @cached_property
    def day(self) -> Integers:
        return np.asarray((self._dates - self._dates.astype("M8[M]")).astype(np.int64) + 1)

    @cached_property
    def day_of_year(self) -> Integers:
        return np.asarray((self._dates - self._dates.astype("M8[Y]")).astype(np.int64) + 1)

    @cached_property
    def weekday(self) -> Integers:
        return np.asarray((self.days + 3) % 7)

    @cached_property
    def hour(self) -> Integers:
        return np.asarray(self.of_day // 3_600_000)


_WRITTEN: dict[str, Callable[[_Fields], Integers]] = {
    "d": lambda fields: fields.day,
    "D": lambda fields: fields.day_of_year,
    "u": lambda fields: fields.weekday + 1,
    "H": lambda fields: fields.hour,
    "k": lambda fields: np.where(fields.hour == 0, 24, fields.hour),
    "K": lambda fields: fields.hour % 12,
    "h": lambda fields: (fields.hour + 11) % 12 + 1,
    "m": lambda fields: fields.of_day // 60_000 % 60,
    "s": lambda fields: fields.of_day // 1_000 % 60,
    "S": lambda fields: fields.of_day % 1_000,
}


def _written(token: DateFormatPart, fields: _Fields, *, is_alone: bool) -> pa.Array:
    letter, count = token.letter, token.count
    if letter in "zZX":
        return pa.scalar({"z": "UTC" if count < 4 else "Coordinated Universal Time", "Z": "+0000", "X": "Z"}[letter])
    if letter == "G":
        return _chosen(["BC", "AD"], (fields.year > 0).astype(np.int64))
    if letter == "y":
        year = np.where(fields.year > 0, fields.year, 1 - fields.year)
        return _padded(year % 100, 2) if count == 2 else _padded(year, count)
    if letter in "ML":
        if count < 3:
            return _padded(fields.month + 1, count)
        return _chosen([name if count > 3 else name[:3] for name in MONTHS], fields.month)
    if letter == "E":
        return _chosen([name if count > 3 else name[:3] for name in DAYS], fields.weekday)
    if letter == "a":
        return _chosen(["AM", "PM"], fields.hour // 12)
    return _padded(_WRITTEN[letter](fields), count)


def _padded(numbers: Integers, width: int) -> pa.Array:
    return pc.utf8_lpad(pc.cast(pa.array(numbers, pa.int64()), pa.string()), width, "0")


def _chosen(names: list[str], places: Integers) -> pa.Array:
    return pa.array(names).take(pa.array(places))


def _is_number(token: DateFormatPart) -> bool:
    return bool(token.letter) and token.letter not in "GaEzZX" and not (token.letter in "ML" and token.count > 2)


def _read(token: DateFormatPart, *, is_adjacent: bool) -> str:
    """What a letter stands for in a text: a number behind which another one follows has as many digits as letters."""
    if token.letter == "G":
        return "AD|BC"
    if token.letter == "a":
        return "AM|PM"
    if token.letter in "zZX":
        return _ZONE
    if token.letter in "ML" and token.count > 2:
        return "|".join([*MONTHS, *(name[:3] for name in MONTHS)])
    if token.letter == "E":
        return "|".join([*DAYS, *(name[:3] for name in DAYS)])
    if is_adjacent:
        return f"[0-9]{{{token.count}}}"
    return r"\s*-?[0-9]+"


def _moments(tokens: tuple[DateFormatPart, ...], found: dict[str, pa.Array], count: int) -> Integers:
    """The moments of fields; those that a pattern has not are of the first of January 1970."""
    read: dict[str, Integers] = {}
    for place, token in enumerate(tokens):
        if token.letter and token.letter != "E":
            read[token.letter] = _field(token, found[f"f{place}"])
    zero = np.zeros(count, np.int64)
    year = read.get("y", zero + 1970)
    if "G" in read:
        year = np.where(read["G"] == 0, 1 - year, year)
    month = read.get("M", read.get("L", zero + 1)) - 1
    months = (year - 1970) * 12 + month
    days = months.astype("M8[M]").astype("M8[D]").astype(np.int64) + read.get("d", zero + 1) - 1
    if "D" in read and "d" not in read:
        days = ((year - 1970) * 12).astype("M8[M]").astype("M8[D]").astype(np.int64) + read["D"] - 1
    result = days * _DAY_MS + _hours(read, zero) * 3_600_000
    result = result + read.get("m", zero) * 60_000 + read.get("s", zero) * 1_000 + read.get("S", zero)
    return np.asarray(result - next((read[letter] for letter in "zZX" if letter in read), zero))


def _hours(read: dict[str, Integers], zero: Integers) -> Integers:
    if "H" in read:
        return read["H"]
    if "k" in read:
        return np.where(read["k"] == 24, 0, read["k"])
    hour = np.where(read["h"] == 12, 0, read["h"]) if "h" in read else read.get("K", zero)
    return np.asarray(hour + 12 * read.get("a", zero))


def _field(token: DateFormatPart, texts: pa.Array) -> Integers:
    if token.letter in "GaEzZX" or (token.letter in "ML" and token.count > 2):
        return np.array([0 if text is None else _meaning(token.letter, text) for text in texts.to_pylist()], np.int64)
    trimmed = pc.utf8_trim_whitespace(texts.fill_null("0"))
    numbers = np.asarray(pc.cast(pc.if_else(pc.equal(trimmed, ""), "0", trimmed), pa.int64())).astype(np.int64)
    if token.letter == "y" and token.count <= 2:
        return _in_this_century(numbers, np.asarray(pc.utf8_length(trimmed)))
    return numbers


def _in_this_century(years: Integers, digits: npt.NDArray[np.int32]) -> Integers:
    """Two digits are a year between eighty years ago and twenty years from now."""
    first = int(np.datetime64("now", "Y").astype(np.int64)) + 1970 - 80
    near = years % 100 + first - first % 100
    return np.where((digits == 2) & (years >= 0), np.where(near < first, near + 100, near), years)


def _meaning(letter: str, text: str) -> int:
    if letter == "G":
        return int(text.upper() == "AD")
    if letter == "a":
        return int(text.upper() == "PM")
    if letter in "ML":
        return next(place for place, name in enumerate(MONTHS, 1) if name[:3].lower() == text[:3].lower())
    match = re.search(r"([+-])([0-9]{1,2}):?([0-9]{2})?$", text)
    if match is None:
        return 0
    return (1 if match[1] == "+" else -1) * (int(match[2]) * 60 + int(match[3] or 0)) * 60_000
