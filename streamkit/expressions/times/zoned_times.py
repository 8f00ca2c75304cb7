"""Conversions between moments and local times of a zone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from streamkit.data_type import to_arrow
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.numbers import values_of, with_validity
from streamkit.expressions.core.operation import Datum, Invocation, RuleError, always, fitted, function, operation
from streamkit.expressions.core.recording import constant, given, recorded
from streamkit.expressions.times.dates import by_distinct
from streamkit.expressions.times.intervals import in_rows
from streamkit.plan.expression import TypedExpression
from streamkit.time_zone import ZoneError, canonical_zone
from streamkit.zone_offsets import ZoneOffsets, local_micros, moment_micros, start_of_day_micros, zone_offsets

__all__ = ["convert_timezone", "current_timezone", "from_utc_timestamp", "to_utc_timestamp"]


def checked_zone(zone: TypedExpression) -> TypedExpression:
    """The zone; RuleError if it is a constant that names none."""
    if zone.name == "literal" and zone.value is not None:
        try:
            canonical_zone(zone.value)
        except ZoneError as error:
            raise RuleError(str(error)) from None
    return zone


def _converted(
    convert: Callable[[np.ndarray, ZoneOffsets], np.ndarray], expression: TypedExpression, times: Datum, zone: Datum
) -> Datum:
    type = to_arrow(expression.type)

    def convert_all(values: pa.Array, name: str) -> pa.Array:
        known = values.fill_null(pa.scalar(0, values.type)) if values.null_count else values  # any time may stand beside null
        return with_validity(convert(values_of(known), zone_offsets(name)), type, values.is_valid())

    return by_distinct(convert_all, zone, times)


@operation("to_local", fails=always)
def _to_local(expression: TypedExpression, moments: Datum, zone: Datum) -> Datum:
    """The local time of a moment in a zone."""
    return _converted(local_micros, expression, moments, zone)


@operation("from_local", fails=always)
def _from_local(expression: TypedExpression, local: Datum, zone: Datum, near: Datum | None = None) -> Datum:
    """
    The moment of a local time in a zone.

    A local time that the zone skips moves forward by what is skipped. Of two moments the earlier is taken, or, with a third argument, the one
    with the offset that the zone has at the moment `near`.
    """
    if near is None:
        return _converted(moment_micros, expression, local, zone)
    offsets = zone_offsets(zone.as_py())
    return in_rows(
        lambda times, beside: moment_micros(times, offsets, beside), local.cast(pa.int64()), near.cast(pa.int64())
    ).cast(to_arrow(expression.type))


@operation("start_of_day", fails=always)
def _start_of_day(expression: TypedExpression, day: Datum, zone: Datum) -> Datum:
    """The first moment of a day in a zone."""
    return _converted(start_of_day_micros, expression, day, zone)


def _utc_rule(call: Invocation) -> TypedExpression:
    moment, zone = fitted(call, "timestamp, string")
    return TypedExpression(call.name.lower(), "timestamp", (moment, checked_zone(zone)))


def from_utc_timestamp(timestamp: Column | str, tz: Column | str) -> Column:
    """The timestamp whose time in UTC is the local time in a zone, which is a text (Europe/Berlin, +02:00) or a column of such texts."""
    return recorded("from_utc_timestamp", timestamp, constant(tz))


@operation("from_utc_timestamp", rule=_utc_rule, fails=always)
def _from_utc(expression: TypedExpression, moments: Datum, zone: Datum) -> Datum:
    """The moment whose time in UTC is the local time."""
    return _converted(local_micros, expression, moments, zone)


def to_utc_timestamp(timestamp: Column | str, tz: Column | str) -> Column:
    """The moment at which a clock in a zone shows what the timestamp shows in UTC; `tz` is as in `from_utc_timestamp`."""
    return recorded("to_utc_timestamp", timestamp, constant(tz))


@operation("to_utc_timestamp", rule=_utc_rule, fails=always)
def _to_utc(expression: TypedExpression, moments: Datum, zone: Datum) -> Datum:
    """The moment whose local time is the time in UTC."""
    return _converted(moment_micros, expression, moments, zone)


def convert_timezone(sourceTz: Column | None, targetTz: Column, sourceTs: Column | str) -> Column:
    """A time without a zone, local in one zone (the topology's if None), as the local time in another."""
    return recorded("convert_timezone", *given(sourceTz), targetTz, sourceTs)


@function("convert_timezone")
def _convert_rule(call: Invocation) -> TypedExpression:
    """A local time in one zone as the local time in another; from the session's zone if one is given."""
    if len(call.arguments) == 2:
        call = replace(call, arguments=(literal(call.zone, "string"), *call.arguments))
    source, target, local = fitted(call, "string, string, timestamp_ntz")
    moment = call.build(TypedExpression("from_local", "timestamp", (local, checked_zone(source))))
    return TypedExpression("to_local", "timestamp_ntz", (moment, checked_zone(target)))


def current_timezone() -> Column:
    """The topology's time zone."""
    return recorded("current_timezone")


@function("current_timezone")
def _current_rule(call: Invocation) -> TypedExpression:
    if call.arguments:
        raise RuleError(f"current_timezone() takes no arguments; found {len(call.arguments)}")
    return literal(call.zone, "string")
