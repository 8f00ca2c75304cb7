"""Aggregation per sliding window: the aggregates of the records of a group that are close to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from streamkit.plan.duration import duration_text
from streamkit.plan.operators.record_window_aggregate import RecordWindowAggregate


@dataclass(frozen=True)
class SlidingAggregate(RecordWindowAggregate):
    """Put rows into the sliding windows of their keys, make the windows that they begin and end, and keep them in `store`."""

    kind: ClassVar[str] = "sliding_aggregate"

    @property
    def declared_times(self) -> Mapping[str, str]:
        return {"the difference of its sliding windows": duration_text(self.windowing.size_ms - 1)}
