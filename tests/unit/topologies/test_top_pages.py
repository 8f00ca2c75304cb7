"""Top pages: views in, a ranking of each site and hour out."""

from __future__ import annotations

from streamkit.testing import TopologyTestDriver
from topologies.top_pages import app


def view(driver, time, site, pages):
    driver.pipe("views", [{"user": "ann", "site": site, "page": page} for page in pages], timestamp=f"2026-01-01 {time}")


def play(driver):
    view(driver, "10:00", "news", "aabbbcdddd")
    view(driver, "10:20", "shop", "x")
    view(driver, "11:04", "news", "c")
    view(driver, "10:59", "news", "aaa")
    view(driver, "11:30", "news", "c")
    view(driver, "10:58", "news", "ccccccc")


def rankings(driver):
    """(site, hour, views and page of each place) of the rankings since the last call."""
    return [
        (row["site"], f"{row['window_start']:%H:%M}", [(page["views"], page["page"]) for page in row["pages"]])
        for row in driver.read("top_pages")
    ]


def test_each_hour_has_its_best():
    """
    A site's ranking of an hour has its three most viewed pages, the first one first, or as many as there were.

    It comes once, and has the views that came late within the grace, not those that came later.
    """
    with TopologyTestDriver(app) as driver:
        play(driver)
        driver.drain()

        assert sorted(rankings(driver)) == [
            ("news", "10:00", [(5, "a"), (4, "d"), (3, "b")]),
            ("news", "11:00", [(2, "c")]),
            ("shop", "10:00", [(1, "x")]),
        ]
        assert driver.metrics()["late"] == 7


def test_a_ranking_comes_without_an_end():
    """The ranking of an hour does not wait for the end of the run: a view that is late enough after it is enough."""
    with TopologyTestDriver(app) as driver:
        view(driver, "10:00", "news", "aab")
        view(driver, "11:30", "news", "b")
        view(driver, "13:00", "news", "b")

        assert rankings(driver)[0] == ("news", "10:00", [(2, "a"), (1, "b")])
