"""
Nexmark 8: who registered and opened an auction within the same ten seconds.

It shows a join of the final results of two aggregations.
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("nexmark-q8")
window = sk.tumbling("10 seconds", grace="4 seconds")
people = app.stream("person").group_by("id", "name").windowed_by(window).count().emit("final").drop("count")
auctions = app.stream("auction").group_by("seller").windowed_by(window).count().emit("final").drop("count")
sellers = auctions.rename(window_start="start", window_end="end")

# The results of one window have event times in it, so they are less than its size apart
both = people.join(
    sellers, on={"id": "seller", "window_start": "start", "window_end": "end"}, within=sk.within("10 seconds", grace="4 seconds")
)
both.select("name", starttime=F.col("window_start")).to("nexmark_q8")

if __name__ == "__main__":
    sk.main(app)
