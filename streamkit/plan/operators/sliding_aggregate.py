"""Aggregation per sliding window: the aggregates of the records of a group that are close to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from streamkit.plan.operators.record_window_aggregate import RecordWindowAggregate


@dataclass(frozen=True)
class SlidingAggregate(RecordWindowAggregate):
    """Put rows into the sliding windows of their keys, make the windows that they begin and end, and keep them in `store`."""

    kind: ClassVar[str] = "sliding_aggregate"
