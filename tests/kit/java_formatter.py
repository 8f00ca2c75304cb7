"""
Java's DateTimeFormatter, slowly: the rules of its builder and of its parsers, one class each, as java.time.format has them.

It is for patterns of the letters u, y, M, d, D, E, H, h, a, m, s and S, literals and brackets, and for years from 1 to 9999.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, field

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
RANGES = {"M": (1, 12), "d": (1, 31), "D": (1, 366), "H": (0, 24), "h": (0, 12), "a": (0, 1), "m": (0, 59), "s": (0, 59)}
UNRESOLVED = -1
Values = dict[str, int]


class BeyondError(Exception):
    """What is not compared: a year that Python's dates do not have, and a field that says two things, for which Java leaves out a section."""


@dataclass
class Literal:
    """CharLiteralPrinterParser and StringLiteralPrinterParser."""

    wanted: str

    def parse(self, values: Values, text: str, place: int) -> int:
        return place + len(self.wanted) if text[place : place + len(self.wanted)].lower() == self.wanted.lower() else -1

    def written(self, values: Values) -> str | None:
        return self.wanted


@dataclass
class Name:
    """TextPrinterParser."""

    letter: str
    names: tuple[str, ...]
    first: int

    def parse(self, values: Values, text: str, place: int) -> int:
        for number, name in enumerate(self.names, self.first):
            if text[place : place + len(name)].lower() == name.lower():
                return noted(values, self.letter, number, place + len(name))
        return -1

    def written(self, values: Values) -> str | None:
        return None if self.letter not in values else self.names[values[self.letter] - self.first]


@dataclass
class Number:
    """NumberPrinterParser, and the Reduced- and FractionPrinterParser that are made of it; sign is a SignStyle."""

    letter: str
    least: int
    most: int
    sign: str
    subsequent: int = 0

    @property
    def is_fixed(self) -> bool:
        return self.least == self.most and self.sign == "NOT_NEGATIVE"

    def parse(self, values: Values, text: str, place: int) -> int:
        sign = text[place : place + 1] if text[place : place + 1] in ("+", "-") else ""
        if sign and not (self.sign == "EXCEEDS_PAD" or (self.sign == "NORMAL" and sign == "-")):
            return -1
        begin = place + len(sign)
        there = len(re.compile("[0-9]*").match(text, begin)[0])  # type: ignore[index]
        if self.letter == "S":
            taken = min(there, self.most)
        else:
            taken = min(there, self.most + max(self.subsequent, 0))
            if self.subsequent > 0:
                taken = max(self.least, taken - self.subsequent)
        if there < self.least:
            return -1
        digits = text[begin : begin + taken]
        if sign == "-" and int(digits) == 0:
            return -1
        if self.sign == "EXCEEDS_PAD" and sign != "-" and (sign == "+") != (taken > self.least):
            return -1
        number = int(f"{'-' if sign == '-' else ''}{digits}")
        if self.letter == "S":
            number = int(digits.ljust(9, "0"))
        if self.letter in "uy" and self.most == 2:
            number += 2000
        return noted(values, self.letter, number, begin + taken)

    def written(self, values: Values) -> str | None:
        if self.letter not in values:
            return None
        number = values[self.letter]
        if self.letter == "S":
            return f"{number:09}"[: self.most]
        return str(number % 100 if self.letter in "uy" and self.most == 2 else number).zfill(self.least)


@dataclass
class Section:
    """CompositePrinterParser."""

    parts: list[Part] = field(default_factory=list)
    is_optional: bool = True
    parent: Section | None = None
    active_number: int = UNRESOLVED

    def parse(self, values: Values, text: str, place: int) -> int:
        mine, at = dict(values), place
        for part in self.parts:
            at = part.parse(mine, text, at)
            if at < 0:
                return place if self.is_optional else -1
        values.update(mine)
        return at

    def written(self, values: Values) -> str | None:
        texts = [part.written(values) for part in self.parts]
        if None in texts:
            return "" if self.is_optional else None
        return "".join(str(text) for text in texts)


Part = Literal | Name | Number | Section


def noted(values: Values, letter: str, number: int, place: int) -> int:
    """Where the field ends: `setParsedField`."""
    if values.setdefault(letter, number) != number:
        raise BeyondError
    return place


