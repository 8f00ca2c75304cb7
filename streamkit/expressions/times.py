"""Dates and timestamps, in UTC and the proleptic Gregorian calendar; a week starts on Monday."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import to_arrow
from streamkit.expressions.calendar import days_from_civil
from streamkit.expressions.coercion import INTERVALS, is_numeric
from streamkit.expressions.literals import literal
from streamkit.expressions.numbers import values_of, with_validity
from streamkit.expressions.operation import (
    Datum,
    Invocation,
    NoTranslationError,
    RuleError,
    always,
    always_nullable,
    fitted,
    function,
    needs_literals,
    operation,
)
from streamkit.expressions.patterns import quote
from streamkit.plan.expression import TypedExpression

DAY_SECONDS = 86_400
DEFAULT_FORMAT = "yyyy-MM-dd HH:mm:ss"
_MICROSECONDS = {
    "WEEK": 604_800_000_000, "DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000, "MILLISECOND": 1000, "MICROSECOND": 1,
}  # fmt: skip
UNITS = {
    "YEAR": "year", "YYYY": "year", "YY": "year", "QUARTER": "quarter", "MONTH": "month", "MON": "month", "MM": "month", "WEEK": "week",
    "DAY": "day", "DD": "day", "HOUR": "hour", "MINUTE": "minute", "SECOND": "second", "MILLISECOND": "millisecond",
    "MICROSECOND": "microsecond",
}  # fmt: skip
_DATE_UNITS = ("year", "quarter", "month", "week")
_DATE_FIELDS: dict[str, Callable[[Datum], Datum]] = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "dayofmonth": pc.day,
    "dayofyear": pc.day_of_year,
    "weekofyear": pc.iso_week,
    "dayofweek": lambda value: pc.day_of_week(value, count_from_zero=False, week_start=7),
    "weekday": lambda value: pc.day_of_week(value, count_from_zero=True, week_start=1),
}
_TIME_FIELDS: dict[str, Callable[[Datum], Datum]] = {"hour": pc.hour, "minute": pc.minute, "second": pc.second}


def _without_zone(value: Datum) -> Datum:
    """The same moment; Arrow is some twenty times faster where it need not ask a zone, even UTC."""
    return value.cast(pa.timestamp("us")) if pa.types.is_timestamp(value.type) else value


def _field(take: Callable[[Datum], Datum]) -> Callable[[TypedExpression, Datum], Datum]:
    return lambda _, value: pc.cast(take(_without_zone(value)), pa.int32())


def _date_field_rule(name: str) -> Callable[[Invocation], TypedExpression]:
    """The rule of a field of a date: a time is taken as its day."""

    def rule(call: Invocation) -> TypedExpression:
        (value,) = fitted(call, "date|timestamps|string")
        day = call.cast(value, "date") if value.type != "date" else value
        return TypedExpression(name, "int", (day,))

    return rule


for _name, _take in _DATE_FIELDS.items():
    operation(_name, rule=_date_field_rule(_name), functions=("day",) if _name == "dayofmonth" else ())(_field(_take))
for _name, _take in _TIME_FIELDS.items():
    operation(_name, takes="timestamps", gives="int")(_field(_take))


@operation("date_trunc", takes="string, timestamp", gives="timestamp", nullable=always_nullable, refuse=needs_literals(0))
def _date_trunc(expression: TypedExpression, unit: pa.Scalar, value: Datum) -> Datum:
    """The start of the unit; null if the unit is unknown, as in Spark."""
    return _floor(value, UNITS.get(unit.as_py().upper()))


@operation("trunc", takes="date, string", gives="date", nullable=always_nullable, refuse=needs_literals(1))
def _trunc(expression: TypedExpression, value: Datum, unit: pa.Scalar) -> Datum:
    name = UNITS.get(unit.as_py().upper())
    return _floor(value, name if name in _DATE_UNITS else None)


def _floor(value: Datum, unit: str | None) -> Datum:
    return pc.floor_temporal(_without_zone(value), unit=unit).cast(value.type) if unit else pa.scalar(None, value.type)


def _day_shift_rule(name: str) -> Callable[[Invocation], TypedExpression]:
    """The rule of a date some days later or earlier; times are taken as their day."""

    def rule(call: Invocation) -> TypedExpression:
        if len(call.arguments) == 2 and call.typed(0).type in ("timestamp", "timestamp_ntz"):
            call = replace(call, arguments=(call.cast(call.typed(0), "date"), call.typed(1)))
        return TypedExpression(name, "date", fitted(call, "date, int|smallint|tinyint"))

    return rule


@operation("date_add", rule=_day_shift_rule("date_add"), functions=("dateadd",))
def _date_add(_: TypedExpression, start: Datum, days: Datum) -> Datum:
    return pc.add(start.cast(pa.int32()), days.cast(pa.int32())).cast(pa.date32())


@operation("date_sub", rule=_day_shift_rule("date_sub"))
def _date_sub(_: TypedExpression, start: Datum, days: Datum) -> Datum:
    return pc.subtract(start.cast(pa.int32()), days.cast(pa.int32())).cast(pa.date32())


@operation("datediff", takes="date, date", gives="int", functions=("date_diff",))
def _datediff(_: TypedExpression, end: Datum, start: Datum) -> Datum:
    return pc.subtract(end.cast(pa.int32()), start.cast(pa.int32()))


@operation("unix_date", takes="date", gives="int")
def _unix_date(_: TypedExpression, value: Datum) -> Datum:
    return value.cast(pa.int32())


@operation("date_from_unix_date", takes="int", gives="date")
def _date_from_unix_date(_: TypedExpression, days: Datum) -> Datum:
    return days.cast(pa.date32())


def _unix_timestamp_rule(call: Invocation) -> TypedExpression:
    """Seconds of a time, or of a text in a format."""
    if not call.arguments:
        raise NoTranslationError("its value depends on when or where it runs, so the same input would not give the same output")
    value = call.typed(0)
    if value.type in ("date", "timestamp", "timestamp_ntz"):
        return TypedExpression("unix_timestamp", "bigint", (value,))
    given = (*call.arguments, literal(DEFAULT_FORMAT, "string")) if len(call.arguments) == 1 else call.arguments
    text, format = fitted(replace(call, arguments=given), "string, string")
    parsed = call.build(TypedExpression("parse_timestamp", "timestamp", (text, format)))
    return TypedExpression("unix_timestamp", "bigint", (parsed,))


@operation("unix_timestamp", rule=_unix_timestamp_rule, functions=("to_unix_timestamp",), nullable=always_nullable)
def _unix_timestamp(expression: TypedExpression, value: Datum) -> Datum:
    """Whole seconds since 1970; a fraction before 1970 is dropped towards 1970, as in Spark."""
    if expression.arguments[0].type == "date":
        return pc.multiply(value.cast(pa.int32()).cast(pa.int64()), pa.scalar(DAY_SECONDS, pa.int64()))
    return pc.divide(value.cast(pa.int64()), pa.scalar(1_000_000, pa.int64()))


@operation("unix_seconds", takes="timestamp", gives="bigint")
@operation("unix_millis", takes="timestamp", gives="bigint")
@operation("unix_micros", takes="timestamp", gives="bigint")
def _unix_units(expression: TypedExpression, value: Datum) -> Datum:
    """Whole units since 1970, rounded down."""
    divisor = {"unix_seconds": 1_000_000, "unix_millis": 1000, "unix_micros": 1}[expression.name]
    micros = value.cast(pa.int64())
    if divisor == 1:
        return micros
    if isinstance(micros, pa.Scalar):
        return pa.scalar(micros.as_py() // divisor, pa.int64())
    return with_validity(np.floor_divide(values_of(micros), divisor), pa.int64(), micros.is_valid())


def _needs_integers(expression: TypedExpression) -> str | None:
    type = expression.arguments[0].type
    return None if type in ("tinyint", "smallint", "int", "bigint") else f"it has no Arrow translation for {type}"


@operation("timestamp_seconds", takes="numeric", gives="timestamp", fails=always, refuse=_needs_integers)
@operation("timestamp_millis", takes="integral", gives="timestamp", fails=always, refuse=_needs_integers)
@operation("timestamp_micros", takes="integral", gives="timestamp", fails=always, refuse=_needs_integers)
def _from_units(expression: TypedExpression, value: Datum) -> Datum:
    factor = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1000, "timestamp_micros": 1}[expression.name]
    return pc.multiply_checked(value.cast(pa.int64()), pa.scalar(factor, pa.int64())).cast(to_arrow(expression.type))


@function("interval")
def _interval_rule(call: Invocation) -> TypedExpression:
    """An interval as SQL writes it: a text and its unit."""
    amount, unit = (str(value.value) for value in call.values)
    micros = _MICROSECONDS.get(unit.rstrip("S"))
    if micros is None or not re.fullmatch(r"[+-]?\d+", amount.strip()):
        raise NoTranslationError(f"an interval of {amount} {unit} has no Arrow translation")
    return literal(int(amount) * micros, INTERVALS[0])


@function("add", "subtract")
def _shift_rule(call: Invocation) -> TypedExpression | None:
    """A time and an interval, or a date and a number of days; None of anything else."""
    if len(call.arguments) != 2:
        return None
    left, right = call.values
    if call.name == "add" and (left.type in INTERVALS or (right.type == "date" and is_numeric(left.type))):
        left, right = right, left
    if left.type == "date" and is_numeric(right.type):
        return call.of("date_add" if call.name == "add" else "date_sub", left, right)
    if right.type != INTERVALS[0]:
        return None
    if left.type not in ("timestamp", "timestamp_ntz"):
        left = call.cast(left, "timestamp")
    if right.name != "literal" or right.value is None:
        raise NoTranslationError("its interval is not constant")
    micros = right.value if call.name == "add" else -right.value
    return TypedExpression("add_microseconds", left.type, (left, literal(micros, "bigint")))


@operation("add_microseconds", fails=always)
def _add_microseconds(expression: TypedExpression, start: Datum, micros: Datum) -> Datum:
    return pc.add_checked(start.cast(pa.int64()), micros).cast(to_arrow(expression.type))


def _refuse_format(expression: TypedExpression) -> str | None:
    format = expression.arguments[1]
    if format.name != "literal":
        return "its format must be a constant"
    try:
        if format.value is not None:
            format_pattern(format.value)
    except ValueError as error:
        return str(error)
    return None


@function("to_date", "to_timestamp")
def _parse_rule(call: Invocation) -> TypedExpression:
    """A cast, or the reading of a text by a format."""
    if not 1 <= len(call.arguments) <= 2:
        raise RuleError(f"{call.name}() takes 1 or 2 arguments; found {len(call.arguments)}")
    value, type = call.typed(0), call.name.lower().removeprefix("to_")
    if value.type not in ("string", "date", "timestamp", "timestamp_ntz", "void") and not (
        type == "timestamp" and is_numeric(value.type)
    ):
        raise RuleError(f"{call.name}() takes a text, a date or a timestamp; found {value.type}")
    if len(call.arguments) == 2 and value.type in ("string", "void"):
        text, format = fitted(call, "string, string")
        value = call.build(TypedExpression("parse_timestamp", "timestamp", (text, format)))
    return call.cast(value, type)


@operation("parse_timestamp", fails=always, refuse=_refuse_format)
def _parse_timestamp(expression: TypedExpression, text: Datum, format: pa.Scalar) -> Datum:
    """The moment that a text in this format spells; a text that does not fit the format raises."""
    pattern = format_pattern(format.as_py())
    if isinstance(text, pa.Scalar):
        return _parse(pa.array([text], text.type), pattern, format.as_py(), expression.type)[0]
    return _parse(text, pattern, format.as_py(), expression.type)


def _parse(texts: pa.StringArray, pattern: str, format: str, type: str) -> pa.Array:
    fields = pc.extract_regex(texts, pattern=pattern)
    year, month, day = (_number(fields, name, 1) for name in ("year", "month", "day"))
    hour, minute, second = (_number(fields, name, 0) for name in ("hour", "minute", "second"))
    days, exists = days_from_civil(year, month, day)
    sound = exists & (hour < 24) & (minute < 60) & (second < 60)
    wrong = pc.and_(texts.is_valid(), pc.or_(pc.is_null(fields), pa.array(~sound)))
    if wrong.true_count:
        raise pa.ArrowInvalid(f"{texts.filter(wrong)[0].as_py()!r} is not of the format {format!r}")
    micros = (days * DAY_SECONDS + hour * 3600 + minute * 60 + second) * 1_000_000 + _number(fields, "fraction", 0)
    return with_validity(micros, to_arrow(type), texts.is_valid())


def _number(fields: pa.StructArray, name: str, missing: int) -> np.ndarray:
    if fields.type.get_field_index(name) < 0:
        return np.full(len(fields), missing, np.int64)
    digits = fields.field(name)
    if name == "fraction":
        digits = pc.utf8_rpad(digits, 6, "0")
    elif name == "year":
        digits = pc.utf8_ltrim(digits, characters="+")
    present = pc.if_else(pc.and_(fields.is_valid(), pc.is_valid(digits)), digits, str(missing))
    return np.asarray(present.cast(pa.int64()))


_LETTERS = {
    "yyyy": ("year", "-?[0-9]{4}|[+-][0-9]{5,6}"), "MM": ("month", "[0-9]{2}"), "M": ("month", "[0-9]{1,2}"), "dd": ("day", "[0-9]{2}"),
    "d": ("day", "[0-9]{1,2}"), "HH": ("hour", "[0-9]{2}"), "H": ("hour", "[0-9]{1,2}"), "mm": ("minute", "[0-9]{2}"),
    "m": ("minute", "[0-9]{1,2}"), "ss": ("second", "[0-9]{2}"), "s": ("second", "[0-9]{1,2}"),
}  # fmt: skip
_TOKEN = re.compile(r"([A-Za-z])\1*|'(?:[^']|'')*'|[^A-Za-z']")


@lru_cache(maxsize=64)
def format_pattern(format: str) -> str:
    """A regular expression with named groups for a datetime format; ValueError if only Java understands it."""
    parts: list[str] = []
    names: list[str] = []
    position = 0
    for match in _TOKEN.finditer(format):
        if match.start() != position or match[0] in "[]{}#":
            break
        position = match.end()
        parts.append(_format_part(match[0], format, names))
    if position != len(format) or "year" not in names:
        raise ValueError(
            f"the format {format!r} has no Arrow translation; expected yyyy and {_KNOWN_LETTERS}, each once, and separators"
        )
    return "^" + "".join(parts) + "$"


_KNOWN_LETTERS = ", ".join(letters for letters in _LETTERS if letters != "yyyy") + ", S to SSSSSS"


def _format_part(token: str, format: str, names: list[str]) -> str:
    if not token[0].isalpha():
        text = token if token[0] != "'" else token[1:-1].replace("''", "'") or "'"
        return quote(text)
    fraction = ("fraction", f"[0-9]{{{len(token)}}}") if token.strip("S") == "" and len(token) <= 6 else None
    name, digits = _LETTERS.get(token) or fraction or ("", "")
    if not name or name in names:
        raise ValueError(
            f"the format {format!r} has {token!r}, which has no Arrow translation; expected yyyy, {_KNOWN_LETTERS}, each once"
        )
    names.append(name)
    return f"(?P<{name}>{digits})"
