"""Arithmetic under ANSI rules: overflow and division by zero raise."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import to_arrow
from streamkit.expressions.operation import Datum, always, operation
from streamkit.plan.expression import TypedExpression

INTEGERS = ("tinyint", "smallint", "int", "bigint")
FLOATS = ("float", "double")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
WIDEST = 76  # digits of Arrow's decimal256


def decimal_of(type: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type; None of another type."""
    match = _DECIMAL.fullmatch(type)
    return (int(match[1]), int(match[2])) if match else None


def _may_overflow(expression: TypedExpression) -> bool:
    return expression.type not in FLOATS


def _needs_numbers(expression: TypedExpression) -> str | None:
    for argument in expression.arguments:
        if argument.type not in (*INTEGERS, *FLOATS) and not decimal_of(argument.type):
            return f"it has no Arrow translation for {argument.type}"
    return None


@operation("add", catalyst="Add", has_mode=True, fails=_may_overflow, refuse=_needs_numbers)
def _add(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
    return _sum(expression, pc.add_checked, left, right)


@operation("subtract", catalyst="Subtract", has_mode=True, fails=_may_overflow, refuse=_needs_numbers)
def _subtract(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
    return _sum(expression, pc.subtract_checked, left, right)


def _sum(expression: TypedExpression, combine: Callable[[Datum, Datum], Datum], left: Datum, right: Datum) -> Datum:
    if not decimal_of(expression.type):
        return combine(left, right)
    return fit_decimal(combine(_wide(left), _wide(right)), expression.type)


@operation("multiply", catalyst="Multiply", has_mode=True, fails=_may_overflow, refuse=_needs_numbers)
def _multiply(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
    if not decimal_of(expression.type):
        return pc.multiply_checked(left, right)
    return fit_decimal(pc.multiply_checked(_exact(left), _exact(right)), expression.type)


def _scale_to_divide(expression: TypedExpression) -> int:
    """The dividend's scale with which Arrow's quotient has at least a digit more than the result, so that it can be rounded."""
    (_, left_scale), (right_precision, right_scale), (_, scale) = map(_digits, (*expression.arguments, expression))
    return max(left_scale, scale + 1 + right_scale - right_precision)


def _digits(expression: TypedExpression) -> tuple[int, int]:
    return decimal_of(expression.type) or (0, 0)


def _refuse_divide(expression: TypedExpression) -> str | None:
    (precision, scale), (right_precision, _) = map(_digits, expression.arguments)
    if decimal_of(expression.type) and precision - scale + _scale_to_divide(expression) + right_precision + 1 > WIDEST:
        return f"it needs more than {WIDEST} digits for {expression.arguments[0].type} / {expression.arguments[1].type}"
    return _needs_numbers(expression)


@operation("divide", catalyst="Divide", has_mode=True, fails=always, refuse=_refuse_divide, right_first=True)
def _divide(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
    if not decimal_of(expression.type):
        return pc.divide_checked(left, right)
    precision, scale = _digits(expression.arguments[0])
    wanted = _scale_to_divide(expression)
    dividend = left.cast(pa.decimal256(precision - scale + wanted, wanted))
    return fit_decimal(pc.divide_checked(dividend, _exact(right)), expression.type)


def _refuse_decimals(expression: TypedExpression) -> str | None:
    if any(decimal_of(argument.type) for argument in expression.arguments):
        return "it has no Arrow translation for decimals"
    return _needs_numbers(expression)


@operation("remainder", catalyst="Remainder", has_mode=True, fails=always, refuse=_refuse_decimals, right_first=True)
def _remainder(_: TypedExpression, left: Datum, right: Datum) -> Datum:
    """The sign is that of the dividend."""
    return _numpy_division(np.fmod, left, right)


@operation("pmod", catalyst="Pmod", has_mode=True, fails=always, refuse=_refuse_decimals, right_first=True)
def _pmod(_: TypedExpression, left: Datum, right: Datum) -> Datum:
    """The remainder, made positive by adding the divisor where it is negative."""

    def positive(dividend: np.ndarray, divisor: np.ndarray) -> np.ndarray:
        remainder = np.fmod(dividend, divisor)
        return np.asarray(np.where(remainder < 0, np.fmod(remainder + divisor, divisor), remainder), remainder.dtype)

    return _numpy_division(positive, left, right)


@operation("integral_divide", catalyst="IntegralDivide", has_mode=True, fails=always, refuse=_refuse_decimals, right_first=True)
def _integral_divide(_: TypedExpression, left: Datum, right: Datum) -> Datum:
    return pc.divide_checked(left, right)


@operation("negate", catalyst="UnaryMinus", fails=_may_overflow, refuse=_needs_numbers)
def _negate(_: TypedExpression, value: Datum) -> Datum:
    return pc.negate_checked(value)


@operation("abs", catalyst="Abs", fails=_may_overflow, refuse=_needs_numbers)
def _abs(_: TypedExpression, value: Datum) -> Datum:
    return pc.abs_checked(value)


@operation("positive", catalyst="UnaryPositive", refuse=_needs_numbers)
def _positive(_: TypedExpression, value: Datum) -> Datum:
    return value


def _numpy_division(divide: Callable[..., np.ndarray], left: Datum, right: Datum) -> Datum:
    """Apply a numpy kernel where both sides are valid; a zero divisor there raises."""
    valid = pc.and_(pc.is_valid(left), pc.is_valid(right))
    if pc.any(pc.and_(valid, pc.equal(right, pa.scalar(0, right.type)))).as_py():
        raise pa.ArrowInvalid("division by zero")
    with np.errstate(all="ignore"):
        result = divide(values_of(left), values_of(right))
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return pa.scalar(result[0], left.type)
    return with_validity(result, left.type, valid)


def values_of(value: Datum) -> np.ndarray:
    """The numbers of a fixed-width array without a copy, whatever stands in null slots; of a scalar, one."""
    if isinstance(value, pa.Scalar):
        value = pa.array([value], value.type)
    data = value.buffers()[1]
    numbers = np.frombuffer(
        data, f"i{value.type.bit_width // 8}" if not pa.types.is_floating(value.type) else value.type.to_pandas_dtype()
    )
    return numbers[value.offset : value.offset + len(value)]


def with_validity(numbers: np.ndarray, type: pa.DataType, valid: pa.BooleanArray | pa.Scalar) -> pa.Array:
    """An array of a fixed-width type from its numbers, null where `valid` is false."""
    array = pa.Array.from_buffers(type, len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])
    if isinstance(valid, pa.Scalar) or valid.false_count == 0:
        return array
    bits = pc.if_else(valid, True, False).buffers()[1] if valid.offset else valid.buffers()[1]
    return pa.Array.from_buffers(type, len(numbers), [bits, array.buffers()[1]])


def fit_decimal(value: Datum, type: str) -> Datum:
    """The value at the scale of a decimal type, rounded half up; ArrowInvalid if it has too many digits."""
    target = to_arrow(type)
    if value.type.scale > target.scale:
        wide = value.cast(pa.decimal256(WIDEST, value.type.scale))  # 9.9 rounded needs a digit more than it has
        value = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
    return value.cast(pa.decimal256(WIDEST, target.scale)).cast(target)


def _exact(value: Datum) -> Datum:
    """In 256 bits, with only the digits it has, so that products fit."""
    return value.cast(pa.decimal256(value.type.precision, value.type.scale))


def _wide(value: Datum) -> Datum:
    """In 256 bits where the sum of two may not fit into 128."""
    return _exact(value) if value.type.precision == 38 else value
