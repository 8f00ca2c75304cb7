"""
The session's time zone, spelled out: what depends on it becomes the same without a zone, between conversions that name it.

So kernels know no zone, and a plan says where one matters. In UTC nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from streamkit.data_type import atomic_types, is_nested
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import NoTranslationError
from streamkit.expressions.times.dates import UNITS
from streamkit.expressions.times.datetime_patterns import PatternError, parsing_pattern, writing_pattern
from streamkit.plan.expression import TypedExpression

DAY_MICROS = 86_400_000_000
_PASSING_UNITS = (
    "microsecond",
    "millisecond",
    "second",
    "minute",
    "hour",
)  # of timestampadd: time that passes, never days of the calendar
Build = Callable[[TypedExpression], TypedExpression]


def in_zone(expression: TypedExpression, zone: str, build: Build) -> TypedExpression:
    """The expression as it is in a session of that zone; `build` checks and folds the parts."""
    rewrite = _REWRITES.get(expression.name)
    return rewrite(expression, _Zone(zone, build)) if rewrite else expression


class _Zone:
    """Conversions to and from the local times of a zone."""

    def __init__(self, zone: str, build: Build) -> None:
        self.name = literal(zone, "string")
        self.build = build

    def local(self, moment: TypedExpression) -> TypedExpression:
        """A timestamp as local time; anything else as it is."""
        return self._made("to_local", "timestamp_ntz", moment, self.name) if moment.type == "timestamp" else moment

    def moment(self, local: TypedExpression, *near: TypedExpression) -> TypedExpression:
        """The timestamp of a local time; of two that with the offset of `near`."""
        return self._made("from_local", "timestamp", local, self.name, *near)

    def start_of_day(self, day: TypedExpression) -> TypedExpression:
        return self._made("start_of_day", "timestamp", day, self.name)

    def _made(self, name: str, type: str, *arguments: TypedExpression) -> TypedExpression:
        return self.build(TypedExpression(name, type, arguments))


def _local_arguments(expression: TypedExpression, zone: _Zone) -> TypedExpression:
    """The same on local times."""
    return replace(expression, arguments=tuple(map(zone.local, expression.arguments)))


def _cast(expression: TypedExpression, zone: _Zone) -> TypedExpression:
    (value,) = expression.arguments
    pair = value.type, expression.type
    if pair == ("timestamp", "timestamp_ntz"):
        return zone.local(value)
    if pair == ("timestamp_ntz", "timestamp"):
        return zone.moment(value)
    if pair == ("date", "timestamp"):
        return zone.start_of_day(value)
    if pair == ("string", "timestamp"):
        return TypedExpression("read_timestamp", "timestamp", (value, zone.name))
    if pair in (("timestamp", "date"), ("timestamp", "string")):
        return _local_arguments(expression, zone)
    if is_nested(value.type) and "timestamp" in atomic_types(value.type) ^ atomic_types(expression.type):
        raise NoTranslationError(
            f"a cast of {value.type} to {expression.type} depends on the time zone; cast the elements with transform()"
        )
    return expression


def _date_trunc(expression: TypedExpression, zone: _Zone) -> TypedExpression:
    unit, value = expression.arguments
    if expression.type != "timestamp":
        return expression
    if unit.name != "literal":
        raise NoTranslationError("its unit must be a constant where the time zone is not UTC")
    name = UNITS.get(str(unit.value).upper())
    if name in (None, "second", "millisecond", "microsecond"):
        return expression
    floored = zone.build(TypedExpression("date_trunc", "timestamp_ntz", (unit, zone.local(value))))
    if name in ("minute", "hour", "day"):
        return zone.moment(floored, value)
    return zone.start_of_day(zone.build(TypedExpression("cast", "date", (floored,))))


def _date_format(expression: TypedExpression, zone: _Zone) -> TypedExpression:
    value, format = expression.arguments[:2]
    if format.name != "literal" or (format.value is not None and _has_zone(writing_pattern, format.value)):
        return replace(expression, arguments=(value, format, zone.name))
    return replace(expression, arguments=(zone.local(value), format))


def _parse(expression: TypedExpression, zone: _Zone) -> TypedExpression:
    if expression.type != "timestamp" or len(expression.arguments) > 2:
        return expression
    _, format = expression.arguments
    if format.name != "literal" or (format.value is not None and _has_zone(parsing_pattern, format.value)):
        return replace(expression, arguments=(*expression.arguments, zone.name))
    return zone.moment(zone.build(replace(expression, type="timestamp_ntz")))


def _has_zone(read: Callable[..., object], format: str) -> bool:
    try:
        return bool(read(format).has_zone)  # type: ignore[attr-defined]
    except PatternError:
        return False  # refused where it is built


def _with_zone(expression: TypedExpression, zone: _Zone) -> TypedExpression:
    if expression.type != "timestamp" or len(expression.arguments) > 1:
        return expression
    return replace(expression, arguments=(*expression.arguments, zone.name))


def _unix_timestamp(expression: TypedExpression, zone: _Zone) -> TypedExpression:
    (value,) = expression.arguments
    return replace(expression, arguments=(zone.start_of_day(value),)) if value.type == "date" else expression


def _shift(expression: TypedExpression, zone: _Zone) -> TypedExpression:
    """Days and months are those of the calendar, whatever their hours; the rest is time that passes."""
    start, amount = expression.arguments[:2]
    if start.type != "timestamp" or len(expression.arguments) > 2 or expression.value in _PASSING_UNITS:
        return expression
    if expression.name == "add_microseconds" and amount.name == "literal" and abs(amount.value or 0) < DAY_MICROS:
        return expression
    return replace(expression, arguments=(start, amount, zone.name))


_REWRITES: dict[str, Callable[[TypedExpression, _Zone], TypedExpression]] = {
    "cast": _cast,
    "try_cast_time": _with_zone,
    "hour": _local_arguments,
    "minute": _local_arguments,
    "second": _local_arguments,
    "second_with_fraction": _local_arguments,
    "subtract_timestamps": _local_arguments,
    "units_between": _local_arguments,
    "date_trunc": _date_trunc,
    "date_format": _date_format,
    "parse_timestamp": _parse,
    "try_parse_timestamp": _parse,
    "unix_timestamp": _unix_timestamp,
    "add_microseconds": _shift,
    "add_interval": _shift,
    "add_units": _shift,
}
