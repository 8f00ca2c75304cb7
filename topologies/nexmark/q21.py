"""
Nexmark 21: every bid whose channel has an id, with that id.

It shows `F.when` and regular expressions.
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("nexmark-q21")
known = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
name = F.lower("channel")
told = F.nullif(F.regexp_extract("url", "(&|^)channel_id=([^&]*)", 2), F.lit(""))
channel_id = F.coalesce(*(F.when(name == channel, number) for channel, number in known.items()), told)

bids = app.stream("bid").select("bidder", "price", "channel", channel_id=channel_id)
bids.filter("channel_id is not null").to("nexmark_q21")

if __name__ == "__main__":
    sk.main(app)
