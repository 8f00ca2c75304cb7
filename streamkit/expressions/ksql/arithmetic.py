"""Arithmetic as Java has it: integers wrap, doubles are infinite, and only a division of whole numbers by zero fails."""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_UP, Context, Decimal, Inexact, InvalidOperation, localcontext

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import decimal_of, to_arrow
from streamkit.decimals import DECIMAL_CONTEXT, power_of_ten
from streamkit.expressions.core.coercion import adjusted_decimal, bounded_decimal
from streamkit.expressions.core.failing_rows import check_rows
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.numbers import WIDEST, values_of, with_validity
from streamkit.expressions.core.operation import (
    Datum,
    Invocation,
    RuleError,
    counted,
    if_an_argument_is,
    operation,
)
from streamkit.expressions.core.rows import broadcast
from streamkit.expressions.ksql.operators import OperatorRule, apart, flags, operator
from streamkit.expressions.ksql.signature import as_decimal, is_number, ksql_type, widened, wider
from streamkit.plan.expression import TypedExpression
from streamkit.plan.expression_text import OF_KSQL

_UNROUNDED = Context(2 * WIDEST, ROUND_HALF_UP, MIN_EMIN, MAX_EMAX, 1, 0, [], [Inexact, InvalidOperation])
_DecimalDigits = tuple[int, int]


def _numbers(call: Invocation) -> tuple[TypedExpression, TypedExpression]:
    """Two numbers as the type that both widen to; decimals stay as they are."""
    left, right = counted(call, 2)
    if not is_number(left.type) or not is_number(right.type):
        raise apart(call, left, right, "expected two numbers; cast texts of numbers")
    if "double" in (left.type, right.type) or not (decimal_of(left.type) or decimal_of(right.type)):
        common = wider(left.type, right.type) or ""
        return widened(call, left, common), widened(call, right, common)
    return _as_decimal(call, left), _as_decimal(call, right)


def _as_decimal(call: Invocation, value: TypedExpression) -> TypedExpression:
    precision, scale = as_decimal(value.type)
    return widened(call, value, f"decimal({precision},{scale})")


def _arithmetic(name: str, decimal_type: Callable[[_DecimalDigits, _DecimalDigits], _DecimalDigits]) -> OperatorRule:
    """The rule of an operator on numbers: of decimals StreamKit's, of others ours, which wraps."""

    def rule(call: Invocation) -> TypedExpression:
        if name == "add" and set(call.types) == {"string"}:
            # as in Java, a null text is the word null there
            return call.of("concat", *(call.of("coalesce", value, literal("null", "string")) for value in call.values))
        left, right = _numbers(call)
        if (one := decimal_of(left.type)) and (other := decimal_of(right.type)):
            digits = decimal_type(one, other)
            if name in ("divide", "remainder"):
                return TypedExpression(OF_KSQL + name, adjusted_decimal(*digits), (left, right))
            # ksqlDB has types of more than 38 digits: those behind the point are kept, and what is too large for the others fails
            return TypedExpression(name, bounded_decimal(*digits), (left, right))
        return TypedExpression(OF_KSQL + name, left.type, (left, right))

    return operator(name)(rule)


def _of_sum(left: _DecimalDigits, right: _DecimalDigits) -> _DecimalDigits:
    scale = max(left[1], right[1])
    return max(left[0] - left[1], right[0] - right[1]) + scale + 1, scale


def _of_product(left: _DecimalDigits, right: _DecimalDigits) -> _DecimalDigits:
    return left[0] + right[0] + 1, left[1] + right[1]


def _of_quotient(left: _DecimalDigits, right: _DecimalDigits) -> _DecimalDigits:
    scale = max(6, left[1] + right[0] + 1)
    return left[0] - left[1] + right[1] + scale, scale


def _of_remainder(left: _DecimalDigits, right: _DecimalDigits) -> _DecimalDigits:
    scale = max(left[1], right[1])
    return min(left[0] - left[1], right[0] - right[1]) + scale, scale


for _name, _type in {
    "add": _of_sum, "subtract": _of_sum, "multiply": _of_product, "divide": _of_quotient, "remainder": _of_remainder,
}.items():  # fmt: skip
    _arithmetic(_name, _type)


@operation("ksql_add")
def _add(_: TypedExpression, left: Datum, right: Datum) -> Datum:
    return pc.add(left, right)


