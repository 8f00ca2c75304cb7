"""Time zones: local times are those of the tz database, and a topology's zone is spelled out in its plan."""

from __future__ import annotations

import datetime as dt
import importlib.resources
import zoneinfo

import numpy as np
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopologyError, UnsupportedExpressionError
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.plan.expression import SqlText
from streamkit.plan.expression_text import typed_text
from streamkit.schema import Schema
from streamkit.zone_offsets import local_micros, moment_micros, offsets_of, start_of_day_micros

SCHEMA = Schema.parse("ts timestamp, d date, s string")
ZONES = ("America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia", "America/Sao_Paulo")
DAY = 86_400


def _typed(text, zone="UTC"):
    return ExpressionAnalyzer(zone).project(SCHEMA, [("r", SqlText(text))])[0][1]


def _seconds(year, month, day, hour=0, minute=0, second=0):
    return int(dt.datetime(year, month, day, hour, minute, second, tzinfo=dt.timezone.utc).timestamp())


@pytest.mark.parametrize("zone", ZONES)
def test_offsets_are_those_of_the_database(zone):
    """At moments of three centuries, before the first rule and after the last, the offset is what Python's zoneinfo has."""
    moments = np.arange(_seconds(1850, 1, 1), _seconds(2150, 1, 1), 397 * 3600 + 1234)
    with importlib.resources.files("tzdata").joinpath("zoneinfo", *zone.split("/")).open("rb") as file:
        known = zoneinfo.ZoneInfo.from_file(file)
    wanted = [
        int((dt.datetime.fromtimestamp(second, known).utcoffset() or dt.timedelta()).total_seconds())
        for second in moments.tolist()
    ]
    assert offsets_of(zone).at(moments).tolist() == wanted


def test_rules_repeat_after_four_hundred_years():
    """Far beyond the table the offsets are those of the same day 400 years before."""
    moments = np.array([_seconds(2100, month, 15, 12) for month in range(1, 13)])
    offsets = offsets_of("Europe/Berlin")
    assert offsets.at(moments + 15 * 146_097 * DAY).tolist() == offsets.at(moments).tolist()


@pytest.mark.parametrize("zone", ZONES)
def test_a_moment_comes_back_from_its_local_time(zone):
    """Converted to local time and back, with the moment's own offset where there are two, every moment is itself."""
    micros = np.arange(_seconds(1900, 1, 1), _seconds(2040, 1, 1), 31 * 3600 + 977) * 1_000_000
    offsets = offsets_of(zone)
    assert (moment_micros(local_micros(micros, offsets), offsets, micros) == micros).all()


