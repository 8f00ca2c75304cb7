"""
Change data capture: the changes of a database's table are a table again, deletions too, and purchases are joined with it.

    streamkit topics create customer_changes --key customer --schema "customer bigint, after struct<name: string, city: string>"
    streamkit topics create purchases --key purchase --schema "purchase bigint, customer bigint, amount double"
    python topologies/change_data_capture.py
    streamkit consume purchases_with_customer --follow
"""

from __future__ import annotations

import streamkit as sk

app = sk.Topology("change-data-capture")
changes = app.stream("customer_changes", schema="customer bigint, after struct<name: string, city: string>", key="customer")
purchases = app.stream("purchases", schema="purchase bigint, customer bigint, amount double", key="purchase")

# The row after the change is the row of the table; without one (None) the change is a tombstone, which deletes it
customers = changes.map_values(lambda change: change["after"], "name string, city string").to_table(store="customers")
customers.to("current_customers")
purchases.join(customers, on="customer").to("purchases_with_customer")

if __name__ == "__main__":
    sk.main(app)
