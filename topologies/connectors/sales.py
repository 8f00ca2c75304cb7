"""
Totals of each customer's payments, from PostgreSQL to Delta Lake and Kafka.

    SHOP=postgresql://… BROKER=localhost:9092 LAKE=lake/totals python topologies/connectors/sales.py --log DIR --local
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("sales")
payments = app.stream(
    sk.postgres("payments", connection_url="${env:SHOP}"),
    schema="id bigint NOT NULL, customer string, amount bigint",
    key="id",
)
totals = payments.group_by("customer").agg(total=F.sum("amount"))
totals.to(sk.delta("totals", {"path": "${env:LAKE}", "write.mode": "upsert", "batch.linger.ms": 200}))
totals.to(sk.kafka("totals", bootstrap_servers="${env:BROKER}"))

if __name__ == "__main__":
    sk.main(app)
