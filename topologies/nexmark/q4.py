"""
Nexmark 4: the average price at which auctions of each category were won.

The highest bid wins that comes while its auction is open. A higher bid replaces the price that its auction had in the average.
It shows a join with a table with history, and a group of a table of results.
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("nexmark-q4")
auctions = app.table("auction", versioned="1 minute").select("category", "expires")
bids = app.stream("bid").select("auction", "price", bid_dateTime=F.col("dateTime"))

# The auction as it was at the time of the bid, so one that was open already; changes of it may come four seconds late
valid = bids.join(auctions, on={"auction": "id"}, grace="4 seconds").filter("bid_dateTime <= expires")

prices = valid.group_by("auction", "category").agg(final=F.max("price"))
totals = prices.group_by("category").agg(total=F.sum("final"), auctions=F.count("*"))
totals.select(final=F.expr("total div auctions")).to("nexmark_q4")

if __name__ == "__main__":
    sk.main(app)
