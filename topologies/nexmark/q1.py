"""
Nexmark 1: every bid, with its price in euros.

It shows an expression with exact decimals: `with_columns`, `F.expr`.
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("nexmark-q1")
bids = app.stream("bid").select("auction", "bidder", "price", "dateTime", "extra")
bids.with_columns(price=F.expr("0.908 * price")).to("nexmark_q1")

if __name__ == "__main__":
    sk.main(app)
