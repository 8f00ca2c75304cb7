"""
Delays of the flights that left New York in 2013: per origin, airline and day.

    python topologies/flight_data.py                 load the topics flights, planes and airlines
    python topologies/flight_delays.py --drain       or: spark-submit topologies/flight_delays.py --drain
    streamkit consume daily_delays
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("flight-delays")
flights = app.stream("flights")
planes = app.table("planes").select(F.col("year").alias("built"))  # the flights have a year of their own
airlines = app.global_table("airlines").rename(name="airline")

daily_delays = (
    flights.filter(F.col("origin").isNotNull())
    .join(planes, on="tailnum", how="left")  # re-keyed on the way; a flight without tail number stays
    .join(airlines, on="carrier")
    .group_by("origin", "airline")
    .windowed_by(sk.tumbling("1 day", grace="1 day", retention="400 days"))
    .agg(
        flights=F.count("*"),
        delayed=F.count_if(F.col("dep_delay") > 15),
        mean_delay=F.avg("dep_delay"),
        max_delay=F.max("dep_delay"),
        cancelled=F.count_if(F.col("dep_time").isNull()),
        mean_plane_age=F.avg(2013 - F.col("built")),
        store="daily_delays",
    )
)
daily_delays.emit("final").to("daily_delays")

if __name__ == "__main__":
    sk.main(app)
