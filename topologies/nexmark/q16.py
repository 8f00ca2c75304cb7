"""
Nexmark 16: how many bids, bidders and auctions each channel had each day, by the rank of the price.

It shows the distinct counts of query 15 for many groups.
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("nexmark-q16")
price = F.col("price")
ranks = {"rank1": price < 10_000, "rank2": (price >= 10_000) & (price < 1_000_000), "rank3": price >= 1_000_000}

bids, bidders, auctions = F.count("*"), F.count_distinct("bidder"), F.count_distinct("auction")
counts = [bids.alias("total_bids"), bidders.alias("total_bidders"), auctions.alias("total_auctions")]
for rank, is_ranked in ranks.items():
    counts += [
        F.count_if(is_ranked).alias(f"{rank}_bids"),
        F.count_distinct(F.when(is_ranked, F.col("bidder"))).alias(f"{rank}_bidders"),
        F.count_distinct(F.when(is_ranked, F.col("auction"))).alias(f"{rank}_auctions"),
    ]

days = app.stream("bid").group_by("channel", day=F.date_format("dateTime", "yyyy-MM-dd"))
days.agg(*counts, minute=F.max(F.date_format("dateTime", "HH:mm"))).to("nexmark_q16")

if __name__ == "__main__":
    sk.main(app)
