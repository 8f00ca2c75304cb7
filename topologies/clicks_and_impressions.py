"""
Clicks and impressions: each impression of an ad with the click that came of it within ten minutes, or with none.

    streamkit topics create impressions --key impression --schema "impression string, ad string"
    streamkit topics create ad_clicks --key impression --schema "impression string, user string"
    python topologies/clicks_and_impressions.py
    streamkit consume results --follow
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("clicks-and-impressions")
impressions = app.stream("impressions", schema="impression string, ad string", key="impression")
clicks = app.stream("ad_clicks", schema="impression string, user string", key="impression")

results = impressions.join(clicks, within=sk.within(after="10 minutes", grace="1 minute"), how="left")
results.with_columns(clicked=F.col("user").isNotNull()).to("results")

if __name__ == "__main__":
    sk.main(app)
