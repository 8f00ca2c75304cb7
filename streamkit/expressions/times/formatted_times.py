"""Dates and times from texts and to texts, by a format or by the rules of casts; the zones that texts may name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import to_arrow
from streamkit.expressions.core.coercion import TIMES, is_numeric
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.numbers import with_validity
from streamkit.expressions.core.operation import (
    Datum,
    Invocation,
    NoTranslationError,
    Refusal,
    RuleError,
    always,
    always_nullable,
    check_count,
    fitted,
    function,
    operation,
)
from streamkit.expressions.core.recording import constant, given, given_constant, recorded
from streamkit.expressions.core.session_zone import SessionZone
from streamkit.expressions.times.dates import by_distinct
from streamkit.expressions.times.datetime_formats import TimeReading, has_one_name, written
from streamkit.expressions.times.datetime_patterns import Pattern, PatternError, parsing_pattern, writing_pattern
from streamkit.expressions.times.reading_times import read_moments
from streamkit.plan.expression import TypedExpression

__all__ = [
    "date_format",
    "from_unixtime",
    "to_date",
    "to_timestamp",
    "to_timestamp_ltz",
    "to_timestamp_ntz",
    "to_unix_timestamp",
    "try_to_date",
    "try_to_timestamp",
    "unix_timestamp",
]

DEFAULT_FORMAT = "yyyy-MM-dd HH:mm:ss"


def _refuse_format(read: Callable[[str], Pattern]) -> Refusal:
    """Refuse a constant format that cannot be used."""

    def refuse(expression: TypedExpression) -> str | None:
        format = expression.arguments[1]
        if format.name != "literal" or format.value is None:
            return None
        try:
            pattern = read(format.value)
        except PatternError as error:
            return str(error)
        zone = expression.arguments[2].value if len(expression.arguments) > 2 else "UTC"
        if read is writing_pattern and any(field.letter == "z" for field in pattern.fields) and not has_one_name(zone):
            return f"the format {format.value!r} has 'z': the names of {zone} are not known here; expected VV or Z"
        return None

    return refuse


def to_date(column: Column | str, format: str | None = None) -> Column:
    """The date that a text spells, or the date of a timestamp; `format` as in Spark, such as "yyyy-MM-dd"."""
    return recorded("to_date", column, *given_constant(format))


def try_to_date(column: Column | str, format: str | None = None) -> Column:
    """As `to_date`; null where a text spells no date."""
    return recorded("try_to_date", column, *given_constant(format))


@function("to_date", "try_to_date")
def _to_date_rule(call: Invocation) -> TypedExpression:
    """A cast, or the reading of a text by a format."""
    return call.cast(_read_rule(call, "date"), "date")


def to_timestamp(column: Column | str, format: str | None = None) -> Column:
    """The timestamp that a text spells, or midnight of a date; `format` as in Spark, such as "yyyy-MM-dd HH:mm:ss"."""
    return recorded("to_timestamp", column, *given_constant(format))


def to_timestamp_ltz(column: Column | str, format: Column | str | None = None) -> Column:
    """As `to_timestamp`; a `format` is a column, or the name of one."""
    return recorded("to_timestamp_ltz", column, *given(format))


def try_to_timestamp(column: Column | str, format: Column | str | None = None) -> Column:
    """As `to_timestamp`; null where a text spells no time; a `format` is a column, or the name of one."""
    return recorded("try_to_timestamp", column, *given(format))


@function("to_timestamp", "try_to_timestamp", "to_timestamp_ltz")
def _to_timestamp_rule(call: Invocation) -> TypedExpression:
    return call.cast(_read_rule(call, "timestamp"), "timestamp")


def to_timestamp_ntz(column: Column | str, format: Column | str | None = None) -> Column:
    """The time without a zone that a text spells; a `format` is a column, or the name of one."""
    return recorded("to_timestamp_ntz", column, *given(format))


@function("to_timestamp_ntz")
def _to_ntz_rule(call: Invocation) -> TypedExpression:
    return call.cast(_read_rule(call, "timestamp_ntz"), "timestamp_ntz")


def _read_rule(call: Invocation, type: str) -> TypedExpression:
    """What the functions read: a value that a cast makes a date or time of, or a time that a text spells by a format."""
    check_count(call, 1, 2)
    value, tries = call.typed(0), call.name.lower().startswith("try_")
    numbers = type == "timestamp" and is_numeric(value.type) and len(call.arguments) == 1
    if is_numeric(value.type) and type == "date" and len(call.arguments) == 1:
        value = call.cast(value, "string")
    if value.type not in ("string", *TIMES, "void") and not numbers:
        raise RuleError(f"{call.name}() takes a text, a date or a timestamp; found {value.type}")
    if value.type != "string" and not (value.type == "void" and len(call.arguments) == 2):
        return value
    if len(call.arguments) == 1:
        return call.build(TypedExpression("try_cast_time", type, (value,))) if tries else value
    text, format = fitted(call, "string, string")
    name = "try_parse_timestamp" if tries else "parse_timestamp"
    return call.build(TypedExpression(name, "timestamp_ntz" if type == "timestamp_ntz" else "timestamp", (text, format)))


def _parsed(expression: TypedExpression, text: Datum, format: Datum, zone: pa.Scalar | None, tries: bool) -> Datum:
    name = None if zone is None else zone.as_py()

    def read(texts: pa.Array, pattern: str) -> pa.Array:
        try:
            reading = TimeReading(texts, parsing_pattern(pattern), name)
        except PatternError as error:
            raise pa.ArrowInvalid(str(error)) from None
        valid = texts.is_valid()
        if not reading.fits.all():
            fits = pa.array(reading.fits)
            if not tries and (wrong := pc.and_(valid, pc.invert(fits))).true_count:
                raise pa.ArrowInvalid(f"{texts.filter(wrong)[0].as_py()!r} is not of the format {pattern!r}")
            valid = pc.and_(valid, fits)
        return with_validity(reading.micros, to_arrow(expression.type), valid)

    return by_distinct(read, format, text)


def _parsed_in_zone(expression: TypedExpression, zone: SessionZone) -> TypedExpression:
    if expression.type != "timestamp" or len(expression.arguments) > 2:
        return expression
    _, format = expression.arguments
    if format.name != "literal" or (format.value is not None and _has_zone(parsing_pattern, format.value)):
        return replace(expression, arguments=(*expression.arguments, zone.name))
    return zone.moment(zone.build(replace(expression, type="timestamp_ntz")))


def _has_zone(read: Callable[..., Pattern], format: str) -> bool:
    try:
        return read(format).has_zone
    except PatternError:
        return False  # refused where it is built


@operation("parse_timestamp", fails=always, refuse=_refuse_format(parsing_pattern), in_zone=_parsed_in_zone)
def _parse_timestamp(expression: TypedExpression, text: Datum, format: Datum, zone: pa.Scalar | None = None) -> Datum:
    """The time that a text in this format spells; a text that does not fit the format raises."""
    return _parsed(expression, text, format, _zone_of(expression, zone), False)


@operation("try_parse_timestamp", refuse=_refuse_format(parsing_pattern), nullable=always_nullable, in_zone=_parsed_in_zone)
def _try_parse_timestamp(expression: TypedExpression, text: Datum, format: Datum, zone: pa.Scalar | None = None) -> Datum:
    """As parse_timestamp; null where a text does not fit."""
    return _parsed(expression, text, format, _zone_of(expression, zone), True)


def _zone_of(expression: TypedExpression, zone: pa.Scalar | None) -> pa.Scalar | None:
    """The zone of texts that name none; None of times without a zone."""
    return (zone or pa.scalar("UTC")) if expression.type == "timestamp" else None


def _with_zone(expression: TypedExpression, zone: SessionZone) -> TypedExpression:
    if expression.type != "timestamp" or len(expression.arguments) > 1:
        return expression
    return replace(expression, arguments=(*expression.arguments, zone.name))


@operation("try_cast_time", nullable=always_nullable, in_zone=_with_zone)
def _try_cast_time(expression: TypedExpression, text: Datum, zone: pa.Scalar | None = None) -> Datum:
    """As a cast of a text; null where it cannot be read."""
    if isinstance(text, pa.Scalar):
        return _try_cast_time(expression, pa.array([text], text.type), zone)[0]
    numbers, sound = read_moments(text, expression.type, zone.as_py() if zone else "UTC")
    valid = pc.and_(text.is_valid(), pa.array(sound))
    return with_validity(numbers, to_arrow(expression.type), valid)


@operation("read_timestamp", fails=always, nullable=always_nullable)
def _read_timestamp(expression: TypedExpression, text: Datum, zone: pa.Scalar) -> Datum:
    """The moment that a text spells by the rules of casts, in its own zone or the one given."""
    if isinstance(text, pa.Scalar):
        return _read_timestamp(expression, pa.array([text], text.type), zone)[0]
    numbers, sound = read_moments(text, "timestamp", zone.as_py())
    if not sound.all() and (wrong := pc.and_(text.is_valid(), pa.array(~sound))).true_count:
        raise pa.ArrowInvalid(f"{text.filter(wrong)[0].as_py()!r} cannot be read as timestamp")
    return with_validity(numbers, to_arrow("timestamp"), text.is_valid())


def _unix_timestamp_rule(call: Invocation) -> TypedExpression:
    """Seconds of a time, or of a text in a format."""
    if not call.arguments:
        raise NoTranslationError("its value depends on when or where it runs, so the same input would not give the same output")
    value = call.typed(0)
    if len(call.arguments) > 2:
        raise RuleError(f"{call.name}() takes 1 or 2 arguments; found {len(call.arguments)}")
    if value.type in TIMES:
        return TypedExpression("unix_timestamp", "bigint", (value,))
    if value.type not in ("string", "void"):
        raise RuleError(f"{call.name}() takes a text, a date or a timestamp; found {value.type}")
    given = (*call.arguments, literal(DEFAULT_FORMAT, "string")) if len(call.arguments) == 1 else call.arguments
    text, format = fitted(replace(call, arguments=given), "=string, =string")
    parsed = call.build(TypedExpression("parse_timestamp", "timestamp", (text, format)))
    return TypedExpression("unix_timestamp", "bigint", (parsed,))


def unix_timestamp(timestamp: Column | str | None = None, format: str = "yyyy-MM-dd HH:mm:ss") -> Column:
    """Seconds since 1970 of a timestamp, a date, or a text of that format."""
    return recorded("unix_timestamp") if timestamp is None else recorded("unix_timestamp", timestamp, constant(format))


def to_unix_timestamp(timestamp: Column | str, format: Column | str | None = None) -> Column:
    """As `unix_timestamp`; a `format` is a column, or the name of one."""
    return recorded("to_unix_timestamp", timestamp, *given(format))


function("unix_timestamp", "to_unix_timestamp")(_unix_timestamp_rule)


def _format_varies(expression: TypedExpression) -> bool:
    """A format of a row may be none."""
    return expression.arguments[1].name != "literal"


def _formatted_in_zone(expression: TypedExpression, zone: SessionZone) -> TypedExpression:
    value, format = expression.arguments[:2]
    if format.name != "literal" or (format.value is not None and _has_zone(writing_pattern, format.value)):
        return replace(expression, arguments=(value, format, zone.name))
    return replace(expression, arguments=(zone.local(value), format))


def date_format(date: Column | str, format: str) -> Column:
    """A date or a timestamp as a text of that format, such as "yyyy-MM-dd HH:mm:ss"."""
    return recorded("date_format", date, constant(format))


@operation(
    "date_format",
    takes="timestamp, string",
    gives="string",
    refuse=_refuse_format(writing_pattern),
    fails=_format_varies,
    in_zone=_formatted_in_zone,
)
def _date_format(expression: TypedExpression, value: Datum, format: Datum, zone: pa.Scalar | None = None) -> Datum:
    """A time as a text of the format; with zone letters in it, of the zone given."""

    def write(values: pa.Array, text: str) -> pa.Array:
        try:
            pattern = writing_pattern(text)
        except PatternError as error:
            raise pa.ArrowInvalid(str(error)) from None
        name = zone.as_py() if zone else "UTC" if pattern.has_zone else None
        return written(values, pattern, name)

    return by_distinct(write, format, value)


def from_unixtime(timestamp: Column | str, format: str = "yyyy-MM-dd HH:mm:ss") -> Column:
    """Seconds since 1970 as a text of that format."""
    return recorded("from_unixtime", timestamp, constant(format))


@function("from_unixtime")
def _from_unixtime_rule(call: Invocation) -> TypedExpression:
    """Seconds since 1970 as a text."""
    given = (*call.arguments, literal(DEFAULT_FORMAT, "string")) if len(call.arguments) == 1 else call.arguments
    seconds, format = fitted(replace(call, arguments=given), "bigint, string")
    moment = call.build(TypedExpression("moment_of_seconds", "timestamp", (seconds,)))
    return TypedExpression("date_format", "string", (moment, format))


@operation("moment_of_seconds", nullable=always_nullable)
def _moment_of_seconds(expression: TypedExpression, seconds: Datum) -> Datum:
    """The moment so many seconds after 1970; beyond the range it wraps around, as in Spark."""
    return pc.multiply(seconds, pa.scalar(1_000_000, pa.int64())).cast(to_arrow(expression.type))
