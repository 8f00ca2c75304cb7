"""
Numbers in the formats of to_number and to_char: 0 and 9 stand for digits; . or D, and `,` or G for separators; $, S, MI and PR for signs.

A format is read once into its parts, by Spark's rules; texts and numbers then go through the parts from left to right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import groupby, pairwise

import pyarrow as pa

from streamkit.data_type import decimal_of, to_arrow
from streamkit.expressions.core.coercion import PRECISION_MAX, TIMES
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.mapping import each_value
from streamkit.expressions.core.operation import (
    Datum,
    Invocation,
    RuleError,
    always,
    always_nullable,
    check_count,
    fitted,
    function,
    operation,
)
from streamkit.expressions.core.recording import recorded
from streamkit.plan.expression import TypedExpression

__all__ = ["to_char", "to_number", "to_varchar", "try_to_number"]

_PART = re.compile(r"(?P<digits>[09]+)|(?P<point>[.D])|(?P<comma>[,G])|(?P<dollar>\$)|(?P<sign>S)|(?P<minus>MI)|(?P<brackets>PR)")
_ORDER = re.compile(r"<?[MS]?\$?d?\.?d?\$?[MS>]?")  # one letter a part
_LETTERS = {"digits": "d", "comma": "d", "point": ".", "dollar": "$", "sign": "S", "minus": "M"}
_NO_BLANKS = "\x85\xa0\u2007\u202f"  # of Python's white space, what Java does not count


@dataclass(frozen=True)
class Digits:
    """A run of 0 and 9: how many digits it has room for, and whether all must be there."""

    count: int
    is_exact: bool


@dataclass(frozen=True)
class NumberFormat:
    """
    A format: its `parts` by letter, and for each `d` among them the runs of digits that commas part.

    `<` and `>` are the brackets of PR, M a minus or nothing, S a sign.
    """

    parts: str
    groups: tuple[tuple[Digits, ...], ...]

    @property
    def sizes(self) -> tuple[int, int]:
        """How many digits there are before the point and behind it."""
        before, _, _ = self.parts.partition(".")
        counts = [sum(digits.count for digits in group) for group in self.groups]
        return sum(counts[: before.count("d")]), sum(counts[before.count("d") :])


@lru_cache(maxsize=1024)
def read_format(text: str) -> NumberFormat:
    """The parts of a format; RuleError if it is none."""
    found = _parts(text)
    letters, groups = "", []
    for letter, run in groupby(found, key=lambda part: "d" if part[0] in "d," else part[0]):
        pieces = list(run)
        if letter == "d":
            groups.append(_group(pieces, "." in letters, text))
            letters += "d"
        else:
            letters += letter * len(pieces)
    if "d" not in letters:
        raise RuleError(f"the number format {text!r} has no digits; expected 0 or 9")
    if wrong := next((letter for letter in ".SM$>" if letters.count(letter) > 1), None):
        raise RuleError(f"the number format {text!r} has {_written(wrong)} twice; expected it once")
    if "$" in letters and letters.index("$") > min(letters.index("d"), letters.find(".") % 1000):
        raise RuleError(f"the number format {text!r} has $ behind a digit; expected it before all")
    if not _ORDER.fullmatch(letters):
        raise RuleError(f"the number format {text!r} has its parts in another order than [MI|S] [$] digits [. digits] [PR|MI|S]")
    format = NumberFormat(letters, tuple(groups))
    if sum(format.sizes) > PRECISION_MAX:
        raise RuleError(f"the number format {text!r} has {sum(format.sizes)} digits; expected at most {PRECISION_MAX}")
    return format


def _written(letter: str) -> str:
    return {"M": "MI", ">": "PR"}.get(letter, letter)


def _parts(text: str) -> list[tuple[str, str]]:
    """Each part as its letter and its text, with the bracket that opens first."""
    upper, end = text.upper(), 0
    found: list[tuple[str, str]] = []
    while end < len(upper):
        match = _PART.match(upper, end)
        if match is None:
            raise RuleError(f"the number format {text!r} has {upper[end]!r}; expected 0 9 . D , G $ S MI PR")
        kind = str(match.lastgroup)
        if kind == "brackets":
            found = [("<", ""), *found, (">", "")]
        else:
            found.append(("," if kind == "comma" else _LETTERS[kind], match[0]))
        end = match.end()
    return found


def _group(pieces: list[tuple[str, str]], is_behind: bool, text: str) -> tuple[Digits, ...]:
    kinds = [kind for kind, _ in pieces]
    if "," in kinds and (is_behind or kinds[0] == "," or kinds[-1] == "," or (",", ",") in pairwise(kinds)):
        raise RuleError(f"the number format {text!r} has a comma without digits on both sides, or behind the point")
    runs = [run for kind, run in pieces if kind == "d"]
    return tuple(Digits(len(run), run[0] == "0" and not is_behind) for run in runs)


def parse_number(text: str, format: NumberFormat) -> Decimal | None:
    """The number that a text in the format is; None if it is not in the format."""
    place, behind, negative, opened = 0, False, False, False
    digits = {False: "", True: ""}
    groups = iter(format.groups)
    for part in format.parts:
        character = text[place : place + 1]
        if part == "d":
            end = _end_of_digits(text, place)
            run = text[place:end]
            if not _fits(run, next(groups)):
                return None
            digits[behind] += "".join(filter(str.isdecimal, run))
            place = end
            continue
        if part == "$" and character not in ("$", ""):
            return None
        if part == ">" and opened != (character == ">"):
            return None
        if character and character in {"S": "+-", "M": "-"}.get(part, part):
            place += 1
            behind |= part == "."
            opened |= part == "<"
            negative ^= character in "->"
    if place < len(text) or not (digits[False] or digits[True]):
        return None
    number = Decimal(f"{digits[False] or '0'}.{digits[True] or '0'}")
    return number.copy_negate() if negative else number


def _end_of_digits(text: str, place: int) -> int:
    """The place behind digits, commas and white space, which is skipped."""
    while place < len(text):
        character = text[place]
        if not (character.isdecimal() or character == "," or (character.isspace() and character not in _NO_BLANKS)):
            break
        place += 1
    return place


def _fits(run: str, group: tuple[Digits, ...]) -> bool:
    """Whether the digits between commas are as many as expected, counted from the last; leading ones may be missing."""
    sizes = [sum(map(str.isdecimal, piece)) for piece in reversed(run.split(","))]
    if len(sizes) > len(group):
        return False
    sizes += [0] * (len(group) - len(sizes))
    return all(size == digits.count if digits.is_exact else size <= digits.count for size, digits in zip(sizes, reversed(group)))


def format_number_by(number: Decimal, format: NumberFormat) -> str:
    """The number in the format; # for digits that it has no room for."""
    negative = number < 0
    whole, fraction = _digits(number, format)
    written, groups = "", iter(format.groups)
    for part in format.parts:
        if part == "d":
            group = next(groups)
            if "." in written:
                written, fraction = written + fraction[: group[0].count], fraction[group[0].count :]
            else:
                written, whole = _with_whole_digits(written, whole, group)
        elif part == ".":
            written = (written[:-1] + "0" if written.endswith(" ") else written) + "."
        elif part == "$":
            written += "$"
        elif part == "<":
            written += "<" if negative else ""
        elif part == "M" and not negative:
            written += " "
        elif part == ">" and not negative:
            written = _without_lone_point(written) + "  "
        else:
            sign = ">" if part == ">" else "-" if negative else "+"
            kept = _without_lone_point(written)
            end = len(kept.rstrip(" "))
            written = kept[:end] + sign + kept[end:]
    written = _without_lone_point(written)
    return "0" if written in ("", "+", "-") else written


