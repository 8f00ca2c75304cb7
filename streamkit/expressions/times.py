"""Dates and timestamps, in UTC and the proleptic Gregorian calendar; a week starts on Monday."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import to_arrow
from streamkit.expressions.calendar import days_from_civil
from streamkit.expressions.literals import literal
from streamkit.expressions.numbers import values_of, with_validity
from streamkit.expressions.operation import (
    CatalystCall,
    Datum,
    NoTranslationError,
    always,
    cast_to,
    needs_literals,
    operation,
    reads,
    replacement,
)
from streamkit.expressions.patterns import quote
from streamkit.plan.expression import TypedExpression

DAY_SECONDS = 86_400
UNITS = {
    "YEAR": "year", "YYYY": "year", "YY": "year", "QUARTER": "quarter", "MONTH": "month", "MON": "month", "MM": "month", "WEEK": "week",
    "DAY": "day", "DD": "day", "HOUR": "hour", "MINUTE": "minute", "SECOND": "second", "MILLISECOND": "millisecond",
    "MICROSECOND": "microsecond",
}  # fmt: skip
_DATE_UNITS = ("year", "quarter", "month", "week")
_FIELDS: dict[str, tuple[str, Callable[[Datum], Datum]]] = {  # by Catalyst's class
    "Year": ("year", pc.year),
    "Quarter": ("quarter", pc.quarter),
    "Month": ("month", pc.month),
    "DayOfMonth": ("dayofmonth", pc.day),
    "DayOfYear": ("dayofyear", pc.day_of_year),
    "WeekOfYear": ("weekofyear", pc.iso_week),
    "Hour": ("hour", pc.hour),
    "Minute": ("minute", pc.minute),
    "Second": ("second", pc.second),
    "DayOfWeek": ("dayofweek", lambda value: pc.day_of_week(value, count_from_zero=False, week_start=7)),
    "WeekDay": ("weekday", lambda value: pc.day_of_week(value, count_from_zero=True, week_start=1)),
}


def _without_zone(value: Datum) -> Datum:
    """The same moment; Arrow is some twenty times faster where it need not ask a zone, even UTC."""
    return value.cast(pa.timestamp("us")) if pa.types.is_timestamp(value.type) else value


def _field(take: Callable[[Datum], Datum]) -> Callable[[TypedExpression, Datum], Datum]:
    return lambda _, value: pc.cast(take(_without_zone(value)), pa.int32())


for _class, (_name, _take) in _FIELDS.items():
    operation(_name, catalyst=_class, functions=("day",) if _class == "DayOfMonth" else ())(_field(_take))


@operation("date_trunc", catalyst="TruncTimestamp", refuse=needs_literals(0))
def _date_trunc(expression: TypedExpression, unit: pa.Scalar, value: Datum) -> Datum:
    """The start of the unit; null if the unit is unknown, as in Spark."""
    return _floor(value, UNITS.get(unit.as_py().upper()))


@operation("trunc", catalyst="TruncDate", refuse=needs_literals(1))
def _trunc(expression: TypedExpression, value: Datum, unit: pa.Scalar) -> Datum:
    name = UNITS.get(unit.as_py().upper())
    return _floor(value, name if name in _DATE_UNITS else None)


def _floor(value: Datum, unit: str | None) -> Datum:
    return pc.floor_temporal(_without_zone(value), unit=unit).cast(value.type) if unit else pa.scalar(None, value.type)


@operation("date_add", catalyst="DateAdd", functions=("dateadd",))
def _date_add(_: TypedExpression, start: Datum, days: Datum) -> Datum:
    return pc.add(start.cast(pa.int32()), days.cast(pa.int32())).cast(pa.date32())


@operation("date_sub", catalyst="DateSub")
def _date_sub(_: TypedExpression, start: Datum, days: Datum) -> Datum:
    return pc.subtract(start.cast(pa.int32()), days.cast(pa.int32())).cast(pa.date32())


@operation("datediff", catalyst="DateDiff", functions=("date_diff",))
def _datediff(_: TypedExpression, end: Datum, start: Datum) -> Datum:
    return pc.subtract(end.cast(pa.int32()), start.cast(pa.int32()))


@operation("unix_date", catalyst="UnixDate")
def _unix_date(_: TypedExpression, value: Datum) -> Datum:
    return value.cast(pa.int32())


@operation("date_from_unix_date", catalyst="DateFromUnixDate")
def _date_from_unix_date(_: TypedExpression, days: Datum) -> Datum:
    return days.cast(pa.date32())


reads("DatetimeSub")(replacement)


def _read_unix_timestamp(call: CatalystCall) -> TypedExpression:
    value = call.argument(0)
    if value.type == "string":
        value = call.checked(TypedExpression("parse_timestamp", "timestamp", (value, call.argument(1))))
    return TypedExpression("unix_timestamp", "bigint", (value,))


@operation(
    "unix_timestamp", catalyst=("UnixTimestamp", "ToUnixTimestamp"), read=_read_unix_timestamp, functions=("to_unix_timestamp",)
)
def _unix_timestamp(expression: TypedExpression, value: Datum) -> Datum:
    """Whole seconds since 1970; a fraction before 1970 is dropped towards 1970, as in Spark."""
    if expression.arguments[0].type == "date":
        return pc.multiply(value.cast(pa.int32()).cast(pa.int64()), pa.scalar(DAY_SECONDS, pa.int64()))
    return pc.divide(value.cast(pa.int64()), pa.scalar(1_000_000, pa.int64()))


@operation("unix_seconds", catalyst="UnixSeconds")
@operation("unix_millis", catalyst="UnixMillis")
@operation("unix_micros", catalyst="UnixMicros")
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


@operation("timestamp_seconds", catalyst="SecondsToTimestamp", fails=always, refuse=_needs_integers)
@operation("timestamp_millis", catalyst="MillisToTimestamp", fails=always, refuse=_needs_integers)
@operation("timestamp_micros", catalyst="MicrosToTimestamp", fails=always, refuse=_needs_integers)
def _from_units(expression: TypedExpression, value: Datum) -> Datum:
    factor = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1000, "timestamp_micros": 1}[expression.name]
    return pc.multiply_checked(value.cast(pa.int64()), pa.scalar(factor, pa.int64())).cast(to_arrow(expression.type))


def _read_add_interval(call: CatalystCall) -> TypedExpression:
    """A timestamp and a constant interval of days to seconds, in microseconds."""
    interval, sign = call.node.children[1], 1
    while interval.name == "UnaryMinus":
        interval, sign = interval.children[0], -sign
    type, value = interval.fields.get("dataType"), interval.fields.get("value")
    if interval.name != "Literal" or not str(type).startswith("interval ") or value is None:
        raise NoTranslationError("its interval is not constant")
    if any(unit in str(type) for unit in ("year", "month")):
        raise NoTranslationError("an interval of months or years has no Arrow translation")
    return TypedExpression("add_microseconds", call.node.type, (call.argument(0), literal(sign * int(value), "bigint")))


@operation("add_microseconds", catalyst="TimestampAddInterval", read=_read_add_interval, fails=always)
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


@reads("ParseToDate", "ParseToTimestamp", functions=("to_date", "to_timestamp"))
def _read_parse(call: CatalystCall) -> TypedExpression:
    """A cast, or the reading of a text by a format."""
    value, type = call.argument(0), call.node.type
    if len(call.node.children) > 1 and value.type == "string":
        parsed_type = "timestamp" if type == "date" else type
        value = call.checked(TypedExpression("parse_timestamp", parsed_type, (value, call.argument(1))))
    return cast_to(value, type)


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
