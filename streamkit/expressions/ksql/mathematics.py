"""Functions of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_DOWN, ROUND_HALF_UP, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.conditionals import if_else
from streamkit.data_type import decimal_of, is_nested, to_arrow
from streamkit.decimals import DECIMAL_CONTEXT, cut_off, power_of_ten, rounded
from streamkit.expressions.core.elements import on_columns, validity
from streamkit.expressions.core.failing_rows import check_rows
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.numbers import values_of, whole_longs, with_validity
from streamkit.expressions.core.operation import Datum, Invocation, RuleError, always, same_as
from streamkit.expressions.ksql import strict_math
from streamkit.expressions.ksql.casts import fitting
from streamkit.expressions.ksql.function import formula, kernel
from streamkit.expressions.ksql.one_by_one import one_by_one
from streamkit.expressions.ksql.signature import ksql_type
from streamkit.plan.expression import TypedExpression

_NUMBERS = ("int -> int", "bigint -> bigint", "decimal -> decimal", "double -> double")
_BLANKS = "".join(map(chr, range(0x21)))
_EARTH_RADIUS = {"km": 6371.0, "miles": 3959.0}
_UNITS = {
    **dict.fromkeys(("km", "kilometer", "kilometers", "kilometre", "kilometres"), "km"),
    **dict.fromkeys(("mi", "mile", "miles"), "miles"),
}

PLACES_MAX = 400  # behind the point of a double; it has none behind them


@kernel("abs", *_NUMBERS, gives=same_as(0))
def _abs(_: TypedExpression, number: Datum) -> Datum:
    """The number without its sign; the least whole number stays as it is."""
    return pc.abs(number)


def _of_doubles(name: str, effect: str, compute: Callable[..., np.ndarray], count: int = 1) -> None:
    """Enter a function of doubles."""

    @on_columns
    def computed(_: TypedExpression, *values: pa.Array) -> pa.Array:
        with np.errstate(all="ignore"):
            found = compute(*map(values_of, values))
        valid = values[0].is_valid() if count == 1 else pc.and_(values[0].is_valid(), values[1].is_valid())
        return with_validity(np.asarray(found, np.float64), pa.float64(), valid)

    computed.__doc__ = effect
    kernel(name, f"{', '.join(['double'] * count)} -> double")(computed)


def _logarithm(base: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """NaN for a base that is 1, or not above 0."""
    found = np.log(numbers) / np.log(base)
    return np.where((base <= 0) | (base == 1), np.nan, found)


def _power(bases: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """As Java, which has no power of 1 and -1 where the exponent is not finite; C has one."""
    return np.where((np.abs(bases) == 1) & ~np.isfinite(exponents), np.nan, np.power(bases, exponents))


for _name, _effect, _compute in (
    ("acos", "The angle with this cosine, in radians; NaN if there is none.", strict_math.acos),
    ("asin", "The angle with this sine, in radians; NaN if there is none.", strict_math.asin),
    ("atan", "The angle with this tangent, in radians.", strict_math.atan),
    ("cbrt", "The cube root.", strict_math.cbrt),
    ("cos", "The cosine of an angle in radians.", np.cos),
    ("cosh", "The hyperbolic cosine.", strict_math.cosh),
    ("cot", "The cotangent of an angle in radians.", lambda numbers: 1.0 / np.tan(numbers)),
    ("degrees", "An angle in radians as one in degrees.", np.degrees),
    ("exp", "The power of e with this exponent.", np.exp),
    ("ln", "The natural logarithm; NaN of a negative number.", np.log),
    ("log", "The natural logarithm, as LN; with two numbers the logarithm of the second with the first as base.", np.log),
    ("radians", "An angle in degrees as one in radians.", np.radians),
    ("sin", "The sine of an angle in radians.", np.sin),
    ("sinh", "The hyperbolic sine.", strict_math.sinh),
    ("sqrt", "The square root; NaN of a negative number.", np.sqrt),
    ("tan", "The tangent of an angle in radians.", np.tan),
    ("tanh", "The hyperbolic tangent.", strict_math.tanh),
):
    _of_doubles(_name, _effect, _compute)
_of_doubles("atan2", "The angle of the point with these coordinates, y first, in radians.", strict_math.atan2, 2)
_of_doubles("power", "The first number to the power of the second.", _power, 2)


@kernel("log", "double, double -> double", computed_by="log_to_base")
@on_columns
def _log(_: TypedExpression, base: pa.Array, number: pa.Array) -> pa.Array:
    with np.errstate(all="ignore"):
        found = _logarithm(values_of(base), values_of(number))
    return with_validity(found, pa.float64(), pc.and_(base.is_valid(), number.is_valid()))


@formula("pi", " -> double")
def _pi(_: Invocation) -> TypedExpression:
    """The ratio of a circle's circumference to its diameter."""
    return literal(math.pi, "double")


