"""Arithmetic under ANSI rules: overflow and division by zero raise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal, DivisionByZero, InvalidOperation, localcontext

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import FLOATS, INTEGERS, decimal_of, to_arrow
from streamkit.decimals import DECIMAL_CONTEXT, power_of_ten, rounded
from streamkit.expressions.core.coercion import (
    PRECISION_MAX,
    adjusted_decimal,
    bounded_decimal,
    cast_to,
    decimal_for,
    is_numeric,
    string_promotion,
    tightest_common,
)
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.operation import (
    Datum,
    Invocation,
    RuleError,
    always,
    always_nullable,
    check_count,
    operation,
)
from streamkit.expressions.core.recording import recorded
from streamkit.plan.expression import ComputedConstant, TypedExpression
from streamkit.recast import recast

__all__ = ["abs", "negate", "negative", "pmod", "positive"]

WIDEST = 76  # digits of Arrow's decimal256
QUOTIENT_DIGITS = 39  # of the quotient whose remainder Spark computes
WORD_DIGITS = 10  # the least that a decimal has which is too great for 32 bits


def promoted(call: Invocation) -> tuple[TypedExpression, TypedExpression]:
    """Two operands with texts read as numbers, integers beside decimals as decimals, and else both as their tightest common type."""
    check_count(call, 2)
    left, right = call.values
    if wanted := string_promotion(left.type, right.type):
        left, right = call.cast(left, wanted), call.cast(right, wanted)
    if decimal_of(left.type) or decimal_of(right.type):
        return beside_decimal(call, left, right), beside_decimal(call, right, left)
    common = tightest_common(left.type, right.type)
    return (call.cast(left, common), call.cast(right, common)) if common else (left, right)


def beside_decimal(call: Invocation, value: TypedExpression, other: TypedExpression) -> TypedExpression:
    """An operand beside another one, either of them a decimal: a literal integer takes the digits it has, a float makes both double."""
    if value.type == "void":
        return cast_to(value, other.type)
    if value.type in INTEGERS:
        is_literal = value.name == "literal" and value.value is not None and not isinstance(value, ComputedConstant)
        if is_literal and value.type != "tinyint":  # which Spark has left out
            return call.cast(value, f"decimal({len(str(value.value).lstrip('-'))},0)")
        return call.cast(value, bounded_decimal(*decimal_for(value.type)))
    if "double" in (value.type, other.type) or "float" in (value.type, other.type):
        return call.cast(value, "double") if is_numeric(value.type) else value
    return value


def arithmetic(
    name: str, decimal_type: Callable[[tuple[int, int], tuple[int, int]], str]
) -> Callable[[Invocation], TypedExpression | None]:
    """The rule of an operator on two numbers; `decimal_type` gives the type of its result on decimals."""

    def rule(call: Invocation) -> TypedExpression | None:
        left, right = promoted(call)
        if left.type == right.type == "void":
            left, right = cast_to(left, "double"), cast_to(right, "double")
        if not is_numeric(left.type) or not is_numeric(right.type):
            raise RuleError(
                f"the types of the operands do not go together: {call.types[0]} and {call.types[1]}; {_advice(name, call)}"
            )
        digits = decimal_of(left.type), decimal_of(right.type)
        type = decimal_type(digits[0], digits[1]) if digits[0] and digits[1] else wider_of(left.type, right.type)
        return TypedExpression(name, type, (left, right))

    return rule


def _advice(name: str, call: Invocation) -> str:
    """What to do about operands that are no numbers; texts are put together otherwise than in Python."""
    if name == "add" and set(call.types) == {"string"}:
        return "F.concat(…) puts texts together, as || does in SQL; texts of numbers are cast before they are added"
    return "cast one of them"


def wider_of(left: str, right: str) -> str:
    """The type of a result that is no decimal."""
    return tightest_common(left, right) or left


def _sum_type(left: tuple[int, int], right: tuple[int, int]) -> str:
    scale = max(left[1], right[1])
    return adjusted_decimal(max(left[0] - left[1], right[0] - right[1]) + scale + 1, scale)


def _product_type(left: tuple[int, int], right: tuple[int, int]) -> str:
    return adjusted_decimal(left[0] + right[0] + 1, left[1] + right[1])


def _quotient_type(left: tuple[int, int], right: tuple[int, int]) -> str:
    scale = max(6, left[1] + right[0] + 1)
    return adjusted_decimal(left[0] - left[1] + right[1] + scale, scale)


def _remainder_type(left: tuple[int, int], right: tuple[int, int]) -> str:
    scale = max(left[1], right[1])
    return adjusted_decimal(min(left[0] - left[1], right[0] - right[1]) + scale, scale)


def _divide_rule(call: Invocation) -> TypedExpression | None:
    """Division of decimals, else of doubles."""
    left, right = promoted(call)
    if not (decimal_of(left.type) and decimal_of(right.type)):
        both = [
            value if value.type == "double" else call.cast(value, "double")
            for value in (left, right)
            if is_numeric(value.type) or value.type == "void"
        ]
        if len(both) < 2:
            raise RuleError(
                f"the types of the operands do not go together: {call.types[0]} and {call.types[1]}; cast one of them"
            )
        left, right = both
    return arithmetic("divide", _quotient_type)(replace(call, arguments=(left, right)))


def _integral_divide_rule(call: Invocation) -> TypedExpression | None:
    """Of integers, as bigint."""
    wide = [call.cast(value, "bigint") if value.type in INTEGERS[:-1] else value for value in call.values]
    typed = arithmetic("integral_divide", _sum_type)(replace(call, arguments=tuple(wide)))
    if typed and typed.type in FLOATS:
        raise RuleError(
            f"div divides integers and decimals; found {call.types[0]} and {call.types[1]}: cast them, or divide with /"
        )
    return typed and replace(typed, type="bigint")


def _signed(call: Invocation) -> TypedExpression | None:
    """A number of the same type; a text is read as a double."""
    check_count(call, 1)
    value = call.typed(0)
    if value.type in ("string", "void"):
        value = call.cast(value, "double")
    if not is_numeric(value.type):
        return None
    name = "negate" if call.name == "negative" else call.name
    return TypedExpression(name, value.type, (value,))


def _may_overflow(expression: TypedExpression) -> bool:
    return expression.type not in FLOATS


def _needs_numbers(expression: TypedExpression) -> str | None:
    for argument in expression.arguments:
        if argument.type not in (*INTEGERS, *FLOATS) and not decimal_of(argument.type):
            return f"it has no Arrow translation for {argument.type}"
    return None


@operation("add", rule=arithmetic("add", _sum_type), fails=_may_overflow, refuse=_needs_numbers)
def _add(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
    return _sum(expression, pc.add_checked, Decimal.__add__, left, right)


@operation("subtract", rule=arithmetic("subtract", _sum_type), fails=_may_overflow, refuse=_needs_numbers)
def _subtract(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
    return _sum(expression, pc.subtract_checked, Decimal.__sub__, left, right)


def _sum(
    expression: TypedExpression,
    combine: Callable[[Datum, Datum], Datum],
    combine_two: Callable[[Decimal, Decimal], Decimal],
    left: Datum,
    right: Datum,
) -> Datum:
    """The sum, exact before it is rounded: of decimals Arrow gives all digits that it may have, in 128 bits if these suffice."""
    if not decimal_of(expression.type):
        return combine(left, right)
    types = left.type, right.type
    digits = max(type.precision - type.scale for type in types) + max(type.scale for type in types) + 1
    if digits > WIDEST:
        return decimals_by_row(expression.type, combine_two, left, right)
    sides = (left, right) if digits <= PRECISION_MAX else (_exact(left), _exact(right))
    return fit_decimal(combine(*sides), expression.type)


@operation("multiply", rule=arithmetic("multiply", _product_type), fails=_may_overflow, refuse=_needs_numbers)
def _multiply(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
    if not decimal_of(expression.type):
        return pc.multiply_checked(left, right)
    if left.type.precision + right.type.precision + 1 > WIDEST:
        return decimals_by_row(expression.type, lambda one, other: one * other, left, right)
    return fit_decimal(pc.multiply_checked(_exact(left), _exact(right)), expression.type)


def _digits(expression: TypedExpression) -> tuple[int, int]:
    return decimal_of(expression.type) or (0, 0)


@operation("divide", rule=_divide_rule, nullable=always_nullable, fails=always, refuse=_needs_numbers, right_first=True)
def _divide(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
    """Of decimals by Arrow where it has digits enough, and is right (`streamkit/decimals.py`)."""
    if not decimal_of(expression.type):
        return pc.divide_checked(left, right)
    (precision, left_scale), (right_precision, right_scale), (_, scale) = map(_digits, (*expression.arguments, expression))
    # With this scale of the dividend Arrow's quotient, which it cuts off, has at least a digit more than the result, so that it can be rounded.
    wanted = max(left_scale, scale + 1 + right_scale - right_precision)
    if precision - left_scale + wanted + right_precision + 1 > WIDEST:
        return decimals_by_row(expression.type, Decimal.__truediv__, left, right)
    dividend = left.cast(pa.decimal256(precision - left_scale + wanted, wanted))
    is_long = _is_long(right) if dividend.type.precision + right_precision + 1 > PRECISION_MAX else pa.scalar(False)
    if not pc.any(is_long).as_py():
        return fit_decimal(pc.divide_checked(dividend, _exact(right)), expression.type)
    by_row = decimals_by_row(expression.type, Decimal.__truediv__, pc.if_else(is_long, left, None), right)
    short = pc.if_else(is_long, None, right)
    return pc.if_else(is_long, by_row, fit_decimal(pc.divide_checked(dividend, _exact(short)), expression.type))


def _is_long(value: Datum) -> Datum:
    """Which decimals have more digits than a word of 32 bits holds; false for null."""
    if value.type.precision < WORD_DIGITS:
        return pa.scalar(False)
    end = Decimal(2**32).scaleb(-value.type.scale, DECIMAL_CONTEXT)
    is_long = pc.or_(
        *(
            compare(value, pa.scalar(bound, value.type))
            for compare, bound in ((pc.greater_equal, end), (pc.less_equal, end.copy_negate()))
        )
    )
    return pc.fill_null(is_long, False)


def decimals_by_row(type: str, compute: Callable[[Decimal, Decimal], Decimal | int], left: Datum, right: Datum) -> Datum:
    """A function of two decimals as Python computes it, for what Arrow has no kernel or too few digits; a zero divisor raises."""
    is_constant = isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar)
    count = 1 if is_constant else max(len(one) for one in (left, right) if isinstance(one, pa.Array))
    columns = [[one.as_py()] * count if isinstance(one, pa.Scalar) else one.to_pylist() for one in (left, right)]
    with localcontext(DECIMAL_CONTEXT, prec=4 * WIDEST):
        try:
            found = [None if a is None or b is None else compute(a, b) for a, b in zip(*columns)]
        except (DivisionByZero, InvalidOperation, ZeroDivisionError):
            raise pa.ArrowInvalid("division by zero") from None
        if digits := decimal_of(type):
            unit = power_of_ten(-digits[1])
            found = [None if value is None else Decimal(value).quantize(unit, ROUND_HALF_UP) for value in found]
    result = pa.array(found, to_arrow(type))
    return result[0] if is_constant else result


def _decimal_remainder(dividend: Decimal, divisor: Decimal) -> Decimal:
    """As Java: a quotient whose first 39 digits are not all of it is an error."""
    whole = str(int((dividend / divisor).copy_abs()))
    if whole[QUOTIENT_DIGITS:].strip("0"):
        raise pa.ArrowInvalid(f"the quotient of {dividend} and {divisor} has more than {QUOTIENT_DIGITS} digits")
    return dividend % divisor


def _positive_remainder(dividend: Decimal, divisor: Decimal) -> Decimal:
    found = _decimal_remainder(dividend, divisor)
    return (found + divisor) % divisor if found < 0 else found


def _whole_quotient(dividend: Decimal, divisor: Decimal) -> int:
    """As Java narrows a decimal without a fraction to a long: what is beyond the long wraps, what is beyond the decimal is an error."""
    found = int(dividend / divisor)
    if len(str(found).lstrip("-")) > PRECISION_MAX:
        raise pa.ArrowInvalid(f"{found} has more than {PRECISION_MAX} digits")
    return wrapped_long(found)


def wrapped_long(number: int) -> int:
    """The integer of 64 bits that Java makes of a greater one."""
    return (number + 2**63) % 2**64 - 2**63


@operation(
    "remainder",
    rule=arithmetic("remainder", _remainder_type),
    fails=always,
    refuse=_needs_numbers,
    right_first=True,
    nullable=always_nullable,
)
def _remainder(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
    """The sign is that of the dividend."""
    if decimal_of(expression.type):
        return decimals_by_row(expression.type, _decimal_remainder, left, right)
    return _numpy_division(np.fmod, left, right)


def pmod(dividend: Column | str | float, divisor: Column | str | float) -> Column:
    """The remainder; if it is negative, the divisor is added."""
    return recorded("pmod", dividend, divisor)


@operation(
    "pmod",
    rule=arithmetic("pmod", _remainder_type),
    fails=always,
    refuse=_needs_numbers,
    right_first=True,
    nullable=always_nullable,
)
def _pmod(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
    """The remainder, made positive by adding the divisor where it is negative."""
    if decimal_of(expression.type):
        return decimals_by_row(expression.type, _positive_remainder, left, right)

    def positive(dividend: np.ndarray, divisor: np.ndarray) -> np.ndarray:
        remainder = np.fmod(dividend, divisor)
        return np.asarray(np.where(remainder < 0, np.fmod(remainder + divisor, divisor), remainder), remainder.dtype)

    return _numpy_division(positive, left, right)


@operation(
    "integral_divide",
    rule=_integral_divide_rule,
    functions=("div",),
    fails=always,
    refuse=_needs_numbers,
    right_first=True,
    nullable=always_nullable,
)
def _integral_divide(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
    if decimal_of(expression.arguments[0].type):
        return decimals_by_row(expression.type, _whole_quotient, left, right)
    return pc.divide_checked(left, right)


def negate(column: Column | str) -> Column:
    """The value with the opposite sign."""
    return recorded("negate", column)


negative = negate


@operation("negate", rule=_signed, functions=("negative",), fails=_may_overflow, refuse=_needs_numbers)
def _negate(_: TypedExpression, value: Datum) -> Datum:
    return pc.negate_checked(value)


def abs(column: Column | str) -> Column:
    """The absolute value."""
    return recorded("abs", column)


@operation("abs", rule=_signed, fails=_may_overflow, refuse=_needs_numbers)
def _abs(_: TypedExpression, value: Datum) -> Datum:
    return pc.abs_checked(value)


def positive(column: Column | str) -> Column:
    """The number as it is."""
    return recorded("positive", column)


@operation("positive", rule=_signed, refuse=_needs_numbers)
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


def whole_longs(numbers: np.ndarray) -> np.ndarray:
    """Floats cut off to 64-bit integers, to the ends of their range, as Java does; no NaN."""
    inside = np.abs(numbers) < 2.0**63
    whole = np.where(inside, numbers, 0).astype(np.int64)
    return np.where(inside, whole, np.where(numbers > 0, np.int64(2**63 - 1), np.int64(-(2**63))))


def fit_decimal(value: Datum, type: str) -> Datum:
    """The value at the scale of a decimal type, rounded half up; ArrowInvalid if it has too many digits."""
    target = to_arrow(type)
    if value.type.scale > target.scale:
        value = rounded(value, target.scale, "half_towards_infinity")
    return recast(value.cast(pa.decimal256(WIDEST, target.scale)), target)


def _exact(value: Datum) -> Datum:
    """In 256 bits, with only the digits it has, so that products fit."""
    return value.cast(pa.decimal256(value.type.precision, value.type.scale))
