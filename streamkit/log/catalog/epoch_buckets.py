"""
How long epochs took, and how far behind their records were, as counts by bucket: totals from which histograms are made.

The catalog forgets old epochs one by one, and whoever looks each fifteen seconds misses most of them; counts in the totals miss none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BOUNDS_S = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    3600.0,
)  # upper ends; more is beyond
BEYOND = "+Inf"
SUM = "sum"
EPOCH_SECONDS = "epoch_seconds"  # by phase of an epoch
OLDEST_SECONDS = "oldest_seconds"  # of the oldest record of each epoch, since its arrival and since its event time
LATENCY = "latency"  # records, and their seconds together, since the same

Buckets = dict[str, float]


def bucketed(facts: Mapping[str, Any], records: int) -> dict[str, dict[str, Buckets]]:
    """What an epoch with these facts adds to the totals."""
    took: Mapping[str, float] = facts.get("took_ms", {})
    since: Mapping[str, Mapping[str, float]] = facts.get("latency_ms", {})
    found = {
        EPOCH_SECONDS: {phase.removesuffix("_before"): _in_bucket(ms / 1000) for phase, ms in took.items()},
        OLDEST_SECONDS: {what: _in_bucket(each["oldest"] / 1000) for what, each in since.items()},
        LATENCY: {what: {"records": records, SUM: round(each["mean"] * records / 1000, 3)} for what, each in since.items()},
    }
    return {name: values for name, values in found.items() if values}


def cumulative(buckets: Mapping[str, float]) -> list[tuple[str, float]]:
    """The counts up to each bound, as Prometheus has them, the last one without a bound."""
    found, total = [], 0.0
    for bound in (*map(str, BOUNDS_S), BEYOND):
        total += buckets.get(bound, 0)
        found.append((bound, total))
    return found


def _in_bucket(seconds: float) -> Buckets:
    """One value: the bucket that it falls into, and the sum."""
    bound = next((str(one) for one in BOUNDS_S if seconds <= one), BEYOND)
    return {bound: 1, SUM: round(seconds, 6)}
