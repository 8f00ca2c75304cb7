"""
Nexmark 11: how many bids each user made in each visit; a visit ends after ten seconds without a bid.

It shows session windows.
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("nexmark-q11")
visits = app.stream("bid").group_by("bidder").windowed_by(sk.session("10 seconds", grace="4 seconds")).agg(bid_count=F.count("*"))

# The window ends with the last bid, in Nexmark ten seconds later
times = visits.emit("final").select(
    "bid_count", starttime=F.col("window_start"), endtime=F.expr("window_end + interval 10 seconds")
)
times.to("nexmark_q11")

if __name__ == "__main__":
    sk.main(app)