def _digits(number: Decimal, format: NumberFormat) -> tuple[str, str]:
    """The digits before and behind the point, as many as the format has; spaces stand before, and # for too many."""
    before, behind = format.sizes
    whole, _, fraction = f"{number.copy_abs():f}".partition(".")
    whole, fraction = whole.lstrip("0"), fraction.rstrip("0")
    if len(whole) > before or len(fraction) > behind:
        return "#" * before, "#" * behind
    return whole.rjust(before), fraction.ljust(behind, "0")


def _with_whole_digits(written: str, whole: str, group: tuple[Digits, ...]) -> tuple[str, str]:
    """What is written with the digits of a group behind it, and the digits that are left."""
    for place, digits in enumerate(group):
        if place:
            written = written + "," if written[-1:].isdigit() else _with_space(written)
        for character in whole[: digits.count]:
            if character != " ":
                written += character
            else:
                written = written + "0" if digits.is_exact else _with_space(written)
        whole = whole[digits.count :]
    return written, whole


def _with_space(written: str) -> str:
    """A space, before the sign if that is last."""
    end = len(written.rstrip("+-<"))
    return f"{written[:end]} {written[end:]}"


def _without_lone_point(written: str) -> str:
    """A space for a point that no digit follows."""
    place = written.find(".")
    if place < 0 or written[place + 1 : place + 2] not in ("", " "):
        return written
    return f"{written[:place]} {written[place + 1 :]}"


