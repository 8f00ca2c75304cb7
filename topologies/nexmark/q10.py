"""
Nexmark 10: every bid, filed by day and minute.

The topic has the day and the minute of each bid in its key, and lies on the disk itself.
It shows `F.date_format`, and `select_key`, by which bids of a minute come into one partition.
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("nexmark-q10")
bids = app.stream("bid").select("auction", "bidder", "price", "dateTime", "extra")
filed = bids.select_key(dt=F.date_format("dateTime", "yyyy-MM-dd"), hm=F.date_format("dateTime", "HH:mm"))
filed.to("nexmark_q10")

if __name__ == "__main__":
    sk.main(app)
