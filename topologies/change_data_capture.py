"""
Change data capture: the changes of a database's table are a table again, deletions too, and orders are joined with it.

    streamkit topics create customer_changes --key customer --schema "customer bigint, op string, after struct<name: string, city: string>"
    streamkit topics create orders --key order --schema "order bigint, customer bigint, amount double"
    python topologies/change_data_capture.py
    streamkit consume orders_with_customer --follow
"""

from __future__ import annotations

from typing import Any

import streamkit as sk


def row_after(change: dict[str, Any]) -> dict[str, Any] | None:
    """The row that a change leaves; none, which deletes it, after a deletion (op d)."""
    return None if change["op"] == "d" else change["after"]


app = sk.Topology("change-data-capture")
changes = app.stream(
    "customer_changes", schema="customer bigint, op string, after struct<name: string, city: string>", key="customer"
)
orders = app.stream("orders", schema="order bigint, customer bigint, amount double", key="order")

customers = changes.map_values(row_after, "name string, city string").to_table(store="customers")
customers.to("customers")
orders.join(customers, on="customer").to("orders_with_customer")

if __name__ == "__main__":
    sk.main(app)
