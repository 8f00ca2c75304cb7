"""Timestamps: their fields, their parts, and numbers that count since 1970. Kernels know no zone: `session_zone` converts around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.civil_dates import civil_from_days, days_from_civil
from streamkit.data_type import FLOATS, INTEGERS, decimal_of, to_arrow
from streamkit.decimals import decimals_of_numbers
from streamkit.expressions.core.coercion import DAY_INTERVALS, MONTH_INTERVALS
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.numbers import values_of, whole_longs, with_validity
from streamkit.expressions.core.operation import (
    Datum,
    Invocation,
    NoTranslationError,
    RuleError,
    always,
    always_nullable,
    check_count,
    fitted,
    function,
    operation,
)
from streamkit.expressions.core.recording import constant, given, recorded
from streamkit.expressions.core.session_zone import SessionZone, on_local_times
from streamkit.expressions.core.spark_text import spark_text, text_of
from streamkit.expressions.times.dates import DAY_SECONDS, UNITS, by_distinct, known_unit
from streamkit.expressions.times.far_years import floored_days
from streamkit.expressions.times.intervals import DAY_MICROS, added_micros, added_months, in_rows, shifted_in_zone, unscaled
from streamkit.plan.expression import Expression, Literal, TypedExpression
from streamkit.zone_offsets import BEYOND

__all__ = [
    "date_part",
    "date_trunc",
    "datepart",
    "extract",
    "hour",
    "make_timestamp",
    "make_timestamp_ltz",
    "make_timestamp_ntz",
    "minute",
    "second",
    "timestamp_add",
    "timestamp_diff",
    "timestamp_micros",
    "timestamp_millis",
    "timestamp_seconds",
    "try_make_timestamp",
    "try_make_timestamp_ltz",
    "try_make_timestamp_ntz",
    "unix_micros",
    "unix_millis",
    "unix_seconds",
]

SECOND_MICROS = 1_000_000
_LONG_MAX = 2**63 - 1
_NEAR_MICROS = 2**59  # some 18,000 years, for which Arrow's calendar is right
_UNIT_MICROS = {
    "week": 7 * DAY_MICROS, "day": DAY_MICROS, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "millisecond": 1000, "microsecond": 1,
}  # fmt: skip
_UNIT_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_ADDED_UNITS = {name.upper(): name for name in (*_UNIT_MICROS, *_UNIT_MONTHS)} | {"DAYOFYEAR": "day"}


def _without_zone(value: Datum) -> Datum:
    """The same moment; Arrow is some twenty times faster where it need not ask a zone, even UTC."""
    return value.cast(pa.timestamp("us")) if pa.types.is_timestamp(value.type) else value


def _enter_field(name: str, take: Callable[[Datum], Datum]) -> None:
    """Enter a function that takes a field of a time of day."""
    operation(name, takes="timestamps", gives="int", in_zone=on_local_times)(
        lambda _, value: pc.cast(take(_without_zone(value)), pa.int32())
    )


def hour(column: Column | str) -> Column:
    """The hour, in the topology's time zone."""
    return recorded("hour", column)


_enter_field("hour", pc.hour)


def minute(column: Column | str) -> Column:
    """The minute."""
    return recorded("minute", column)


_enter_field("minute", pc.minute)


def second(column: Column | str) -> Column:
    """The second."""
    return recorded("second", column)


_enter_field("second", pc.second)


@operation("second_with_fraction", in_zone=on_local_times)
def _second_with_fraction(expression: TypedExpression, value: Datum) -> Datum:
    """The second and its microseconds, as a decimal."""
    micros = in_rows(lambda moments: moments % 60_000_000, value.cast(pa.int64()))
    return in_decimals(micros, expression.type)


def in_decimals(unscaled: Datum, type: str) -> Datum:
    """Numbers as the digits of a decimal type."""
    target = to_arrow(type)
    if isinstance(unscaled, pa.Scalar):
        return in_decimals(pa.array([unscaled], unscaled.type), type)[0]
    digits = unscaled.cast(pa.decimal128(38, 0))
    return pa.Array.from_buffers(pa.decimal128(38, target.scale), len(digits), digits.buffers(), offset=digits.offset).cast(
        target
    )


