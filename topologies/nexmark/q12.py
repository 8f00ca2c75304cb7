"""
Nexmark 12: how many bids each user made in each ten seconds of the clock.

Operators read no clock, so that a result can be computed again. The log does: where the topic has `message.timestamp.type=LogAppendTime`
(`generator.py --by-arrival`) the event time of a bid is the moment at which the log took it.
It shows tumbling windows over that time.
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("nexmark-q12")
bids = app.stream("bid").group_by("bidder").windowed_by(sk.tumbling("10 seconds", grace="0 seconds"))
bids.agg(bid_count=F.count("*")).emit("final").to("nexmark_q12")

if __name__ == "__main__":
    sk.main(app)
