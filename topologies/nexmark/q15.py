"""
Nexmark 15: how many bids, bidders and auctions each day had, by the rank of the price.

It shows distinct counts of what fulfils a condition.
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("nexmark-q15")
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

app.stream("bid").group_by(day=F.date_format("dateTime", "yyyy-MM-dd")).agg(*counts).to("nexmark_q15")

if __name__ == "__main__":
    sk.main(app)
