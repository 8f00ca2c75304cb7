"""
Texts by a format as Java's Formatter reads it: format_string, printf, and format_number with its separators of thousands.

A format is constant, so what it has that is not evaluated is refused when the program is read. A null is written as `null`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from functools import lru_cache, partial
from math import isnan
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import FLOATS, INTEGERS, decimal_of, is_nested
from streamkit.decimals import DECIMAL_CONTEXT, power_of_ten
from streamkit.expressions.casts.casts import family_of
from streamkit.expressions.casts.writing import WRITERS
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.mapping import each_constant, each_value
from streamkit.expressions.core.operation import (
    Datum,
    Invocation,
    NoTranslationError,
    RuleError,
    always_nullable,
    fitted,
    operation,
)
from streamkit.expressions.core.recording import constant, recorded
from streamkit.expressions.core.sizes import check_joined
from streamkit.plan.expression import TypedExpression

__all__ = ["format_number", "format_string", "printf"]

_SPECIFIER = re.compile(r"%(?:(\d+)\$|(<))?([-#+ 0,(]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")
_FLAGS = {"s": "-", "b": "-", "c": "-", "d": "-+ 0,(", "x": "-#0", "o": "-#0", "f": "-+ 0,(", "e": "-+ 0("}
_LIKE = {"S": "s", "B": "b", "C": "c", "X": "x", "E": "e"}
_NUMBERS = {"d": INTEGERS, "x": INTEGERS, "o": INTEGERS, "f": FLOATS, "e": FLOATS, "c": ("tinyint", "smallint", "int")}
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_WIDTH_MAX = 10_000
PLACES_MAX = 800  # behind a point; a double has no digits beyond
_DIGITS_MAX = 15  # a double has them all, so that its text and its value round alike
WriteValue = Callable[[Any], str]


@dataclass(frozen=True)
class Specifier:
    """One `%…` of a format: which argument, counted from 0, and how it is written."""

    argument: int
    flags: str
    width: int
    precision: int | None
    conversion: str

    @property
    def kind(self) -> str:
        """The conversion in lower case."""
        return _LIKE.get(self.conversion, self.conversion)


@lru_cache(maxsize=1024)
def read_format(text: str) -> tuple[str | Specifier, ...]:
    """Texts and specifiers in turn; NoTranslationError names what is not evaluated, RuleError what Java does not take."""
    parts: list[str | Specifier] = []
    end, ordinary, last = 0, 0, -1
    while (place := text.find("%", end)) >= 0:
        parts.append(text[end:place])
        match = _SPECIFIER.match(text, place)
        if match is None:
            raise RuleError(
                f"the format {text!r} has a % that starts no conversion; expected something like %s, %d, %.2f, or %% for itself"
            )
        end = match.end()
        index, again, _, _, _, conversion = match.groups()
        if conversion in "n%":
            if match[0] not in ("%n", "%%"):
                raise NoTranslationError(f"{match[0]!r} in a format is not evaluated; expected {'%' + conversion!r}")
            parts.append("\n" if conversion == "n" else "%")
            continue
        last = last if again else int(index) - 1 if index else ordinary
        ordinary += not (again or index)
        if last < 0:
            raise RuleError(f"{match[0]!r} in the format {text!r} names no argument; they are counted from 1")
        parts.append(_specifier(match, last))
    parts.append(text[end:])
    return tuple(part for part in parts if part != "")


def _specifier(match: re.Match[str], argument: int) -> Specifier:
    _, _, flags, width, precision, conversion = match.groups()
    found = Specifier(argument, flags, int(width or 0), None if precision is None else int(precision), conversion)
    if found.kind not in _FLAGS:
        raise NoTranslationError(
            f"{match[0]!r} in a format is not evaluated; expected one of {', '.join('%' + kind for kind in _FLAGS)}"
        )
    if wrong := [flag for flag in flags if flag not in _FLAGS[found.kind]]:
        raise NoTranslationError(f"the flag {wrong[0]!r} of {match[0]!r} in a format is not evaluated")
    twice = len(set(flags)) < len(flags)
    if twice or {"-", "0"} <= set(flags) or {"+", " "} <= set(flags) or ({"-", "0"} & set(flags) and not width):
        raise RuleError(f"{match[0]!r} in a format has flags that do not go together, or - or 0 without a width")
    if found.precision is not None and found.kind in "cdxo":
        raise RuleError(f"{match[0]!r} in a format has a precision; expected none with %{conversion}")
    if max(found.width, found.precision or 0) > _WIDTH_MAX or (found.kind in "fe" and (found.precision or 0) > 1000):
        raise NoTranslationError(f"{match[0]!r} in a format asks for more characters than are evaluated")
    return found


def _format_rule(call: Invocation) -> TypedExpression:
    if not call.arguments:
        raise RuleError(f"{call.name}() takes a format and values; found nothing")
    format, *values = fitted(call, "string, any*")
    if format.name != "literal":
        raise NoTranslationError("its format must be a constant")
    if format.value is None:
        return format  # Spark looks at no value then
    for part in read_format(format.value):
        if isinstance(part, Specifier):
            _check(call, part, [value.type for value in values])
    return TypedExpression("format_string", "string", (format, *values))


def _check(call: Invocation, part: Specifier, types: list[str]) -> None:
    """RuleError where Spark would fail in every row."""
    if part.argument >= len(types):
        raise RuleError(f"the format of {call.name}() reads argument {part.argument + 1}; found {len(types)}")
    type, wanted = types[part.argument], _NUMBERS.get(part.kind)
    if wanted and type not in (*wanted, "void"):
        raise RuleError(f"%{part.conversion} in a format takes {' or '.join(wanted)}; found {type}; cast it, or write it with %s")
    if part.kind == "s" and (is_nested(type) or family_of(type) not in (*WRITERS, "string", "integer", "void")):
        raise NoTranslationError(f"%s of {type} in a format is not evaluated; cast it to string")
    if part.kind == "s" and type in ("date", "timestamp", "timestamp_ntz"):
        raise NoTranslationError(f"%s of {type} in a format writes a number in Spark; write it with date_format() first")


def format_string(format: str, *columns: Column | str) -> Column:
    """The values in a format of Java's Formatter, such as `%s has %,.2f`; null is written as null."""
    return recorded("format_string", constant(format), *columns)


