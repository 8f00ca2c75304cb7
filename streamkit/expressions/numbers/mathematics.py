"""
Functions of real numbers: roots, powers, logarithms, angles.

They compute in doubles; results are within a unit in the last place of Java's. A logarithm is null where it does not exist, as in Spark.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.expressions.core.column import Column
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.numbers import values_of, with_validity
from streamkit.expressions.core.operation import (
    Datum,
    Invocation,
    always_nullable,
    check_count,
    fitted,
    function,
    operation,
)
from streamkit.expressions.core.recording import given, recorded
from streamkit.expressions.core.rows import Rows, broadcast
from streamkit.plan.expression import TypedExpression

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "cos",
    "cosh",
    "cot",
    "csc",
    "degrees",
    "e",
    "exp",
    "expm1",
    "factorial",
    "hypot",
    "ln",
    "log",
    "log1p",
    "log2",
    "log10",
    "nanvl",
    "nullifzero",
    "pi",
    "pow",
    "power",
    "radians",
    "rint",
    "sec",
    "sign",
    "signum",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "toDegrees",
    "toRadians",
    "width_bucket",
    "zeroifnull",
]

_Real = Callable[[np.ndarray], np.ndarray]


def _of_reals(compute: _Real) -> Callable[[TypedExpression, Datum], Datum]:
    """The kernel of a function of one double."""

    def kernel(_: TypedExpression, value: Datum) -> Datum:
        with np.errstate(all="ignore"):
            found = compute(values_of(value))
        if isinstance(value, pa.Scalar):
            return pa.scalar(found[0], pa.float64())
        return with_validity(np.asarray(found, np.float64), pa.float64(), value.is_valid())

    return kernel


def _of_two_reals(compute: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[[TypedExpression, Datum, Datum], Datum]:
    """The kernel of a function of two doubles."""

    def kernel(_: TypedExpression, left: Datum, right: Datum) -> Datum:
        with np.errstate(all="ignore"):
            found = compute(values_of(left), values_of(right))
        if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
            return pa.scalar(found[0], pa.float64())
        return with_validity(np.asarray(found, np.float64), pa.float64(), pc.and_(pc.is_valid(left), pc.is_valid(right)))

    return kernel


def _logarithm(compute: _Real, asymptote: float) -> Callable[[TypedExpression, Datum], Datum]:
    """The kernel of a logarithm, which is null up to its asymptote."""
    real = _of_reals(compute)

    def kernel(expression: TypedExpression, value: Datum) -> Datum:
        exists = pc.or_(pc.greater(value, asymptote), pc.is_nan(value))
        return pc.if_else(exists, real(expression, value), pa.scalar(None, pa.float64()))

    return kernel


def _power(base: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """As Java: one to the power of NaN or infinity is NaN, and so is minus one to the power of infinity."""
    base, exponent = np.broadcast_arrays(base, exponent)
    found = np.power(base, exponent)
    odd = np.flatnonzero(np.isinf(base) | (base == 0))  # numpy takes a root for the exponent 0.5, which has other signs there
    for row in odd.tolist():
        found[row] = _c_power(float(base[row]), float(exponent[row]))
    undefined = (np.isnan(exponent)) | ((np.abs(base) == 1) & np.isinf(exponent)) | (np.isnan(base) & (exponent != 0))
    return np.where(undefined, np.nan, found)


def _c_power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except ValueError:  # zero to a negative power
        is_odd = exponent % 2 == 1
        return math.copysign(math.inf, base) if is_odd else math.inf


def _inverse(compute: _Real) -> _Real:
    return lambda values: 1.0 / compute(values)


def _enter_real(name: str, compute: _Real, *functions: str) -> None:
    """Enter a function of one double."""
    operation(name, takes="double", gives="double", functions=functions, nullable=always_nullable)(_of_reals(compute))


def _enter_logarithm(name: str, compute: _Real, asymptote: float) -> None:
    """Enter a logarithm, which is null up to its asymptote."""
    operation(name, takes="double", gives="double", nullable=always_nullable)(_logarithm(compute, asymptote))


def sqrt(column: Column | str) -> Column:
    """The square root; NaN of a negative number."""
    return recorded("sqrt", column)


_enter_real("sqrt", np.sqrt)


def cbrt(column: Column | str) -> Column:
    """The cube root."""
    return recorded("cbrt", column)


_enter_real("cbrt", np.cbrt)


def exp(column: Column | str) -> Column:
    """E to the power of the number."""
    return recorded("exp", column)


_enter_real("exp", np.exp)


def expm1(column: Column | str) -> Column:
    """E to the power of the number, minus one."""
    return recorded("expm1", column)


_enter_real("expm1", np.expm1)


def sin(column: Column | str) -> Column:
    """The sine of an angle in radians."""
    return recorded("sin", column)


_enter_real("sin", np.sin)


def cos(column: Column | str) -> Column:
    """The cosine of an angle in radians."""
    return recorded("cos", column)


_enter_real("cos", np.cos)


def tan(column: Column | str) -> Column:
    """The tangent of an angle in radians."""
    return recorded("tan", column)


_enter_real("tan", np.tan)


def asin(column: Column | str) -> Column:
    """The angle in radians that has this sine."""
    return recorded("asin", column)


_enter_real("asin", np.arcsin)


def acos(column: Column | str) -> Column:
    """The angle in radians that has this cosine."""
    return recorded("acos", column)


_enter_real("acos", np.arccos)


def atan(column: Column | str) -> Column:
    """The angle in radians that has this tangent."""
    return recorded("atan", column)


_enter_real("atan", np.arctan)


def sinh(column: Column | str) -> Column:
    """The hyperbolic sine."""
    return recorded("sinh", column)


_enter_real("sinh", np.sinh)


def cosh(column: Column | str) -> Column:
    """The hyperbolic cosine."""
    return recorded("cosh", column)


_enter_real("cosh", np.cosh)


def tanh(column: Column | str) -> Column:
    """The hyperbolic tangent."""
    return recorded("tanh", column)


_enter_real("tanh", np.tanh)


def asinh(column: Column | str) -> Column:
    """The inverse hyperbolic sine."""
    return recorded("asinh", column)


_enter_real("asinh", np.arcsinh)


def acosh(column: Column | str) -> Column:
    """The inverse hyperbolic cosine."""
    return recorded("acosh", column)


_enter_real("acosh", np.arccosh)


def atanh(column: Column | str) -> Column:
    """The inverse hyperbolic tangent."""
    return recorded("atanh", column)


_enter_real("atanh", np.arctanh)


def sec(column: Column | str) -> Column:
    """The secant of an angle in radians."""
    return recorded("sec", column)


_enter_real("sec", _inverse(np.cos))


def csc(column: Column | str) -> Column:
    """The cosecant of an angle in radians."""
    return recorded("csc", column)


_enter_real("csc", _inverse(np.sin))


def cot(column: Column | str) -> Column:
    """The cotangent of an angle in radians."""
    return recorded("cot", column)


_enter_real("cot", _inverse(np.tan))


def degrees(column: Column | str) -> Column:
    """Radians as degrees."""
    return recorded("degrees", column)


toDegrees = degrees


_enter_real("degrees", np.degrees)


def radians(column: Column | str) -> Column:
    """Degrees as radians."""
    return recorded("radians", column)


toRadians = radians


_enter_real("radians", np.radians)


def rint(column: Column | str) -> Column:
    """The nearest whole number as a double; if two are equally near, the even one."""
    return recorded("rint", column)


_enter_real("rint", np.rint)


def signum(column: Column | str) -> Column:
    """1.0, 0.0 or -1.0, by the sign."""
    return recorded("signum", column)


def sign(column: Column | str) -> Column:
    """1.0, 0.0 or -1.0, by the sign."""
    return recorded("sign", column)


_enter_real("signum", lambda values: np.where(values == 0, values, np.sign(values)), "sign")


def ln(column: Column | str) -> Column:
    """The natural logarithm; null where there is none."""
    return recorded("ln", column)


_enter_logarithm("ln", np.log, 0.0)


def log2(column: Column | str) -> Column:
    """The logarithm to the base of 2; null where there is none."""
    return recorded("log2", column)


_enter_logarithm("log2", np.log2, 0.0)


def log10(column: Column | str) -> Column:
    """The logarithm to the base of 10; null where there is none."""
    return recorded("log10", column)


_enter_logarithm("log10", np.log10, 0.0)


def log1p(column: Column | str) -> Column:
    """The natural logarithm of the number plus one; null where there is none."""
    return recorded("log1p", column)


_enter_logarithm("log1p", np.log1p, -1.0)


def pow(base: Column | str | float, exponent: Column | str | float) -> Column:
    """The first number to the power of the second."""
    return recorded("pow", base, exponent)


power = pow


operation("power", takes="double, double", gives="double", functions=("pow",))(_of_two_reals(_power))


def atan2(y: Column | str | float, x: Column | str | float) -> Column:
    """The angle in radians of the point (x, y)."""
    return recorded("atan2", y, x)


operation("atan2", takes="double, double", gives="double")(_of_two_reals(lambda y, x: np.arctan2(y + 0.0, x + 0.0)))


def hypot(a: Column | str | float, b: Column | str | float) -> Column:
    """The length of the diagonal of a rectangle."""
    return recorded("hypot", a, b)


operation("hypot", takes="double, double", gives="double")(_of_two_reals(np.hypot))


def log(base: Column | str | float, column: Column | str | None = None) -> Column:
    """The logarithm of the second argument to the base of the first; with one argument, the natural logarithm. Null where there is none."""
    return recorded("log", base, *given(column))


@function("log")
def _log_rule(call: Invocation) -> TypedExpression:
    """The natural logarithm of one argument; of two, that of the second to the base of the first."""
    if len(call.arguments) == 1:
        return call.of("ln", *call.values)
    return TypedExpression("log", "double", fitted(call, "double, double"))


@operation("log", nullable=always_nullable)
def _log(expression: TypedExpression, base: Datum, value: Datum) -> Datum:
    """The quotient of two natural logarithms; null unless both exist."""
    exists = pc.and_(*(pc.or_(pc.greater(one, 0.0), pc.is_nan(one)) for one in (base, value)))
    found = _of_two_reals(lambda b, x: np.log(x) / np.log(b))(expression, base, value)
    return pc.if_else(exists, found, pa.scalar(None, pa.float64()))


def e() -> Column:
    """Euler's number."""
    return recorded("e")


