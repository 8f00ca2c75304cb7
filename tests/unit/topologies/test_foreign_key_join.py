"""Foreign-key join: parcels and vans in, where each parcel is out."""

from __future__ import annotations

from streamkit.testing import TopologyTestDriver
from topologies.foreign_key_join import app


def hand_over(driver, parcel, receiver, van=None):
    driver.advance_wall_clock("1 minute")
    driver.pipe("parcels", {"parcel": parcel, "receiver": receiver, "van": van})


def drive(driver, van, place):
    driver.advance_wall_clock("1 minute")
    driver.pipe("vans", {"van": van, "place": place})


def play(driver):
    hand_over(driver, 1, "ann", "red")
    hand_over(driver, 2, "bob", "red")
    hand_over(driver, 3, "eve")
    drive(driver, "red", "Bonn")
    drive(driver, "blue", "Oslo")
    drive(driver, "red", "Rome")
    hand_over(driver, 2, "bob", "blue")
    driver.advance_wall_clock("1 minute")
    driver.delete("parcels", {"parcel": 1})
    hand_over(driver, 3, "eve", "blue")
    driver.advance_wall_clock("1 minute")
    driver.delete("vans", {"van": "blue"})


def places(driver):
    return {parcel: row["place"] for parcel, row in driver.newest("whereabouts").items()}


def test_a_van_takes_all_its_parcels_along():
    """A change of the right row is one of each left row that names it, and of no other."""
    with TopologyTestDriver(app) as driver:
        hand_over(driver, 1, "ann", "red")
        hand_over(driver, 2, "bob", "red")
        hand_over(driver, 3, "eve", "blue")
        drive(driver, "blue", "Oslo")
        drive(driver, "red", "Bonn")
        assert places(driver) == {1: "Bonn", 2: "Bonn", 3: "Oslo"}

        drive(driver, "red", "Rome")
        assert places(driver) == {1: "Rome", 2: "Rome", 3: "Oslo"}


def test_a_parcel_is_where_its_newest_van_is():
    """A left row that names another right row leaves the first; without one, or with an unknown one, its place is null."""
    with TopologyTestDriver(app) as driver:
        drive(driver, "red", "Bonn")
        drive(driver, "blue", "Oslo")
        hand_over(driver, 1, "ann", "red")
        hand_over(driver, 2, "bob")
        hand_over(driver, 1, "ann", "blue")
        drive(driver, "red", "Rome")
        assert places(driver) == {1: "Oslo", 2: None}

        hand_over(driver, 1, "ann", "green")
        assert places(driver) == {1: None, 2: None}


def test_what_is_deleted():
    """A parcel that is deleted is nowhere; of a van that is deleted the parcels stay, without a place."""
    with TopologyTestDriver(app) as driver:
        play(driver)

        assert places(driver) == {2: None, 3: None}
        assert driver.store("whereabouts").get(1) is None
        assert driver.store("whereabouts").get(2) == {"parcel": 2, "receiver": "bob", "van": "blue", "place": None}
