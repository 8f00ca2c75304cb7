"""
TIME: the milliseconds of a day.

Columns keep times of the day as integers. Within expressions they have the type `time`, so that they are read, written and compared as times:
`ksql_as_time` gives a column this type, at any depth, and `ksql_without_times` makes integers of them at the end.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Mask
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.numbers import values_of, with_validity
from streamkit.expressions.core.operation import Datum, Invocation, always, always_nullable, counted, function, operation
from streamkit.expressions.core.spark_text import spark_text, unseen
from streamkit.expressions.ksql.function import failing_as, formula
from streamkit.expressions.ksql.iso_times import DAY_MILLIS
from streamkit.expressions.ksql.signature import has_times, without_times
from streamkit.expressions.ksql.times import (
    Needed,
    by_constants,
    checked_format,
    formatted_texts,
    of_rows,
    read_by_format,
    shift_millis,
    unit_micros,
)
from streamkit.expressions.times.datetime_formats import TimeReading
from streamkit.expressions.times.datetime_patterns import ZONE_LETTERS, java_parsing_pattern, java_writing_pattern
from streamkit.plan.expression import TypedExpression

AS_TIME, WITHOUT_TIMES = "ksql_as_time", "ksql_without_times"
_MOMENT = pa.timestamp("us", tz="UTC")
_DATE_LETTERS = frozenset("GyuMLdDEecFQq")


@function(AS_TIME)
def _as_time(call: Invocation) -> TypedExpression:
    value, type = counted(call, 2)
    return TypedExpression("ksql_retyped", str(type.value), (value,))


@function(WITHOUT_TIMES)
def _without_times(call: Invocation) -> TypedExpression:
    (value,) = counted(call, 1)
    return retyped(value)


def retyped(value: TypedExpression) -> TypedExpression:
    """The value as a column keeps it."""
    return TypedExpression("ksql_retyped", without_times(value.type), (value,)) if has_times(value.type) else value


spark_text(AS_TIME, WITHOUT_TIMES)(unseen)


@operation("ksql_retyped")
def _retyped(_: TypedExpression, value: Datum) -> Datum:
    """The same integers, under another name of their type."""
    return value


@formula("format_time", "time, string -> string")
def _format_time(call: Invocation) -> TypedExpression:
    """The time of the day as a text of a format."""
    checked_format(call, java_writing_pattern, _DATE_LETTERS | ZONE_LETTERS)
    return TypedExpression("ksql_formatted_time", "string", call.values)


@operation("ksql_formatted_time", fails=always, nullable=always_nullable)
def _formatted_time(_: TypedExpression, value: Datum, format: Datum) -> Datum:
    def moments(values: pa.Array) -> pa.Array:
        return with_validity(values_of(values).astype(np.int64) * 1000, _MOMENT, values.is_valid())

    return formatted_texts(of_rows(moments, value), format, refused=_DATE_LETTERS | ZONE_LETTERS)


@formula("parse_time", "string, string -> time")
def _parse_time(call: Invocation) -> TypedExpression:
    """The time of the day that a text of a format spells, whatever the zone beside it."""
    checked_format(call, java_parsing_pattern, _DATE_LETTERS)
    return TypedExpression("ksql_time_of_day_by_format", "time", call.values)


@operation("ksql_time_of_day_by_format", fails=always, nullable=always_nullable)
def _time_of_day_by_format(_: TypedExpression, text: Datum, format: Datum) -> Datum:
    def read(texts: pa.Array, pattern: str) -> tuple[pa.Array, np.ndarray, str]:
        micros, wrong, reason = read_by_format(texts, pattern, zone=None, needed=_A_TIME)
        millis = (np.floor_divide(micros, 1000) % DAY_MILLIS).astype(np.int32)
        return with_validity(millis, pa.int32(), texts.is_valid()), wrong, reason

    return by_constants(read, pa.int32(), text, format)


def _is_time(reading: TimeReading) -> Mask:
    """Which texts give the hour of a day, or a half of it alone, and each part before one that they give, and nothing of a date."""
    gives = reading.gives
    has_hour = gives("H", "k") | (gives("h", "K") & gives("a")) | (gives("a") & ~gives("h", "K", "m", "s", "S"))
    return has_hour & (gives("m") | ~gives("s", "S")) & (gives("s") | ~gives("S")) & ~gives(*_DATE_LETTERS)


_A_TIME = Needed("the hour, and each part before one that it gives, and no date", _is_time)


def _shift(name: str, sign: int, effect: str) -> None:
    """Enter a function that adds so many units to times of the day, or subtracts them."""

    def build(call: Invocation) -> TypedExpression:
        unit, count, value = call.values
        per = literal(sign * unit_micros(call), "bigint")
        return TypedExpression("ksql_shifted_time", "time", (count, value, per, literal(str(unit.value).upper(), "string")))

    build.__doc__ = effect
    formula(name, "string, int, time -> time")(build)


@operation("ksql_shifted_time", nullable=always_nullable)
def _shifted_time(_: TypedExpression, count: Datum, value: Datum, unit: Datum, name: Datum) -> Datum:
    """Round the clock."""

    def shift(counts: pa.Array, values: pa.Array) -> pa.Array:
        millis = values_of(values).astype(np.int64) + shift_millis(values_of(counts), unit, name)
        return with_validity((millis % DAY_MILLIS).astype(np.int32), pa.int32(), pc.and_(counts.is_valid(), values.is_valid()))

    return of_rows(shift, count, value)


_shift("timeadd", 1, "The time of the day so many units later.")
_shift("timesub", -1, "The time of the day so many units before.")


failing_as("ksql_time_of_day_by_format", "parse_time")
failing_as("ksql_formatted_time", "format_time")
