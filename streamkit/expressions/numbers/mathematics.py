"""
Functions of real numbers: roots, powers, logarithms, angles.

They compute in doubles; results are within a unit in the last place of Java's. A logarithm is null where it does not exist, as in Spark.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
from streamkit.expressions.core.rows import Rows, broadcast
from streamkit.plan.expression import TypedExpression

_FACTORIALS = pa.array([math.factorial(n) for n in range(21)], pa.int64())
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


_REALS: dict[str, _Real] = {
    "sqrt": np.sqrt, "cbrt": np.cbrt, "exp": np.exp, "expm1": np.expm1, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "sec": _inverse(np.cos), "csc": _inverse(np.sin), "cot": _inverse(np.tan), "degrees": np.degrees,
    "radians": np.radians, "rint": np.rint, "signum": lambda values: np.where(values == 0, values, np.sign(values)),
}  # fmt: skip
_SYNONYMS = {"signum": ("sign",)}
for _name, _compute in _REALS.items():
    operation(_name, takes="double", gives="double", functions=_SYNONYMS.get(_name, ()), nullable=always_nullable)(
        _of_reals(_compute)
    )

_LOGARITHMS: dict[str, tuple[_Real, float]] = {
    "ln": (np.log, 0.0), "log2": (np.log2, 0.0), "log10": (np.log10, 0.0), "log1p": (np.log1p, -1.0),
}  # fmt: skip
for _name, (_compute, _asymptote) in _LOGARITHMS.items():
    operation(_name, takes="double", gives="double", nullable=always_nullable)(_logarithm(_compute, _asymptote))

operation("power", takes="double, double", gives="double", functions=("pow",))(_of_two_reals(_power))
operation("atan2", takes="double, double", gives="double")(_of_two_reals(lambda y, x: np.arctan2(y + 0.0, x + 0.0)))
operation("hypot", takes="double, double", gives="double")(_of_two_reals(np.hypot))


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


@function("e")
def _e_rule(call: Invocation) -> TypedExpression:
    return _constant(call, math.e)


@function("pi")
def _pi_rule(call: Invocation) -> TypedExpression:
    return _constant(call, math.pi)


def _constant(call: Invocation, value: float) -> TypedExpression:
    fitted(call, "")
    return literal(value, "double")


@operation("factorial", takes="int", gives="bigint", nullable=always_nullable)
def _factorial(_: TypedExpression, value: Datum) -> Datum:
    """Null below 0 and above 20, where it does not fit."""
    numbers = values_of(value).astype(np.int64)
    places = pa.array(numbers, mask=(numbers < 0) | (numbers > 20))
    found = _FACTORIALS.take(places)
    if isinstance(value, pa.Scalar):
        return found[0]
    return pc.if_else(value.is_valid(), found, pa.scalar(None, pa.int64()))


def _whole(numbers: np.ndarray) -> np.ndarray:
    """As Java makes a long of a double: cut towards zero, and the nearest long where it is too great."""
    top = np.iinfo(np.int64).max
    return np.where(numbers >= 2.0**63, top, np.where(numbers >= 2.0**63, 0.0, numbers).astype(np.int64))


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


@function("zeroifnull")
def _zeroifnull_rule(call: Invocation) -> TypedExpression:
    (value,) = fitted(call, "any")
    return call.of("coalesce", value, literal(0, "int"))


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
