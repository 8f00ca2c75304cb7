"""Functions of dates and times, which count milliseconds in ksqlDB."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.civil_dates import civil_from_days
from streamkit.data_type import to_arrow
from streamkit.expressions.core.failing_rows import check_rows
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.numbers import values_of, with_validity
from streamkit.expressions.core.operation import Datum, Invocation, RuleError, always, always_nullable, operation
from streamkit.expressions.core.rows import broadcast
from streamkit.expressions.ksql.function import failing_as, formula, kernel
from streamkit.expressions.ksql.lenient_dates import FIRST_GREGORIAN_DAY, date_reader, is_read_alike
from streamkit.expressions.times.datetime_formats import TimeReading, written
from streamkit.expressions.times.datetime_patterns import Pattern, PatternError, java_parsing_pattern, java_writing_pattern
from streamkit.plan.expression import TypedExpression
from streamkit.time_zone import SHORT_NAMES, ZoneError, canonical_zone
from streamkit.zone_offsets import BEYOND, offsets_of

UNIT_MICROS = {
    "NANOSECOND": 0, "MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": 1_000_000, "MINUTE": 60_000_000, "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
}  # fmt: skip
DAY_MICROS, DAY_MILLIS = 86_400_000_000, 86_400_000
_TIME_LETTERS = frozenset("HhKkmsSaAnNVzOXxZ")
_ONE_DIGIT = re.compile("[+-][0-9]:|:[0-9]$|:[0-9]:")  # of hours or minutes beside a colon
_MOMENT = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Needed:
    """What a text has to give, in words, and which texts of a reading do."""

    what: str
    is_given: Callable[[TimeReading], Mask]


_A_DATE = Needed(
    "a year, a month and a day",
    lambda reading: reading.gives("y") & (reading.gives("D") | (reading.gives("M") & reading.gives("d"))),
)
_Kernel = Callable[..., tuple[pa.Array, Mask, str]]


def by_constants(compute: _Kernel, type: pa.DataType, value: Datum, *others: Datum) -> Datum:
    """
    What a kernel gives for the rows of each combination of the other arguments, which it takes as texts.

    It gives the values, which rows fail, and why. Null where an argument is.
    """
    counts = [len(one) for one in (value, *others) if isinstance(one, pa.Array)]
    rows = counts[0] if counts else 1
    values = broadcast(value, rows)
    if not any(isinstance(one, pa.Array) for one in others):
        constants = tuple(one.as_py() for one in others)
        if None in constants:
            return pa.nulls(rows, type) if counts else pa.scalar(None, type)
        found, failed, reason = compute(values, *constants)
        check_rows(failed, reason)
        return found if counts else found[0]
    combinations = list(zip(*(broadcast(one, rows).to_pylist() for one in others)))
    found, failed, reason = pa.nulls(rows, type), np.zeros(rows, bool), ""
    for constants in dict.fromkeys(combinations):
        if None in constants:
            continue
        mine = np.array([one == constants for one in combinations], bool)
        part, wrong, why = compute(values if mine.all() else values.filter(pa.array(mine)), *constants)
        found = part if mine.all() else pc.replace_with_mask(found, pa.array(mine), part)
        failed[mine] = wrong
        reason = reason or why if wrong.any() else reason
    check_rows(failed, reason)
    return found if counts else found[0]


def _all_fail(values: pa.Array, type: pa.DataType, reason: str) -> tuple[pa.Array, Mask, str]:
    return pa.nulls(len(values), type), np.asarray(values.is_valid()), reason


def read_by_format(
    texts: pa.Array, format: str, zone: str | None = "UTC", *, needed: Needed | None = None
) -> tuple[Integers, Mask, str]:
    """
    Microseconds since 1970 that texts of a format spell, which texts are not of it or do not give what is needed, and what to say of them.

    Without a zone it is the local time that is spelt, also where a zone stands beside it.
    """
    try:
        reading = TimeReading(texts, java_parsing_pattern(format), None if zone is None else _known_zone(zone))
    except (PatternError, ZoneError) as error:
        return np.zeros(len(texts), np.int64), np.asarray(texts.is_valid()), str(error)
    is_whole = reading.fits if needed is None else reading.fits & needed.is_given(reading)
    wrong = np.asarray(texts.is_valid()) & ~is_whole
    first = int(np.argmax(wrong)) if wrong.any() else None
    shown = "" if first is None else repr(texts[first].as_py())
    is_read = needed is not None and first is not None and reading.fits[first]
    lacks = f"does not give {needed.what}, by" if needed is not None and is_read else "is not of"
    return np.where(reading.fits, reading.micros, 0), wrong, f"{shown} {lacks} the format {format!r}"


def _known_zone(zone: str) -> str:
    """The zone; ZoneError if there is none, and for names that Spark has beside those of Java's ZoneId, such as EST and +2:00."""
    canonical_zone(zone)
    if zone in SHORT_NAMES or zone == "ROC" or _ONE_DIGIT.search(zone):
        raise ZoneError(f"there is no time zone {zone!r} in ksqlDB; expected one such as America/New_York or -05:00")
    return zone


