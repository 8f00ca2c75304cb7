"""
Nexmark 7: the highest bids of every ten seconds.

It shows a group of everything, and a join of a stream with the final results that were made of it.
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("nexmark-q7")
bids = app.stream("bid").select("bidder", "price", "dateTime", "extra")

windows = bids.group_by(F.lit("all").alias("bids")).windowed_by(sk.tumbling("10 seconds", grace="4 seconds"))
highest = windows.agg(price=F.max("price")).emit("final").select_key("price").drop("bids")
found = bids.join(highest, on="price", within=sk.within("10 seconds", grace="4 seconds"))
found.filter("dateTime >= window_start and dateTime <= window_end").drop("window_start", "window_end").to("nexmark_q7")

if __name__ == "__main__":
    sk.main(app)
