"""Rounding: to a number of digits behind the point, or before it if that is negative."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal

import numpy as np
import pyarrow as pa

from streamkit.data_type import FLOATS, INTEGERS, decimal_of, to_arrow
from streamkit.decimals import DECIMAL_CONTEXT, decimals_of_numbers, power_of_ten, rounded
from streamkit.expressions.core.coercion import PRECISION_MAX, implicit_type
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.numbers import WIDEST, values_of, with_validity
from streamkit.expressions.core.operation import (
    Datum,
    Invocation,
    NoTranslationError,
    RuleError,
    always_nullable,
    check_count,
    operation,
)
from streamkit.expressions.core.recording import given, recorded
from streamkit.plan.expression import TypedExpression

__all__ = ["bround", "ceil", "ceiling", "floor", "round"]

_MODES = {  # of Arrow and of decimal
    "round": ("half_towards_infinity", ROUND_HALF_UP),
    "bround": ("half_to_even", ROUND_HALF_EVEN),
    "ceil": ("up", ROUND_CEILING),
    "floor": ("down", ROUND_FLOOR),
}
_EXACT = 2.0**52  # numbers below have bits behind the point
_DIGITS_MAX = 22  # powers of ten up to here are exact doubles


def _rounded_decimal(precision: int, scale: int, digits: int) -> str:
    """The type of a decimal that is rounded to so many digits."""
    whole = precision - scale + 1
    if digits < 0:
        return f"decimal({min(max(whole, -digits + 1), 38)},0)"
    kept = min(scale, digits)
    return f"decimal({min(whole + kept, 38)},{kept})"


def _digits(call: Invocation) -> int:
    """The constant second argument; 0 without it."""
    if len(call.arguments) == 1:
        return 0
    digits = call.typed(1)
    if implicit_type(digits.type, "int") is None:
        raise RuleError(f"{call.name}() takes int as argument 2; found {digits.type}")
    digits = call.cast(digits, "int")
    if digits.name != "literal" or digits.value is None:
        raise NoTranslationError("its number of digits must be a constant that is not null")
    return int(digits.value)


def _round_rule(call: Invocation) -> TypedExpression:
    """A number of the same kind."""
    check_count(call, 1, 2)
    type = implicit_type(call.types[0], "numeric")
    if type is None:
        raise RuleError(f"{call.name}() takes a number as argument 1; found {call.types[0]}")
    value, digits = call.cast(call.typed(0), type), _digits(call)
    if decimal := decimal_of(type):
        type = _rounded_decimal(*decimal, digits)
    return TypedExpression(call.name.lower(), type, (value, literal(digits, "int")))


def _ceil_rule(call: Invocation) -> TypedExpression:
    """A whole number: bigint, or a decimal of a decimal, of its own type if that has no fraction; with a number of digits always a decimal."""
    check_count(call, 1, 2)
    name = "ceil" if call.name.lower() == "ceiling" else call.name.lower()
    type = implicit_type(call.types[0], "decimal" if len(call.arguments) == 2 else "double|decimal|bigint")
    if type is None:
        raise RuleError(f"{call.name}() takes a number as argument 1; found {call.types[0]}")
    value, digits = call.cast(call.typed(0), type), _digits(call)
    decimal = decimal_of(type)
    is_whole = decimal is not None and decimal[1] == 0 and len(call.arguments) == 1
    result = type if is_whole else _rounded_decimal(*decimal, digits) if decimal else "bigint"
    return TypedExpression(name, result, (value, literal(digits, "int")))


def _may_overflow(expression: TypedExpression) -> bool:
    return expression.type not in FLOATS and (decimal_of(expression.type) is not None or expression.arguments[1].value < 0)


def round(column: Column | str, scale: int | None = None) -> Column:
    """The number rounded to `scale` digits after the decimal point (before it, if negative); a tie is rounded away from zero."""
    return recorded("round", column, *given(scale))


def bround(column: Column | str, scale: int | None = None) -> Column:
    """As `round`; a tie is rounded to the even digit."""
    return recorded("bround", column, *given(scale))


def ceil(column: Column | str, scale: int | None = None) -> Column:
    """The smallest whole number that is not below the value; with `scale`, a decimal with that many digits after the decimal point."""
    return recorded("ceil", column, *given(scale))


ceiling = ceil


def floor(column: Column | str, scale: int | None = None) -> Column:
    """The largest whole number that is not above the value; with `scale`, a decimal with that many digits after the decimal point."""
    return recorded("floor", column, *given(scale))


@operation("round", rule=_round_rule, fails=_may_overflow, nullable=always_nullable)
@operation("bround", rule=_round_rule, fails=_may_overflow, nullable=always_nullable)
@operation("ceil", rule=_ceil_rule, functions=("ceiling",), fails=_may_overflow, nullable=always_nullable)
@operation("floor", rule=_ceil_rule, fails=_may_overflow, nullable=always_nullable)
def _round(expression: TypedExpression, value: Datum, digits: pa.Scalar) -> Datum:
    """The number of the wanted type that is nearest in the direction of the function."""
    if isinstance(value, pa.Scalar):
        return _rounded(expression, pa.array([value], value.type), digits.as_py())[0]
    return _rounded(expression, value, digits.as_py())


def _rounded(expression: TypedExpression, values: pa.Array, digits: int) -> pa.Array:
    source = expression.arguments[0].type
    if decimal_of(source):
        return _of_decimals(values, digits, expression)
    if source in INTEGERS:
        return _of_integers(values, digits, expression)
    if expression.type == "bigint":
        return _to_bigint(values, np.ceil if expression.name == "ceil" else np.floor)
    return _of_floats(values, digits, _MODES[expression.name][1])


def _of_decimals(values: pa.Array, digits: int, expression: TypedExpression) -> pa.Array:
    kept = max(digits, -PRECISION_MAX - 1)  # before that digit no decimal has any
    found = rounded(values, min(kept, values.type.scale), _MODES[expression.name][0])
    return decimals_of_numbers(found, to_arrow(expression.type))


def _of_integers(values: pa.Array, digits: int, expression: TypedExpression) -> pa.Array:
    """Integers change only if digits before the point are rounded; what no longer fits raises."""
    if digits >= 0:
        return values
    wide = values.cast(pa.int64()).cast(pa.decimal256(WIDEST, 0))
    return rounded(wide, max(digits, -40), _MODES[expression.name][0]).cast(to_arrow(expression.type))


def _to_bigint(values: pa.Array, to_whole: Callable[[np.ndarray], np.ndarray]) -> pa.Array:
    """As Java: beyond the range its end, and 0 for NaN."""
    with np.errstate(invalid="ignore"):
        whole = to_whole(values_of(values).astype(np.float64))
        inside = np.abs(whole) < 2.0**63
        numbers = np.where(inside, whole, 0).astype(np.int64)
    ends = np.where(whole > 0, np.iinfo(np.int64).max, np.where(whole < 0, np.iinfo(np.int64).min, 0))
    return with_validity(np.where(inside, numbers, ends), pa.int64(), values.is_valid())


def _of_floats(values: pa.Array, digits: int, mode: str) -> pa.Array:
    """
    The double nearest to the rounded decimal text of a number, which is what Spark rounds.

    Scaling by a power of ten decides all but the numbers near a tie and those with too many digits; these are rounded as decimals.
    """
    kind = values.type.to_pandas_dtype()
    numbers = values_of(values).astype(np.float64)
    if abs(digits) > _DIGITS_MAX:
        doubtful = np.isfinite(numbers) & (numbers != 0)
        result = numbers + 0.0
    else:
        factor = 10.0 ** abs(digits)
        with np.errstate(all="ignore"):
            scaled = np.abs(numbers) * factor if digits >= 0 else np.abs(numbers) / factor
            whole = np.floor(scaled + 0.5)
            doubtful = np.isfinite(numbers) & ((scaled >= _EXACT / 8) | (np.abs(scaled - np.floor(scaled) - 0.5) < 1e-4))
            rounded = whole / factor if digits >= 0 else whole * factor
            result = np.where(np.isfinite(numbers), np.copysign(rounded, numbers) + 0.0, numbers)
    texts = values_of(values) if kind == np.float32 else numbers
    for row in np.flatnonzero(doubtful).tolist():
        result[row] = _of_text(repr(texts[row].item() if kind != np.float32 else float(str(texts[row]))), digits, mode)
    return with_validity(result.astype(kind), values.type, values.is_valid())


def _of_text(text: str, digits: int, mode: str) -> float:
    return float(Decimal(text).quantize(power_of_ten(-digits), mode, DECIMAL_CONTEXT)) + 0.0