@kernel("sign", "int -> int", "bigint -> int", "decimal -> int", "double -> int")
def _sign(_: TypedExpression, number: Datum) -> Datum:
    """1 of a number above 0, -1 of one below, else 0."""
    zero = pa.scalar(0, number.type) if not pa.types.is_decimal(number.type) else pa.scalar(Decimal(0), number.type)
    ups, downs = (compare(number, zero) for compare in (pc.greater, pc.less))
    return pc.subtract(ups.cast(pa.int32()), downs.cast(pa.int32()))


def _is_decimal(expression: TypedExpression) -> bool:
    return decimal_of(expression.type) is not None


def _to_whole(mode: str, whole: Callable[[np.ndarray], np.ndarray]) -> Callable[[TypedExpression, Datum], Datum]:
    """What gives the next whole number of the same type."""

    @on_columns
    def computed(expression: TypedExpression, number: pa.Array) -> pa.Array:
        if pa.types.is_integer(number.type):
            return number
        if pa.types.is_decimal(number.type):
            return fitting(rounded(number, 0, mode), expression.type)
        return with_validity(whole(values_of(number)), number.type, number.is_valid())

    return computed


_ceil, _floor = _to_whole("up", np.ceil), _to_whole("down", np.floor)
_ceil.__doc__ = "The least whole number that is not below, of the same type."
_floor.__doc__ = "The greatest whole number that is not above, of the same type."
kernel("ceil", *_NUMBERS, gives=same_as(0), fails=_is_decimal)(_ceil)
kernel("floor", *_NUMBERS, gives=same_as(0), fails=_is_decimal)(_floor)


def _whole_type(arguments: Sequence[TypedExpression]) -> str:
    """The decimals that have the digits before the point."""
    precision, scale = decimal_of(arguments[0].type) or (1, 0)
    return f"decimal({max(precision - scale, 1)},0)"


@formula("round", "int -> bigint", "bigint -> bigint", needed=1)
def _round(call: Invocation) -> TypedExpression:
    """The number rounded to a whole one, or to so many places behind the point; a tie goes up, and a null INTEGER or BIGINT fails."""
    return call.cast(call.typed(0), "bigint")


@kernel("round", "double -> bigint", computed_by="round_double")
@on_columns
def _round_double(_: TypedExpression, number: pa.Array) -> pa.Array:
    """As Java: the whole number below a half more, to the ends of the range, 0 of NaN."""
    numbers = values_of(number)
    whole = np.floor(numbers)
    with np.errstate(invalid="ignore"):  # of an infinity
        found = np.where(numbers - whole >= 0.5, whole + 1, whole)
    return with_validity(whole_longs(np.where(np.isnan(found), 0, found)), pa.int64(), number.is_valid())


@kernel("round", "decimal -> decimal", computed_by="round_decimal", gives=_whole_type, fails=always)
@on_columns
def _round_decimal(expression: TypedExpression, number: pa.Array) -> pa.Array:
    half = pa.scalar(Decimal("0.5"), pa.decimal256(2, 1))
    wide = number.cast(pa.decimal256(number.type.precision + 1, number.type.scale))
    return fitting(rounded(pc.add(wide, half), 0, "down"), expression.type)


@formula("trunc", "int -> bigint", "bigint -> bigint")
def _trunc(call: Invocation) -> TypedExpression:
    """The number cut off behind the point, or behind so many places."""
    return call.cast(call.typed(0), "bigint")


@kernel("trunc", "double -> bigint", computed_by="trunc_double")
@on_columns
def _trunc_double(_: TypedExpression, number: pa.Array) -> pa.Array:
    numbers = values_of(number)
    return with_validity(whole_longs(np.where(np.isnan(numbers), 0, numbers)), pa.int64(), number.is_valid())


@kernel("trunc", "decimal -> decimal", computed_by="trunc_decimal", gives=_whole_type)
@on_columns
def _trunc_decimal(expression: TypedExpression, number: pa.Array) -> pa.Array:
    return fitting(cut_off(number, 0), expression.type)


