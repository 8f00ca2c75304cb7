"""
Nexmark 2: what was bid for every 123rd auction.

It shows `filter`.
"""

from __future__ import annotations

import streamkit as sk

app = sk.Topology("nexmark-q2")
app.stream("bid").filter("auction % 123 = 0").select("auction", "price").to("nexmark_q2")

if __name__ == "__main__":
    sk.main(app)