@function("e")
def _e_rule(call: Invocation) -> TypedExpression:
    return _constant(call, math.e)


def pi() -> Column:
    """The number pi."""
    return recorded("pi")


@function("pi")
def _pi_rule(call: Invocation) -> TypedExpression:
    return _constant(call, math.pi)


def _constant(call: Invocation, value: float) -> TypedExpression:
    fitted(call, "")
    return literal(value, "double")


@cache
def _factorials() -> pa.Array:
    """Of 0 to 20; made when needed, since Arrow loads pandas with its first array."""
    return pa.array([math.factorial(n) for n in range(21)], pa.int64())


def factorial(column: Column | str) -> Column:
    """The factorial of a whole number from 0 to 20; null for others."""
    return recorded("factorial", column)


@operation("factorial", takes="int", gives="bigint", nullable=always_nullable)
def _factorial(_: TypedExpression, value: Datum) -> Datum:
    """Null below 0 and above 20, where it does not fit."""
    numbers = values_of(value).astype(np.int64)
    places = pa.array(numbers, mask=(numbers < 0) | (numbers > 20))
    found = _factorials().take(places)
    if isinstance(value, pa.Scalar):
        return found[0]
    return pc.if_else(value.is_valid(), found, pa.scalar(None, pa.int64()))


def _whole(numbers: np.ndarray) -> np.ndarray:
    """As Java makes a long of a double: cut towards zero, and the nearest long where it is too great."""
    top = np.iinfo(np.int64).max
    return np.where(numbers >= 2.0**63, top, np.where(numbers >= 2.0**63, 0.0, numbers).astype(np.int64))


