"""
Nexmark 22: every bid, with the folders of its address.

It shows `F.split_part`.
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("nexmark-q22")
folders = {f"dir{number}": F.split_part("url", F.lit("/"), F.lit(number + 3)) for number in (1, 2, 3)}

app.stream("bid").select("bidder", "price", "channel", **folders).to("nexmark_q22")

if __name__ == "__main__":
    sk.main(app)
