"""
Nexmark 19: the ten highest bids of each auction.

It shows `top_k`, and a record for each element of an array.
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("nexmark-q19")
fields = F.struct("price", F.expr("-unix_millis(dateTime)").alias("earlier"), "bidder", "channel", "url", "dateTime", "extra")
ten = app.stream("bid").group_by("auction").agg(bids=F.top_k(fields, 10))

ranked = ten.emit("latest").flat_map(F.posexplode("bids"), as_=("place", "bid")).drop("bids")
ranked.select_key("auction", rank_number=F.col("place") + 1).select("bid.*").drop("earlier").to("nexmark_q19")

if __name__ == "__main__":
    sk.main(app)
