"""
Nexmark 14: bids of a million euro cents or more, with the kind of their hour, and with how many letters c they have.

It shows `F.when`, and a function of one's own over Arrow arrays.
"""

from __future__ import annotations

import pyarrow.compute as pc

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("nexmark-q14")
count_c = F.arrow_udf(lambda texts: pc.count_substring(texts, "c").cast("int64"), "bigint")
hour = F.hour("dateTime")
time_type = F.when((hour >= 8) & (hour <= 18), "dayTime").when((hour <= 6) | (hour >= 20), "nightTime").otherwise("otherTime")

bids = app.stream("bid").with_columns(price=F.expr("0.908 * price")).filter("price > 1000000 and price < 50000000")
bids.select("bidder", "price", "dateTime", "extra", bidTimeType=time_type, c_counts=count_c("extra")).to("nexmark_q14")

if __name__ == "__main__":
    sk.main(app)
