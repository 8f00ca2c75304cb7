"""Windows of local days, weeks and months: a day on which clocks change has 23 or 25 hours; results are final once."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.errors import OrphanedStateError, TopologyError
from streamkit.names import is_name
from streamkit.plan.naming import name_part
from streamkit.plan.window_kinds.calendar import Calendar, ends_of, numbers_at, starts_at, windows_of_calendar
from streamkit.testing.driver import TopologyTestDriver
from streamkit.time_zone import canonical_zone
from tests.kit.engine_run import Run, append, execute, fresh_log, stored
from tests.kit.sampling import TAKES_ALL, in_turn

UTC = dt.timezone.utc
ZONES = (
    "Europe/Copenhagen",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Pacific/Apia",
    "UTC",
)
HOUR_MS = 3_600_000


def local_start(moment, size, zone):
    """Where the window of a size begins that holds a moment, by Python's own calendar: the local date, and the first moment of it."""
    count, unit = int(size.split()[0]), size.split()[1].rstrip("s")
    day = moment.astimezone(ZoneInfo(zone)).date()
    if unit == "day":
        number = day.toordinal() - dt.date(1970, 1, 1).toordinal()
        return dt.date(1970, 1, 1) + dt.timedelta(number // count * count)
    if unit == "week":
        weeks = (day.toordinal() - dt.date(1969, 12, 29).toordinal()) // 7
        return dt.date(1969, 12, 29) + dt.timedelta(7 * (weeks // count * count))
    months = (day.year - 1970) * 12 + day.month - 1
    months = months // count * count
    return dt.date(1970 + months // 12, months % 12 + 1, 1)


@pytest.mark.parametrize(("zone", "size"), in_turn(ZONES, ["1 month", "1 day", "1 week", "2 days", "3 months"]))
def test_windows_are_those_of_the_local_calendar(zone, size):
    """Starts and ends agree with Python's own calendar, hour by hour, over changes of clocks, of offset and of the date line."""
    calendar = Calendar(size.split()[1].rstrip("s"), int(size.split()[0]), zone)
    begins = [
        dt.datetime(year, month, 1, tzinfo=UTC) for year, month in ((1969, 12), (2011, 12), (2018, 3), (2018, 10), (2024, 2))
    ]
    times = [int(begin.timestamp() * 1000) + hour * HOUR_MS // 2 for begin in begins for hour in range(0, 100 * 24, 3)]
    starts = starts_at(calendar, np.array(times, np.int64))
    ends = ends_of(calendar, starts)
    assert (starts <= times).all() and (times < ends).all()
    assert (starts_at(calendar, ends) == ends).all() and (numbers_at(calendar, ends) > numbers_at(calendar, starts)).all()
    assert (ends - starts <= calendar.longest_ms).all()
    for time, start in zip(times, starts.tolist()):
        moment, begin = (dt.datetime.fromtimestamp(one / 1000, UTC) for one in (time, start))
        expected = local_start(moment, size, zone)
        found = begin.astimezone(ZoneInfo(zone))
        assert found.date() == expected or (
            zone == "Pacific/Apia" and found.date() - expected == dt.timedelta(1)
        )  # it had no such day
        before = dt.datetime.fromtimestamp(start / 1000 - 1, UTC).astimezone(ZoneInfo(zone))
        assert before.date() < found.date()


def counted(app, window, mode="final", by_function=False):
    windows = app.stream("in", schema="k string, v int", key="k").group_by_key().windowed_by(window)
    if by_function:
        return windows.aggregate({"n": 0}, lambda state, row: {"n": state["n"] + 1}, "n bigint", store="w").emit(mode)
    return windows.agg(n=F.count("*"), store="w").emit(mode)


OFFSETS = ("+02:00", "-05:00", "UTC+5", "GMT-3", "UT+05:30", "-02:00", "+18:00", "-17:59:59", "Z", "EST", "PST")


def test_every_zone_has_a_name_of_its_own():
    """Generated names are names of topics, and distinct; those of regions stay as they were."""
    regions = available_timezones() - {"Factory", "localtime", "posixrules"}
    names = {}
    for zone in [*sorted(regions), *OFFSETS]:
        calendar = Calendar("day", 1, canonical_zone(zone))
        names[calendar.zone] = name = "-".join(map(name_part, windows_of_calendar("1 day", zone, "0 s", None, None).words))
        assert is_name(name)
        before = f"per-{calendar}".replace("/", "-").replace(" ", "-")
        assert name == before or not is_name(before)
    assert len(set(names.values())) == len(names)
    assert names["+02:00"] == "per-1-day-of-plus02.00" and names["Etc/GMT+5"] == "per-1-day-of-Etc-GMTplus5"


@pytest.mark.parametrize("zone", [*OFFSETS, "Etc/GMT+5", "GMT+0", "Asia/Kolkata"])
def test_a_store_is_named_after_any_zone(zone):
    """Without store= the windows of each zone have a store and its changelog, beside those of the same offset to the other side."""
    app = sk.Topology("days")
    rows = app.stream("in", schema="k string, v int", key="k").group_by_key()
    for topic, one in (("out", zone), ("other", "-02:00"), ("utc", "UTC")):
        rows.windowed_by(sk.tumbling("1 day", grace="0 s", time_zone=one)).count().emit("final").to(topic)
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"k": "a", "v": 1}, timestamp=0)
        driver.crash()
        driver.restore()
        driver.drain()
        assert [driver.log.read(topic)["count"].to_pylist() for topic in ("out", "other", "utc")] == [[1], [1], [1]]


@pytest.mark.parametrize("by_function", [False, True])
@pytest.mark.parametrize("mode", ["final", "every", "latest"])
def test_local_days_of_23_and_25_hours(mode, by_function):
    """Totals of a half hour's pace around both changes of clocks in 2018, by whatever emission."""
    zone = ZoneInfo("Europe/Copenhagen")
    app = sk.Topology("days")
    counted(app, sk.tumbling("1 day", grace="0 s", time_zone="Europe/Copenhagen"), mode, by_function).to("out")
    wanted: Counter[dt.date] = Counter()
    with TopologyTestDriver(app, batching="all" if mode != "every" else "each") as driver:
        for begin in (dt.datetime(2018, 3, 24, tzinfo=UTC), dt.datetime(2018, 10, 27, tzinfo=UTC)):
            for day in range(3):
                moments = [begin + dt.timedelta(days=day, minutes=30 * half_hour) for half_hour in range(48)]
                driver.pipe("in", [{"k": "a", "v": 1, "_timestamp": moment} for moment in moments])
                wanted.update(moment.astimezone(zone).date() for moment in moments)
        driver.drain()
        newest = {row["window_start"]: row for row in driver.read("out")}
        assert {start.astimezone(zone).date(): row["n"] for start, row in newest.items()} == wanted
        assert {wanted[dt.date(2018, 3, 25)], wanted[dt.date(2018, 10, 28)]} == {46, 50}
        for start, row in newest.items():
            assert row["window_end"].astimezone(zone).date() - start.astimezone(zone).date() == dt.timedelta(1)
            assert row["window_end"].astimezone(zone).hour == start.astimezone(zone).hour == 0


def test_a_window_closes_at_its_local_end_and_grace():
    """The record that reaches it brings the result; what comes then is late, with the bounds of its local day."""
    zone, app = ZoneInfo("America/New_York"), sk.Topology("days")
    windows = sk.tumbling("1 day", grace="1 hour", time_zone="America/New_York")
    stream = app.stream("in", schema="k string, v int", key="k").group_by_key().windowed_by(windows, late_to="late")
    stream.agg(n=F.count("*"), store="w").emit("final").to("out")
    with TopologyTestDriver(app) as driver:
        at = [dt.datetime(2018, 11, 4, 0, tzinfo=zone), dt.datetime(2018, 11, 4, 23, 59, tzinfo=zone)]  # a day of 25 hours
        at += [dt.datetime(2018, 11, 5, 0, 59, 59, tzinfo=zone), dt.datetime(2018, 11, 4, 12, tzinfo=zone)]
        for moment in at:
            driver.pipe("in", {"k": "a", "v": 1}, timestamp=moment)
        assert driver.read("out") == []
        driver.pipe("in", {"k": "a", "v": 1}, timestamp=dt.datetime(2018, 11, 5, 1, tzinfo=zone))
        (row,) = driver.read("out")
        assert row["n"] == 3 and row["window_end"] - row["window_start"] == dt.timedelta(hours=25)
        driver.pipe("in", {"k": "a", "v": 1}, timestamp=at[0])
        (late,) = driver.read("late")
        assert (late["window_start"], late["window_end"]) == (row["window_start"], row["window_end"])
        (kept,) = [one for one in driver.store("w").to_arrow().to_pylist() if one["n"] == 3]
        assert (kept["window_start"], kept["window_end"]) == (row["window_start"], row["window_end"])
        assert (driver.store("w").get("a", window_start=row["window_start"]) or {})["n"] == 3


@pytest.mark.parametrize("size", ["1 day", "1 week", "1 month"])
def test_results_depend_on_no_cut(size):
    """Tasks and cuts change nothing, and each window is final once, also over restarts with another grace."""

    def run(tasks, records_max, graces=("6 hours",)):
        made = random.Random(3)
        rows, now = [], 1_520_000_000_000
        for number in range(120):
            now += made.choice([0, HOUR_MS // 2, 5 * HOUR_MS, 40 * HOUR_MS])
            rows.append({"k": made.choice("ab"), "v": number, "ts": now - made.choice([0, 0, 7 * HOUR_MS, 60 * HOUR_MS])})
        with fresh_log() as log:
            log.create_topic("in", "k string, v int", key="k", partitions=1, config={"retention.ms": "-1"})
            for part, grace in enumerate(graces):
                app = sk.Topology("days")
                counted(app, sk.tumbling(size, grace=grace, time_zone="Europe/Copenhagen")).to("out")
                append(log, "in", rows[part * 120 // len(graces) : (part + 1) * 120 // len(graces)])
                is_last = part == len(graces) - 1
                execute(log, compile(app, log), Run(tasks=tasks, records_max=records_max, drain=is_last))
            return sorted((row["k"], row["window_start"], row["window_end"], row["n"]) for row in log.read("out").to_pylist())

    expected = run(1, None)
    assert len(expected) > 3 and run(3, 7 if TAKES_ALL else 20) == expected
    assert not TAKES_ALL or run(2, 1) == expected
    changed = run(1, 11 if TAKES_ALL else 25, ("6 hours", "0 s", "2 days"))
    assert len({row[:2] for row in changed}) == len(changed)


def test_another_calendar_is_another_store():
    """A start with another zone, or weeks in place of days, is refused."""
    with fresh_log() as log:
        log.create_topic("in", "k string, v int", key="k", partitions=1)
        append(log, "in", [{"k": "a", "v": 1, "ts": 1_600_000_000_000}])
        for size, zone in (("1 day", "Europe/Copenhagen"), ("1 day", "UTC"), ("2 days", "Europe/Copenhagen")):
            app = sk.Topology("days")
            counted(app, sk.tumbling(size, grace="0 s", time_zone=zone)).to("out")
            if (size, zone) == ("1 day", "Europe/Copenhagen"):
                execute(log, compile(app, log), Run(drain=False))
                assert len(stored(log, "days", "w")) == 1
                continue
            with pytest.raises(
                OrphanedStateError, match=f"calendar of its windows was 1 day of Europe/Copenhagen, and is {size} of {zone}"
            ):
                execute(log, compile(app, log), Run())


def test_tables_of_local_days_are_joined_and_held_back():
    """Windows of one calendar meet; `suppress` gives their final rows."""
    app, day = sk.Topology("days"), sk.tumbling("1 day", grace="0 s", time_zone="Asia/Kolkata")
    stream = app.stream("in", schema="k string, v int", key="k")
    one = stream.group_by_key().windowed_by(day).agg(n=F.count("*"), store="one")
    other = stream.filter("v > 1").group_by_key().windowed_by(day).agg(m=F.sum("v"), store="other")
    one.join(other).to_stream().to("joined")
    one.suppress(until=sk.window_closes()).to("held")
    with TopologyTestDriver(app) as driver:
        for hour, value in ((0, 1), (1, 2), (19, 3), (20, 4)):  # midnight there is 18:30 in UTC
            driver.pipe("in", {"k": "a", "v": value}, timestamp=1_600_041_600_000 + hour * HOUR_MS)  # 2020-09-14T00:00Z
        driver.drain()
        assert [(row["n"], row["m"]) for row in driver.newest("joined").values()] == [(2, 2), (2, 7)]
        assert [row["n"] for row in driver.read("held")] == [2, 2]


def test_local_days_that_have_closed_are_not_counted_as_held_back():
    """Of days whose results come one after the other, one is open at a time: `max_rows=1` has room for it."""
    app = sk.Topology("days")
    day = sk.tumbling("1 day", grace="0 s", time_zone="Asia/Kolkata")
    counts = app.stream("in", schema="k string, v int", key="k").group_by_key().windowed_by(day).count()
    counts.suppress(until=sk.window_closes(), max_rows=1, when_full="stop").to("held")
    with TopologyTestDriver(app) as driver:
        for number in range(5):
            driver.pipe("in", {"k": "a", "v": number}, timestamp=1_600_000_000_000 + number * 24 * HOUR_MS)
        assert [row["count"] for row in driver.read("held")] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("size", "zone", "message"),
    [
        ("1 hour", "Europe/Berlin", "expected 1 to 9999 days, weeks or months"),
        ("0 days", "Europe/Berlin", "expected 1 to 9999 days, weeks or months"),
        ("1 day", "Europe/Nowhere", "there is no time zone 'Europe/Nowhere'"),
        ("1 day", 5, "time_zone=5"),
    ],
)
def test_what_is_no_calendar_is_refused(size, zone, message):
    """With the user's line."""
    with pytest.raises(TopologyError, match=message) as error:
        sk.tumbling(size, grace="0 s", time_zone=zone)
    assert "test_calendar_windows.py" in str(error.value)


def test_a_topic_of_local_days_is_no_table_of_windows():
    """Windows that are read from a topic have one length."""
    with pytest.raises(TopologyError, match="windows of a time zone; expected windows of one length"):
        sk.Topology("days").table("in", windowed=sk.tumbling("1 day", grace="0 s", time_zone="UTC"))
