"""
Nexmark 13: every bid, with a text from a small table.

It shows a join with a global table, which every task has whole.
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("nexmark-q13")
texts = app.global_table("side_input")
bids = app.stream("bid").select("bidder", "price", "dateTime", key=F.col("auction") % 10_000)

bids.join(texts, on="key").drop("key").to("nexmark_q13")

if __name__ == "__main__":
    sk.main(app)
