"""Dates and timestamps."""

from __future__ import annotations

from streamkit.dsl.column import Column
from streamkit.functions.recording import constant, given_constant, recorded

__all__ = [
    "date_add",
    "date_from_unix_date",
    "date_sub",
    "date_trunc",
    "datediff",
    "day",
    "dayofmonth",
    "dayofweek",
    "dayofyear",
    "hour",
    "minute",
    "month",
    "quarter",
    "second",
    "timestamp_micros",
    "timestamp_millis",
    "timestamp_seconds",
    "to_date",
    "to_timestamp",
    "trunc",
    "unix_date",
    "unix_micros",
    "unix_millis",
    "unix_seconds",
    "unix_timestamp",
    "weekday",
    "weekofyear",
    "year",
]


def year(column: Column | str) -> Column:
    """The year."""
    return recorded("year", column)


def quarter(column: Column | str) -> Column:
    """The quarter, 1 to 4."""
    return recorded("quarter", column)


def month(column: Column | str) -> Column:
    """The month, 1 to 12."""
    return recorded("month", column)


def dayofmonth(column: Column | str) -> Column:
    """The day of the month."""
    return recorded("dayofmonth", column)


def hour(column: Column | str) -> Column:
    """The hour, UTC."""
    return recorded("hour", column)


def minute(column: Column | str) -> Column:
    """The minute."""
    return recorded("minute", column)


def second(column: Column | str) -> Column:
    """The second."""
    return recorded("second", column)


def dayofweek(column: Column | str) -> Column:
    """The day of the week, 1 for Sunday."""
    return recorded("dayofweek", column)


def dayofyear(column: Column | str) -> Column:
    """The day of the year, from 1."""
    return recorded("dayofyear", column)


def weekday(column: Column | str) -> Column:
    """The day of the week, 0 for Monday."""
    return recorded("weekday", column)


def weekofyear(column: Column | str) -> Column:
    """The ISO week."""
    return recorded("weekofyear", column)


def date_trunc(unit: str, timestamp: Column | str) -> Column:
    """The start of the unit (year, quarter, month, week, day, hour, minute, second …) the timestamp lies in, UTC."""
    return recorded("date_trunc", constant(unit), timestamp)


def trunc(date: Column | str, unit: str) -> Column:
    """The first day of the unit (year, quarter, month, week) the date lies in."""
    return recorded("trunc", date, constant(unit))


def date_add(start: Column | str, days: Column | str | int) -> Column:
    """The date so many days later."""
    return recorded("date_add", start, days)


def date_sub(start: Column | str, days: Column | str | int) -> Column:
    """The date so many days earlier."""
    return recorded("date_sub", start, days)


def datediff(end: Column | str, start: Column | str) -> Column:
    """Days from `start` to `end`."""
    return recorded("datediff", end, start)


def to_date(column: Column | str, format: str | None = None) -> Column:
    """The date a text spells, or of a timestamp; `format` as in Spark, such as "yyyy-MM-dd"."""
    return recorded("to_date", column, *given_constant(format))


def to_timestamp(column: Column | str, format: str | None = None) -> Column:
    """The timestamp a text spells, or the midnight of a date; `format` as in Spark, such as "yyyy-MM-dd HH:mm:ss"."""
    return recorded("to_timestamp", column, *given_constant(format))


def unix_timestamp(timestamp: Column | str | None = None, format: str = "yyyy-MM-dd HH:mm:ss") -> Column:
    """Seconds since 1970 of a timestamp, a date, or a text of that format."""
    return recorded("unix_timestamp") if timestamp is None else recorded("unix_timestamp", timestamp, constant(format))


def timestamp_seconds(column: Column | str) -> Column:
    """The timestamp so many seconds after 1970, UTC."""
    return recorded("timestamp_seconds", column)


def timestamp_millis(column: Column | str) -> Column:
    """The timestamp so many milliseconds after 1970, UTC."""
    return recorded("timestamp_millis", column)


def timestamp_micros(column: Column | str) -> Column:
    """The timestamp so many microseconds after 1970, UTC."""
    return recorded("timestamp_micros", column)


def unix_seconds(column: Column | str) -> Column:
    """Seconds since 1970, UTC."""
    return recorded("unix_seconds", column)


def unix_millis(column: Column | str) -> Column:
    """Milliseconds since 1970, UTC."""
    return recorded("unix_millis", column)


def unix_micros(column: Column | str) -> Column:
    """Microseconds since 1970, UTC."""
    return recorded("unix_micros", column)


def unix_date(column: Column | str) -> Column:
    """Days since 1970."""
    return recorded("unix_date", column)


def date_from_unix_date(column: Column | str) -> Column:
    """The date so many days after 1970."""
    return recorded("date_from_unix_date", column)


day = dayofmonth