def width_bucket(value: Column | str, low: Column | str, high: Column | str, buckets: Column | str | int) -> Column:
    """The number of the bucket that the value falls into, of `buckets` equal ones between `low` and `high`; 0 before them, `buckets` + 1 after them."""
    return recorded("width_bucket", value, low, high, buckets)


@operation("width_bucket", takes="double, double, double, bigint", gives="bigint", nullable=always_nullable)
def _width_bucket(_: TypedExpression, value: Datum, low: Datum, high: Datum, buckets: Datum) -> Datum:
    """The number of the bucket, of as many of one width between two bounds; 0 before the first, one more behind the last."""
    numbers, least, most, count = (values_of(one) for one in (value, low, high, buckets))
    with np.errstate(all="ignore"):
        unsound = (count <= 0) | (count == np.iinfo(np.int64).max) | np.isnan(numbers) | ~np.isfinite(least) | ~np.isfinite(most)
        unsound |= least == most
        ascending = least < most
        distance, width = np.where(ascending, numbers - least, least - numbers), np.abs(most - least)
        before = np.where(ascending, numbers < least, numbers > least)
        behind = np.where(ascending, numbers >= most, numbers <= most)
        places = np.nan_to_num(count.astype(np.float64) * distance / width)
        found = np.where(before, 0, np.where(behind, count + 1, _whole(places) + 1))
    array = pa.array(found, mask=np.broadcast_to(unsound, found.shape))
    if not any(isinstance(one, pa.Array) for one in (value, low, high, buckets)):
        return array[0]
    valid = pc.is_valid(value)
    for one in (low, high, buckets):
        valid = pc.and_(valid, pc.is_valid(one))
    return pc.if_else(valid, array, pa.scalar(None, pa.int64()))