def date_trunc(unit: str, timestamp: Column | str) -> Column:
    """The start of the unit (year, quarter, month, week, day, hour, minute, second …) in which the timestamp lies."""
    return recorded("date_trunc", constant(unit), timestamp)


def _truncated_in_zone(expression: TypedExpression, zone: SessionZone) -> TypedExpression:
    unit, value = expression.arguments
    if expression.type != "timestamp":
        return expression
    if unit.name != "literal":
        raise NoTranslationError("its unit must be a constant where the time zone is not UTC")
    name = UNITS.get(str(unit.value).upper())
    if name in (None, "second", "millisecond", "microsecond"):
        return expression
    floored = zone.build(TypedExpression("date_trunc", "timestamp_ntz", (unit, zone.local(value))))
    if name in ("minute", "hour", "day"):
        return zone.moment(floored, value)
    return zone.start_of_day(zone.build(TypedExpression("cast", "date", (floored,))))


@operation("date_trunc", takes="string, timestamp", gives="timestamp", nullable=always_nullable, in_zone=_truncated_in_zone)
def _date_trunc(expression: TypedExpression, unit: Datum, value: Datum) -> Datum:
    """The start of the unit; null if the unit is unknown, as in Spark."""
    return by_distinct(_floor, unit, value)


operation("time_unit", nullable=always_nullable)(known_unit(UNITS.values()))


@function("date_trunc")
def _date_trunc_rule(call: Invocation) -> TypedExpression:
    unit, value = fitted(call, "string, timestamp")
    return TypedExpression("date_trunc", "timestamp", (call.build(TypedExpression("time_unit", "string", (unit,))), value))


