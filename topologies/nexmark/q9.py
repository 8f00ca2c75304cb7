"""
Nexmark 9: the winning bid of each auction.

It shows `max_by` of a struct, and a table that serves two joins: bids meet its history, results its newest rows.
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("nexmark-q9")
auctions = app.table("auction", versioned="1 minute")
bids = app.stream("bid").select("auction", "bidder", "price", bid_dateTime=F.col("dateTime"), bid_extra=F.col("extra"))

# The auction as it was at the time of the bid, so one that was open already; changes of it may come four seconds late
valid = bids.join(auctions.select("expires"), on={"auction": "id"}, grace="4 seconds").filter("bid_dateTime <= expires")

# The higher price wins, and of equal ones the earlier bid: one number says both, since no auction is open for 10^9 ms
order = F.expr("price * 1000000000 + unix_millis(expires) - unix_millis(bid_dateTime)")

winners = valid.group_by(id=F.col("auction")).agg(won=F.max_by(F.struct("bidder", "price", "bid_dateTime", "bid_extra"), order))
auctions.join(winners).select("*", "won.*", auction=F.col("id")).drop("won").to("nexmark_q9")

if __name__ == "__main__":
    sk.main(app)
