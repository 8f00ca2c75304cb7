"""
Spark's implicit conversions under ANSI rules: which type two types have in common, and which cast an argument gets.

An expected type is the name of a data type, or of a class of them: `numeric`, `integral`, `decimal`, `timestamps` (with or without zone),
`array`, `map`, `struct`, `any`, `array<…>` over any of these; alternatives stand with `|` between them, in Spark's order. Behind `=` stands what
must be there as it is, or as null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from streamkit.data_type import (
    FLOATS,
    INTEGERS,
    array_of,
    decimal_of,
    element_of,
    entry_of,
    fields_of,
    is_nested,
    map_of,
    struct_of,
)
from streamkit.plan.expression import TypedExpression

PRECISION_MAX = 38
DAY_INTERVALS = ("interval day", "interval day to second")
MONTH_INTERVALS = ("interval year to month",)
CALENDAR_INTERVAL = "interval"
INTERVALS = (*DAY_INTERVALS, *MONTH_INTERVALS, CALENDAR_INTERVAL)  # within expressions alone: no column holds them
TIMES = ("date", "timestamp", "timestamp_ntz")
_INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_PRECEDENCE = (*INTEGERS, *FLOATS)
_DEFAULTS = {
    "numeric": "double", "integral": "int", "decimal": "decimal(38,18)", "timestamps": "timestamp", "array": "array<void>", "map": "map<void,void>",
}  # fmt: skip
Combine = Callable[[str, str], "str | None"]


def is_numeric(type: str) -> bool:
    """Whether values of the type are numbers."""
    return type in _PRECEDENCE or decimal_of(type) is not None


def is_atomic(type: str) -> bool:
    """Whether values of the type hold no others, and are not all null."""
    return not is_nested(type) and type != "void"


def decimal_for(type: str) -> tuple[int, int]:
    """Precision and scale of the decimal that holds every value of an integer type."""
    return decimal_of(type) or (_INTEGER_DIGITS[type], 0)


def bounded_decimal(precision: int, scale: int) -> str:
    """The decimal type of these digits, cut where they are too many."""
    return f"decimal({min(precision, PRECISION_MAX)},{min(scale, PRECISION_MAX)})"


def adjusted_decimal(precision: int, scale: int) -> str:
    """The decimal type of these digits; where they are too many, digits behind the point go first, down to six."""
    if precision <= PRECISION_MAX:
        return f"decimal({precision},{scale})"
    whole = precision - scale
    return f"decimal({PRECISION_MAX},{max(PRECISION_MAX - whole, min(scale, 6))})"


def wider_decimal(left: tuple[int, int], right: tuple[int, int]) -> str:
    """The decimal type that holds the values of both; where the digits are too many, those behind the point go first."""
    scale = max(left[1], right[1])
    whole = max(left[0] - left[1], right[0] - right[1])
    return bounded_decimal(whole + scale, min(scale, PRECISION_MAX - whole))


def tightest_common(left: str, right: str) -> str | None:
    """The one type that both convert to without loss; None if there is none."""
    if right in (left, "void"):
        return left
    if left == "void":
        return right
    if left in _PRECEDENCE and right in _PRECEDENCE:
        wider = max(left, right, key=_PRECEDENCE.index)
        return "double" if wider == "float" else wider
    for integer, other in ((left, right), (right, left)):
        if integer in INTEGERS and (decimal := decimal_of(other)):
            digits = decimal_for(integer)[0]
            return other if decimal[0] - decimal[1] >= digits else None
    if left in DAY_INTERVALS and right in DAY_INTERVALS:
        return "interval day to second"
    if left in TIMES and right in TIMES:
        return "timestamp" if "timestamp" in (left, right) else "timestamp_ntz"
    return _common_nested(left, right, tightest_common)


def wider_common(left: str, right: str) -> str | None:
    """The type that both convert to, at the cost of digits, or by reading texts; None if there is none."""
    return (
        tightest_common(left, right)
        or _wider_with_decimal(left, right)
        or string_promotion(left, right)
        or _common_nested(left, right, wider_common)
    )


def wider_common_without_strings(left: str, right: str) -> str | None:
    """As `wider_common`, where texts stay texts."""
    return (
        tightest_common(left, right)
        or _wider_with_decimal(left, right)
        or _common_nested(left, right, wider_common_without_strings)
    )


def common_type(types: Iterable[str], combine: Combine = wider_common) -> str | None:
    """The type that all convert to; None if there is none."""
    known: str | None = "void"
    for type in types:
        known = known and combine(known, type)
    return known


def string_promotion(left: str, right: str) -> str | None:
    """What a text is read as beside a value of another type; None if neither is a text, or both are."""
    for text, other in ((left, right), (right, left)):
        if text != "string" or other == "string" or other in INTERVALS:
            continue
        if other in INTEGERS:
            return "bigint"
        if other in FLOATS or decimal_of(other):
            return "double"
        return "string" if other == "void" else other if is_atomic(other) else None
    return None


def _wider_with_decimal(left: str, right: str) -> str | None:
    for one, other in ((left, right), (right, left)):
        if (decimal := decimal_of(one)) and (decimal_of(other) or other in INTEGERS):
            return wider_decimal(decimal, decimal_for(other))
        if decimal and other in FLOATS:
            return "double"
    return None


def _common_nested(left: str, right: str, combine: Combine) -> str | None:
    """The common type of two arrays, two maps or two structs with the same names; fields keep the names of the first."""
    if (one := element_of(left)) and (other := element_of(right)):
        element = combine(one, other)
        return element and array_of(element)
    if (first := entry_of(left)) and (second := entry_of(right)):
        key, value = combine(first[0], second[0]), combine(first[1], second[1])
        return map_of(key, value) if key and value else None
    mine, theirs = fields_of(left), fields_of(right)
    if not mine or not theirs or [name.lower() for name, _ in mine] != [name.lower() for name, _ in theirs]:
        return None
    types = [combine(one, other) for (_, one), (_, other) in zip(mine, theirs)]
    return struct_of(zip((name for name, _ in mine), filter(None, types))) if all(types) else None


@lru_cache(maxsize=4096)
def accepts(expected: str, type: str) -> bool:
    """Whether a value of the type is what is expected, without a cast."""
    if "|" in expected and not expected.startswith(("array<", "map<", "struct<")):
        return any(accepts(one, type) for one in expected.split("|"))
    if expected.startswith("array<"):
        element = element_of(type)
        return element is not None and accepts(expected[len("array<") : -1], element)
    classes = {
        "any": True,
        "numeric": is_numeric(type),
        "integral": type in INTEGERS,
        "decimal": decimal_of(type) is not None,
        "timestamps": type in ("timestamp", "timestamp_ntz"),
        "array": type.startswith("array<"),
        "map": type.startswith("map<"),
        "struct": type.startswith("struct<"),
    }
    return classes.get(expected, type == expected)


@lru_cache(maxsize=4096)
def implicit_type(type: str, expected: str) -> str | None:
    """The type that an argument is cast to where something else is expected; its own if it fits, None if there is no such cast."""
    if expected.startswith("="):
        return implicit_type(type, expected[1:]) if type == "void" or accepts(expected[1:], type) else None
    if accepts(expected, type):
        return type
    if "|" in expected and not expected.startswith("array<"):
        return next(filter(None, (implicit_type(type, one) for one in expected.split("|"))), None)
    if expected == "decimal" and is_numeric(type):
        return {"float": "decimal(14,7)", "double": "decimal(30,15)"}.get(type) or bounded_decimal(*decimal_for(type))
    if expected == "integral" and (type == "string" or type in FLOATS or decimal_of(type)):
        return None
    if expected.startswith("array<") and (element := element_of(type)):
        inner = implicit_type(element, expected[len("array<") : -1])
        return inner and array_of(inner)
    target = _DEFAULTS.get(expected, expected)
    if type == "string" and (is_atomic(target) and expected not in ("array", "map", "struct")):
        return target
    return target if is_storable(type, target) else None


def is_storable(type: str, target: str) -> bool:
    """Whether a column of the target type takes values of the type, by ANSI's rules of assignment."""
    if type in (target, "void"):
        return True
    if is_numeric(type) and is_numeric(target):
        return True
    if target == "string":
        return is_atomic(type)
    if type in TIMES and target in TIMES:
        return True
    if (one := element_of(type)) and (other := element_of(target)):
        return is_storable(one, other)
    if (first := entry_of(type)) and (second := entry_of(target)):
        return is_storable(first[0], second[0]) and is_storable(first[1], second[1])
    mine, theirs = fields_of(type), fields_of(target)
    return bool(
        mine
        and theirs
        and len(mine) == len(theirs)
        and all(name == other and is_storable(one, to) for (name, one), (other, to) in zip(mine, theirs))
    )


def cast_to(expression: TypedExpression, type: str) -> TypedExpression:
    """The expression as another type; itself if it has that type, and a null of that type if it is a bare null."""
    if expression.type == type:
        return expression
    if expression.name == "literal" and expression.type == "void":
        return TypedExpression("literal", type)
    return TypedExpression("cast", type, (expression,))