def checked_format(call: Invocation, read: Callable[[str], Pattern], refused: frozenset[str] = frozenset()) -> None:
    """RuleError if the constant format of a call, its second argument, is none, or has letters outside of brackets that its values do not have."""
    format = call.typed(1)
    if format.name != "literal" or format.value is None:
        return
    try:
        _of_letters(read(str(format.value)), refused)
    except PatternError as error:
        raise RuleError(str(error)) from None


def _of_letters(pattern: Pattern, refused: frozenset[str]) -> Pattern:
    """The pattern without brackets that have letters which the values do not have; PatternError if it has such letters elsewhere."""
    found = pattern.without(refused)
    if wrong := sorted({field.letter for field in found.fields} & refused):
        raise PatternError(
            f"the format {pattern.text!r} has {wrong[0]!r}, which the values do not have; leave it out, or write it between brackets"
        )
    return found


def _named(name: str, call: Invocation, type: str) -> TypedExpression:
    return TypedExpression(name, type, call.values)


@formula("parse_timestamp", "string, string -> timestamp", "string, string, string -> timestamp")
def _parse_timestamp(call: Invocation) -> TypedExpression:
    """The time that a text of a format spells, in UTC or in the zone that the third argument names."""
    checked_format(call, java_parsing_pattern)
    return _named("ksql_time_by_format", call, "timestamp")


@operation("ksql_time_by_format", fails=always, nullable=always_nullable)
def _time_by_format(_: TypedExpression, text: Datum, format: Datum, *zone: Datum) -> Datum:
    def read(texts: pa.Array, *constants: str) -> tuple[pa.Array, Mask, str]:
        micros, wrong, reason = read_by_format(texts, *constants)
        return with_validity(np.floor_divide(micros, 1000) * 1000, _MOMENT, texts.is_valid()), wrong, reason

    return by_constants(read, _MOMENT, text, format, *zone)


@formula("parse_date", "string, string -> date")
def _parse_date(call: Invocation) -> TypedExpression:
    """The date that a text of a format spells, as Java's SimpleDateFormat reads it: 2021-02-30 is the second of March."""
    format = call.typed(1)
    if format.name != "literal" or format.value is None or date_reader(str(format.value)) is None:
        checked_format(call, java_parsing_pattern)
    return _named("ksql_date_by_format", call, "date")


@operation("ksql_date_by_format", fails=always, nullable=always_nullable)
def _date_by_format(_: TypedExpression, text: Datum, format: Datum) -> Datum:
    def read(texts: pa.Array, pattern: str) -> tuple[pa.Array, Mask, str]:
        days_of = date_reader(pattern)
        if days_of is None:
            return _date_of(texts, pattern)
        found, is_read, reason = np.zeros(len(texts), np.int64), np.asarray(texts.is_null()), ""
        if is_read_alike(pattern):
            found, alike = _days_alike(texts, pattern)
            is_read |= alike
        wrong = np.zeros(len(texts), bool)
        places = np.flatnonzero(~is_read)
        for row, one in zip(places.tolist(), texts.take(pa.array(places)).to_pylist(), strict=True):
            try:
                found[row] = days_of(one)
            except ValueError as error:
                wrong[row], reason = True, reason or str(error)
        return with_validity(found.astype(np.int32), pa.date32(), texts.is_valid()), wrong, reason

    return by_constants(read, pa.date32(), text, format)


