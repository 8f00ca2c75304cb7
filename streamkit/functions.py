"""
The names of pyspark.sql.functions, recorded without a session: each gives a `Column`, nothing is computed.

As in PySpark, a text argument names a column, unless the parameter is a text by nature (formats, separators, units). Every other
public name of pyspark.sql.functions is there too; calling it raises UnsupportedExpressionError unless an operation of that name
is registered. A name PySpark does not have is an AttributeError.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

from streamkit.dsl.column import Column, to_expression, to_literal
from streamkit.errors import TopologyError, UnsupportedExpressionError
from streamkit.plan.expression import Call, Expression, Literal, Reference, SqlText
from streamkit.plan.function_names import AGGREGATE_NAMES, CONTEXT_NAMES, FUNCTION_NAMES, PYTHON_FUNCTIONS
from streamkit.plan.location import user_location


def _call(name: str, *arguments: object) -> Column:
    return Column(Call(name, tuple(to_expression(argument) for argument in arguments)))


def _text(value: object) -> Expression:
    """A parameter that is a text by nature, not the name of a column."""
    return to_literal(value)


def col(name: str) -> Column:
    """The column of that name."""
    return Column(Reference(name))


column = col


def lit(value: object) -> Column:
    """A constant."""
    return Column(to_literal(value))


def expr(text: str) -> Column:
    """An expression in Spark SQL."""
    return Column(SqlText(text))


def when(condition: Column, value: object) -> Column:
    """`value` where the condition is true; add branches with `.when(...)` and `.otherwise(...)`."""
    if not isinstance(condition, Column):
        raise TopologyError(f"the condition of when() must be a column; found {condition!r}")
    return Column(Call("when", (condition.expression, to_literal(value))))


def count(column: Column | str) -> Column:
    """How many values are not null; of "*", how many rows."""
    return Column(Call("count", (Literal(1),))) if isinstance(column, str) and column == "*" else _call("count", column)


def isnull(column: Column | str) -> Column:
    """True where the value is null."""
    return _call("isnull", column)


def isnotnull(column: Column | str) -> Column:
    """True where the value is not null."""
    return _call("isnotnull", column)


def isnan(column: Column | str) -> Column:
    """True where the value is NaN."""
    return _call("isnan", column)


def upper(column: Column | str) -> Column:
    """The text in upper case."""
    return _call("upper", column)


def lower(column: Column | str) -> Column:
    """The text in lower case."""
    return _call("lower", column)


def length(column: Column | str) -> Column:
    """How many characters a text has, or bytes a binary."""
    return _call("length", column)


def abs(column: Column | str) -> Column:
    """The absolute value."""
    return _call("abs", column)


def negate(column: Column | str) -> Column:
    """The value with the other sign."""
    return _call("negate", column)


def year(column: Column | str) -> Column:
    """The year."""
    return _call("year", column)


def quarter(column: Column | str) -> Column:
    """The quarter, 1 to 4."""
    return _call("quarter", column)


def month(column: Column | str) -> Column:
    """The month, 1 to 12."""
    return _call("month", column)


def dayofmonth(column: Column | str) -> Column:
    """The day of the month."""
    return _call("dayofmonth", column)


def hour(column: Column | str) -> Column:
    """The hour, UTC."""
    return _call("hour", column)


def minute(column: Column | str) -> Column:
    """The minute."""
    return _call("minute", column)


def second(column: Column | str) -> Column:
    """The second."""
    return _call("second", column)


def dayofweek(column: Column | str) -> Column:
    """The day of the week, 1 for Sunday."""
    return _call("dayofweek", column)


def dayofyear(column: Column | str) -> Column:
    """The day of the year, from 1."""
    return _call("dayofyear", column)


def weekday(column: Column | str) -> Column:
    """The day of the week, 0 for Monday."""
    return _call("weekday", column)


def weekofyear(column: Column | str) -> Column:
    """The ISO week."""
    return _call("weekofyear", column)


def timestamp_seconds(column: Column | str) -> Column:
    """The timestamp so many seconds after 1970, UTC."""
    return _call("timestamp_seconds", column)


def timestamp_millis(column: Column | str) -> Column:
    """The timestamp so many milliseconds after 1970, UTC."""
    return _call("timestamp_millis", column)


def timestamp_micros(column: Column | str) -> Column:
    """The timestamp so many microseconds after 1970, UTC."""
    return _call("timestamp_micros", column)


def unix_seconds(column: Column | str) -> Column:
    """Seconds since 1970, UTC."""
    return _call("unix_seconds", column)


def unix_millis(column: Column | str) -> Column:
    """Milliseconds since 1970, UTC."""
    return _call("unix_millis", column)


def unix_micros(column: Column | str) -> Column:
    """Microseconds since 1970, UTC."""
    return _call("unix_micros", column)


def unix_date(column: Column | str) -> Column:
    """Days since 1970."""
    return _call("unix_date", column)


def date_from_unix_date(column: Column | str) -> Column:
    """The date so many days after 1970."""
    return _call("date_from_unix_date", column)


def count_if(column: Column | str) -> Column:
    """In how many rows the condition is true."""
    return _call("count_if", column)


def sum(column: Column | str) -> Column:
    """The sum of the values that are not null."""
    return _call("sum", column)


def avg(column: Column | str) -> Column:
    """The mean of the values that are not null."""
    return _call("avg", column)


def min(column: Column | str) -> Column:
    """The smallest value."""
    return _call("min", column)


def max(column: Column | str) -> Column:
    """The largest value."""
    return _call("max", column)


def nvl(value: Column | str, default: Column | str) -> Column:
    """`default` where the value is null."""
    return _call("nvl", value, default)


def nullif(value: Column | str, other: Column | str) -> Column:
    """Null where both are equal, else the value."""
    return _call("nullif", value, other)


def rlike(text: Column | str, pattern: Column | str) -> Column:
    """True where the regular expression matches some part of the text; a constant pattern is `lit(...)`."""
    return _call("rlike", text, pattern)


def startswith(text: Column | str, prefix: Column | str) -> Column:
    """True where the text starts with the other."""
    return _call("startswith", text, prefix)


def endswith(text: Column | str, suffix: Column | str) -> Column:
    """True where the text ends with the other."""
    return _call("endswith", text, suffix)


def contains(text: Column | str, part: Column | str) -> Column:
    """True where the text contains the other."""
    return _call("contains", text, part)


def date_add(start: Column | str, days: Column | str | int) -> Column:
    """The date so many days later."""
    return _call("date_add", start, days)


def date_sub(start: Column | str, days: Column | str | int) -> Column:
    """The date so many days earlier."""
    return _call("date_sub", start, days)


def datediff(end: Column | str, start: Column | str) -> Column:
    """Days from `start` to `end`."""
    return _call("datediff", end, start)


def nvl2(value: Column | str, not_null: Column | str, null: Column | str) -> Column:
    """`not_null` where the value is not null, else `null`."""
    return _call("nvl2", value, not_null, null)


def coalesce(*columns: Column | str) -> Column:
    """The first value that is not null."""
    return _call("coalesce", *columns)


def greatest(*columns: Column | str) -> Column:
    """The largest value, nulls skipped."""
    return _call("greatest", *columns)


def least(*columns: Column | str) -> Column:
    """The smallest value, nulls skipped."""
    return _call("least", *columns)


def concat(*columns: Column | str) -> Column:
    """The texts one after the other; null if one is null."""
    return _call("concat", *columns)


def concat_ws(separator: str, *columns: Column | str) -> Column:
    """The texts that are not null, with `separator` between them."""
    return _call("concat_ws", _text(separator), *columns)


def trim(text: Column | str, characters: Column | str | None = None) -> Column:
    """The text without spaces (or `characters`) at both ends."""
    return _call("trim", text, *_given(characters))


def ltrim(text: Column | str, characters: Column | str | None = None) -> Column:
    """The text without spaces (or `characters`) at its start."""
    return _call("ltrim", text, *_given(characters))


def rtrim(text: Column | str, characters: Column | str | None = None) -> Column:
    """The text without spaces (or `characters`) at its end."""
    return _call("rtrim", text, *_given(characters))


def substring(text: Column | str, start: Column | str | int, length: Column | str | int) -> Column:
    """`length` characters from `start`, counted from 1, or from the end if negative."""
    return _call("substring", text, start, length)


def substr(text: Column | str, start: Column | str | int, length: Column | str | int | None = None) -> Column:
    """As `substring`; without `length`, up to the end."""
    return _call("substr", text, start, *_given(length))


def like(text: Column | str, pattern: Column | str, escape: Column | None = None) -> Column:
    """True where the text matches an SQL pattern of % and _; a constant pattern is `lit(...)`."""
    return _call("like", text, pattern, *_given(escape))


def date_trunc(unit: str, timestamp: Column | str) -> Column:
    """The start of the unit (year, quarter, month, week, day, hour, minute, second …) the timestamp lies in, UTC."""
    return _call("date_trunc", _text(unit), timestamp)


def trunc(date: Column | str, unit: str) -> Column:
    """The first day of the unit (year, quarter, month, week) the date lies in."""
    return _call("trunc", date, _text(unit))


def to_date(column: Column | str, format: str | None = None) -> Column:
    """The date a text spells, or of a timestamp; `format` as in Spark, such as "yyyy-MM-dd"."""
    return _call("to_date", column, *_given_text(format))


def to_timestamp(column: Column | str, format: str | None = None) -> Column:
    """The timestamp a text spells, or the midnight of a date; `format` as in Spark, such as "yyyy-MM-dd HH:mm:ss"."""
    return _call("to_timestamp", column, *_given_text(format))


def unix_timestamp(timestamp: Column | str | None = None, format: str = "yyyy-MM-dd HH:mm:ss") -> Column:
    """Seconds since 1970 of a timestamp, a date, or a text of that format."""
    return _call("unix_timestamp") if timestamp is None else _call("unix_timestamp", timestamp, _text(format))


ucase, lcase, negative, day, mean, ifnull, btrim = upper, lower, negate, dayofmonth, avg, nvl, trim
char_length = character_length = length
regexp = regexp_like = rlike


def _given(value: object | None) -> tuple[object, ...]:
    return () if value is None else (value,)


def _given_text(value: str | None) -> tuple[Expression, ...]:
    return () if value is None else (_text(value),)


def _recorder(name: str) -> Callable[..., Column]:
    def record(*arguments: object, **named: object) -> Column:
        given = (*arguments, *named.values())
        if reason := _refusal(name, given):
            raise UnsupportedExpressionError(reason, user_location())
        return _call(name, *given)

    record.__name__ = record.__qualname__ = name
    record.__doc__ = f"Record a call of pyspark.sql.functions.{name}; UnsupportedExpressionError if StreamKit cannot evaluate it."
    return record


def _refusal(name: str, arguments: tuple[object, ...]) -> str | None:
    """Why a function of PySpark cannot be used; None if it can."""
    from streamkit.expressions.aggregates import AGGREGATES  # here, so that the names alone load nothing
    from streamkit.expressions.arrow import function_names

    if name in PYTHON_FUNCTIONS or any(callable(argument) and not isinstance(argument, Column) for argument in arguments):
        return f"Spark has F.{name}; StreamKit cannot run Python functions in an expression yet; expected other functions, or SQL in F.expr(…)"
    if name in CONTEXT_NAMES:
        return f"F.{name} cannot be used: its value depends on when or where it runs, so the same input would not give the same output"
    evaluated = {*function_names(), *AGGREGATES}
    if name in evaluated:
        return None
    if name in AGGREGATE_NAMES:
        return f"Spark has F.{name}; StreamKit cannot evaluate it yet; expected one of the aggregates {', '.join(AGGREGATES)}"
    close = _nearest(name, evaluated & set(__dir__()), "such as ") or "as help(streamkit.functions) shows them"
    return f"Spark has F.{name}; StreamKit cannot evaluate it yet; expected one that it can, {close}"


def _nearest(name: str, names: Iterable[str], before: str) -> str:
    """What to say of names that are like this one; nothing if there are none."""
    close = [f"F.{other}" for other in difflib.get_close_matches(name, sorted(names), 3)]
    return f"{before}{', '.join(close)}" if close else ""


def __getattr__(name: str) -> Callable[..., Column]:
    if name not in FUNCTION_NAMES:
        raise AttributeError(
            f"pyspark.sql.functions has no {name!r}, and so streamkit.functions has none either{_nearest(name, __dir__(), '; did you mean ')}"
        )
    return _recorder(name)


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.islower() and not name.startswith("_")), *FUNCTION_NAMES})
