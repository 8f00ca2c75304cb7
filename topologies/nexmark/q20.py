"""
Nexmark 20: every bid for an auction of category 10, with the auction.

A bid meets its auction whichever of the two comes first, if an hour at most lies between them.
It shows a join of two streams.
"""

from __future__ import annotations

import streamkit as sk

app = sk.Topology("nexmark-q20")
bids = app.stream("bid").rename(dateTime="bid_dateTime", extra="bid_extra")
auctions = app.stream("auction").filter("category = 10").rename(id="auction", dateTime="auction_dateTime", extra="auction_extra")

bids.join(auctions, within=sk.within("1 hour", grace="4 seconds")).to("nexmark_q20")

if __name__ == "__main__":
    sk.main(app)