def _days_alike(texts: pa.Array, pattern: str) -> tuple[Integers, Mask]:
    """
    The days of texts that are strictly of the pattern, and which are.

    A day that is the last of its month may be one that the month does not have, so it is left out, and so is one before the Gregorian calendar.
    """
    micros, wrong, _ = read_by_format(texts, pattern)
    days = np.floor_divide(micros, DAY_MICROS)
    _, _, next_day = civil_from_days(days + 1)
    has_sign = np.asarray(pc.match_substring(texts, "+").fill_null(False))
    is_date = np.asarray(texts.is_valid()) & ~wrong & (next_day != 1) & ~has_sign & (days >= FIRST_GREGORIAN_DAY)
    return np.where(is_date, days, 0), is_date & (days == days.astype(np.int32))


def _date_of(texts: pa.Array, pattern: str) -> tuple[pa.Array, Mask, str]:
    micros, wrong, reason = read_by_format(texts, pattern)
    days = np.floor_divide(micros, DAY_MICROS)
    has_time = np.asarray(texts.is_valid()) & ~wrong & (micros != days * DAY_MICROS)
    if has_time.any():
        reason = (
            reason
            if wrong.any()
            else f"{texts[int(np.argmax(has_time))].as_py()!r} has a time of the day in UTC; expected a date"
        )
    return with_validity(days.astype(np.int32), pa.date32(), texts.is_valid()), wrong | has_time, reason


@formula("format_timestamp", "timestamp, string -> string", "timestamp, string, string -> string")
def _format_timestamp(call: Invocation) -> TypedExpression:
    """The time as a text of a format, in UTC or in the zone that the third argument names."""
    checked_format(call, java_writing_pattern)
    format = call.typed(1)
    has_name = format.name != "literal" or format.value is None or bool({"z", "V"} & set(str(format.value)))
    zone = (literal("GMT", "string"),) if len(call.values) == 2 and has_name else ()  # which is Java's UTC under another name
    return TypedExpression("ksql_formatted", "string", (*call.values, *zone))


@formula("format_date", "date, string -> string")
def _format_date(call: Invocation) -> TypedExpression:
    """The date as a text of a format."""
    checked_format(call, java_writing_pattern, _TIME_LETTERS)
    start = call.of("ksql_cast", call.typed(0), literal("timestamp", "string"))
    return call.build(TypedExpression("ksql_formatted_date", "string", (start, call.typed(1))))


@operation("ksql_formatted", fails=always, nullable=always_nullable)
def _formatted(_: TypedExpression, value: Datum, format: Datum, *zone: Datum) -> Datum:
    return formatted_texts(value, format, *zone)


@operation("ksql_formatted_date", fails=always, nullable=always_nullable)
def _formatted_date(_: TypedExpression, value: Datum, format: Datum) -> Datum:
    return formatted_texts(value, format, refused=_TIME_LETTERS)


def formatted_texts(value: Datum, format: Datum, *zone: Datum, refused: frozenset[str] = frozenset()) -> Datum:
    """
    Times as texts of a format, in UTC or in a zone; a format that is none, or a zone that there is not, fails.

    So does a format with refused letters, but nothing is written for brackets with them.
    """

    def write(values: pa.Array, pattern: str, name: str = "UTC") -> tuple[pa.Array, Mask, str]:
        try:
            known = _of_letters(java_writing_pattern(pattern), refused)
            texts = _in_zone(values, known, _known_zone(name))
        except (PatternError, ZoneError, pa.ArrowInvalid) as error:
            return _all_fail(values, pa.string(), str(error))
        return texts, np.zeros(len(values), bool), ""

    return by_constants(write, pa.string(), value, format, *zone)


def _in_zone(values: pa.Array, pattern: Pattern, zone: str) -> pa.StringArray:
    if pattern.has_zone:
        return written(values, pattern, zone)
    local, _ = local_times(values_of(values), zone)
    return written(with_validity(local, values.type, values.is_valid()), pattern, None)


def local_times(micros: Integers, zone: str) -> tuple[Integers, Mask]:
    """The local times of moments in a zone, and which of them 64 bits hold."""
    shift = offsets_of(zone).at(np.floor_divide(micros, 1_000_000)) * 1_000_000
    moved = micros + shift
    held = ((micros ^ moved) & (shift ^ moved)) >= 0
    return np.where(held, moved, 0), np.asarray(held)


