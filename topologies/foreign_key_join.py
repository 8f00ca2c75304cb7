"""
Foreign-key join: where each parcel is, by the van that carries it; a van that moves takes all its parcels along.

    streamkit topics create parcels --key parcel --schema "parcel bigint, receiver string, van string"
    streamkit topics create vans --key van --schema "van string, place string"
    python topologies/foreign_key_join.py
    streamkit consume whereabouts --follow
"""

from __future__ import annotations

import streamkit as sk

app = sk.Topology("foreign-key-join")
parcels = app.table("parcels", schema="parcel bigint, receiver string, van string", key="parcel")
vans = app.table("vans", schema="van string, place string", key="van")

# A row a parcel, written again when the parcel changes and when its van does; a parcel without a van is there too
whereabouts = parcels.join(vans, on={"van": "van"}, how="left", store="whereabouts")
whereabouts.to("whereabouts")

if __name__ == "__main__":
    sk.main(app)
