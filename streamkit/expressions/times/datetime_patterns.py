"""
Patterns of dates and times, such as yyyy-MM-dd HH:mm:ss: what Spark takes, as a tree; what it refuses, and what StreamKit cannot do, is refused.

Letters are those of Java's DateTimeFormatter, with Spark's limits on them. Patterns of Java itself, which ksqlDB takes, have more letters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ZONE_LETTERS = frozenset("VzOXxZ")
_WEEK_BASED = frozenset("YWwuec")
_REFUSED = frozenset("ABnNp")
_REFUSED_IN_PARSING = frozenset("EFqQ")
_MOST = {  # the most letters of each, as Spark takes them
    "G": 4, "y": 6, "M": 4, "L": 4, "d": 2, "D": 3, "E": 4, "F": 1, "a": 1, "h": 2, "H": 2, "k": 2, "K": 2, "m": 2, "s": 2, "S": 9, "Q": 4, "q": 4,
    "V": 2, "z": 4, "O": 4, "X": 5, "x": 5, "Z": 5,
}  # fmt: skip

_OF_JAVA = {**_MOST, "G": 5, "Q": 5, "q": 5, "u": 10, "y": 10, "E": 5, "M": 5, "L": 5, "e": 5, "c": 5, "n": 19, "A": 19, "N": 19}
_REFUSED_IN_PARSING_BY_JAVA = frozenset("FqQnANec")
_NARROW = 5  # letters of a field that is one character
_SECTIONS_MAX = 50  # within each other: each is read by a call within that of the one around it


class PatternError(ValueError):
    """A pattern that Spark refuses, or that StreamKit does not translate; the message says which part and why."""


@dataclass(frozen=True)
class Field:
    """A run of one letter."""

    letter: str
    count: int

    @property
    def text(self) -> str:
        return self.letter * self.count

    @property
    def width(self) -> int | None:
        """How many digits it has, if it has that many always (a year: from 0 to 9999)."""
        if self.letter in "MLdHhkKms" and self.count == 2:
            return 2
        return {"yyyy": 4, "DDD": 3}.get(self.text, self.count if self.letter == "S" else None)

    @property
    def is_number(self) -> bool:
        return self.letter in "ydDHhkKmsS" or (self.letter in "MLqQ" and self.count <= 2)

    @property
    def digits(self) -> int | None:
        """How many digits Java reads as this number, if it is always that many."""
        if self.letter == "S" or (self.count == 2 and self.is_number and self.letter != "D"):
            return self.count
        return 3 if self.text == "DDD" else None


@dataclass(frozen=True)
class Section:
    """Parts that a text may leave out, between brackets."""

    parts: tuple[PatternPart, ...]


PatternPart = Field | str | Section


@dataclass(frozen=True)
class Pattern:
    """A pattern as it was written, and its parts."""

    text: str
    parts: tuple[PatternPart, ...]
    is_java: bool = False

    @property
    def fields(self) -> tuple[Field, ...]:
        """All fields, those of optional sections too."""
        return tuple(_fields(self.parts))

    @property
    def has_zone(self) -> bool:
        return any(field.letter in ZONE_LETTERS for field in self.fields)

    @property
    def flat(self) -> tuple[Field | str, ...]:
        """The parts without brackets, as they are written."""
        return tuple(_flat(self.parts))

    def without(self, letters: frozenset[str]) -> Pattern:
        """The pattern without the sections that have a field of these letters: Java writes nothing for what a value does not have."""
        return replace(self, parts=_without(self.parts, letters))

    @property
    def width(self) -> int | None:
        """The number of characters of a text, if it is always the same and all ASCII."""
        total = 0
        for part in self.parts:
            size = len(part) if isinstance(part, str) and part.isascii() else part.width if isinstance(part, Field) else None
            if size is None:
                return None
            total += size
        return total


def _without(parts: tuple[PatternPart, ...], letters: frozenset[str]) -> tuple[PatternPart, ...]:
    found: list[PatternPart] = []
    for part in parts:
        if not isinstance(part, Section):
            found.append(part)
        elif not any(isinstance(one, Field) and one.letter in letters for one in part.parts):
            found.append(Section(_without(part.parts, letters)))
    return tuple(found)


def _fields(parts: tuple[PatternPart, ...]) -> list[Field]:
    return [part for part in _flat(parts) if isinstance(part, Field)]


def _flat(parts: tuple[PatternPart, ...]) -> list[Field | str]:
    found: list[Field | str] = []
    for part in parts:
        found += _flat(part.parts) if isinstance(part, Section) else [part]
    return found


@lru_cache(maxsize=256)
def parsing_pattern(text: str) -> Pattern:
    """The pattern that reads texts; PatternError if there is none."""
    pattern = _pattern(text, True)
    for field in pattern.fields:
        if field.letter == "z":
            raise PatternError(f"the format {text!r} has {field.text!r}: names of zones cannot be read; expected VV or Z")
    _check_neighbours(pattern)
    return pattern


@lru_cache(maxsize=256)
def writing_pattern(text: str) -> Pattern:
    """The pattern that writes texts; PatternError if there is none."""
    return _pattern(text, False)


@lru_cache(maxsize=256)
def java_parsing_pattern(text: str) -> Pattern:
    """The pattern with which Java reads texts; PatternError if there is none."""
    pattern = _pattern(text, True, True)
    for field in pattern.fields:
        if field.letter in _REFUSED_IN_PARSING_BY_JAVA or (
            field.letter in "GEMLz" and field.count >= (4 if field.letter == "z" else _NARROW)
        ):
            raise PatternError(f"the format {text!r} has {field.text!r}, by which texts are written and not read")
    _check_neighbours_of_java(pattern)
    return pattern


@lru_cache(maxsize=256)
def java_writing_pattern(text: str) -> Pattern:
    """The pattern with which Java writes texts; PatternError if there is none."""
    return _pattern(text, False, True)


def _pattern(text: str, parsing: bool, is_java: bool = False) -> Pattern:
    if not is_java:
        _check_letters(text, parsing)
    stack: list[list[PatternPart]] = [[]]
    place = 0
    while place < len(text):
        letter = text[place]
        if letter.isascii() and letter.isalpha():
            end = place
            while end < len(text) and text[end] == letter:
                end += 1
            stack[-1].append(_field(letter, end - place, text, is_java))
            place = end
        elif letter == "'":
            literal, place = _quoted(text, place)
            stack[-1].append(literal)
        else:
            _punctuation(letter, stack, text)
            place += 1
    while len(stack) > 1:  # Java closes what is open at the end
        _close(stack)
    return Pattern(text, tuple(stack[0]), is_java)


def _punctuation(letter: str, stack: list[list[PatternPart]], text: str) -> None:
    if letter == "[":
        if len(stack) > _SECTIONS_MAX:
            raise PatternError(
                f"the format {text[:20]!r}… has more than {_SECTIONS_MAX} brackets within each other; expected fewer"
            )
        stack.append([])
    elif letter == "]":
        if len(stack) == 1:
            raise PatternError(f"the format {text!r} has a ']' without '['")
        _close(stack)
    elif letter in "{}#":
        raise PatternError(f"the format {text!r} has {letter!r}, which is reserved; write it between single quotes")
    else:
        stack[-1].append(letter)


def _close(stack: list[list[PatternPart]]) -> None:
    inner = stack.pop()
    stack[-1].append(Section(tuple(inner)))


def _quoted(text: str, place: int) -> tuple[str, int]:
    """The text between quotes, and where it ends; two quotes are one."""
    end = place + 1
    found = ""
    while end < len(text):
        if text[end] == "'":
            if text[end + 1 : end + 2] != "'":
                return found or "'", end + 1
            end += 1
        found += text[end]
        end += 1
    raise PatternError(f"the format {text!r} has a quote that does not end")


def _check_letters(text: str, parsing: bool) -> None:
    for place, part in enumerate(text.split("'")):
        if place % 2:
            continue
        for letter in part:
            if letter in _WEEK_BASED:
                year = "; a year is yyyy, and a day of a month dd" if letter == "Y" else ""
                raise PatternError(f"the format {text!r} has {letter!r}; Spark refuses letters of weeks{year}")
            if letter in _REFUSED or (parsing and letter in _REFUSED_IN_PARSING):
                raise PatternError(f"the format {text!r} has {letter!r}, which Spark refuses{' in parsing' if parsing else ''}")


def _field(letter: str, count: int, text: str, is_java: bool) -> Field:
    most = (_OF_JAVA if is_java else _MOST).get(letter)
    field = Field(letter, count)
    if letter in "gv" or (is_java and letter in "BpYwW"):
        year = "; a year is yyyy, and a day of a month dd" if letter == "Y" else ""
        raise PatternError(f"the format {text!r} has {letter!r}, which StreamKit does not translate{year}")
    if most is None:
        raise PatternError(f"the format {text!r} has {letter!r}, which is no letter of a format; write it between single quotes")
    if count > most or (letter == "V" and count != 2) or (letter == "O" and count not in (1, 4)):
        raise PatternError(
            f"the format {text!r} has {field.text!r}: {'Java' if is_java else 'Spark'} takes {_takes(letter, most)}"
        )
    if letter == "u":
        return Field("y", count)
    return Field("E", count) if letter in "ec" and count >= 3 else field


def _takes(letter: str, most: int) -> str:
    return {"V": "VV", "O": "O or OOOO"}.get(letter, letter if most == 1 else f"{letter} to {letter * most}")


def _check_neighbours(pattern: Pattern) -> None:
    """Java reads a number of any length to its last digit, so that nothing is left for a number after it."""
    for first, second in pairwise(pattern.flat):
        if not (isinstance(first, Field) and isinstance(second, Field) and first.is_number and second.is_number):
            continue
        first_varies = first.letter == "S" and first.count > 1
        second_varies = second.width is None or second.letter in "yS"
        if first_varies or (second_varies and (first.width is None or first.letter == "y")):
            raise _unclear(pattern.text, first, second)


def _check_neighbours_of_java(pattern: Pattern) -> None:
    """The same, but that a bracket ends a number; within brackets the section fits no text, and others may."""
    for first, second in pairwise(pattern.parts):
        if not (isinstance(first, Field) and isinstance(second, Field) and first.is_number and second.is_number):
            continue
        if first.digits is None and second.digits is None:
            raise _unclear(pattern.text, first, second)


def _unclear(text: str, first: Field, second: Field) -> PatternError:
    return PatternError(
        f"the format {text!r} has {second.text!r} right after {first.text!r}: where the first number ends is not clear; "
        "put a separator between them"
    )
