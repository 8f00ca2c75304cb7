"""Clicks and impressions: both in, impressions with their clicks out."""

from __future__ import annotations

from streamkit.testing import TopologyTestDriver
from topologies.clicks_and_impressions import app


def show(driver, impression, time):
    driver.pipe("impressions", {"impression": impression, "ad": f"ad of {impression}"}, timestamp=f"2026-01-01 {time}")


def click(driver, impression, user, time):
    driver.pipe("ad_clicks", {"impression": impression, "user": user}, timestamp=f"2026-01-01 {time}")


def play(driver):
    show(driver, "i1", "10:00")
    show(driver, "i2", "10:01")
    click(driver, "i1", "ann", "10:10")
    show(driver, "i3", "10:11")
    click(driver, "i2", "bob", "10:11:30")
    show(driver, "i4", "10:30")
    click(driver, "i4", "ann", "10:30")
    click(driver, "i4", "eve", "10:31")


def results(driver):
    """(impression, user, clicked, time) of the results since the last call."""
    return [(row["impression"], row["user"], row["clicked"], f"{row['_timestamp']:%H:%M:%S}") for row in driver.read("results")]


def test_impressions_meet_their_clicks():
    """
    A click within ten minutes gives a row at its own time; two of them give two.

    An impression without one gives a row at the impression's time, once the window and the grace have passed.
    """
    with TopologyTestDriver(app) as driver:
        play(driver)

        assert results(driver) == [
            ("i1", "ann", True, "10:10:00"),
            ("i2", None, False, "10:01:00"),
            ("i3", None, False, "10:11:00"),
            ("i4", "ann", True, "10:30:00"),
            ("i4", "eve", True, "10:31:00"),
        ]


def test_a_late_click_counts_within_the_grace():
    """A click that comes late, but within the grace, is the impression's; a click before the impression is nobody's."""
    with TopologyTestDriver(app) as driver:
        click(driver, "i1", "eve", "09:59")
        show(driver, "i1", "10:00")
        show(driver, "i2", "10:10:30")
        click(driver, "i1", "ann", "10:09")
        assert results(driver) == [("i1", "ann", True, "10:09:00")]

        driver.drain()
        assert results(driver) == [("i2", None, False, "10:10:30")]
