"""
Intervals: spans of time that stand between dates and times in an expression; no column holds them.

A value is a number of microseconds (days to seconds), a number of months (years to months), or months, days and microseconds together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.civil_dates import months_later
from streamkit.data_type import INTEGERS, to_arrow
from streamkit.expressions.core.coercion import CALENDAR_INTERVAL, DAY_INTERVALS, INTERVALS, MONTH_INTERVALS, TIMES, is_numeric
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.numbers import values_of, with_validity
from streamkit.expressions.core.operation import (
    Datum,
    Invocation,
    NoTranslationError,
    RuleError,
    always,
    fitted,
    function,
    operation,
)
from streamkit.expressions.core.recording import constant, recorded
from streamkit.expressions.core.session_zone import SessionZone, on_local_times
from streamkit.expressions.core.spark_text import spark_text, text_of
from streamkit.plan.expression import Expression, TypedExpression
from streamkit.zone_offsets import local_micros, moment_micros, zone_offsets

__all__ = ["make_dt_interval", "make_interval", "make_ym_interval"]

DAY_MICROS = 86_400_000_000
_MICROS = {
    "WEEK": 7 * DAY_MICROS, "DAY": DAY_MICROS, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000, "MILLISECOND": 1000, "MICROSECOND": 1,
}  # fmt: skip
_MONTHS = {"YEAR": 12, "MONTH": 1}
_LONG_MAX, _INT_MAX = 2**63 - 1, 2**31 - 1
_SPANS = ("DAY", "HOUR", "MINUTE", "SECOND")
_PART = re.compile(r"([+-]?)\s*(\d+)(?:\.(\d{0,9}))?\s+([A-Za-z]+)")
IntervalParts = tuple[int, int, int]


def is_day_interval(type: str) -> bool:
    return type in DAY_INTERVALS


@function("interval")
def _interval_rule(call: Invocation) -> TypedExpression:
    """An interval as SQL writes it: a text and its unit, or amounts with units in one text."""
    texts = [str(value.value) for value in call.values]
    if len(texts) == 1:
        return _from_words(texts[0])
    text, unit = texts[0].strip(), texts[1].upper()
    if " TO " in unit:
        return _from_span(text, *unit.split(" TO "))
    return _from_unit(text, unit.rstrip("S"))


@spark_text("interval")
def _interval_text(arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    match texts:
        case [value]:
            return f"INTERVAL {value}"
        case [value, _]:
            return f"INTERVAL {value} {text_of(arguments[1])}"
    return None


def _from_unit(text: str, unit: str) -> TypedExpression:
    if unit in _MONTHS and re.fullmatch(r"[+-]?\d+", text):
        return _month_literal(int(text) * _MONTHS[unit])
    match = re.fullmatch(r"([+-]?)(\d+)(?:\.(\d{1,9}))?", text)
    if unit not in _MICROS or not match or (match[3] and unit != "SECOND"):
        raise RuleError(f"INTERVAL {text} {unit} is no interval")
    return _day_literal(_signed(match[1], int(match[2]) * _MICROS[unit] + _fraction(match[3])), unit in ("DAY", "WEEK"))


def _from_words(text: str) -> TypedExpression:
    """Amounts with their units, such as `1 day 2 hours`."""
    body = re.sub(r"^\s*interval\s+", "", text, flags=re.IGNORECASE).strip()
    found = list(_PART.finditer(body))
    if not found or re.sub(r"\s+", "", "".join(match[0] for match in found)) != re.sub(r"\s+", "", body):
        raise RuleError(f"{text!r} is no interval; expected amounts with units, such as '1 day 2 hours'")
    pieces = [
        _from_unit(f"{match[1]}{match[2]}{'.' + match[3] if match[3] else ''}", match[4].upper().rstrip("S")) for match in found
    ]
    kinds = {piece.type in MONTH_INTERVALS for piece in pieces}
    if len(kinds) > 1:
        raise RuleError(f"{text!r} mixes months and days, which have no common unit; add them one after the other")
    total = sum(piece.value for piece in pieces)
    return (
        _month_literal(total) if kinds == {True} else _day_literal(total, all(piece.type == "interval day" for piece in pieces))
    )


def _from_span(text: str, first: str, last: str) -> TypedExpression:
    """A text such as `1 02:03:04.5` from a unit to a smaller one."""
    if (first, last) == ("YEAR", "MONTH"):
        match = re.fullmatch(r"([+-]?)(\d+)-(\d+)", text)
        if not match or int(match[3]) > 11:
            raise RuleError(f"{text!r} is no interval of YEAR TO MONTH; expected something like '1-2'")
        return _month_literal(_signed(match[1], 12 * int(match[2]) + int(match[3])))
    if first not in _SPANS or last not in _SPANS or _SPANS.index(first) >= _SPANS.index(last):
        raise RuleError(f"there is no interval of {first} TO {last}")
    units = _SPANS[_SPANS.index(first) : _SPANS.index(last) + 1]
    pattern = "".join(_span_separator(unit, place) + r"(\d+)" for place, unit in enumerate(units))
    match = re.fullmatch(r"([+-]?)" + pattern + (r"(?:\.(\d{1,9}))?" if last == "SECOND" else "()"), text)
    if not match:
        raise RuleError(f"{text!r} is no interval of {first} TO {last}")
    amounts = [int(match[2 + place]) for place in range(len(units))]
    if any(amount > (23 if unit == "HOUR" else 59) for unit, amount in zip(units[1:], amounts[1:])):
        raise RuleError(f"{text!r} is no interval of {first} TO {last}: a part is too large")
    total = sum(amount * _MICROS[unit] for unit, amount in zip(units, amounts)) + _fraction(match[len(units) + 2])
    return _day_literal(_signed(match[1], total), False)


def _span_separator(unit: str, place: int) -> str:
    return "" if place == 0 else " +" if unit == "HOUR" else ":"


def _fraction(digits: str | None) -> int:
    return int((digits or "").ljust(6, "0")[:6])


def _signed(sign: str, value: int) -> int:
    return -value if sign == "-" else value


def _day_literal(micros: int, days_only: bool) -> TypedExpression:
    if abs(micros) > _LONG_MAX:
        raise RuleError("the interval is longer than 2**63 microseconds")
    return literal(micros, "interval day" if days_only else "interval day to second")


def _month_literal(months: int) -> TypedExpression:
    if abs(months) > _INT_MAX:
        raise RuleError("the interval is longer than 2**31 months")
    return literal(months, "interval year to month")


def _padded(call: Invocation, takes: str, most: int, seconds: int | None) -> tuple[TypedExpression, ...]:
    """The arguments of a function whose missing ones are zero."""
    given = call.values
    if len(given) > most:
        raise RuleError(f"{call.name}() takes at most {most} arguments; found {len(given)}")
    missing = [literal(0, "int") for _ in range(most - len(given))]
    return fitted(replace(call, arguments=(*given, *missing)), takes)


def _make_days_rule(call: Invocation) -> TypedExpression:
    arguments = _padded(call, "int, int, int, decimal", 4, 3)
    return TypedExpression(
        "make_dt_interval", "interval day to second", (*arguments[:3], call.cast(arguments[3], "decimal(18,6)"))
    )


def make_dt_interval(
    days: Column | str | None = None,
    hours: Column | str | None = None,
    mins: Column | str | None = None,
    secs: Column | str | None = None,
) -> Column:
    """An interval of days to seconds, to be added to a date or a time; missing parts are 0."""
    return recorded("make_dt_interval", *_zeros(days, hours, mins, secs))


@operation("make_dt_interval", rule=_make_days_rule, fails=always)
def _make_days(expression: TypedExpression, days: Datum, hours: Datum, minutes: Datum, seconds: Datum) -> Datum:
    return _sum_of(((days, DAY_MICROS), (hours, 3_600_000_000), (minutes, 60_000_000), (unscaled(seconds), 1)))


def make_ym_interval(years: Column | str | None = None, months: Column | str | None = None) -> Column:
    """An interval of years and months, to be added to a date or a time; missing parts are 0."""
    return recorded("make_ym_interval", *_zeros(years, months))


@operation(
    "make_ym_interval",
    rule=lambda call: TypedExpression("make_ym_interval", "interval year to month", _padded(call, "int, int", 2, None)),
    fails=always,
)
def _make_months(expression: TypedExpression, years: Datum, months: Datum) -> Datum:
    return _sum_of(((years, 12), (months, 1))).cast(pa.int32())


def _make_interval_rule(call: Invocation) -> TypedExpression:
    arguments = _padded(call, "int, int, int, int, int, int, decimal", 7, 6)
    return TypedExpression(call.name.lower(), CALENDAR_INTERVAL, (*arguments[:6], call.cast(arguments[6], "decimal(18,6)")))


def make_interval(
    years: Column | str | None = None, months: Column | str | None = None, weeks: Column | str | None = None, days: Column | str | None = None,
    hours: Column | str | None = None, mins: Column | str | None = None, secs: Column | str | None = None,
) -> Column:  # fmt: skip
    """An interval of months, days and seconds, to be added to a date or a time; missing parts are 0."""
    return recorded("make_interval", *_zeros(years, months, weeks, days, hours, mins, secs))


def _zeros(*parts: Column | str | None) -> tuple[object, ...]:
    return tuple(constant(0) if part is None else part for part in parts)


@operation("make_interval", rule=_make_interval_rule, fails=always)
def _make_interval(
    expression: TypedExpression,
    years: Datum,
    months: Datum,
    weeks: Datum,
    days: Datum,
    hours: Datum,
    minutes: Datum,
    seconds: Datum,
) -> Datum:
    parts = (
        _sum_of(((years, 12), (months, 1))).cast(pa.int32()),
        _sum_of(((weeks, 7), (days, 1))).cast(pa.int32()),
        _sum_of(((hours, 3_600_000_000), (minutes, 60_000_000), (unscaled(seconds), 1))),
    )
    return _calendar_interval(parts)


def _calendar_interval(parts: Sequence[Datum]) -> Datum:
    """Months, days and microseconds as one value; null if one of them is."""
    type = to_arrow(CALENDAR_INTERVAL)
    counts = [len(part) for part in parts if isinstance(part, pa.Array)]
    if not counts:
        values = [part.as_py() for part in parts]
        return pa.scalar(None if None in values else dict(zip(("months", "days", "microseconds"), values)), type)
    columns = [part if isinstance(part, pa.Array) else pa.repeat(part, counts[0]) for part in parts]
    missing = pc.or_(pc.or_(columns[0].is_null(), columns[1].is_null()), columns[2].is_null())
    return pa.StructArray.from_arrays(columns, fields=list(type), mask=missing)


def unscaled(value: Datum) -> Datum:
    """The digits of decimals as integers; ArrowInvalid if they are too many."""
    if isinstance(value, pa.Scalar):
        return unscaled(pa.array([value], value.type))[0]
    width = pa.decimal128 if pa.types.is_decimal128(value.type) else pa.decimal256
    whole = pa.Array.from_buffers(width(value.type.precision, 0), len(value), value.buffers(), offset=value.offset)
    return whole.cast(pa.int64())


def _sum_of(terms: Sequence[tuple[Datum, int]]) -> Datum:
    total: Datum | None = None
    for value, factor in terms:
        part = pc.multiply_checked(value.cast(pa.int64()), pa.scalar(factor, pa.int64()))
        total = part if total is None else pc.add_checked(total, part)
    assert total is not None
    return total


@function("add", "subtract")
def _shift_rule(call: Invocation) -> TypedExpression | None:
    """A date or a time and an interval, a date and a number of days, or two intervals; None of anything else."""
    if len(call.arguments) != 2:
        return None
    left, right = call.values
    adds = call.name.lower() == "add"
    if adds and (left.type in INTERVALS or (right.type == "date" and is_numeric(left.type))) and right.type not in INTERVALS:
        left, right = right, left
    if left.type in TIMES and right.type == "void":
        return literal(None, left.type if adds or left.type == "date" else "interval day to second")
    if left.type == "date" and is_numeric(right.type):
        return call.of("date_add" if adds else "date_sub", left, right)
    if right.type not in INTERVALS:
        return _difference_rule(call, left, right) if not adds else None
    shift = right if adds else call.build(TypedExpression("negate_interval", right.type, (right,)))
    if left.type in INTERVALS:
        return _sum_of_intervals(call, left, shift)
    if left.type == "string" and right.type not in MONTH_INTERVALS:
        return call.cast(shifted(call, call.cast(left, "timestamp"), shift), "string")
    if left.type not in TIMES:
        if left.type == "void":
            return call.cast(left, right.type)
        raise RuleError(f"an interval can be added to a date, a time or an interval; found {left.type}")
    return shifted(call, left, shift)


def shifted(call: Invocation, start: TypedExpression, interval: TypedExpression) -> TypedExpression:
    """A date or a time and an interval."""
    if start.type == "date":
        if interval.type in MONTH_INTERVALS:
            return call.of("add_months", start, _as_number(call, interval, "int"))
        if interval.type == "interval day":
            days = _as_number(call, interval, "int")
            return call.build(TypedExpression("date_add", "date", (start, days)))
        if interval.type == CALENDAR_INTERVAL:
            return call.build(TypedExpression("add_interval", "date", (start, interval)))
        start = call.cast(start, "timestamp")
    if interval.type in DAY_INTERVALS:
        micros = literal(interval.value, "bigint") if interval.name == "literal" else interval
        return call.build(TypedExpression("add_microseconds", start.type, (start, micros)))
    return call.build(TypedExpression("add_interval", start.type, (start, interval)))


def _as_number(call: Invocation, interval: TypedExpression, type: str) -> TypedExpression:
    """Days of a day interval, months of the other kind."""
    return call.build(TypedExpression("interval_number", type, (interval,)))


@operation("interval_number", fails=always)
def _interval_number(expression: TypedExpression, interval: Datum) -> Datum:
    if expression.arguments[0].type in MONTH_INTERVALS:
        return interval.cast(pa.int32())
    return pc.divide(interval, pa.scalar(DAY_MICROS, pa.int64())).cast(pa.int32())


@operation("negate_interval", fails=always)
def _negate_interval(expression: TypedExpression, interval: Datum) -> Datum:
    if expression.type != CALENDAR_INTERVAL:
        return pc.negate_checked(interval)
    return _calendar_interval([pc.negate_checked(part) for part in _parts(interval)])


def _parts(interval: Datum) -> tuple[Datum, Datum, Datum]:
    months, days, micros = (pc.struct_field(interval, [place]) for place in range(3))
    return months, days, micros


@function("negate")
def _negate_rule(call: Invocation) -> TypedExpression | None:
    if len(call.arguments) == 1 and call.typed(0).type in INTERVALS:
        return TypedExpression("negate_interval", call.typed(0).type, call.values)
    return None


def _sum_of_intervals(call: Invocation, left: TypedExpression, right: TypedExpression) -> TypedExpression:
    if (left.type in DAY_INTERVALS) != (right.type in DAY_INTERVALS) or CALENDAR_INTERVAL in (left.type, right.type):
        raise RuleError(
            f"{left.type} and {right.type} cannot be added: months and days have no common unit; add them one after the other"
        )
    type = left.type if left.type == right.type else "interval day to second"
    return call.build(TypedExpression("add_intervals", type, (left, right)))


@operation("add_intervals", fails=always)
def _add_intervals(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
    return pc.add_checked(left, right)


@function("multiply")
def _multiple_rule(call: Invocation) -> TypedExpression | None:
    """An interval so many times; None of numbers."""
    if len(call.arguments) != 2 or not any(type in INTERVALS for type in call.types):
        return None
    interval, number = call.values if call.types[0] in INTERVALS else call.values[::-1]
    if interval.type == CALENDAR_INTERVAL or number.type not in INTEGERS:
        raise NoTranslationError(
            f"{call.types[0]} times {call.types[1]} has no Arrow translation; an interval can be multiplied by an integer"
        )
    type = "interval day to second" if interval.type in DAY_INTERVALS else interval.type
    return TypedExpression("multiply_interval", type, (interval, call.cast(number, "bigint")))


@operation("multiply_interval", fails=always)
def _multiply_interval(expression: TypedExpression, interval: Datum, number: Datum) -> Datum:
    return pc.multiply_checked(interval.cast(pa.int64()), number).cast(to_arrow(expression.type))


@function("divide")
def _quotient_rule(call: Invocation) -> TypedExpression | None:
    if any(type in INTERVALS for type in call.types):
        raise NoTranslationError("an interval divided by a number has no Arrow translation")
    return None


def _difference_rule(call: Invocation, left: TypedExpression, right: TypedExpression) -> TypedExpression | None:
    """The interval between two dates, or two times; None of anything else."""
    types = {left.type, right.type}
    if not types & set(TIMES) or not types <= {*TIMES, "string", "void"}:
        return None
    if types <= {"date", "string", "void"}:
        left, right = (value if value.type == "date" else call.cast(value, "date") for value in (left, right))
        return TypedExpression("subtract_dates", "interval day", (left, right))
    common = "timestamp" if types != {"timestamp_ntz"} and types & {"timestamp", "string", "void"} else "timestamp_ntz"
    if "timestamp_ntz" in types and types <= {"timestamp_ntz", "date"}:
        common = "timestamp_ntz"
    left, right = call.cast(left, common), call.cast(right, common)
    return TypedExpression("subtract_timestamps", "interval day to second", (left, right))


@operation("subtract_dates")
def _subtract_dates(expression: TypedExpression, end: Datum, start: Datum) -> Datum:
    days = pc.subtract(end.cast(pa.int32()).cast(pa.int64()), start.cast(pa.int32()).cast(pa.int64()))
    return pc.multiply(days, pa.scalar(DAY_MICROS, pa.int64()))


@operation("subtract_timestamps", fails=always, in_zone=on_local_times)
def _subtract_timestamps(expression: TypedExpression, end: Datum, start: Datum) -> Datum:
    return pc.subtract_checked(end.cast(pa.int64()), start.cast(pa.int64()))


PASSING_UNITS = ("microsecond", "millisecond", "second", "minute", "hour")  # time that passes, never days of the calendar


def shifted_in_zone(expression: TypedExpression, zone: SessionZone) -> TypedExpression:
    """Days and months are those of the calendar, whatever their hours; the rest is time that passes."""
    start, amount = expression.arguments[:2]
    if start.type != "timestamp" or len(expression.arguments) > 2 or expression.value in PASSING_UNITS:
        return expression
    if expression.name == "add_microseconds" and amount.name == "literal" and abs(amount.value or 0) < DAY_MICROS:
        return expression
    return replace(expression, arguments=(start, amount, zone.name))


@operation("add_microseconds", fails=always, in_zone=shifted_in_zone)
def _add_microseconds(expression: TypedExpression, start: Datum, micros: Datum, zone: pa.Scalar | None = None) -> Datum:
    """A time so much later; with a zone, whole days are days of its calendar."""
    return added_micros(start, micros, zone).cast(to_arrow(expression.type))


def added_micros(start: Datum, micros: Datum, zone: pa.Scalar | None) -> Datum:
    """Microseconds since 1970 of a time so many microseconds later; with a zone, whole days are days of its calendar."""
    moments = start.cast(pa.int64())
    if zone is None:
        return pc.add_checked(moments, micros)
    days = pc.divide(micros, pa.scalar(DAY_MICROS, pa.int64()))
    rest = pc.subtract(micros, pc.multiply(days, pa.scalar(DAY_MICROS, pa.int64())))
    return pc.add_checked(_in_local(moved_by_days, moments, days, zone), rest)


def added_months(start: Datum, months: Datum, zone: pa.Scalar | None) -> Datum:
    """Microseconds since 1970 of a time so many months later, by the calendar of a zone if there is one."""
    return _in_local(moved_by_months, start.cast(pa.int64()), months, zone)


def _in_local(
    move: Callable[[np.ndarray, np.ndarray], np.ndarray], moments: Datum, amount: Datum, zone: pa.Scalar | None
) -> Datum:
    """Move local times: those of a zone, whose offset stays where it can, or the times themselves."""
    if zone is None:
        return in_rows(move, moments, amount)
    offsets = zone_offsets(zone.as_py())
    return in_rows(
        lambda micros, amounts: moment_micros(move(local_micros(micros, offsets), amounts), offsets, micros), moments, amount
    )


@operation("add_interval", fails=always, in_zone=shifted_in_zone)
def _add_interval(expression: TypedExpression, start: Datum, interval: Datum, zone: pa.Scalar | None = None) -> Datum:
    """Months first, then days, then microseconds."""
    if expression.type == "date":
        return _added_to_date(start, *_parts(interval))
    if expression.arguments[1].type in MONTH_INTERVALS:
        return added_months(start, interval, zone).cast(to_arrow(expression.type))
    months, days, micros = _parts(interval)
    moved = added_months(start, months, zone)
    moved = pc.add_checked(_in_local(moved_by_days, moved, days, zone), micros)
    return moved.cast(to_arrow(expression.type))


def _added_to_date(start: Datum, months: Datum, days: Datum, micros: Datum) -> Datum:
    if pc.any(pc.and_(pc.not_equal(micros, pa.scalar(0, pa.int64())), start.is_valid())).as_py():
        raise pa.ArrowInvalid("an interval with hours, minutes or seconds cannot be added to a date; cast it to a timestamp")
    moved = in_rows(months_later, start.cast(pa.int32()), months)
    return pc.add_checked(moved, days.cast(pa.int64())).cast(pa.int32()).cast(pa.date32())


def moved_by_months(micros: np.ndarray, months: np.ndarray) -> np.ndarray:
    """Times so many months later, in microseconds since 1970; ArrowInvalid beyond the range of timestamps."""
    days = np.floor_divide(micros, DAY_MICROS)
    moved = months_later(days, months)
    if np.abs(moved).max(initial=0) > _LONG_MAX // DAY_MICROS - 1:
        raise pa.ArrowInvalid("the time is beyond the range of timestamps")
    return np.asarray(micros + (moved - days) * DAY_MICROS)


def moved_by_days(micros: np.ndarray, days: np.ndarray) -> np.ndarray:
    """Times so many days later, in microseconds since 1970; ArrowInvalid beyond the range of timestamps."""
    if (
        np.abs(days).max(initial=0) > _LONG_MAX // DAY_MICROS
        or (np.abs(micros // DAY_MICROS + days) > _LONG_MAX // DAY_MICROS - 1).any()
    ):
        raise pa.ArrowInvalid("the time is beyond the range of timestamps")
    return np.asarray(micros + days * DAY_MICROS)


def in_rows(compute: Callable[..., np.ndarray], *values: Datum, gives: pa.DataType | None = None) -> Datum:
    """
    `compute` on the numbers of the rows where no value is null, as 64-bit integers; a scalar if all values are.

    It gives 64-bit integers too, or numbers of the type `gives`.
    """
    type = gives or pa.int64()
    counts = [len(value) for value in values if isinstance(value, pa.Array)]
    count = max(counts, default=1)
    columns = [value if isinstance(value, pa.Array) else pa.array([value], value.type) for value in values]
    numbers = [np.broadcast_to(values_of(column).astype(np.int64), (count,)) for column in columns]
    if not any(column.null_count for column in columns):
        array = with_validity(np.asarray(compute(*numbers)).astype(type.to_pandas_dtype()), type, pa.scalar(True))
    else:
        there = np.logical_and.reduce([np.broadcast_to(np.asarray(column.is_valid()), (count,)) for column in columns])
        result = np.zeros(count, type.to_pandas_dtype())
        result[there] = compute(*(number[there] for number in numbers))
        array = with_validity(result, type, pa.array(there))
    return array if counts else array[0]
