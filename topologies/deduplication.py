"""
Deduplication: the first payment of each id; those that follow within a day are dropped.

    streamkit topics create payments --key id --schema "id string, amount double"
    python topologies/deduplication.py
    streamkit consume distinct_payments --follow
"""

from __future__ import annotations

from typing import Any

import streamkit as sk

DAY_MS = 86_400_000


class First(sk.Processor):
    """Passes on the first record of each key, and remembers the key for a day of stream time."""

    def init(self, context: Any) -> None:
        self.context, self.seen = context, context.store("seen")
        context.schedule("1 hour", "stream_time", self.forget)

    def process(self, record: Any) -> None:
        if self.seen.put_if_absent(record.key, {"at": record.timestamp}) is None:
            self.context.forward(record.value)

    def forget(self, now: int) -> None:
        for key, seen in self.seen.all():
            if seen["at"] <= now - DAY_MS:
                self.seen.delete(key)


app = sk.Topology("deduplication")
payments = app.stream("payments", schema="id string, amount double", key="id")
seen = sk.key_value_store("seen", key="id string", value="at bigint")

payments.process_values(First, "amount double", stores=[seen]).to("distinct_payments")

if __name__ == "__main__":
    sk.main(app)