def printf(format: Column | str, *columns: Column | str) -> Column:
    """As `format_string`, with the format as `lit("…")`."""
    return recorded("printf", format, *columns)


@operation(
    "format_string",
    rule=_format_rule,
    functions=("printf",),
    strict=False,
    nullable=lambda _, nullable: nullable[0],
)
def _format_string(expression: TypedExpression, format: pa.Scalar, *values: Datum) -> Datum:
    if not format.is_valid:
        return format
    types = [argument.type for argument in expression.arguments[1:]]
    parts = [
        pa.scalar(part) if isinstance(part, str) else _column(part, values[part.argument], types[part.argument])
        for part in read_format(format.as_py())
    ]
    check_joined(parts, next((len(part) for part in parts if isinstance(part, pa.Array)), 1))
    return pc.binary_join_element_wise(*parts, "") if parts else pa.scalar("")


def _column(part: Specifier, value: Datum, type: str) -> Datum:
    """The texts of one specifier."""
    if part.kind == "s":
        texts = _as_texts(value, type)
        if not part.width and part.precision is None and part.conversion == "s":
            return pc.coalesce(texts, "null")
        return _with_null(part, each_value(partial(_write_text, part), pa.string(), texts))
    if part.kind == "d" and not part.width and not part.flags:
        return pc.coalesce(value.cast(pa.string()), "null")
    if part.kind in "fe" and type in FLOATS:
        value = value.cast(pa.float64())
    return _with_null(part, each_value(_writer(part, type), pa.string(), value))


def _with_null(part: Specifier, texts: Datum) -> Datum:
    """What stands for null: as text, cut and filled up as one."""
    plain = "false" if part.kind == "b" else "null"
    return pc.coalesce(texts.cast(pa.string()), _write_text(part, plain))


def _as_texts(value: Datum, type: str) -> Datum:
    """What Java's toString gives."""
    if type in ("string", "void") or type in INTEGERS:
        return value.cast(pa.string())
    if decimal_of(type):
        return each_value(str, pa.string(), value)
    write = WRITERS[family_of(type)]
    return write(pa.array([value.as_py()], value.type))[0] if isinstance(value, pa.Scalar) else write(value)


def _writer(part: Specifier, type: str) -> WriteValue:
    """The function that writes one value that is not null."""
    if part.kind == "b":
        return lambda value: _write_text(part, str(value).lower() if isinstance(value, bool) else "true")
    if part.kind == "c":
        return partial(_write_character, part)
    if part.kind in "xo":
        return partial(_write_bits, part, _BITS.get(type, 64))
    return partial(_write_number, part)


def _write_text(part: Specifier, text: str) -> str:
    """Cut and filled up, by UTF-16 units as in Java; half of a character is written as ?."""
    if part.precision is not None and len(text) * 2 > part.precision:
        units = text.encode("utf-16-le", "surrogatepass")[: 2 * part.precision]
        text = units.decode("utf-16-le", "surrogatepass").encode("utf-8", "replace").decode()
    return _filled(part, text.upper() if part.conversion.isupper() else text)


def _filled(part: Specifier, text: str) -> str:
    missing = part.width - (len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2)
    return text + " " * missing if "-" in part.flags else " " * missing + text


def _write_character(part: Specifier, code: int) -> str:
    if not 0 <= code <= 0x10FFFF:
        raise ValueError(f"{code} is the number of no character")
    return _write_text(part, "?" if 0xD800 <= code < 0xE000 else chr(code))


