"""Conversions between types under ANSI rules: a value that does not fit raises."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import FLOATS, INTEGERS, atomic_types, decimal_of, is_nested, to_arrow
from streamkit.decimals import DECIMAL_CONTEXT, cut_off
from streamkit.expressions.casts.nested_casts import convert_nested, inner_pairs
from streamkit.expressions.casts.reading import READERS, read_decimals
from streamkit.expressions.casts.writing import WRITERS, write_decimals, write_floats
from streamkit.expressions.core.coercion import decimal_for
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.elements import on_columns
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.numbers import (
    WIDEST,
    fit_decimal,
    values_of,
    whole_longs,
    with_validity,
    wrapped_long,
)
from streamkit.expressions.core.operation import Invocation, NoTranslationError, check_count, function, operation
from streamkit.expressions.core.recording import recorded
from streamkit.expressions.core.session_zone import SessionZone, on_local_times
from streamkit.plan.expression import TypedExpression

__all__ = ["typeof"]

MICROSECONDS = 1_000_000
DAY_MICROS = 86_400 * MICROSECONDS
SECOND_DIGITS = 12  # so many digits of seconds are microseconds of 64 bits
_CastFunction = Callable[[pa.Array, str], pa.Array]


def family_of(type: str) -> str:
    """The family whose members convert alike."""
    if type in INTEGERS:
        return "integer"
    return "float" if type in FLOATS else "decimal" if decimal_of(type) else type


def _refuse(expression: TypedExpression) -> str | None:
    source, target = expression.arguments[0].type, expression.type
    return None if _is_known(source, target) else f"a cast of {source} to {target} has no Arrow translation"


def _is_known(source: str, target: str) -> bool:
    """Whether there is a conversion, of a nested value and of all that it holds."""
    if source in (target, "void"):
        return True
    if is_nested(source):
        pairs = inner_pairs(source, target)
        return pairs is not None and all(_is_known(*pair) for pair in pairs)
    return (family_of(source), family_of(target)) in CASTS


def _fails(expression: TypedExpression) -> bool:
    return _can_fail(expression.arguments[0].type, expression.type)


def _can_fail(source: str, target: str) -> bool:
    if source in (target, "void"):
        return False
    if is_nested(source):
        return any(_can_fail(*pair) for pair in inner_pairs(source, target) or ())
    if source in INTEGERS and target in INTEGERS:
        return INTEGERS.index(target) < INTEGERS.index(source)
    return (family_of(source), family_of(target)) not in NEVER_FAIL


def _nullable(expression: TypedExpression, nullable: Sequence[bool]) -> bool:
    """By Spark's rule a cast that may not fit can be null, though under ANSI rules it fails instead."""
    return any(nullable) or _may_not_fit(expression.arguments[0].type, expression.type)


def _may_not_fit(source: str, target: str) -> bool:
    if source in (target, "void") or target == "string" or is_nested(source):
        return False
    if source == "string":
        return target != "binary"
    if decimal := decimal_of(target):
        held = (1, 0) if source == "boolean" else None if source in FLOATS or source == "timestamp" else decimal_for(source)
        return held is None or decimal[0] - decimal[1] < held[0] - held[1] or decimal[1] < held[1]
    if source == "timestamp":
        return target in ("tinyint", "smallint", "int")
    if source in FLOATS or decimal_of(source):
        return target in INTEGERS or (target == "timestamp" and source in FLOATS)
    return False


def _in_zone(expression: TypedExpression, zone: SessionZone) -> TypedExpression:
    (value,) = expression.arguments
    pair = value.type, expression.type
    if pair == ("timestamp", "timestamp_ntz"):
        return zone.local(value)
    if pair == ("timestamp_ntz", "timestamp"):
        return zone.moment(value)
    if pair == ("date", "timestamp"):
        return zone.start_of_day(value)
    if pair == ("string", "timestamp"):
        return TypedExpression("read_timestamp", "timestamp", (value, zone.name))
    if pair in (("timestamp", "date"), ("timestamp", "string")):
        return on_local_times(expression, zone)
    if is_nested(value.type) and "timestamp" in atomic_types(value.type) ^ atomic_types(expression.type):
        raise NoTranslationError(
            f"a cast of {value.type} to {expression.type} depends on the time zone; cast the elements with transform()"
        )
    return expression


@operation("cast", fails=_fails, refuse=_refuse, nullable=_nullable, grows=8, in_zone=_in_zone)
@on_columns
def _cast(expression: TypedExpression, values: pa.Array) -> pa.Array:
    return _convert(values, expression.arguments[0].type, expression.type)