@kernel("convert_tz", "timestamp, string, string -> timestamp", fails=always)
def _convert_tz(_: TypedExpression, value: Datum, source: Datum, target: Datum) -> Datum:
    """The time moved by what the second zone is ahead of the first one at that time."""

    def move(values: pa.Array, before: str, after: str) -> tuple[pa.Array, Mask, str]:
        micros = values_of(values)
        seconds = np.floor_divide(micros, 1_000_000)
        try:
            shift = (offsets_of(_known_zone(after)).at(seconds) - offsets_of(_known_zone(before)).at(seconds)) * 1_000_000
        except ZoneError as error:
            return _all_fail(values, _MOMENT, str(error))
        moved = micros + shift
        wrapped = ((micros ^ moved) & (shift ^ moved)) < 0
        valid = np.asarray(values.is_valid())
        return with_validity(np.where(wrapped, 0, moved), _MOMENT, values.is_valid()), valid & wrapped, BEYOND

    return by_constants(move, _MOMENT, value, source, target)


@kernel("from_unixtime", "bigint -> timestamp", fails=always)
def _from_unixtime(_: TypedExpression, millis: Datum) -> Datum:
    """The time so many milliseconds after 1970."""
    numbers = broadcast(millis, 1)
    found = values_of(numbers)
    micros = found * 1000
    check_rows((micros // 1000 != found) & np.asarray(numbers.is_valid()), BEYOND)
    times = with_validity(micros, _MOMENT, numbers.is_valid())
    return times if isinstance(millis, pa.Array) else times[0]


@formula("unix_timestamp", "timestamp -> bigint")
def _unix_timestamp(call: Invocation) -> TypedExpression:
    """The milliseconds from 1970 to a time."""
    return call.of("unix_millis", *call.values)


@formula("unix_date", "date -> int")
def _unix_date(call: Invocation) -> TypedExpression:
    """The days from 1970 to a date."""
    return call.of("unix_date", *call.values)


@formula("from_days", "int -> date", needed=1)
def _from_days(call: Invocation) -> TypedExpression:
    """The date so many days after 1970; null fails."""
    return call.of("date_from_unix_date", *call.values)


def unit_micros(call: Invocation) -> int:
    """The microseconds of the unit that is the first argument; RuleError if it is none. Below a millisecond they count none."""
    unit = call.typed(0)
    name = str(unit.value).upper()
    known = name if name in UNIT_MICROS else name.removesuffix("S")
    if unit.name != "literal" or known not in UNIT_MICROS:
        raise RuleError(f"{unit.value!r} is no unit of time; expected {', '.join(f'{one}S' for one in UNIT_MICROS)}")
    return UNIT_MICROS[known]


def _shift(name: str, kind: str, type: str, sign: int, effect: str) -> None:
    """Enter a function that adds so many units to dates or times, or subtracts them."""

    def build(call: Invocation) -> TypedExpression:
        unit, count, value = call.values
        shift = (count, value, literal(sign * unit_micros(call), "bigint"), literal(str(unit.value).upper(), "string"))
        return TypedExpression(f"ksql_shifted_{kind}", type, shift)

    build.__doc__ = effect
    formula(name, f"string, int, {type} -> {type}")(build)


def shift_millis(count: np.ndarray, unit: Datum, name: Datum) -> Integers:
    """The milliseconds of so many units, as ksqlDB counts; those of the most days that an integer can say fit 64 bits, microseconds would not."""
    numbers = count.astype(np.int64)
    if str(name.as_py()).startswith(("NANO", "MICRO")):
        per = 1_000_000 if str(name.as_py()).startswith("NANO") else 1000
        sign = np.sign(unit.as_py()) or 1
        return np.asarray(sign * (np.abs(numbers) // per * np.sign(numbers)))
    return np.asarray(numbers * (unit.as_py() // 1000))


@operation("ksql_shifted_timestamp", fails=always, nullable=always_nullable)
def _shifted_timestamp(_: TypedExpression, count: Datum, value: Datum, unit: Datum, name: Datum) -> Datum:
    def shift(counts: pa.Array, values: pa.Array) -> pa.Array:
        before, below = np.divmod(values_of(values), 1000)
        millis = before + shift_millis(values_of(counts), unit, name)
        micros = millis * 1000 + below
        valid = pc.and_(counts.is_valid(), values.is_valid())
        check_rows((micros // 1000 != millis) & np.asarray(valid), BEYOND)
        return with_validity(micros, _MOMENT, valid)

    return of_rows(shift, count, value)


@operation("ksql_shifted_date", fails=always, nullable=always_nullable)
def _shifted_date(expression: TypedExpression, count: Datum, value: Datum, unit: Datum, name: Datum) -> Datum:
    """Days are cut off towards 1970 where the units are shorter."""

    def shift(counts: pa.Array, values: pa.Array) -> pa.Array:
        millis = values_of(values).astype(np.int64) * DAY_MILLIS + shift_millis(values_of(counts), unit, name)
        days = np.where(millis < 0, -(-millis // DAY_MILLIS), millis // DAY_MILLIS)
        valid = pc.and_(counts.is_valid(), values.is_valid())
        check_rows((days != days.astype(np.int32)) & np.asarray(valid), BEYOND)
        return with_validity(days.astype(np.int32), to_arrow(expression.type), valid)

    return of_rows(shift, count, value)


def of_rows(compute: Callable[..., pa.Array], *values: Datum) -> Datum:
    """A kernel of arrays for values of which some, or all, are constants."""
    counts = [len(value) for value in values if isinstance(value, pa.Array)]
    found = compute(*(broadcast(value, counts[0] if counts else 1) for value in values))
    return found if counts else found[0]


_shift("timestampadd", "timestamp", "timestamp", 1, "The time so many units later.")
_shift("timestampsub", "timestamp", "timestamp", -1, "The time so many units before.")
_shift("dateadd", "date", "date", 1, "The date so many units later.")
_shift("datesub", "date", "date", -1, "The date so many units before.")


@formula("timestamptostring", "bigint, string -> string", "bigint, string, string -> string", needed=1)
def _timestamptostring(call: Invocation) -> TypedExpression:
    """Milliseconds since 1970 as a text of a format, in UTC or in the zone that the third argument names."""
    checked_format(call, java_writing_pattern)
    millis, *rest = call.values
    return TypedExpression("ksql_formatted", "string", (call.of("ksql_from_unixtime", millis), *rest))


@formula("stringtotimestamp", "string, string -> bigint", "string, string, string -> bigint", needed=3)
def _stringtotimestamp(call: Invocation) -> TypedExpression:
    """The milliseconds since 1970 that a text of a format spells, in UTC or in the zone that the third argument names; null fails."""
    return call.of("unix_millis", call.of("ksql_parse_timestamp", *call.values))


@formula("datetostring", "int, string -> string", needed=1)
def _datetostring(call: Invocation) -> TypedExpression:
    """Days since 1970 as a text of a format; null fails."""
    days, format = call.values
    return call.of("ksql_format_date", call.of("date_from_unix_date", days), format)


@formula("stringtodate", "string, string -> int", needed=2)
def _stringtodate(call: Invocation) -> TypedExpression:
    """The days since 1970 of the day that a text of a format spells; a text that does not give a year, a month and a day fails, and so does null."""
    checked_format(call, java_parsing_pattern)
    return call.build(call.of("unix_date", _named("ksql_whole_date_by_format", call, "date")))


@operation("ksql_whole_date_by_format", fails=always, nullable=always_nullable)
def _whole_date_by_format(expression: TypedExpression, text: Datum, format: Datum) -> Datum:
    def read(texts: pa.Array, pattern: str) -> tuple[pa.Array, Mask, str]:
        micros, wrong, reason = read_by_format(texts, pattern, zone=None, needed=_A_DATE)
        return with_validity(np.floor_divide(micros, DAY_MICROS).astype(np.int32), pa.date32(), texts.is_valid()), wrong, reason

    return by_constants(read, pa.date32(), text, format)


failing_as("ksql_time_by_format", "parse_timestamp", "stringtotimestamp")
failing_as("ksql_date_by_format", "parse_date")
failing_as("ksql_whole_date_by_format", "stringtodate")
failing_as("ksql_formatted", "format_timestamp", "timestamptostring")
failing_as("ksql_formatted_date", "format_date", "datetostring")
failing_as("ksql_shifted_timestamp", "timestampadd", "timestampsub")
failing_as("ksql_shifted_date", "dateadd", "datesub")