def _write_bits(part: Specifier, bits: int, value: int) -> str:
    """Hexadecimal or octal; a negative number by its bits."""
    digits = f"{value % (1 << bits):{part.kind}}"
    prefix = {"x": "0x", "o": "0"}[part.kind] if "#" in part.flags else ""
    zeros = "0" * (part.width - len(prefix) - len(digits)) if "0" in part.flags else ""
    text = prefix + zeros + digits
    return _filled(part, text.upper() if part.conversion.isupper() else text)


def _write_number(part: Specifier, value: float) -> str:
    """Sign, digits and what fills them up."""
    negative = value < 0 or (value == 0 and str(value).startswith("-"))
    lead = ("(" if "(" in part.flags else "-") if negative else "+" if "+" in part.flags else " " if " " in part.flags else ""
    tail = ")" if lead == "(" else ""
    if isnan(value):
        return _filled(part, "NAN" if part.conversion.isupper() else "NaN")
    if part.kind != "d" and value in (float("inf"), float("-inf")):
        text = f"{lead}Infinity{tail}"
        return _filled(part, text.upper() if part.conversion.isupper() else text)
    digits = _magnitude(part, value)
    zeros = "0" * (part.width - len(lead) - len(tail) - len(digits)) if "0" in part.flags else ""
    text = f"{lead}{zeros}{digits}{tail}"
    return _filled(part, text.upper() if part.conversion.isupper() else text)


def _magnitude(part: Specifier, value: float) -> str:
    comma = "," if "," in part.flags else ""
    if part.kind == "d":
        return f"{abs(value):{comma}}"
    places = 6 if part.precision is None else part.precision
    number = _shortest(abs(value))
    if part.kind == "f":
        return f"{number.quantize(power_of_ten(-places), ROUND_HALF_UP, DECIMAL_CONTEXT):{comma}f}"
    return _scientific(number, places)


def _shortest(value: float) -> Decimal:
    """The digits that tell the double from others; two at least, and then the closest two, as in Java."""
    closest = f"{value:.1e}"
    return Decimal(closest if float(closest) == value else repr(value))


def _scientific(number: Decimal, places: int) -> str:
    """One digit before the point, and two at least of the exponent."""
    exponent = number.adjusted() if number else 0
    digits = number.scaleb(-exponent, DECIMAL_CONTEXT).quantize(power_of_ten(-places), ROUND_HALF_UP, DECIMAL_CONTEXT)
    if digits >= 10:
        exponent += 1
        digits = digits.scaleb(-1, DECIMAL_CONTEXT).quantize(power_of_ten(-places), ROUND_HALF_UP, DECIMAL_CONTEXT)
    return f"{digits:f}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _format_number_rule(call: Invocation) -> TypedExpression:
    if call.types[:1] == ("string",):
        raise RuleError("format_number() takes a number; found string; cast it")
    if len(call.arguments) == 2 and call.types[1] == "string":
        raise NoTranslationError("its format as a text is not evaluated; expected the number of places behind the point")
    number, places = fitted(call, "numeric, int")
    return TypedExpression("format_number", "string", (number, places))


def _format_number_fails(expression: TypedExpression) -> bool:
    places = expression.arguments[1]
    return places.name != "literal" or (places.value or 0) > PLACES_MAX


def format_number(number: Column | str, places: int) -> Column:
    """The number as 1,234,567.89, rounded half to even to that many digits after the decimal point."""
    return recorded("format_number", number, constant(places))


@operation("format_number", rule=_format_number_rule, fails=_format_number_fails, nullable=always_nullable)
def _format_number(_: TypedExpression, number: Datum, places: Datum) -> Datum:
    """With separators of thousands, rounded to places behind the point; null for fewer than none."""
    if pa.types.is_floating(number.type):
        number = number.cast(pa.float64())
    return each_constant(_with_places, pa.string(), (number, places), (1,))


def _with_places(number: Datum, places: pa.Scalar) -> Datum:
    count = places.as_py()
    if count > PLACES_MAX:
        raise pa.ArrowInvalid(f"found {count} places behind the point; expected at most {PLACES_MAX}")
    if count < 0:
        return pa.nulls(len(number), pa.string()) if isinstance(number, pa.Array) else pa.scalar(None, pa.string())
    write = _grouped_float if pa.types.is_floating(number.type) else _grouped
    return each_value(lambda value: write(value, count), pa.string(), number)


def _grouped(value: int | Decimal, places: int) -> str:
    if isinstance(value, int):
        return f"{value:,}" + ("." + "0" * places if places else "")
    rounded = value.quantize(power_of_ten(-places), ROUND_HALF_EVEN, DECIMAL_CONTEXT)
    text = f"{rounded:,f}"
    return "-" + text if value < 0 and not text.startswith("-") else text


def _grouped_float(value: float, places: int) -> str:
    """Rounded half to even by the exact value, but with no digits beyond those that tell the double from others."""
    if isnan(value):
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "\u221e" if value > 0 else "-\u221e"
    if abs(value) < 10.0 ** (_DIGITS_MAX - places):
        return f"{value:,.{places}f}"
    return f"{Decimal(repr(value)).quantize(power_of_ten(-places), ROUND_HALF_EVEN, DECIMAL_CONTEXT):,f}"