def _convert(values: pa.Array, source: str, target: str) -> pa.Array:
    if source == target:
        return values
    if source == "void":
        return pa.nulls(len(values), to_arrow(target))
    if is_nested(source):
        return convert_nested(values, source, target, _convert)
    return CASTS[family_of(source), family_of(target)](values, target)


def _checked(values: pa.Array, type: str) -> pa.Array:
    """Arrow's own cast, which raises if a value does not fit."""
    return pc.cast(values, to_arrow(type))


def _rounded(values: pa.Array, type: str) -> pa.Array:
    """Rounded to the nearest float."""
    return pc.cast(values, to_arrow(type), safe=False)


def _is_not_zero(values: pa.Array, type: str) -> pa.Array:
    return pc.not_equal(values, pa.scalar(0, values.type))


def _float_to_integer(values: pa.Array, type: str) -> pa.Array:
    """Rounded towards zero; NaN, and a value beyond the range of the type, raise."""
    numbers = values_of(values).astype(np.float64)
    info = np.iinfo(to_arrow(type).to_pandas_dtype())
    with np.errstate(invalid="ignore"):
        fits = (np.floor(numbers) <= float(info.max)) & (np.ceil(numbers) >= float(info.min))
    valid = values.is_valid()
    if not fits.all() and pc.any(pc.and_(valid, pa.array(~fits))).as_py():
        raise pa.ArrowInvalid(f"a number does not fit into {type}")
    at_top = numbers >= float(info.max)  # 2**63 itself saturates, as in Java
    whole = np.where(fits & ~at_top, numbers, 0).astype(info.dtype)
    return with_validity(np.where(at_top & fits, info.dtype.type(info.max), whole), to_arrow(type), valid)


def _to_decimal(values: pa.Array, type: str) -> pa.Array:
    return fit_decimal(values, type)


def _integer_to_decimal(values: pa.Array, type: str) -> pa.Array:
    return fit_decimal(values.cast(pa.int64()).cast(pa.decimal128(19, 0)), type)


def _boolean_to_decimal(values: pa.Array, type: str) -> pa.Array:
    return _integer_to_decimal(values.cast(pa.int8()), type)


def _float_to_decimal(values: pa.Array, type: str) -> pa.Array:
    """By way of the text of the number as a double, as Spark; NaN and infinity become null, as there."""
    finite = pc.if_else(pc.is_finite(values), values, None).cast(pa.float64())
    return read_decimals(write_floats(finite), type)


def _decimal_to_integer(values: pa.Array, type: str) -> pa.Array:
    return cut_off(values, 0).cast(to_arrow(type))


def _decimal_to_float(values: pa.Array, type: str) -> pa.Array:
    """By way of text, because only that rounds correctly."""
    return write_decimals(values).cast(to_arrow(type))


def _seconds_to_timestamp(values: pa.Array, type: str) -> pa.Array:
    """Whole seconds; a value beyond the range of microseconds becomes the end of the range, as in Spark."""
    limit = (1 << 63) // MICROSECONDS
    seconds = values_of(values).astype(np.int64)
    moments = np.clip(seconds, -limit - 1, limit + 1)
    micros = np.where(moments > limit, np.int64((1 << 63) - 1), np.where(moments < -limit, np.int64(-(1 << 63)), 0))
    return with_validity(np.where(np.abs(moments) <= limit, moments * MICROSECONDS, micros), to_arrow(type), values.is_valid())


def _timestamp_to_integer(values: pa.Array, type: str) -> pa.Array:
    """Whole seconds, rounded down."""
    seconds = np.floor_divide(values_of(values), MICROSECONDS)
    return with_validity(seconds, pa.int64(), values.is_valid()).cast(to_arrow(type))


def _timestamp_to_float(values: pa.Array, type: str) -> pa.Array:
    seconds = values_of(values).astype(np.float64) / MICROSECONDS
    return with_validity(seconds, pa.float64(), values.is_valid()).cast(to_arrow(type), safe=False)


def _float_to_timestamp(values: pa.Array, type: str) -> pa.Array:
    """Seconds, cut off behind the microsecond; NaN, infinities and what is beyond the range raise."""
    with np.errstate(over="ignore", invalid="ignore"):
        micros = values_of(values).astype(np.float64) * MICROSECONDS
        fits = np.abs(micros) <= 2.0**63
    if not fits.all() and pc.any(pc.and_(values.is_valid(), pa.array(~fits))).as_py():
        raise pa.ArrowInvalid("a number does not fit into timestamp")
    return with_validity(whole_longs(np.where(fits, micros, 0)), to_arrow(type), values.is_valid())


