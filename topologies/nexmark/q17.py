"""
Nexmark 17: how many bids each auction had each day, and at what prices.

It shows several aggregates of one group.
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("nexmark-q17")
price = F.col("price")
ranks = {"rank1": price < 10_000, "rank2": (price >= 10_000) & (price < 1_000_000), "rank3": price >= 1_000_000}

days = app.stream("bid").group_by("auction", day=F.date_format("dateTime", "yyyy-MM-dd"))
statistics = days.agg(
    *(F.count_if(is_ranked).alias(f"{rank}_bids") for rank, is_ranked in ranks.items()),
    total_bids=F.count("*"),
    min_price=F.min("price"),
    max_price=F.max("price"),
    sum_price=F.sum("price"),
)
statistics.with_columns(avg_price=F.expr("sum_price div total_bids")).to("nexmark_q17")

if __name__ == "__main__":
    sk.main(app)
