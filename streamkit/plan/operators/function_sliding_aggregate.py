"""Aggregation of sliding windows by users' functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from streamkit.plan.duration import duration_text
from streamkit.plan.operators.function_aggregate import FunctionAggregate


@dataclass(frozen=True)
class FunctionSlidingAggregate(FunctionAggregate):
    """As `FunctionAggregate`, in the sliding windows of each group."""

    kind: ClassVar[str] = "function_sliding_aggregate"

    @property
    def declared_times(self) -> Mapping[str, str]:
        return {"the difference of its sliding windows": duration_text(self.windowing.size_ms - 1)} if self.windowing else {}

    @property
    def assigned(self) -> None:
        """None: which windows take a row depends on the rows before it."""
        return

    @property
    def takes_tombstones(self) -> bool:
        """False, as in Kafka Streams."""
        return False

    @property
    def rows_per_record(self) -> int:
        """How many windows hold a row depends on the rows."""
        return 1
