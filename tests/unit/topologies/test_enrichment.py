"""Enrichment: orders in, orders with customer and product out."""

from __future__ import annotations

from streamkit.testing import TopologyTestDriver
from topologies.enrichment import app


def play(driver):
    driver.pipe("products", [{"product": "pen", "price": 1.5}, {"product": "ink", "price": 4.0}], timestamp="2026-01-01 08:00")
    driver.pipe("customers", {"customer": "ann", "city": "Bonn"}, timestamp="2026-01-01 08:00")
    order(driver, 1, "ann", "pen", "09:00")
    driver.pipe("customers", {"customer": "ann", "city": "Rome"}, timestamp="2026-01-01 10:00")
    order(driver, 2, "ann", "ink", "11:00")
    order(driver, 3, "bob", "pen", "11:30")
    order(driver, 4, "ann", "cup", "11:40")
    driver.delete("customers", {"customer": "ann"}, timestamp="2026-01-01 12:00")
    order(driver, 5, "ann", "ink", "13:00")


def order(driver, number, customer, product, time):
    row = {"order": number, "customer": customer, "product": product, "quantity": 2}
    driver.pipe("orders", row, timestamp=f"2026-01-01 {time}")


def test_orders_get_their_customer_and_product():
    """
    An order has the city that its customer had when it came, and what its product costs.

    An unknown or deleted customer leaves the city null; an order of an unknown product is dropped. Orders keep their key.
    """
    with TopologyTestDriver(app) as driver:
        play(driver)

        assert driver.read("full_orders", "order", "customer", "city", "amount") == [
            {"order": 1, "customer": "ann", "city": "Bonn", "amount": 3.0},
            {"order": 2, "customer": "ann", "city": "Rome", "amount": 8.0},
            {"order": 3, "customer": "bob", "city": None, "amount": 3.0},
            {"order": 5, "customer": "ann", "city": None, "amount": 8.0},
        ]
        assert driver.newest("full_orders").keys() == {1, 2, 3, 5}
