"""
Sessions: the visits of each user, which end after half an hour without a click; clicks that come too late go to a topic.

    streamkit topics create clicks --key user --timestamp at --schema "user string, page string, at timestamp"
    python topologies/sessions.py
    streamkit consume visits --follow
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("sessions")
clicks = app.stream("clicks", schema="user string, page string, at timestamp", key="user")

visits = (
    clicks.group_by_key()
    .windowed_by(sk.session("30 minutes", grace="5 minutes"), late_to="late_clicks")
    .agg(clicks=F.count("*"), entry=F.min_by("page", "at"), exit=F.max_by("page", "at"), store="visits")
)
visits.emit("final").to("visits")

if __name__ == "__main__":
    sk.main(app)
