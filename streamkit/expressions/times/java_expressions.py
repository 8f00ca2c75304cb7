"""
What Java's DateTimeFormatter reads by a pattern, as regular expressions that never take back what they have read.

Java goes from left to right. A section between brackets is read if it fits, whatever follows it. A number takes all digits, but those that
the numbers right behind it have always, up to the next bracket: of `20210102` by `yyyyMMdd` the year has four, by `yyyy[MMdd]` eight.
A text in which a field says two things is of no pattern here; in Java a section that says the second one is left out.
Expressions of Arrow are faster, and look for any way in which a text fits, so they are for patterns for which there is only one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa

from streamkit.arrays import Mask
from streamkit.expressions.times.datetime_patterns import Field, Pattern, PatternPart, Section
from streamkit.expressions.times.field_expressions import NUMBER_DIGITS_OF_JAVA, names_of, zone_expression

_DIGITS, _SIGNS = frozenset("0123456789"), frozenset("+-")
_BEGIN_ZONES = frozenset("abcdefghijklmnopqrstuvwxyz") | _SIGNS
_OF_ZONES = _BEGIN_ZONES | _DIGITS | frozenset("/_~.:")
_END = frozenset({""})


@lru_cache(maxsize=256)
def is_clear(pattern: Pattern) -> bool:
    """Whether the first character of each part says what it is, so that texts fit in one way only."""
    return _starts(pattern.parts, _END) is not None


def java_groups(texts: pa.StringArray, pattern: Pattern) -> tuple[Mask, list[tuple[Field, pa.StringArray]]]:
    """Which texts Java reads by the pattern, and what it reads as each field; empty where a text leaves it out."""
    expression, fields = _java_expression(pattern)
    nothing = ("",) * len(fields)
    names = [f"f{number}" for number in range(len(fields))]
    found = [expression.fullmatch(text) for text in texts.to_pylist()]
    rows = [nothing if match is None else [match[name] or "" for name in names] for match in found]
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    return np.array([match is not None for match in found], bool), list(zip(fields, columns, strict=True))


@lru_cache(maxsize=256)
def _java_expression(pattern: Pattern) -> tuple[re.Pattern[str], tuple[Field, ...]]:
    fields: list[Field] = []
    numbers = iter(range(len(pattern.text) + 1))
    return re.compile(f"(?is){_expression(pattern.parts, fields, numbers)}"), tuple(fields)


def _expression(parts: tuple[PatternPart, ...], fields: list[Field], numbers: Iterator[int]) -> str:
    found = ""
    for part, reserved in zip(parts, _reserved(parts), strict=True):
        if isinstance(part, str):
            found += re.escape(part)
        elif isinstance(part, Section):
            found += _kept(f"s{next(numbers)}", f"(?:{_expression(part.parts, fields, numbers)})?")
        else:
            name = f"f{len(fields)}"
            fields.append(part)
            found += f"(?P<{name}>{_number(part, reserved)})" if part.is_number else _kept(name, _words(part))
    return found


def _kept(name: str, expression: str) -> str:
    """The expression, which keeps its first match: Python never tries another match of a lookahead."""
    return f"(?=(?P<{name}>{expression}))(?P={name})"


def _words(field: Field) -> str:
    return "|".join(map(re.escape, sorted(names_of(field), key=len, reverse=True))) or zone_expression(field)


def _reserved(parts: tuple[PatternPart, ...]) -> list[int]:
    """How many digits each number leaves to the numbers behind it: those of a fixed width, if no other one follows them at once."""
    found = [0] * len(parts)
    first = None
    for place, part in enumerate(parts):
        if not isinstance(part, Field) or not part.is_number:
            first = None
        elif first is None:
            first = place
        elif part.digits is not None:
            found[first] += part.digits
        else:
            found[first] = 0
            first = place
    return found


def _number(field: Field, reserved: int) -> str:
    if field.digits is not None:
        return f"[0-9]{{{field.digits}}}"
    least = field.count
    most = 3 if field.letter == "D" and least > 1 else NUMBER_DIGITS_OF_JAVA
    if field.letter == "D" and least > 1:
        return _all_but(reserved, least, most)
    negative = f"-(?=0*[1-9])(?:{_all_but(reserved, least, most)})"
    if field.letter != "y" or least < 4:
        return f"{negative}|{_all_but(reserved, least, most)}"
    return f"{negative}|[+](?:{_longest(reserved, least + 1, most)})|[0-9]{{{least}}}(?![0-9]{{{reserved + 1}}})"


def _all_but(reserved: int, least: int, most: int) -> str:
    """All digits but the reserved ones at the end; the number takes its least digits even where fewer are left for the next one."""
    short = f"|[0-9]{{{least}}}(?![0-9]{{{reserved}}})" if reserved else ""
    return _longest(reserved, least, most) + short


def _longest(reserved: int, least: int, most: int) -> str:
    behind = f"[0-9]{{{reserved}}}"
    return f"[0-9]{{{most}}}(?={behind})|[0-9]{{{least},{most - 1}}}(?={behind}(?![0-9]))"


def _starts(parts: tuple[PatternPart, ...], following: frozenset[str]) -> frozenset[str] | None:
    """The first characters of texts of the parts and of what follows them; None if they do not say how it is read."""
    behind = following  # what is after the numbers of a fixed width that stand there
    for part in reversed(parts):
        if isinstance(part, Section):
            within = _starts(part.parts, following)
            if within is None or within & following:
                return None
            behind = following = within | following
        elif isinstance(part, str):
            behind = following = frozenset({part[0].lower()})
        elif part.is_number:
            if part.digits is None and behind & _DIGITS:
                return None
            following = _DIGITS if part.digits is not None else _DIGITS | _SIGNS
            behind = behind if part.digits is not None else following
        elif names := names_of(part):
            behind = following = frozenset(name[0].lower() for name in names)
        elif following & _OF_ZONES:
            return None
        else:
            behind = following = _BEGIN_ZONES
    return following
