"""
Top pages: the three pages of each site that were viewed most in each hour.

    streamkit topics create views --key user --schema "user string, site string, page string"
    python topologies/top_pages.py
    streamkit consume top_pages --follow
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("top-pages")
views = app.stream("views", schema="user string, site string, page string", key="user")

hours = sk.tumbling("1 hour", grace="5 minutes")
counts = views.group_by("site", "page").windowed_by(hours).agg(views=F.count("*"))
ranking = counts.emit("final").group_by("site").windowed_by(hours).agg(pages=F.top_k(F.struct("views", "page"), 3))
ranking.emit("final").to("top_pages")

if __name__ == "__main__":
    sk.main(app)