@operation("ksql_subtract")
def _subtract(_: TypedExpression, left: Datum, right: Datum) -> Datum:
    return pc.subtract(left, right)


@operation("ksql_multiply")
def _multiply(_: TypedExpression, left: Datum, right: Datum) -> Datum:
    return pc.multiply(left, right)


def _divides_whole(expression: TypedExpression) -> bool:
    """By zero whole numbers and decimals fail; doubles are infinite, or NaN."""
    return expression.type != "double"


@operation("ksql_divide", fails=_divides_whole, nullable=if_an_argument_is)
def _divide(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
    if expression.type == "double":
        return pc.divide(left, right)
    if digits := decimal_of(expression.type):
        unit = power_of_ten(-digits[1])
        return _of_decimals(expression, lambda one, other: (one / other).quantize(unit, None, _UNROUNDED), left, right)
    _check_divisor(left, right)
    is_minus = pc.equal(right, pa.scalar(-1, right.type))  # the least number has no negative: it wraps
    safe = pc.if_else(pc.or_(is_minus, pc.equal(right, pa.scalar(0, right.type))), pa.scalar(1, right.type), right)
    return pc.if_else(is_minus, pc.negate(left), pc.divide(left, safe))


@operation("ksql_remainder", fails=_divides_whole, nullable=if_an_argument_is)
def _remainder(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
    """With the sign of the dividend."""
    if digits := decimal_of(expression.type):
        return _of_decimals(expression, lambda one, other: _remainder_of(one, other, digits[0]), left, right)
    if expression.type != "double":
        _check_divisor(left, right)
    with np.errstate(all="ignore"):
        found = np.fmod(values_of(left), values_of(right))
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return pa.scalar(found[0], left.type)
    return with_validity(found, left.type, pc.and_(pc.is_valid(left), pc.is_valid(right)))


def _check_divisor(left: Datum, right: Datum) -> None:
    """FailingRowsError where something is divided by zero."""
    is_zero = pc.and_(pc.equal(right, pa.scalar(0, right.type)), pc.is_valid(left))
    check_rows(flags(pc.fill_null(is_zero, False)), "division by zero")


def _remainder_of(left: Decimal, right: Decimal, digits: int) -> Decimal:
    """As Java: the whole quotient, too, must have no more digits than the type, but for zeros at its end."""
    if str(int(left / right)).lstrip("-")[digits:].strip("0"):
        raise InvalidOperation
    return left % right


def _of_decimals(expression: TypedExpression, compute: Callable[[Decimal, Decimal], Decimal], left: Datum, right: Datum) -> Datum:
    """A function of two decimals, row by row; a row fails if its divisor is zero, or the result has too many digits."""
    precision, scale = decimal_of(expression.type) or (0, 0)
    counts = [len(one) for one in (left, right) if isinstance(one, pa.Array)]
    pairs = zip(*(broadcast(one, counts[0] if counts else 1).to_pylist() for one in (left, right)))
    found: list[Decimal | None] = []
    failed: list[bool] = []
    with localcontext(DECIMAL_CONTEXT, prec=2 * WIDEST):
        for one, other in pairs:
            try:
                value = None if one is None or other is None else compute(one, other)
                failed.append(value is not None and value.adjusted() >= precision - scale)
            except ArithmeticError:
                value = None
                failed.append(True)
            found.append(None if failed[-1] else value)
    check_rows(np.array(failed, bool), "a division by zero, or a quotient or remainder with more digits than its type has")
    result = pa.array(found, to_arrow(expression.type))
    return result if counts else result[0]


@operator("negate")
def _negate_rule(call: Invocation) -> TypedExpression:
    (value,) = counted(call, 1)
    if not is_number(value.type):
        raise RuleError(f"- takes a number; found {ksql_type(value.type)}")
    name = "negate" if decimal_of(value.type) else "ksql_negate"
    return TypedExpression(name, value.type, (value,))


@operation("ksql_negate")
def _negate(_: TypedExpression, value: Datum) -> Datum:
    return pc.negate(value)


@operator("positive")
def _positive_rule(call: Invocation) -> TypedExpression:
    (value,) = counted(call, 1)
    if not is_number(value.type):
        raise RuleError(f"+ takes a number; found {ksql_type(value.type)}")
    return value
