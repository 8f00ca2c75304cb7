"""
Nexmark 18: the last bid of each user for each auction.

It shows `max_by` of a whole row: the latest event time counts, whatever came last.
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("nexmark-q18")
groups = app.stream("bid").group_by("bidder", "auction")
last = groups.agg(bid=F.max_by(F.struct("price", "channel", "url", "dateTime", "extra"), "dateTime"))
last.select("bid.*").to("nexmark_q18")

if __name__ == "__main__":
    sk.main(app)
