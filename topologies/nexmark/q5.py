"""
Nexmark 5: the auctions with the most bids of the last ten seconds, every two seconds.

It shows hopping windows, and that final results are grouped again. Results of one window are less than ten seconds
apart, so a session with a gap of ten seconds holds all of them and no others.
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("nexmark-q5")
counts = (
    app.stream("bid")
    .group_by("auction")
    .windowed_by(sk.hopping("10 seconds", "2 seconds", grace="4 seconds"))
    .agg(num=F.count("*"))
)
windows = counts.emit("final").rename(window_start="starttime", window_end="endtime").group_by("starttime", "endtime")
hottest = windows.windowed_by(sk.session("10 seconds", grace="0 seconds")).agg(
    most=F.max("num"), auctions=F.collect_list(F.struct("auction", "num"))
)
hot = hottest.emit("final").flat_map(F.explode("auctions").alias("item")).filter("item.num = most")
hot.select_key("starttime", "endtime", auction=F.col("item.auction")).select(num=F.col("most")).to("nexmark_q5")

if __name__ == "__main__":
    sk.main(app)
