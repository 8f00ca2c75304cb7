"""
Nexmark 6: the average price of the last ten auctions that each seller sold.

The winning bids are those of query 9. An auction counts as sold a minute after its first bid, and the last ones are those
whose winning bids are the latest. It shows `suppress`, which waits for that, and `aggregate` by a Python function.
"""

from __future__ import annotations

from typing import Any

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("nexmark-q6")
auctions = app.table("auction", versioned="1 minute").select("seller", "expires")
bids = app.stream("bid").select("auction", "price", bid_dateTime=F.col("dateTime"))

# The auction as it was at the time of the bid, so one that was open already; changes of it may come four seconds late
valid = bids.join(auctions, on={"auction": "id"}, grace="4 seconds").filter("bid_dateTime <= expires")

# The higher price wins, and of equal ones the earlier bid: one number says both, since no auction is open for 10^9 ms
order = F.expr("price * 1000000000 + unix_millis(expires) - unix_millis(bid_dateTime)")

winners = valid.group_by("seller", "auction").agg(won=F.max_by(F.struct("bid_dateTime", "price"), order))
sold = winners.suppress(until=sk.time_limit("1 minute")).to_stream().select("won.*")


def keep_ten(state: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    others = [one for one in state["last"] if one["auction"] != row["auction"]]
    one = {"at": row["bid_dateTime"], "auction": row["auction"], "price": row["price"]}
    return {"last": sorted([*others, one], key=lambda one: (one["at"], one["auction"]))[-10:]}


schema = "last array<struct<at: timestamp, auction: bigint, price: bigint>>"
last = sold.group_by("seller").aggregate({"last": []}, keep_ten, schema)
last.select(avg_price=F.expr("aggregate(last, 0L, (sum, one) -> sum + one.price) div size(last)")).to("nexmark_q6")

if __name__ == "__main__":
    sk.main(app)