def test_gaps_move_forward_and_overlaps_take_the_earlier_moment():
    """2:30 on the day the clock jumps is 3:30; 1:30 on the day it goes back is the first of the two."""
    offsets = offsets_of("America/New_York")
    local = np.array([_seconds(2013, 3, 10, 2, 30), _seconds(2013, 11, 3, 1, 30)]) * 1_000_000
    assert (moment_micros(local, offsets) // 1_000_000).tolist() == [_seconds(2013, 3, 10, 7, 30), _seconds(2013, 11, 3, 5, 30)]


def test_a_day_without_midnight_starts_when_it_starts():
    """In São Paulo the clock jumped from 0:00 to 1:00; in Toronto of 1919 from 23:30 to 0:30, where half past is the first moment."""
    days = np.array([np.datetime64("2013-10-20").astype(int)])
    assert start_of_day_micros(days, offsets_of("America/Sao_Paulo")).tolist() == [_seconds(2013, 10, 20, 3) * 1_000_000]
    days = np.array([np.datetime64("1919-03-31").astype(int)])
    assert start_of_day_micros(days, offsets_of("America/Toronto")).tolist() == [_seconds(1919, 3, 31, 4, 30) * 1_000_000]


@pytest.mark.parametrize(
    ("zone", "offset"),
    [("+02:00", 7200), ("-8:30", -30_600), ("+5", 18_000), ("UTC+1", 3600), ("GMT-03:30", -12_600), ("Z", 0), ("PST", -28_800)],
)
def test_offsets_are_zones(zone, offset):
    """Offsets are zones in the spellings that Spark takes, and so are some abbreviations (on the first of January 2013)."""
    assert offsets_of(zone).at(np.array([_seconds(2013, 1, 1)])).tolist() == [offset]


def test_plans_name_the_zone():
    """What depends on the zone becomes the same on local times between conversions; in UTC nothing changes."""
    assert typed_text(_typed("hour(ts)", "Europe/Berlin")) == "hour(to_local(ts, 'Europe/Berlin'))"
    assert typed_text(_typed("CAST(d AS TIMESTAMP)", "Europe/Berlin")) == "start_of_day(d, 'Europe/Berlin')"
    assert typed_text(_typed("ts + INTERVAL 1 HOUR", "Europe/Berlin")) == typed_text(_typed("ts + INTERVAL 1 HOUR"))
    assert typed_text(_typed("hour(ts)")) == "hour(ts)"


def test_constants_are_local_times():
    """A text that names no zone, and a datetime of Python without one, are local times of the zone."""
    typed = _typed("TIMESTAMP '2013-01-05 01:02:03'", "America/New_York")
    assert typed.value == "2013-01-05T06:02:03.000000"
    column = F.lit(dt.datetime(2013, 1, 5, 1, 2, 3))
    assert ExpressionAnalyzer("America/New_York").project(SCHEMA, [("r", column.expression)])[0][1] == typed


def test_texts_with_a_region_are_read():
    """A text may name its zone, which counts before the session's."""
    batch = pa.record_batch([pa.array(["2013-07-01 12:00:00 Europe/Berlin", "2013-07-01 12:00:00"])], names=["s"])
    typed = _typed("unix_seconds(CAST(s AS TIMESTAMP))", "America/New_York")
    assert evaluate(typed, batch).to_pylist() == [_seconds(2013, 7, 1, 10), _seconds(2013, 7, 1, 16)]


@pytest.mark.parametrize("zone", ["Europe/Berln", "europe/berlin", "+25:00", "", "new york"])
def test_an_unknown_zone_is_refused(zone):
    """The error says which zones are like it, and names the user's line."""
    with pytest.raises(TopologyError, match="there is no time zone") as caught:
        sk.Topology("a", time_zone=zone)
    assert caught.value.at is not None
    if "erl" in zone:
        assert "Europe/Berlin" in str(caught.value)


def test_a_topology_shows_its_zone():
    """A zone other than UTC stands in what a topology says of itself, and tells two topologies apart."""
    local, plain = sk.Topology("a", time_zone="Europe/Berlin"), sk.Topology("a")
    assert local.describe().splitlines()[0] == "topology a, time zone Europe/Berlin"
    assert plain.describe().splitlines()[0] == "topology a"
    assert local != plain
    assert "Europe/Berlin" in repr(local)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("INTERVAL 1 DAY", "no column holds intervals"),
        ("ts - current_timestamp()", "depends on when or where it runs"),
        ("window(ts, '1 day')", "windowed_by"),
        ("make_time(1, 2, 3)", "type TIME"),
        ("date_format(ts, 'YYYY')", "Spark refuses letters of weeks"),
        ("to_timestamp(s, 'EEE yyyy')", "which Spark refuses in parsing"),
        ("to_timestamp(s, 'yyyyM')", "put a separator between them"),
        ("date_format(ts, 'yyyyT')", "no letter of a format"),
    ],
)
def test_what_cannot_be_is_refused_by_name(text, message):
    """Windows, times of day, now, intervals as columns, and formats that Spark or we do not take say why."""
    with pytest.raises(UnsupportedExpressionError, match=message):
        _typed(text)
