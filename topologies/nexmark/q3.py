"""
Nexmark 3: who sells something of category 10 in Oregon, Idaho or California.

An auction meets its seller whichever of the two comes first, and follows a change of either.
It shows a join of two tables by a foreign key.
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("nexmark-q3")
auctions = app.table("auction").filter("category = 10").select("seller")
sellers = app.table("person").filter(F.col("state").isin("OR", "ID", "CA")).select("name", "city", "state")

auctions.join(sellers, on={"seller": "id"}).drop("seller").to("nexmark_q3")

if __name__ == "__main__":
    sk.main(app)