def nanvl(value: Column | str, other: Column | str) -> Column:
    """The second value where the first is NaN, else the first."""
    return recorded("nanvl", value, other)


@function("nanvl")
def _nanvl_rule(call: Invocation) -> TypedExpression:
    left, right = fitted(call, "double|float, double|float")
    type = "double" if "double" in (left.type, right.type) else "float"
    return TypedExpression("nanvl", type, (call.cast(left, type), call.cast(right, type)))


@operation("nanvl", lazy=True)
def _nanvl(expression: TypedExpression, rows: Rows) -> Datum:
    """The second where the first is NaN, which is not looked at elsewhere; null where the first is null."""
    first, second = expression.arguments
    left = rows.value(first)
    is_nan = pc.fill_null(pc.is_nan(left), False)
    right = rows.value_where(second, broadcast(is_nan, rows.count))
    return pc.if_else(is_nan, right, left)


def zeroifnull(column: Column | str) -> Column:
    """0 where the value is null."""
    return recorded("zeroifnull", column)


@function("zeroifnull")
def _zeroifnull_rule(call: Invocation) -> TypedExpression:
    (value,) = fitted(call, "any")
    return call.of("coalesce", value, literal(0, "int"))


def nullifzero(column: Column | str) -> Column:
    """Null where the value is 0."""
    return recorded("nullifzero", column)


@function("nullifzero")
def _nullifzero_rule(call: Invocation) -> TypedExpression:
    (value,) = fitted(call, "any")
    return call.of("nullif", value, literal(0, "int"))


@function("negative")
def _negative_rule(call: Invocation) -> TypedExpression | None:
    return None if len(call.arguments) != 1 else call.of("negate", *call.values)


@function("mod")
def _mod_rule(call: Invocation) -> TypedExpression:
    check_count(call, 2)
    return call.of("remainder", *call.values)