def _floor(value: pa.Array, unit: str) -> Datum:
    name = unit.lower()
    if name in ("day", "hour", "minute", "second", "millisecond", "microsecond"):
        size = _UNIT_MICROS[name]
        micros = values_of(value)
        return _held_floor(micros - micros % size, micros, value)
    micros = values_of(value)
    if not len(micros) or max(-int(micros.min()), int(micros.max())) < _NEAR_MICROS:
        return pc.floor_temporal(_without_zone(value), unit=name).cast(value.type)
    days = with_validity((micros // DAY_MICROS).astype(np.int32), pa.date32(), value.is_valid())
    return _held_floor(values_of(floored_days(days, name)).astype(np.int64) * DAY_MICROS, micros, value)


def _held_floor(floored: np.ndarray, micros: np.ndarray, value: pa.Array) -> pa.Array:
    """The starts of units, as the type of `value`; ArrowInvalid where one lies before the first timestamp."""
    if (floored > micros)[np.asarray(value.is_valid())].any():
        raise pa.ArrowInvalid(BEYOND)
    return with_validity(floored, value.type, value.is_valid())


_FIELDS = {  # what extract takes, by the function that computes it
    "YEAR": "year", "Y": "year", "YEARS": "year", "YR": "year", "YRS": "year",
    "YEAROFWEEK": "yearofweek", "QUARTER": "quarter", "QTR": "quarter",
    "MONTH": "month", "MON": "month", "MONS": "month", "MONTHS": "month",
    "WEEK": "weekofyear", "W": "weekofyear", "WEEKS": "weekofyear",
    "DAY": "dayofmonth", "D": "dayofmonth", "DAYS": "dayofmonth",
    "DAYOFWEEK": "dayofweek", "DOW": "dayofweek", "DAYOFWEEK_ISO": "dayofweek_iso", "DOW_ISO": "dayofweek_iso", "DOY": "dayofyear",
    "HOUR": "hour", "H": "hour", "HOURS": "hour", "HR": "hour", "HRS": "hour",
    "MINUTE": "minute", "M": "minute", "MIN": "minute", "MINS": "minute", "MINUTES": "minute",
    "SECOND": "second_with_fraction", "S": "second_with_fraction", "SEC": "second_with_fraction", "SECONDS": "second_with_fraction",
    "SECS": "second_with_fraction",
}  # fmt: skip


def extract(field: Column, source: Column | str) -> Column:
    """A field of a date, a time or an interval, by the field's name, such as `lit("YEAR")`."""
    return recorded("extract", field, source)


date_part = extract
datepart = extract


@function("extract", "date_part", "datepart")
def _extract_rule(call: Invocation) -> TypedExpression:
    """A field of a date, a time or an interval, by the field's name."""
    check_count(call, 2)
    field, value = call.values
    if field.name != "literal" or field.type not in ("string", "void"):
        raise RuleError(f"{call.name}() takes a constant text as argument 1, such as 'YEAR'; found {field.type}")
    if field.value is None:
        return literal(None, "double")
    name = _FIELDS.get(str(field.value).upper())
    if value.type in DAY_INTERVALS or value.type in MONTH_INTERVALS:
        return _interval_field(call, name, field.value, value)
    if name is None:
        raise RuleError(f"there is no field {field.value!r} of a date; expected one of {', '.join(_FIELDS)}")
    if name in ("hour", "minute"):
        return call.of(name, value)
    if name == "second_with_fraction":
        moment = value if value.type == "timestamp_ntz" else call.cast(value, "timestamp")
        return TypedExpression(name, "decimal(8,6)", (moment,))
    return TypedExpression(name, "int", (value if value.type == "date" else call.cast(value, "date"),))


@spark_text("extract")
def _extract_text(arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    is_constant = len(texts) == 2 and isinstance(arguments[0], Literal)
    return f"EXTRACT({text_of(arguments[0])} FROM {texts[1]})" if is_constant else None


def _interval_field(call: Invocation, name: str | None, wanted: str, value: TypedExpression) -> TypedExpression:
    if value.type == "interval day":
        types = {"dayofmonth": "int"}
    else:
        types = {"year": "int", "month": "tinyint"} if value.type in MONTH_INTERVALS else {
        "dayofmonth": "int", "hour": "tinyint", "minute": "tinyint", "second_with_fraction": "decimal(8,6)",
    }  # fmt: skip
    if name not in types:
        raise RuleError(f"there is no field {wanted!r} of an {value.type}")
    return TypedExpression("interval_field", types[name], (value,), name)


@operation("interval_field")
def _interval_part(expression: TypedExpression, value: Datum) -> Datum:
    """A part of an interval, with its sign."""
    size, most = {
        "year": (12, 0), "month": (1, 12), "dayofmonth": (DAY_MICROS, 0), "hour": (3_600_000_000, 24), "minute": (60_000_000, 60),
        "second_with_fraction": (1, 60_000_000),
    }[expression.value]  # fmt: skip
    parts = in_rows(lambda whole: np.sign(whole) * (np.abs(whole) // size % most if most else np.abs(whole) // size), value)
    return in_decimals(parts, expression.type) if decimal_of(expression.type) else parts.cast(to_arrow(expression.type))


def _seconds_in_zone(expression: TypedExpression, zone: SessionZone) -> TypedExpression:
    (value,) = expression.arguments
    return replace(expression, arguments=(zone.start_of_day(value),)) if value.type == "date" else expression


@operation("unix_timestamp", fails=always, in_zone=_seconds_in_zone)
def _unix_timestamp(expression: TypedExpression, value: Datum) -> Datum:
    """Whole seconds since 1970; a fraction before 1970 is dropped towards 1970, as in Spark."""
    if expression.arguments[0].type == "date":
        return pc.multiply(value.cast(pa.int32()).cast(pa.int64()), pa.scalar(DAY_SECONDS, pa.int64()))
    return pc.divide(value.cast(pa.int64()), pa.scalar(SECOND_MICROS, pa.int64()))


def unix_seconds(column: Column | str) -> Column:
    """Seconds since 1970, UTC."""
    return recorded("unix_seconds", column)


def unix_millis(column: Column | str) -> Column:
    """Milliseconds since 1970, UTC."""
    return recorded("unix_millis", column)


def unix_micros(column: Column | str) -> Column:
    """Microseconds since 1970, UTC."""
    return recorded("unix_micros", column)


@operation("unix_seconds", takes="=timestamp", gives="bigint")
@operation("unix_millis", takes="=timestamp", gives="bigint")
@operation("unix_micros", takes="=timestamp", gives="bigint")
def _unix_units(expression: TypedExpression, value: Datum) -> Datum:
    """Whole units since 1970, rounded down."""
    divisor = {"unix_seconds": 1_000_000, "unix_millis": 1000, "unix_micros": 1}[expression.name]
    micros = value.cast(pa.int64())
    return micros if divisor == 1 else in_rows(lambda whole: np.floor_divide(whole, divisor), micros)


def _seconds_nullable(expression: TypedExpression, nullable: Sequence[bool]) -> bool:
    return expression.arguments[0].type in FLOATS or any(nullable)


def timestamp_seconds(column: Column | str) -> Column:
    """The timestamp that many seconds after 1970, UTC."""
    return recorded("timestamp_seconds", column)


def timestamp_millis(column: Column | str) -> Column:
    """The timestamp that many milliseconds after 1970, UTC."""
    return recorded("timestamp_millis", column)


def timestamp_micros(column: Column | str) -> Column:
    """The timestamp that many microseconds after 1970, UTC."""
    return recorded("timestamp_micros", column)


@operation("timestamp_seconds", takes="=numeric", gives="timestamp", fails=always, nullable=_seconds_nullable)
@operation("timestamp_millis", takes="=integral", gives="timestamp", fails=always)
@operation("timestamp_micros", takes="=integral", gives="timestamp", fails=always)
def _from_units(expression: TypedExpression, value: Datum) -> Datum:
    factor = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1000, "timestamp_micros": 1}[expression.name]
    type = expression.arguments[0].type
    if type in INTEGERS:
        micros = pc.multiply_checked(value.cast(pa.int64()), pa.scalar(factor, pa.int64()))
    elif type in FLOATS:
        micros = _micros_of_floats(value)
    else:
        micros = _micros_of_decimals(value)
    return micros.cast(to_arrow(expression.type))


def _micros_of_floats(value: Datum) -> Datum:
    """Cut off behind the microsecond, to the ends of the range; null for NaN and infinities."""
    if isinstance(value, pa.Scalar):
        return _micros_of_floats(pa.array([value], value.type))[0]
    seconds = values_of(value).astype(np.float64)
    finite = np.isfinite(seconds)
    with np.errstate(over="ignore"):
        micros = whole_longs(np.where(finite, seconds, 0) * 1e6)
    return with_validity(micros, pa.int64(), pc.and_(value.is_valid(), pa.array(finite)))


def _micros_of_decimals(value: Datum) -> Datum:
    """Exact; more than six digits behind the point raise."""
    return unscaled(decimals_of_numbers(value, pa.decimal256(60, 6)))


def _made_rule(call: Invocation) -> TypedExpression:
    """A time of its parts, or of a date and a time of day; the last argument may be a zone."""
    name = call.name.lower().removeprefix("try_")
    tries = name != call.name.lower()
    if len(call.arguments) < 6:
        raise NoTranslationError(
            "a time of a date and a time of day needs the type TIME, which StreamKit has not; give its six parts"
        )
    zoned = name != "make_timestamp_ntz" and len(call.arguments) == 7
    arguments = fitted(call, "int, int, int, int, int, decimal" + (", string" if zoned else ""))
    seconds = call.cast(arguments[5], "decimal(16,6)")
    operation_name = "try_make_timestamp_ntz" if tries else "make_timestamp_ntz"
    local = call.build(TypedExpression(operation_name, "timestamp_ntz", (*arguments[:5], seconds)))
    if name == "make_timestamp_ntz":
        return local
    return TypedExpression("from_local", "timestamp", (local, arguments[6])) if zoned else call.cast(local, "timestamp")


def make_timestamp(
    years: Column | str, months: Column | str, days: Column | str, hours: Column | str, mins: Column | str, secs: Column | str,
    timezone: Column | str | None = None,
) -> Column:  # fmt: skip
    """The timestamp with these parts, in the topology's time zone or another; an error when it runs if there is no such time."""
    return recorded("make_timestamp", years, months, days, hours, mins, secs, *given(timezone))


function("make_timestamp")(_made_rule)


def try_make_timestamp(
    years: Column | str, months: Column | str, days: Column | str, hours: Column | str, mins: Column | str, secs: Column | str,
    timezone: Column | str | None = None,
) -> Column:  # fmt: skip
    """As `make_timestamp`; null if there is no such time."""
    return recorded("try_make_timestamp", years, months, days, hours, mins, secs, *given(timezone))


function("try_make_timestamp")(_made_rule)


def make_timestamp_ltz(
    years: Column | str, months: Column | str, days: Column | str, hours: Column | str, mins: Column | str, secs: Column | str,
    timezone: Column | str | None = None,
) -> Column:  # fmt: skip
    """As `make_timestamp`."""
    return recorded("make_timestamp_ltz", years, months, days, hours, mins, secs, *given(timezone))


function("make_timestamp_ltz")(_made_rule)


def try_make_timestamp_ltz(
    years: Column | str, months: Column | str, days: Column | str, hours: Column | str, mins: Column | str, secs: Column | str,
    timezone: Column | str | None = None,
) -> Column:  # fmt: skip
    """As `try_make_timestamp`."""
    return recorded("try_make_timestamp_ltz", years, months, days, hours, mins, secs, *given(timezone))


function("try_make_timestamp_ltz")(_made_rule)


def make_timestamp_ntz(
    years: Column | str, months: Column | str, days: Column | str, hours: Column | str, mins: Column | str, secs: Column | str
) -> Column:
    """The time without a zone that has these parts; an error when it runs if there is no such time."""
    return recorded("make_timestamp_ntz", years, months, days, hours, mins, secs)


function("make_timestamp_ntz")(_made_rule)


def try_make_timestamp_ntz(
    years: Column | str, months: Column | str, days: Column | str, hours: Column | str, mins: Column | str, secs: Column | str
) -> Column:
    """As `make_timestamp_ntz`; null if there is no such time."""
    return recorded("try_make_timestamp_ntz", years, months, days, hours, mins, secs)


function("try_make_timestamp_ntz")(_made_rule)


@operation("make_timestamp_ntz", fails=always)
def _make_timestamp(
    expression: TypedExpression, year: Datum, month: Datum, day: Datum, hour: Datum, minute: Datum, seconds: Datum
) -> Datum:
    """A local time of its parts; 60 seconds are a minute more."""

    def made(*parts: np.ndarray) -> np.ndarray:
        micros, exists = _made_micros(*parts)
        if not exists.all():
            raise pa.ArrowInvalid("there is no such time")
        return micros

    return in_rows(made, year, month, day, hour, minute, unscaled(seconds)).cast(to_arrow(expression.type))


@operation("try_make_timestamp_ntz", nullable=always_nullable)
def _try_make_timestamp(
    expression: TypedExpression, year: Datum, month: Datum, day: Datum, hour: Datum, minute: Datum, seconds: Datum
) -> Datum:
    """As make_timestamp_ntz; null where there is no such time."""
    values = (year, month, day, hour, minute, unscaled(seconds))
    micros = in_rows(lambda *parts: _made_micros(*parts)[0], *values)
    exists = in_rows(lambda *parts: _made_micros(*parts)[1], *values)
    return pc.if_else(pc.equal(exists, pa.scalar(1, pa.int64())), micros, None).cast(to_arrow(expression.type))


def _made_micros(
    year: np.ndarray, month: np.ndarray, day: np.ndarray, hour: np.ndarray, minute: np.ndarray, micros: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    days, exists = days_from_civil(year, month, day)
    sound = exists & (hour >= 0) & (hour < 24) & (minute >= 0) & (minute < 60) & (micros >= 0) & (micros <= 60_000_000)
    sound &= np.abs(days) < _LONG_MAX // DAY_MICROS
    days = np.where(sound, days, 0)
    return days * DAY_MICROS + hour * 3_600_000_000 + minute * 60_000_000 + micros, sound


def _unit_of(call: Invocation) -> str:
    """The unit that a call names first."""
    unit = call.typed(0)
    name = _ADDED_UNITS.get(str(unit.value).upper()) if unit.name == "literal" and unit.type == "string" else None
    if name is None:
        raise RuleError(f"{call.name}() takes a unit as argument 1, one of {', '.join(_ADDED_UNITS)}; found {unit.value!r}")
    return name


def timestamp_add(unit: str, quantity: Column | str, ts: Column | str) -> Column:
    """The time that many units (YEAR, MONTH, WEEK, DAY, HOUR …) later."""
    return recorded("timestamp_add", constant(unit), quantity, ts)


@function("timestampadd", "timestamp_add", "dateadd", "date_add")
def _added_rule(call: Invocation) -> TypedExpression | None:
    """So many units later; None of the form without a unit."""
    if len(call.arguments) != 3:
        return None
    unit = _unit_of(call)
    _, quantity, start = call.values
    (amount,) = fitted(replace(call, arguments=(quantity,)), "bigint")
    (moment,) = fitted(replace(call, arguments=(start,)), "timestamps")
    return TypedExpression("add_units", moment.type, (moment, amount), unit)


@spark_text("timestampadd", "timestamp_add")
def _add_text(arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    return _with_unit("timestampadd", arguments, texts)


def _with_unit(function: str, arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    """A call whose first argument is a word, if it is a constant."""
    if not arguments or not isinstance(arguments[0], Literal):
        return None
    return f"{function}({text_of(arguments[0])}, {', '.join(texts[1:])})"


@operation("add_units", fails=always, right_first=True, in_zone=shifted_in_zone)
def _add_units(expression: TypedExpression, start: Datum, amount: Datum, zone: pa.Scalar | None = None) -> Datum:
    """A time so many units later; a day of the month that does not exist becomes the last."""
    amount = pc.if_else(pc.is_valid(start), amount, None)  # Spark does not look at it beside null
    if expression.value in _UNIT_MICROS:
        micros = pc.multiply_checked(amount, pa.scalar(_UNIT_MICROS[expression.value], pa.int64()))
        return added_micros(start, micros, zone).cast(to_arrow(expression.type))
    months = pc.multiply_checked(amount, pa.scalar(_UNIT_MONTHS[expression.value], pa.int64())).cast(pa.int32())
    return added_months(start, months, zone).cast(to_arrow(expression.type))


def timestamp_diff(unit: str, start: Column | str, end: Column | str) -> Column:
    """Whole units (YEAR, MONTH, WEEK, DAY, HOUR …) from `start` to `end`."""
    return recorded("timestamp_diff", constant(unit), start, end)


@function("timestampdiff", "timestamp_diff", "datediff", "date_diff")
def _unit_difference_rule(call: Invocation) -> TypedExpression | None:
    """Whole units between two times; None of the form without a unit."""
    if len(call.arguments) != 3:
        return None
    unit = _unit_of(call)
    start, end = fitted(replace(call, arguments=call.arguments[1:]), "timestamp, timestamp")
    return TypedExpression("units_between", "bigint", (start, end), unit)


@spark_text("timestampdiff", "timestamp_diff")
def _difference_text(arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    return _with_unit("timestampdiff", arguments, texts)


@operation("units_between", fails=always, in_zone=on_local_times)
def _units_between(expression: TypedExpression, start: Datum, end: Datum) -> Datum:
    """Whole units from start to end, cut off towards zero."""
    unit = expression.value
    compute = _micros_between if unit in _UNIT_MICROS else _months_between
    size = _UNIT_MICROS.get(unit) or _UNIT_MONTHS[unit]
    return in_rows(lambda first, last: compute(first, last, size), start.cast(pa.int64()), end.cast(pa.int64()))


def _micros_between(start: np.ndarray, end: np.ndarray, size: int) -> np.ndarray:
    distance = end - start
    wrapped = (((end ^ start) & (end ^ distance)) < 0) | (distance == np.iinfo(np.int64).min)
    units = np.asarray(np.sign(distance) * (np.abs(distance) // size))
    for row in np.flatnonzero(wrapped):
        exact = int(end[row]) - int(start[row])
        whole = abs(exact) // size * (1 if exact > 0 else -1)
        if not -(2**63) <= whole < 2**63:
            raise pa.ArrowInvalid("the number of units between the times is beyond the range of bigint")
        units[row] = whole
    return units


def _months_between(start: np.ndarray, end: np.ndarray, size: int) -> np.ndarray:
    """Months whose day and time of day have come, in both directions."""
    numbers = []
    for micros in (start, end):
        days = np.floor_divide(micros, DAY_MICROS)
        year, month, day = civil_from_days(days)
        numbers.append((year * 12 + month, (day * DAY_MICROS) + micros - days * DAY_MICROS))
    (first, before), (last, after) = numbers
    months = last - first
    months = months - ((months > 0) & (after < before)) + ((months < 0) & (after > before))
    return np.asarray(np.sign(months) * (np.abs(months) // size))
