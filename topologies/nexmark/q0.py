"""
Nexmark 0: every bid, as it is.

It shows what reading and writing alone cost: `select`.
"""

from __future__ import annotations

import streamkit as sk

app = sk.Topology("nexmark-q0")
app.stream("bid").select("auction", "bidder", "price", "dateTime", "extra").to("nexmark_q0")

if __name__ == "__main__":
    sk.main(app)
