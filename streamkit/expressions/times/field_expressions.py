"""What the fields of patterns look like in texts: names, numbers and zones, and regular expressions of whole patterns for Arrow."""

from __future__ import annotations

import re
from functools import lru_cache

from streamkit.expressions.texts.patterns import quote
from streamkit.expressions.times.datetime_patterns import MONTHS, WEEKDAYS, Field, Pattern, PatternPart, Section

NUMBER_DIGITS_OF_JAVA = 18  # it takes one more, and all numbers of so many digits are beyond every range
_NUMBER_DIGITS = 9
_OFFSET_OF_ZONES = "[+-][0-9]{2}:[0-9]{2}(?::[0-9]{2})?"
_OFFSETS = {  # what each field of an offset looks like
    ("X", 1): r"[+-][0-9]{2}(?:[0-9]{2})?|Z", ("X", 2): r"[+-][0-9]{4}|Z", ("X", 3): r"[+-][0-9]{2}:[0-9]{2}|Z", ("X", 4): r"[+-][0-9]{4}(?:[0-9]{2})?|Z",
    ("X", 5): r"[+-][0-9]{2}:[0-9]{2}(?::[0-9]{2})?|Z",
    ("x", 1): r"[+]00|(?:[+](?:0[1-9]|1[0-9])|-[0-9]{2})(?:[0-9]{2})?", ("x", 2): r"[+-][0-9]{4}",
    ("x", 3): r"[+-][0-9]{2}:[0-9]{2}",
    ("x", 4): r"[+-][0-9]{4}(?:[0-9]{2})?", ("x", 5): r"[+-][0-9]{2}:[0-9]{2}(?::[0-9]{2})?", ("Z", 1): r"[+-][0-9]{4}", ("Z", 2): r"[+-][0-9]{4}",
    ("Z", 3): r"[+-][0-9]{4}", ("Z", 4): r"GMT(?:[+-][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?", ("Z", 5): r"[+-][0-9]{2}:[0-9]{2}(?::[0-9]{2})?|Z",
    ("O", 1): r"GMT(?:[+-][0-9]{1,2}(?::[0-9]{2}(?::[0-9]{2})?)?)?", ("O", 4): r"GMT(?:[+-][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?",
    ("V", 2): rf"(?:UTC|GMT|UT)?{_OFFSET_OF_ZONES}|W-SU|NZ-CHAT|[A-Za-z][A-Za-z0-9_]*(?:/[A-Za-z0-9_/+-]*)?",
}  # fmt: skip


def names_of(field: Field) -> tuple[str, ...]:
    """The words that a field is written with; none if it is a number."""
    if field.letter in "MLE" and field.count == 5:
        return tuple(name[0] for name in (WEEKDAYS if field.letter == "E" else MONTHS))
    if field.letter in "ML" and field.count >= 3:
        return MONTHS if field.count == 4 else tuple(name[:3] for name in MONTHS)
    if field.letter == "E":
        return WEEKDAYS if field.count == 4 else tuple(name[:3] for name in WEEKDAYS)
    if field.letter == "a":
        return ("AM", "PM")
    if field.letter == "G" and field.count == 5:
        return ("B", "A")
    if field.letter == "G":
        return ("Before Christ", "Anno Domini") if field.count == 4 else ("BC", "AD")
    if field.letter in "qQ" and field.count == 5:
        return ("1", "2", "3", "4")
    if field.letter in "qQ" and field.count == 3:
        return ("Q1", "Q2", "Q3", "Q4")
    if field.letter in "qQ" and field.count == 4:
        return ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
    return ()


def is_zone(field: Field) -> bool:
    """Whether it is an offset or the name of a zone."""
    return (field.letter, field.count) in _OFFSETS or field.letter == "z"


def zone_expression(field: Field) -> str:
    """What an offset or the name of a zone looks like."""
    return _OFFSETS["V", 2] if field.letter == "z" else _OFFSETS[field.letter, field.count]


@lru_cache(maxsize=256)
def regular_expression(pattern: Pattern) -> tuple[str, tuple[tuple[str, Field], ...]]:
    """A regular expression for texts of the pattern, and the field of each of its groups."""
    groups: list[tuple[str, Field]] = []
    return f"(?is)^{_expression(pattern.parts, groups, pattern.is_java)}$", tuple(groups)


def _expression(parts: tuple[PatternPart, ...], groups: list[tuple[str, Field]], is_java: bool) -> str:
    found = ""
    for part in parts:
        if isinstance(part, str):
            found += quote(part)
        elif isinstance(part, Section):
            found += f"(?:{_expression(part.parts, groups, is_java)})?"
        else:
            name = f"f{len(groups)}"
            groups.append((name, part))
            found += f"(?P<{name}>{_field_expression(part, is_java)})"
    return found


def _field_expression(field: Field, is_java: bool) -> str:
    if names := names_of(field):
        return "|".join(map(re.escape, names))
    if is_zone(field):
        return zone_expression(field)
    most = NUMBER_DIGITS_OF_JAVA if is_java else _NUMBER_DIGITS
    if field.letter == "S":
        return f"[0-9]{{{'' if is_java else '1,'}{field.count}}}"
    if field.letter == "y":
        if field.count == 2:
            return "[0-9]{2}"
        least = field.count
        return (
            f"[0-9]{{{least}}}|[+][0-9]{{{least + 1},{most}}}|-[0-9]{{{least},{most}}}"
            if least >= 4
            else f"-?[0-9]{{{least},{most}}}"
        )
    if field.letter == "D" and field.count > 1:
        return f"[0-9]{{{field.count},3}}"
    return f"[0-9]{{1,{most}}}" if field.count == 1 else "[0-9]{2}"
