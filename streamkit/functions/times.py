"""Dates and timestamps."""

from __future__ import annotations

from streamkit.dsl.column import Column
from streamkit.functions.recording import constant, given, given_constant, recorded

__all__ = [
    "add_months",
    "convert_timezone",
    "current_timezone",
    "date_add",
    "date_diff",
    "date_format",
    "date_from_unix_date",
    "date_part",
    "date_sub",
    "date_trunc",
    "dateadd",
    "datediff",
    "datepart",
    "day",
    "dayname",
    "dayofmonth",
    "dayofweek",
    "dayofyear",
    "extract",
    "from_unixtime",
    "from_utc_timestamp",
    "hour",
    "last_day",
    "make_date",
    "make_dt_interval",
    "make_interval",
    "make_timestamp",
    "make_timestamp_ltz",
    "make_timestamp_ntz",
    "make_ym_interval",
    "minute",
    "month",
    "monthname",
    "months_between",
    "next_day",
    "quarter",
    "second",
    "timestamp_add",
    "timestamp_diff",
    "timestamp_micros",
    "timestamp_millis",
    "timestamp_seconds",
    "to_date",
    "to_timestamp",
    "to_timestamp_ltz",
    "to_timestamp_ntz",
    "to_unix_timestamp",
    "to_utc_timestamp",
    "trunc",
    "try_make_timestamp",
    "try_make_timestamp_ltz",
    "try_make_timestamp_ntz",
    "try_to_date",
    "try_to_timestamp",
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
    """The hour, in the topology's time zone."""
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
    """The start of the unit (year, quarter, month, week, day, hour, minute, second …) the timestamp lies in."""
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


def to_timestamp_ltz(column: Column | str, format: Column | str | None = None) -> Column:
    """As `to_timestamp`; a `format` is a column, or the name of one."""
    return recorded("to_timestamp_ltz", column, *given(format))


def to_timestamp_ntz(column: Column | str, format: Column | str | None = None) -> Column:
    """The time without a zone that a text spells; a `format` is a column, or the name of one."""
    return recorded("to_timestamp_ntz", column, *given(format))


def try_to_date(column: Column | str, format: str | None = None) -> Column:
    """As `to_date`; null where a text spells no date."""
    return recorded("try_to_date", column, *given_constant(format))


def try_to_timestamp(column: Column | str, format: Column | str | None = None) -> Column:
    """As `to_timestamp`, null where a text spells no time; a `format` is a column, or the name of one."""
    return recorded("try_to_timestamp", column, *given(format))


def to_unix_timestamp(timestamp: Column | str, format: Column | str | None = None) -> Column:
    """As `unix_timestamp`; a `format` is a column, or the name of one."""
    return recorded("to_unix_timestamp", timestamp, *given(format))


def from_unixtime(timestamp: Column | str, format: str = "yyyy-MM-dd HH:mm:ss") -> Column:
    """Seconds since 1970 as a text of that format."""
    return recorded("from_unixtime", timestamp, constant(format))


def date_format(date: Column | str, format: str) -> Column:
    """A date or a timestamp as a text of that format, such as "yyyy-MM-dd HH:mm:ss"."""
    return recorded("date_format", date, constant(format))


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


def dayname(column: Column | str) -> Column:
    """The day of the week in English, Mon to Sun."""
    return recorded("dayname", column)


def monthname(column: Column | str) -> Column:
    """The month in English, Jan to Dec."""
    return recorded("monthname", column)


def extract(field: Column, source: Column | str) -> Column:
    """A field of a date, a time or an interval, by the field's name, such as `lit("YEAR")`."""
    return recorded("extract", field, source)


def add_months(start: Column | str, months: Column | str | int) -> Column:
    """The date so many months later; the last day of the month where that has no such day."""
    return recorded("add_months", start, months)


def months_between(date1: Column | str, date2: Column | str, roundOff: bool = True) -> Column:
    """Months from `date2` to `date1`, of 31 days where they are not whole, rounded to eight digits unless told otherwise."""
    return recorded("months_between", date1, date2, constant(roundOff))


def last_day(date: Column | str) -> Column:
    """The last day of the month the date lies in."""
    return recorded("last_day", date)


def next_day(date: Column | str, dayOfWeek: str) -> Column:
    """The first such day of the week (Mon, Monday …) after the date."""
    return recorded("next_day", date, constant(dayOfWeek))


def make_date(year: Column | str, month: Column | str, day: Column | str) -> Column:
    """The date of its parts; an error when it runs if there is no such date."""
    return recorded("make_date", year, month, day)


def make_timestamp(
    years: Column | str, months: Column | str, days: Column | str, hours: Column | str, mins: Column | str, secs: Column | str,
    timezone: Column | str | None = None,
) -> Column:  # fmt: skip
    """The timestamp of its parts, in the topology's time zone or another; an error when it runs if there is no such time."""
    return recorded("make_timestamp", years, months, days, hours, mins, secs, *given(timezone))


def make_timestamp_ltz(
    years: Column | str, months: Column | str, days: Column | str, hours: Column | str, mins: Column | str, secs: Column | str,
    timezone: Column | str | None = None,
) -> Column:  # fmt: skip
    """As `make_timestamp`."""
    return recorded("make_timestamp_ltz", years, months, days, hours, mins, secs, *given(timezone))


def make_timestamp_ntz(
    years: Column | str, months: Column | str, days: Column | str, hours: Column | str, mins: Column | str, secs: Column | str
) -> Column:
    """The time without a zone of its parts; an error when it runs if there is no such time."""
    return recorded("make_timestamp_ntz", years, months, days, hours, mins, secs)


def try_make_timestamp(
    years: Column | str, months: Column | str, days: Column | str, hours: Column | str, mins: Column | str, secs: Column | str,
    timezone: Column | str | None = None,
) -> Column:  # fmt: skip
    """As `make_timestamp`; null if there is no such time."""
    return recorded("try_make_timestamp", years, months, days, hours, mins, secs, *given(timezone))


def try_make_timestamp_ltz(
    years: Column | str, months: Column | str, days: Column | str, hours: Column | str, mins: Column | str, secs: Column | str,
    timezone: Column | str | None = None,
) -> Column:  # fmt: skip
    """As `try_make_timestamp`."""
    return recorded("try_make_timestamp_ltz", years, months, days, hours, mins, secs, *given(timezone))


def try_make_timestamp_ntz(
    years: Column | str, months: Column | str, days: Column | str, hours: Column | str, mins: Column | str, secs: Column | str
) -> Column:
    """As `make_timestamp_ntz`; null if there is no such time."""
    return recorded("try_make_timestamp_ntz", years, months, days, hours, mins, secs)


def timestamp_add(unit: str, quantity: Column | str, ts: Column | str) -> Column:
    """The time so many units (YEAR, MONTH, WEEK, DAY, HOUR …) later."""
    return recorded("timestamp_add", constant(unit), quantity, ts)


def timestamp_diff(unit: str, start: Column | str, end: Column | str) -> Column:
    """Whole units (YEAR, MONTH, WEEK, DAY, HOUR …) from `start` to `end`."""
    return recorded("timestamp_diff", constant(unit), start, end)


def from_utc_timestamp(timestamp: Column | str, tz: Column | str) -> Column:
    """The timestamp whose time in UTC is the local time in a zone: a text (Europe/Berlin, +02:00), or a column of such."""
    return recorded("from_utc_timestamp", timestamp, constant(tz))


def to_utc_timestamp(timestamp: Column | str, tz: Column | str) -> Column:
    """The moment at which a clock in a zone shows what the timestamp shows in UTC; `tz` is as in `from_utc_timestamp`."""
    return recorded("to_utc_timestamp", timestamp, constant(tz))


def convert_timezone(sourceTz: Column | None, targetTz: Column, sourceTs: Column | str) -> Column:
    """A time without a zone, local in one zone (the topology's if None), as the local time in another."""
    return recorded("convert_timezone", *given(sourceTz), targetTz, sourceTs)


def current_timezone() -> Column:
    """The topology's time zone."""
    return recorded("current_timezone")


def make_dt_interval(
    days: Column | str | None = None,
    hours: Column | str | None = None,
    mins: Column | str | None = None,
    secs: Column | str | None = None,
) -> Column:
    """An interval of days to seconds, to be added to a date or a time; what is missing is 0."""
    return recorded("make_dt_interval", *_zeros(days, hours, mins, secs))


def make_ym_interval(years: Column | str | None = None, months: Column | str | None = None) -> Column:
    """An interval of years and months, to be added to a date or a time; what is missing is 0."""
    return recorded("make_ym_interval", *_zeros(years, months))


def make_interval(
    years: Column | str | None = None, months: Column | str | None = None, weeks: Column | str | None = None, days: Column | str | None = None,
    hours: Column | str | None = None, mins: Column | str | None = None, secs: Column | str | None = None,
) -> Column:  # fmt: skip
    """An interval of months, days and seconds, to be added to a date or a time; what is missing is 0."""
    return recorded("make_interval", *_zeros(years, months, weeks, days, hours, mins, secs))


def _zeros(*parts: Column | str | None) -> tuple[object, ...]:
    return tuple(constant(0) if part is None else part for part in parts)


day = dayofmonth
dateadd = date_add
date_diff = datediff
date_part = extract
datepart = extract