class Formatter:
    """A DateTimeFormatterBuilder, and what it builds."""

    def __init__(self, pattern: str) -> None:
        self._active = Section(is_optional=False)
        for run in re.finditer(r"([A-Za-z])\1*|.", pattern):
            self._append(run[0])
        while self._active.parent is not None:
            self._end()
        self._root = self._active

    def parsed(self, text: str) -> Values | None:
        """The fields of a text; None if it is not of the pattern."""
        values: Values = {}
        return values if self._root.parse(values, text, 0) == len(text) else None

    def written(self, values: Values) -> str | None:
        """The fields as a text; None if one is missing outside of brackets."""
        return self._root.written(values)

    def _append(self, run: str) -> None:
        letter, count = run[0], len(run)
        if letter == "[":
            self._active.active_number = UNRESOLVED
            self._active = Section(parent=self._active)
        elif letter == "]":
            self._end()
        elif not letter.isalpha():
            self._append_internal(Literal(run))
        elif letter == "a":
            self._append_internal(Name("a", ("AM", "PM"), 0))
        elif letter == "E":
            self._append_internal(Name("E", WEEKDAYS, 0))
        elif letter == "M" and count == 3:
            self._append_internal(Name("M", MONTHS, 1))
        elif letter == "S":
            self._append_value(Number(letter, count, count, "NOT_NEGATIVE"))
        elif letter in "uy" and count != 2:
            self._append_value(Number(letter, count, 19, "NORMAL" if count < 4 else "EXCEEDS_PAD"))
        elif letter == "D" and count > 1:
            self._append_value(Number(letter, count, 3, "NOT_NEGATIVE"))
        else:
            self._append_value(Number(letter, 1, 19, "NORMAL") if count == 1 else Number(letter, 2, 2, "NOT_NEGATIVE"))

    def _end(self) -> None:
        ended = self._active
        assert ended.parent is not None
        self._active = ended.parent
        if ended.parts:
            self._append_internal(ended)

    def _append_internal(self, part: Part) -> int:
        self._active.parts.append(part)
        self._active.active_number = UNRESOLVED
        return len(self._active.parts) - 1

    def _append_value(self, number: Number) -> None:
        active = self._active.active_number
        if active == UNRESOLVED:
            self._active.active_number = self._append_internal(number)
            return
        base = self._active.parts[active]
        assert isinstance(base, Number)
        place = self._append_internal(number)
        if number.is_fixed:
            base.subsequent += number.most
            number.subsequent = -1
            self._active.active_number = active
        else:
            base.subsequent = -1
            self._active.active_number = place


def moment(values: Values) -> dt.datetime | None:
    """The moment of the fields of a text, as Java resolves them and ksqlDB completes them from 1970 on; None if there is none."""
    known = dict(values)
    if any(not least <= known[letter] <= most for letter, (least, most) in RANGES.items() if letter in known):
        return None
    if "y" in known:
        if known["y"] < 1 or known.setdefault("u", known["y"]) != known["y"]:
            return None
        del known["y"]
    if not 1 <= known.get("u", 1970) <= 9999:
        raise BeyondError
    is_next = known.get("H") == 24
    if is_next and any(known.get(letter, 0) for letter in "msS"):
        return None
    hour = 0 if is_next else _hour(known)
    if hour is None or (is_next and _lacks_one_between(known)):
        return None
    date = _date(known)
    if date is None:
        return None
    is_whole = {"u", "M", "d"} <= known.keys() or {"u", "D"} <= known.keys()
    if is_next and is_whole and date == dt.date.max:
        raise BeyondError
    date += dt.timedelta(days=is_next and is_whole)
    return dt.datetime(date.year, date.month, date.day, hour, known.get("m", 0), known.get("s", 0), known.get("S", 0) // 1000)


def _lacks_one_between(known: Values) -> bool:
    return ("m" not in known and ("s" in known or "S" in known)) or ("m" in known and "s" not in known and "S" in known)


def _hour(known: Values) -> int | None:
    if "H" in known:
        return known["H"] if "a" not in known or known["H"] // 12 == known["a"] else None
    if "a" in known and not known.keys() & {"h", "m", "s", "S"}:
        return known["a"] * 12 + 6
    return known.get("h", 0) % 12 + 12 * known.get("a", 0)


def _date(known: Values) -> dt.date | None:
    year, month, day = known.get("u", 1970), known.get("M", 1), known.get("d", 1)
    if {"u", "M", "d"} <= known.keys():
        while not _is_date(year, month, day):
            day -= 1
    elif "E" in known and not {"u", "D"} <= known.keys():
        year, month, day = _by_weekday(known, year, month)
    if not _is_date(year, month, day):
        return None
    date = _by_number(known, dt.date(year, month, day)) if "D" in known else dt.date(year, month, day)
    is_whole = {"u", "M", "d"} <= known.keys() or {"u", "D"} <= known.keys()
    return None if date is not None and is_whole and known.get("E", date.weekday()) != date.weekday() else date


def _by_weekday(known: Values, year: int, month: int) -> tuple[int, int, int]:
    first = dt.date(year, month, 1)
    if first.toordinal() < 7:
        raise BeyondError
    moved = first + dt.timedelta(days=known["E"] - first.weekday())
    return moved.year, moved.month, known.get("d", moved.day)


def _by_number(known: Values, date: dt.date) -> dt.date | None:
    year = date.year
    if known["D"] > 365 + ("u" in known and _is_date(year, 2, 29)):
        return None
    by_number = dt.date(year, 1, 1) + dt.timedelta(days=known["D"] - 1)
    agrees = all(known.get(letter, found) == found for letter, found in (("M", by_number.month), ("d", by_number.day)))
    if "u" not in known:
        return by_number
    return (by_number if agrees else None) if not {"M", "d"} <= known.keys() else date if date == by_number else None


def _is_date(year: int, month: int, day: int) -> bool:
    try:
        dt.date(year, month, day)
    except ValueError:
        return False
    return True
