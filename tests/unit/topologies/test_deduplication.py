"""Deduplication: payments in, each of them once out."""

from __future__ import annotations

from streamkit.testing import TopologyTestDriver
from topologies.deduplication import app


def pay(driver, payment, amount, time):
    driver.pipe("payments", {"id": payment, "amount": amount}, timestamp=f"2026-01-{time}")


def play(driver):
    pay(driver, "p1", 10.0, "01 10:00")
    pay(driver, "p2", 20.0, "01 11:00")
    pay(driver, "p1", 11.0, "01 12:00")
    pay(driver, "p2", 21.0, "01 10:30")
    pay(driver, "p3", 30.0, "02 10:00")
    pay(driver, "p1", 12.0, "02 10:30")
    pay(driver, "p2", 22.0, "02 10:30")


def test_payments_pass_once_a_day():
    """The payment of an id that comes first passes, whatever its time says; the same id passes again a day later."""
    with TopologyTestDriver(app, partitions=3, tasks=2) as driver:
        play(driver)

        assert sorted((row["id"], row["amount"]) for row in driver.read("distinct_payments")) == [
            ("p1", 10.0),
            ("p1", 12.0),
            ("p2", 20.0),
            ("p3", 30.0),
        ]


def test_ids_are_forgotten():
    """The store holds the ids of the last day alone."""
    with TopologyTestDriver(app) as driver:
        play(driver)

        assert sorted(driver.store("seen").to_arrow()["id"].to_pylist()) == ["p1", "p2", "p3"]
        pay(driver, "p4", 40.0, "04 10:00")
        pay(driver, "p4", 40.0, "04 11:00")
        assert driver.store("seen").to_arrow()["id"].to_pylist() == ["p4"]
