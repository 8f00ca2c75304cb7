"""Dates in the proleptic Gregorian calendar: their fields, and what is computed with them; a week starts on Monday."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.civil_dates import civil_from_days, days_from_civil, last_day_of_month, months_later
from streamkit.data_type import to_arrow
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.mapping import each_value
from streamkit.expressions.core.numbers import values_of, with_validity
from streamkit.expressions.core.operation import (
    Datum,
    Invocation,
    RuleError,
    always,
    always_nullable,
    fitted,
    function,
    operation,
)
from streamkit.expressions.core.recording import constant, recorded
from streamkit.expressions.times.datetime_patterns import MONTHS, WEEKDAYS
from streamkit.expressions.times.far_years import field_of_days, floored_days
from streamkit.expressions.times.intervals import in_rows
from streamkit.plan.expression import TypedExpression
from streamkit.zone_offsets import start_of_day_seconds, zone_offsets

__all__ = [
    "add_months",
    "date_add",
    "date_diff",
    "date_from_unix_date",
    "date_sub",
    "dateadd",
    "datediff",
    "day",
    "dayname",
    "dayofmonth",
    "dayofweek",
    "dayofyear",
    "last_day",
    "make_date",
    "month",
    "monthname",
    "months_between",
    "next_day",
    "quarter",
    "trunc",
    "unix_date",
    "weekday",
    "weekofyear",
    "year",
]

DAY_SECONDS = 86_400
UNITS = {
    "YEAR": "year", "YYYY": "year", "YY": "year", "QUARTER": "quarter", "MONTH": "month", "MON": "month", "MM": "month", "WEEK": "week",
    "DAY": "day", "DD": "day", "HOUR": "hour", "MINUTE": "minute", "SECOND": "second", "MILLISECOND": "millisecond",
    "MICROSECOND": "microsecond",
}  # fmt: skip
_DATE_UNITS = ("year", "quarter", "month", "week")
_MONTH_SECONDS = 31 * DAY_SECONDS  # as months_between counts them
_INT_MAX = 2**31 - 1


def _iso_year(value: Datum) -> Datum:
    return pc.struct_field(pc.iso_calendar(value), [0])


def _date_field_rule(name: str) -> Callable[[Invocation], TypedExpression]:
    """The rule of a field of a date: a time is taken as its day."""

    def rule(call: Invocation) -> TypedExpression:
        (value,) = fitted(call, "=date|timestamps|string")
        day = call.cast(value, "date") if value.type != "date" else value
        return TypedExpression(name, "int", (day,))

    return rule


def _enter_field(name: str, take: Callable[[Datum], Datum], *functions: str) -> None:
    """Enter a function that takes a field of a day."""
    operation(name, rule=_date_field_rule(name), functions=functions)(
        lambda _, value: pc.cast(field_of_days(take, value, is_year=name == "year"), pa.int32())
    )


def _weekday(value: Datum) -> Datum:
    return pc.day_of_week(value, count_from_zero=True, week_start=1)


def year(column: Column | str) -> Column:
    """The year."""
    return recorded("year", column)


_enter_field("year", pc.year)


def quarter(column: Column | str) -> Column:
    """The quarter, 1 to 4."""
    return recorded("quarter", column)


_enter_field("quarter", pc.quarter)


def month(column: Column | str) -> Column:
    """The month, 1 to 12."""
    return recorded("month", column)


_enter_field("month", pc.month)


def dayofmonth(column: Column | str) -> Column:
    """The day of the month."""
    return recorded("dayofmonth", column)


day = dayofmonth


_enter_field("dayofmonth", pc.day, "day")


def dayofyear(column: Column | str) -> Column:
    """The day of the year, from 1."""
    return recorded("dayofyear", column)


_enter_field("dayofyear", pc.day_of_year)


def weekofyear(column: Column | str) -> Column:
    """The ISO week."""
    return recorded("weekofyear", column)


_enter_field("weekofyear", pc.iso_week)


def dayofweek(column: Column | str) -> Column:
    """The day of the week, 1 for Sunday."""
    return recorded("dayofweek", column)


_enter_field("dayofweek", lambda value: pc.day_of_week(value, count_from_zero=False, week_start=7))


def weekday(column: Column | str) -> Column:
    """The day of the week, 0 for Monday."""
    return recorded("weekday", column)


_enter_field("weekday", _weekday)


@operation("yearofweek")
def _year_of_week(_: TypedExpression, value: Datum) -> Datum:
    return pc.cast(field_of_days(_iso_year, value, is_year=True), pa.int32())


@operation("dayofweek_iso")
def _day_of_iso_week(_: TypedExpression, value: Datum) -> Datum:
    return pc.cast(field_of_days(lambda days: pc.day_of_week(days, count_from_zero=False, week_start=1), value), pa.int32())


def _name_rule(call: Invocation) -> TypedExpression:
    return TypedExpression(call.name.lower(), "string", fitted(call, "date"))


def dayname(column: Column | str) -> Column:
    """The day of the week in English, Mon to Sun."""
    return recorded("dayname", column)


@operation("dayname", rule=_name_rule)
def _dayname(expression: TypedExpression, value: Datum) -> Datum:
    """Mon to Sun."""
    return _named(WEEKDAYS, field_of_days(_weekday, value))


def monthname(column: Column | str) -> Column:
    """The month in English, Jan to Dec."""
    return recorded("monthname", column)


@operation("monthname", rule=_name_rule)
def _monthname(expression: TypedExpression, value: Datum) -> Datum:
    """Jan to Dec."""
    return _named(MONTHS, pc.subtract(field_of_days(pc.month, value), pa.scalar(1, pa.int64())))


def _named(names: tuple[str, ...], places: Datum) -> Datum:
    texts = pa.array([name[:3] for name in names])
    return texts.take(places) if isinstance(places, pa.Array) else texts[places.as_py()]


def known_unit(names: Iterable[str]) -> Callable[[TypedExpression, Datum], Datum]:
    """The kernel that writes a unit in one way; null if it is none of these, so that nothing else is looked at, as in Spark."""
    known = {written: name.upper() for written, name in UNITS.items() if name in names}

    def kernel(_: TypedExpression, unit: Datum) -> Datum:
        return each_value(lambda text: known.get(text.upper()), pa.string(), unit)

    return kernel


operation("date_unit", nullable=always_nullable)(known_unit(_DATE_UNITS))


def trunc(date: Column | str, unit: str) -> Column:
    """The first day of the unit (year, quarter, month, week) in which the date lies."""
    return recorded("trunc", date, constant(unit))


@operation("trunc", takes="date, string", gives="date", nullable=always_nullable, right_first=True)
def _trunc(expression: TypedExpression, value: Datum, unit: Datum) -> Datum:
    """The first day of the unit; null if the unit is unknown, as in Spark."""
    return by_distinct(_truncated_days, unit, value)


def _truncated_days(value: pa.Array, unit: str) -> Datum:
    return floored_days(value, unit.lower())


@function("trunc")
def _trunc_rule(call: Invocation) -> TypedExpression:
    value, unit = fitted(call, "date, string")
    return TypedExpression("trunc", "date", (value, call.build(TypedExpression("date_unit", "string", (unit,)))))


def by_distinct(compute: Callable[[pa.Array, str], Datum], texts: Datum, values: Datum) -> Datum:
    """`compute` for the values beside each different text; null beside null."""
    if isinstance(texts, pa.Scalar):
        if isinstance(values, pa.Array):
            return compute(values, texts.as_py()) if values.null_count < len(values) else pa.scalar(None, pa.null())
        computed = compute(pa.array([values], values.type), texts.as_py())
        return computed[0] if isinstance(computed, pa.Array) else computed
    column = values if isinstance(values, pa.Array) else pa.repeat(values, len(texts))
    parts, places = [], []
    for text in pc.unique(texts).drop_null().to_pylist():
        mine = pc.and_(pc.equal(texts, text).fill_null(False), column.is_valid())
        part = column.filter(mine)
        if not len(part):
            continue
        computed = compute(part, text)
        parts.append(computed if isinstance(computed, pa.Array) else pa.repeat(computed, len(part)))
        places.append(np.flatnonzero(np.asarray(mine)))
    if not parts:
        return pa.scalar(None, to_arrow("void"))
    together = pa.concat_arrays(parts)
    taken = np.full(len(texts), -1, np.int64)
    taken[np.concatenate(places)] = np.arange(len(together))
    return together.take(pa.array(taken, mask=taken < 0))


def _day_shift_rule(name: str) -> Callable[[Invocation], TypedExpression | None]:
    """The rule of a date some days later or earlier; times are taken as their day. None of the form with a unit."""

    def rule(call: Invocation) -> TypedExpression | None:
        if len(call.arguments) == 3 and name == "date_add":
            return None
        if len(call.arguments) == 2 and call.typed(0).type in ("timestamp", "timestamp_ntz"):
            call = replace(call, arguments=(call.cast(call.typed(0), "date"), call.typed(1)))
        start, days = fitted(call, "date, any")
        if days.type in ("string", "void"):
            days = call.cast(days, "int")
        if days.type not in ("int", "smallint", "tinyint"):
            raise RuleError(f"{call.name}() takes int, smallint or tinyint as argument 2; found {days.type}; cast it")
        return TypedExpression(name, "date", (start, days))

    return rule


def date_add(start: Column | str, days: Column | str | int) -> Column:
    """The date that many days later."""
    return recorded("date_add", start, days)


dateadd = date_add


@operation("date_add", rule=_day_shift_rule("date_add"), functions=("dateadd",))
def _date_add(_: TypedExpression, start: Datum, days: Datum) -> Datum:
    return pc.add(start.cast(pa.int32()), days.cast(pa.int32())).cast(pa.date32())


def date_sub(start: Column | str, days: Column | str | int) -> Column:
    """The date that many days earlier."""
    return recorded("date_sub", start, days)


@operation("date_sub", rule=_day_shift_rule("date_sub"))
def _date_sub(_: TypedExpression, start: Datum, days: Datum) -> Datum:
    return pc.subtract(start.cast(pa.int32()), days.cast(pa.int32())).cast(pa.date32())


def _datediff_rule(call: Invocation) -> TypedExpression | None:
    return None if len(call.arguments) == 3 else TypedExpression("datediff", "int", fitted(call, "date, date"))


def datediff(end: Column | str, start: Column | str) -> Column:
    """Days from `start` to `end`."""
    return recorded("datediff", end, start)


date_diff = datediff


@operation("datediff", rule=_datediff_rule, functions=("date_diff",))
def _datediff(_: TypedExpression, end: Datum, start: Datum) -> Datum:
    return pc.subtract(end.cast(pa.int32()), start.cast(pa.int32()))


def unix_date(column: Column | str) -> Column:
    """Days since 1970."""
    return recorded("unix_date", column)


@operation("unix_date", takes="=date", gives="int")
def _unix_date(_: TypedExpression, value: Datum) -> Datum:
    return value.cast(pa.int32())


def date_from_unix_date(column: Column | str) -> Column:
    """The date that many days after 1970-01-01."""
    return recorded("date_from_unix_date", column)


@operation("date_from_unix_date", takes="int", gives="date")
def _date_from_unix_date(_: TypedExpression, days: Datum) -> Datum:
    return days.cast(pa.date32())


def add_months(start: Column | str, months: Column | str | int) -> Column:
    """The date that many months later; the last day of the month if the month has no such day."""
    return recorded("add_months", start, months)


@operation("add_months", takes="date, int", gives="date", fails=always)
def _add_months(_: TypedExpression, start: Datum, months: Datum) -> Datum:
    return as_dates(in_rows(months_later, start.cast(pa.int32()), months))


def as_dates(days: Datum) -> Datum:
    """Days since 1970 as dates; ArrowInvalid beyond the range of dates."""
    return days.cast(pa.int32()).cast(pa.date32())


def last_day(date: Column | str) -> Column:
    """The last day of the month in which the date lies."""
    return recorded("last_day", date)


@operation("last_day", takes="date", gives="date")
def _last_day(_: TypedExpression, value: Datum) -> Datum:
    """The last day of the month."""
    return as_dates(in_rows(_last_days, value.cast(pa.int32())))


def _last_days(days: np.ndarray) -> np.ndarray:
    days = days.astype(np.int64)
    year, month, day = civil_from_days(days)
    return np.asarray(days + last_day_of_month(year, month) - day).astype(np.int32)  # it may wrap around, as in Spark


_DAY_NAMES = {
    name: place
    for place, full in enumerate(("THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY"))
    for name in (full[:2], full[:3], full)
}  # 1970-01-01 was a Thursday


def next_day(date: Column | str, dayOfWeek: str) -> Column:
    """The first date after the given one that is this day of the week (Mon, Monday …)."""
    return recorded("next_day", date, constant(dayOfWeek))


@operation("next_day", takes="date, string", gives="date", fails=always, nullable=always_nullable)
def _next_day(_: TypedExpression, value: Datum, name: Datum) -> Datum:
    """The first such day of the week after the date; a text that names none raises."""
    return by_distinct(_next_days, name, value)


def _next_days(value: pa.Array, name: str) -> Datum:
    wanted = _DAY_NAMES.get(name.upper())
    if wanted is None:
        raise pa.ArrowInvalid(f"{name!r} is no day of the week; expected something like Mon or Monday")
    days = values_of(value).astype(np.int64)
    return with_validity((days + 1 + (wanted - 1 - days) % 7).astype(np.int32), pa.date32(), value.is_valid())


def make_date(year: Column | str, month: Column | str, day: Column | str) -> Column:
    """The date with these parts; an error when it runs if there is no such date."""
    return recorded("make_date", year, month, day)


@operation("make_date", takes="int, int, int", gives="date", fails=always)
def _make_date(_: TypedExpression, year: Datum, month: Datum, day: Datum) -> Datum:
    return as_dates(in_rows(_made_days, year, month, day))


def _made_days(year: np.ndarray, month: np.ndarray, day: np.ndarray) -> np.ndarray:
    days, exists = days_from_civil(*np.broadcast_arrays(year, month, day))
    if not exists.all():
        raise pa.ArrowInvalid("there is no such date")
    return days


def months_between(date1: Column | str, date2: Column | str, roundOff: bool = True) -> Column:
    """Months from `date2` to `date1`, of 31 days where they are not whole, rounded to eight digits unless told otherwise."""
    return recorded("months_between", date1, date2, constant(roundOff))


@function("months_between")
def _months_between_rule(call: Invocation) -> TypedExpression:
    if len(call.arguments) == 2:
        call = replace(call, arguments=(*call.arguments, literal(True, "boolean")))
    if len(call.arguments) != 3:
        raise RuleError(f"months_between() takes 2 or 3 arguments; found {len(call.arguments)}")
    return TypedExpression(
        "months_between", "double", (*fitted(call, "timestamp, timestamp, boolean"), literal(call.zone, "string"))
    )


@operation("months_between")
def _months_between(_: TypedExpression, end: Datum, start: Datum, rounds: Datum, zone: pa.Scalar) -> Datum:
    """Months of 31 days; whole where both are the same day of the month, or the last one."""
    offsets = zone_offsets(zone.as_py())

    def parts(micros: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        seconds = np.floor_divide(micros, 1_000_000)
        days = np.floor_divide(seconds + offsets.at(seconds), DAY_SECONDS)
        year, month, day = civil_from_days(days)
        within = seconds - start_of_day_seconds(days, offsets)
        return year * 12 + month, day, last_day_of_month(year, month) - day, within

    def months_and_rest(end: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        months, day, left, second = parts(end)
        other_months, other_day, other_left, other_second = parts(start)
        whole = (day == other_day) | ((left == 0) & (other_left == 0))
        rest = (day - other_day) * DAY_SECONDS + second - other_second
        return months - other_months, np.where(whole, 0, rest)

    def rounded(end: np.ndarray, start: np.ndarray) -> np.ndarray:
        months, rest = months_and_rest(end, start)
        return _rounded_months(months * _MONTH_SECONDS + rest)

    def exact(end: np.ndarray, start: np.ndarray) -> np.ndarray:
        months, rest = months_and_rest(end, start)
        return np.asarray(months.astype(np.float64) + rest / float(_MONTH_SECONDS))

    moments = end.cast(pa.int64()), start.cast(pa.int64())
    if isinstance(rounds, pa.Scalar):
        return in_rows(rounded if rounds.as_py() else exact, *moments, gives=pa.float64())
    return pc.if_else(rounds, in_rows(rounded, *moments, gives=pa.float64()), in_rows(exact, *moments, gives=pa.float64()))


def _rounded_months(numbers: np.ndarray) -> np.ndarray:
    """To eight digits, half away from zero."""
    size = np.abs(numbers)
    whole, rest = size // _MONTH_SECONDS, size % _MONTH_SECONDS
    digits = (rest * (2 * 10**8) + _MONTH_SECONDS) // (2 * _MONTH_SECONDS)
    return np.asarray(np.sign(numbers) * ((whole * 10**8 + digits) / 1e8))