def _format_of(call: Invocation, format: TypedExpression) -> NumberFormat | None:
    """The constant format of a call; None if it is null."""
    if format.name != "literal":
        raise RuleError(f"{call.name}() takes a constant format; found an expression")
    return None if format.value is None else read_format(str(format.value))


def _to_number_rule(call: Invocation) -> TypedExpression:
    text, format = fitted(call, "string, string")
    read = _format_of(call, format)
    if read is None:
        return literal(None, "decimal(10,0)")
    before, behind = read.sizes
    return TypedExpression(call.name.lower(), f"decimal({before + behind},{behind})", (text, format))


def to_number(text: Column | str, format: Column | str) -> Column:
    """The decimal that a text in a format such as `lit("$9,999.99")` spells; an error when it runs if a text is not in the format."""
    return recorded("to_number", text, format)


@operation("to_number", rule=_to_number_rule, fails=always)
def _to_number(expression: TypedExpression, text: Datum, format: pa.Scalar) -> Datum:
    """The number that a text in this format is; a text in another raises."""
    parsed = read_format(format.as_py())

    def read(text: str) -> Decimal:
        number = parse_number(text, parsed)
        if number is None:
            raise ValueError(f"{text!r} is not of the number format {format.as_py()!r}")
        return _scaled(number, expression)

    return each_value(read, to_arrow(expression.type), text)


def try_to_number(text: Column | str, format: Column | str) -> Column:
    """As `to_number`; null if a text is not in the format."""
    return recorded("try_to_number", text, format)


@operation("try_to_number", rule=_to_number_rule, nullable=always_nullable)
def _try_to_number(expression: TypedExpression, text: Datum, format: pa.Scalar) -> Datum:
    """As to_number; null where a text is in another format."""
    parsed = read_format(format.as_py())

    def read(text: str) -> Decimal | None:
        number = parse_number(text, parsed)
        return None if number is None else _scaled(number, expression)

    return each_value(read, to_arrow(expression.type), text)


def _scaled(number: Decimal, expression: TypedExpression) -> Decimal:
    """With as many digits behind the point as the type has; the text has no more."""
    _, scale = decimal_of(expression.type) or (0, 0)
    sign, digits, exponent = number.as_tuple()
    shift = scale + int(exponent)
    shifted = digits + (0,) * shift if shift >= 0 else digits[:shift]
    return Decimal((sign, shifted, -scale))


def to_char(value: Column | str, format: Column | str) -> Column:
    """The number in a format such as `lit("$9,999.99")`, a date or time in a pattern such as `lit("yyyy-MM")`, binary as base64, hex or utf-8."""
    return recorded("to_char", value, format)


to_varchar = to_char


@function("to_char", "to_varchar")
def _to_char_rule(call: Invocation) -> TypedExpression:
    """A number by its format, a date or time by its pattern, binary as base64, hex or utf-8."""
    check_count(call, 2)
    value, format = call.values
    if value.type in TIMES:
        return call.of("date_format", value, format)
    if value.type == "binary":
        return _binary_text(call, value, format)
    number, format = fitted(call, "decimal, string")
    if _format_of(call, format) is None:
        return literal(None, "string")
    return TypedExpression("to_char", "string", (number, format))


def _binary_text(call: Invocation, value: TypedExpression, format: TypedExpression) -> TypedExpression:
    kind = str(format.value).lower().strip() if format.name == "literal" and format.type == "string" else None
    if kind == "utf-8":
        return call.of("decode", value, format)
    if kind not in ("base64", "hex"):
        raise RuleError(f"{call.name}() of binary takes the constant 'base64', 'hex' or 'utf-8'; found {kind!r}")
    return call.of(kind, value)


@operation("to_char")
def _to_char(_: TypedExpression, number: Datum, format: pa.Scalar) -> Datum:
    read = read_format(format.as_py())
    return each_value(lambda value: format_number_by(value, read), pa.string(), number)
