"""Change data capture: changes in, the table and purchases with its rows out."""

from __future__ import annotations

from streamkit.testing import TopologyTestDriver
from topologies.change_data_capture import app


def change(driver, time, customer, after=None):
    driver.pipe("customer_changes", {"customer": customer, "after": after}, timestamp=f"2026-01-01 {time}")


def purchase(driver, time, number, customer):
    driver.pipe("purchases", {"purchase": number, "customer": customer, "amount": 9.5}, timestamp=f"2026-01-01 {time}")


def play(driver):
    change(driver, "10:00", 1, {"name": "ann", "city": "Bonn"})
    change(driver, "10:01", 2, {"name": "bob", "city": "Oslo"})
    purchase(driver, "10:02", 10, 1)
    change(driver, "10:03", 1, {"name": "ann", "city": "Rome"})
    purchase(driver, "10:04", 11, 1)
    change(driver, "10:05", 1)
    purchase(driver, "10:06", 12, 1)
    purchase(driver, "10:07", 13, 2)
    driver.delete("customer_changes", {"customer": 2}, timestamp="2026-01-01 10:08")
    purchase(driver, "10:09", 14, 2)


def test_the_table_is_what_the_changes_made_of_it():
    """Rows that were created and updated are there as they are now; a deletion takes its row away, here and in the topic."""
    with TopologyTestDriver(app) as driver:
        change(driver, "10:00", 1, {"name": "ann", "city": "Bonn"})
        change(driver, "10:01", 2, {"name": "bob", "city": "Oslo"})
        change(driver, "10:02", 1, {"name": "ann", "city": "Rome"})
        assert driver.store("customers").get(1) == {"customer": 1, "name": "ann", "city": "Rome"}

        change(driver, "10:03", 1)
        assert driver.store("customers").get(1) is None
        assert driver.newest("current_customers").keys() == {2}
        assert [(row["customer"], row["_deleted"]) for row in driver.read("current_customers")][-1] == (1, True)


def test_purchases_meet_the_row_of_their_time():
    """A purchase has the customer as the changes before it left it; after a deletion, by a change or by a tombstone, it finds none."""
    with TopologyTestDriver(app) as driver:
        play(driver)

        assert driver.read("purchases_with_customer", "purchase", "name", "city") == [
            {"purchase": 10, "name": "ann", "city": "Bonn"},
            {"purchase": 11, "name": "ann", "city": "Rome"},
            {"purchase": 13, "name": "bob", "city": "Oslo"},
        ]
