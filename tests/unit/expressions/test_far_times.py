"""Times up to the ends of 64 bits, dates up to those of 32: right, or an error, never a number that has come round again."""

from __future__ import annotations

import datetime as dt
import random

import pyarrow as pa
import pytest

from streamkit.errors import EvaluationError
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.plan.expression import SqlText
from streamkit.schema import Schema
from tests.kit.sampling import TAKES_ALL

SCHEMA = Schema.parse("ts timestamp, n timestamp_ntz, d date, s string")
ENDS = {"first": -(2**63), "last": 2**63 - 1}
CYCLE_DAYS, DAY = 146_097, 86_400_000_000


def _value(text, zone, *, micros=0, days=0, texts=""):
    local = pa.array([None, micros], pa.int64()).cast(pa.timestamp("us"))
    day = pa.array([None, days], pa.int32()).cast(pa.date32())
    columns = [local.cast(pa.timestamp("us", "UTC")), local, day, pa.array([None, texts])]
    batch = pa.record_batch(columns, names=["ts", "n", "d", "s"])
    found = evaluate(ExpressionAnalyzer(zone).project(SCHEMA, [("r", SqlText(text))])[0][1], batch)
    if pa.types.is_temporal(found.type):
        found = found.cast(pa.int32() if pa.types.is_date(found.type) else pa.int64())
    assert not found[0].is_valid
    return found[1].as_py()


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("CAST(ts AS timestamp_ntz)", 1),
        ("CAST(n AS timestamp)", -1),
        ("from_utc_timestamp(n, '+05:00')", 1),
        ("to_utc_timestamp(n, '+05:00')", -1),
        ("convert_timezone('UTC', '+05:00', n)", 1),
        ("convert_timezone('+05:00', 'UTC', n)", -1),
        ("unix_micros(CAST(CAST(n AS string) AS timestamp))", -1),
        ("unix_micros(to_timestamp(CAST(n AS string)))", -1),
    ],
)
@pytest.mark.parametrize("end", ENDS)
def test_what_moves_a_time_over_the_end(text, sign, end):
    """Five hours within the end the moved time is right; beyond the end it is an error. Spark says the same of all but the last day."""
    zone = "UTC" if "+05:00" in text else "+05:00"
    shift, inwards = sign * 5 * 3600 * 1_000_000, DAY if end == "first" else -DAY
    within = ENDS[end] + 2 * inwards
    assert _value(text, zone, micros=within) == within + shift
    beyond = ENDS[end] + shift if (shift > 0) == (end == "last") else None
    if beyond is not None:
        with pytest.raises(EvaluationError):
            _value(text, zone, micros=ENDS[end])


@pytest.mark.parametrize("end", [-(2**31), 2**31 - 1])
@pytest.mark.parametrize("zone", ["UTC", "+05:00", "Europe/Berlin", "America/New_York"])
def test_days_that_no_timestamp_reaches(zone, end):
    """A date of a far year has no timestamp: an error, for every zone."""
    with pytest.raises(EvaluationError):
        _value("CAST(d AS timestamp)", zone, days=end)


def test_a_start_before_the_first_timestamp():
    """The day, week and year in which timestamps begin have no start."""
    for unit in ("HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"):
        with pytest.raises(EvaluationError):
            _value(f"date_trunc('{unit}', n)", "UTC", micros=ENDS["first"])


def test_units_between_the_ends():
    """Hours between any two times fit a bigint; microseconds need not."""
    far = "CAST('-100000-01-01' AS timestamp_ntz)"
    hours = _value(f"timestampdiff(HOUR, n, {far})", "UTC", micros=ENDS["last"])
    start = (dt.date(2000, 1, 1) - dt.date(1970, 1, 1)).days - 255 * CYCLE_DAYS
    assert hours == -((ENDS["last"] - start * DAY) // 3_600_000_000)
    with pytest.raises(EvaluationError):
        _value(f"timestampdiff(MICROSECOND, n, {far})", "UTC", micros=ENDS["last"])


FIELDS = {
    "year(d)": lambda day, cycles: day.year + 400 * cycles,
    "extract(YEAROFWEEK FROM d)": lambda day, cycles: day.isocalendar().year + 400 * cycles,
    "quarter(d)": lambda day, _: (day.month + 2) // 3,
    "month(d)": lambda day, _: day.month,
    "dayofmonth(d)": lambda day, _: day.day,
    "dayofyear(d)": lambda day, _: day.timetuple().tm_yday,
    "weekofyear(d)": lambda day, _: day.isocalendar().week,
    "dayofweek(d)": lambda day, _: day.isoweekday() % 7 + 1,
    "dayname(d)": lambda day, _: day.strftime("%a"),
    "monthname(d)": lambda day, _: day.strftime("%b"),
}
STARTS = {
    "YEAR": lambda day: day.replace(month=1, day=1),
    "QUARTER": lambda day: day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
    "MONTH": lambda day: day.replace(day=1),
    "WEEK": lambda day: day - dt.timedelta(days=day.weekday()),
}


def test_far_dates_are_those_of_400_years_before():
    """Random dates of all years: fields and starts of units as Python's calendar has them, some times 400 years away."""
    choose = random.Random(None if TAKES_ALL else 1)
    for number in range(2000 if TAKES_ALL else 60):
        days = choose.randrange(-(2**31) + 400, 2**31)
        cycles, near = divmod(days, CYCLE_DAYS)
        day = dt.date(1970, 1, 1) + dt.timedelta(days=near)
        text = list(FIELDS)[number % len(FIELDS)]
        assert _value(text, "UTC", days=days) == FIELDS[text](day, cycles), (text, days)
        unit = list(STARTS)[number % len(STARTS)]
        start = days + (STARTS[unit](day) - day).days
        assert _value(f"trunc(d, '{unit}')", "UTC", days=days) == start, (unit, days)
        if abs(days) < 106_000_000:
            found = _value(f"date_trunc('{unit}', n)", "UTC", micros=days * DAY + choose.randrange(DAY))
            assert found == start * DAY, (unit, days)


def _years_apart(text, cycles):
    """A text of a time, of the year so many times 400 years away, as ISO 8601 spells it."""
    year = int(text[:4]) + 400 * cycles
    return f"{'+' if year > 9999 else '-' * (year < 0)}{abs(year):04}{text[4:]}"


@pytest.mark.parametrize("column", ["ts", "n"])
def test_texts_of_far_times_are_those_of_400_years_before(column):
    """Casts and JSON: all but the year is as Python spells it 400 years and some times that before, whatever the year is."""
    choose, zone = random.Random(None if TAKES_ALL else 2), "Z" if column == "ts" else ""
    days = [2932896, 2932897, -719529, -719528, 106_751_990, -106_751_990, 11_248_737, 11_248_738]  # about 32767-12-31, too
    for day in (*days, *(choose.randrange(-106_751_990, 106_751_990) for _ in range(2000 if TAKES_ALL else 40))):
        micros = day * DAY + choose.randrange(DAY)
        cycles, near = divmod(micros, CYCLE_DAYS * DAY)
        python = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=near)
        spelled = _years_apart(python.isoformat(" ", "microseconds"), cycles)
        assert _value(f"CAST({column} AS string)", "UTC", micros=micros) == spelled.rstrip("0").rstrip("."), micros
        told = _years_apart(python.isoformat("T", "milliseconds"), cycles)
        assert (
            _value(f"nullif(to_json(named_struct('t', {column})), '{{}}')", "UTC", micros=micros) == f'{{"t":"{told}{zone}"}}'
        ), micros
