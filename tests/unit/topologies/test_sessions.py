"""Sessions: clicks in, visits out."""

from __future__ import annotations

import datetime as dt

from streamkit.testing import TopologyTestDriver
from topologies.sessions import app

TOPICS = {"clicks": {"schema": "user string, page string, at timestamp", "key": "user", "timestamp": "at"}}


def click(driver, user, page, time):
    clicks(driver, (user, page, time))


def clicks(driver, *found):
    """Clicks that come together."""
    times = [dt.datetime.fromisoformat(f"2026-01-01T{time}:00+00:00") for _, _, time in found]
    driver.pipe("clicks", [{"user": user, "page": page, "at": at} for (user, page, _), at in zip(found, times, strict=True)])


def play(driver):
    click(driver, "ann", "home", "10:00")
    click(driver, "bob", "help", "10:10")
    click(driver, "ann", "shop", "10:30")
    click(driver, "ann", "cart", "11:04")
    clicks(driver, ("bob", "home", "10:41"), ("ann", "news", "10:50"), ("eve", "home", "10:20"))


def visits(driver):
    """(user, start, end, clicks, entry, exit) of the visits since the last call."""
    return [
        (row["user"], f"{row['window_start']:%H:%M}", f"{row['window_end']:%H:%M}", row["clicks"], row["entry"], row["exit"])
        for row in driver.read("visits")
    ]


def test_visits_end_with_a_pause():
    """Clicks of a user that are at most half an hour apart are one visit, from the first to the last; it is given when it is over."""
    with TopologyTestDriver(app, topics=TOPICS) as driver:
        click(driver, "ann", "home", "10:00")
        click(driver, "bob", "help", "10:10")
        click(driver, "ann", "shop", "10:30")
        assert visits(driver) == []

        click(driver, "ann", "home", "11:10")
        assert visits(driver) == [("bob", "10:10", "10:10", 1, "help", "help"), ("ann", "10:00", "10:30", 2, "home", "shop")]

        driver.drain()
        assert visits(driver) == [("ann", "11:10", "11:10", 1, "home", "home")]


def test_a_click_between_two_visits_makes_them_one():
    """A click that comes late, but in time, joins the visits before and after it, and stands where its time is."""
    with TopologyTestDriver(app, topics=TOPICS) as driver:
        click(driver, "ann", "home", "10:00")
        click(driver, "ann", "cart", "10:34")
        click(driver, "ann", "shop", "10:17")
        click(driver, "ann", "news", "09:50")
        driver.drain()

        assert visits(driver) == [("ann", "09:50", "10:34", 4, "news", "cart")]


def test_a_click_after_the_grace_is_late():
    """A click whose visit would be over by more than the grace is in none; it is counted, and goes to the topic of late clicks."""
    with TopologyTestDriver(app, topics=TOPICS) as driver:
        click(driver, "bob", "home", "11:00")
        click(driver, "ann", "home", "10:24")
        click(driver, "eve", "home", "10:25")
        driver.drain()

        assert [user for user, *_ in visits(driver)] == ["eve", "bob"]
        assert driver.metrics()["late"] == 1
        assert [row["user"] for row in driver.read("late_clicks")] == ["ann"]