def _decimal_to_timestamp(values: pa.Array, type: str) -> pa.Array:
    """Seconds, cut off behind the microsecond; as in Java, what is beyond 64 bits wraps around."""
    scale = values.type.scale
    if values.type.precision - scale > SECOND_DIGITS:
        with decimal.localcontext(DECIMAL_CONTEXT):
            micros = [None if value is None else wrapped_long(int(value * MICROSECONDS)) for value in values.to_pylist()]
        return pa.array(micros, pa.int64()).cast(to_arrow(type))
    wide = values.cast(pa.decimal256(WIDEST - 10, scale))
    micros = pc.multiply(wide, pa.scalar(decimal.Decimal(MICROSECONDS), pa.decimal256(7, 0)))
    return cut_off(micros, 0).cast(pa.int64()).cast(to_arrow(type))


def _to_date(values: pa.Array, type: str) -> pa.Array:
    """The day in UTC that a moment lies in."""
    days = np.floor_divide(values_of(values), DAY_MICROS).astype(np.int32)
    return with_validity(days, pa.date32(), values.is_valid())


def _relabelled(values: pa.Array, type: str) -> pa.Array:
    """The same microseconds with or without a zone: UTC."""
    return pc.cast(values.cast(pa.int64()), to_arrow(type))


def _written_by(write: Callable[[pa.Array], pa.Array]) -> _CastFunction:
    return lambda values, _type: write(values)


CASTS: dict[tuple[str, str], _CastFunction] = {
    ("boolean", "integer"): _checked,
    ("boolean", "float"): lambda values, type: values.cast(pa.int8()).cast(to_arrow(type)),
    ("boolean", "decimal"): _boolean_to_decimal,
    ("integer", "boolean"): _is_not_zero,
    ("integer", "integer"): _checked,
    ("integer", "float"): _rounded,
    ("integer", "decimal"): _integer_to_decimal,
    ("integer", "timestamp"): _seconds_to_timestamp,
    ("float", "boolean"): _is_not_zero,
    ("float", "integer"): _float_to_integer,
    ("float", "timestamp"): _float_to_timestamp,
    ("float", "float"): _rounded,
    ("float", "decimal"): _float_to_decimal,
    ("decimal", "boolean"): _is_not_zero,
    ("decimal", "integer"): _decimal_to_integer,
    ("decimal", "timestamp"): _decimal_to_timestamp,
    ("decimal", "float"): _decimal_to_float,
    ("decimal", "decimal"): _to_decimal,
    ("string", "binary"): _checked,
    ("date", "timestamp"): lambda values, type: _relabelled(values.cast(pa.timestamp("us")), type),
    ("date", "timestamp_ntz"): _checked,
    ("timestamp", "date"): _to_date,
    ("timestamp", "timestamp_ntz"): _relabelled,
    ("timestamp", "integer"): _timestamp_to_integer,
    ("timestamp", "float"): _timestamp_to_float,
    ("timestamp_ntz", "date"): _to_date,
    ("timestamp_ntz", "timestamp"): _relabelled,
    ("interval day", "integer"): lambda values, type: pc.divide(values, pa.scalar(DAY_MICROS, pa.int64())).cast(to_arrow(type)),
    ("interval day", "interval day to second"): lambda values, type: values,
    **{("string", family): read for family, read in READERS.items()},
    **{(family, "string"): _written_by(write) for family, write in WRITERS.items()},
}
NEVER_FAIL = frozenset((
    ("boolean", "integer"), ("boolean", "float"), ("integer", "boolean"), ("integer", "float"), ("float", "boolean"), ("float", "float"),
    ("decimal", "boolean"), ("decimal", "float"), ("decimal", "timestamp"), ("string", "binary"), ("timestamp", "date"), ("timestamp", "timestamp_ntz"),
    ("timestamp", "float"), ("timestamp_ntz", "date"), ("timestamp_ntz", "timestamp"), ("integer", "timestamp"),
    ("boolean", "string"), ("integer", "string"), ("float", "string"), ("decimal", "string"), ("date", "string"),
    ("timestamp", "string"), ("timestamp_ntz", "string"), ("interval day", "interval day to second"),
))  # fmt: skip


def typeof(column: Column | str) -> Column:
    """The name of the column's type, as text."""
    return recorded("typeof", column)


@function("typeof")
def _typeof_rule(call: Invocation) -> TypedExpression:
    """The name of the argument's type, which is known before anything runs."""
    check_count(call, 1)
    return literal(call.types[0], "string")