def _to_places(name: str, up: str, down: str) -> None:
    """Enter ROUND or TRUNC with a number of places: the mode for numbers above 0, and for those below."""

    def rounded_to(number: float | Decimal, places: int, limit: Decimal, scale: int) -> float | Decimal:
        if isinstance(number, float) and not math.isfinite(number):
            raise ValueError(f"{number} has no places behind the point")
        value = Decimal(repr(number)) if isinstance(number, float) else number
        found = value.quantize(power_of_ten(-places), up if value > 0 else down, DECIMAL_CONTEXT)
        if found.copy_abs() >= limit:
            raise ValueError(f"{found} has more digits than its type")
        return float(found) if isinstance(number, float) else found.quantize(power_of_ten(-scale), context=DECIMAL_CONTEXT)

    def computed(expression: TypedExpression, number: Datum, places: Datum) -> Datum:
        precision, scale = decimal_of(expression.type) or (0, 0)
        limit = power_of_ten(precision - scale) if precision else Decimal("Infinity")
        most = scale if precision else PLACES_MAX
        return one_by_one(
            lambda value, count: rounded_to(value, max(min(count, most), -PLACES_MAX), limit, scale),
            to_arrow(expression.type),
            number,
            places,
        )

    kernel(
        name, "double, int -> double", "decimal, int -> decimal", computed_by=f"{name}_to_places", gives=same_as(0), fails=always
    )(computed)


_to_places("round", ROUND_HALF_UP, ROUND_HALF_DOWN)
_to_places("trunc", ROUND_FLOOR, ROUND_CEILING)


@formula("greatest", "T* -> T")
def _greatest(call: Invocation) -> TypedExpression:
    """The greatest value; nulls do not count."""
    return _extreme(call, "greatest")


@formula("least", "T* -> T")
def _least(call: Invocation) -> TypedExpression:
    """The least value; nulls do not count."""
    return _extreme(call, "least")


def _extreme(call: Invocation, name: str) -> TypedExpression:
    if is_nested(call.types[0]) or call.types[0] == "boolean":
        raise RuleError(f"{name.upper()} takes values that have an order; found {ksql_type(call.types[0])}")
    return call.of(name, *call.values) if len(call.values) > 1 else call.typed(0)


@kernel("geo_distance", "double, double, double, double -> double", fails=always, strict=False)
@on_columns
def _geo_distance(_: TypedExpression, *degrees: pa.Array) -> pa.Array:
    """The distance of two points by their latitudes and longitudes in degrees, in kilometres, or in miles if the last argument says so; null fails."""
    return _distance(degrees, np.full(len(degrees[0]), _EARTH_RADIUS["km"]))


@kernel("geo_distance", "double, double, double, double, string -> double", computed_by="distance_in", fails=always, strict=False)
@on_columns
def _distance_in(_: TypedExpression, *values: pa.Array) -> pa.Array:
    """As GEO_DISTANCE; a unit that is null or empty is kilometres."""
    *degrees, units = values
    asked = if_else(pa.array(_all_valid(degrees)), units, pa.scalar(None, pa.string()))  # a row with a null has no wrong unit
    return _distance(degrees, values_of(one_by_one(_earth_radius, pa.float64(), asked, takes_null=True)))


def _earth_radius(unit: str | None) -> float:
    name = (unit or "").strip(_BLANKS).lower() or "km"
    if name not in _UNITS:
        raise ValueError(f"{name!r} is no unit of distance; expected KM or MILES")
    return _EARTH_RADIUS[_UNITS[name]]


def _all_valid(columns: Sequence[pa.Array]) -> np.ndarray:
    return np.asarray(np.logical_and.reduce([validity(column) for column in columns]))


def _distance(degrees: Sequence[pa.Array], radius: np.ndarray) -> pa.Array:
    """The steps and their order are ksqlDB's; two points that face each other may have no distance there, but NaN."""
    latitude, longitude, latitude2, longitude2 = map(values_of, degrees)
    valid = _all_valid(degrees)
    check_rows(~valid, "a latitude or a longitude is null")
    beyond = (np.maximum(abs(latitude), abs(latitude2)) > 90) | (np.maximum(abs(longitude), abs(longitude2)) > 180)
    check_rows(beyond, "a latitude is beyond 90 degrees, or a longitude beyond 180")
    with np.errstate(all="ignore"):
        rise, turn = (np.sin(np.radians(span) / 2) for span in (latitude2 - latitude, longitude2 - longitude))
        half = rise * rise + turn * turn * np.cos(np.radians(latitude)) * np.cos(np.radians(latitude2))
        return with_validity(2 * strict_math.asin(np.sqrt(half)) * radius, pa.float64(), pa.array(valid))
