"""
Enrichment: each order with the customer as it was when the order came, and with the product it names.

    streamkit topics create orders --key order --schema "order bigint, customer string, product string, quantity int"
    streamkit topics create customers --key customer --schema "customer string, city string"
    streamkit topics create products --key product --schema "product string, price double"
    python topologies/enrichment.py
    streamkit consume full_orders --follow
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("enrichment")
orders = app.stream("orders", schema="order bigint, customer string, product string, quantity int", key="order")
customers = app.table("customers", schema="customer string, city string", key="customer")
products = app.global_table("products", schema="product string, price double", key="product")  # small: whole in every task

full_orders = (
    orders.join(customers, on="customer", how="left")  # re-keyed on the way; an order of an unknown customer stays
    .join(products, on="product")  # an order of an unknown product does not
    .with_columns(amount=F.col("quantity") * F.col("price"))
    .select_key("order")
)
full_orders.to("full_orders")

if __name__ == "__main__":
    sk.main(app)
