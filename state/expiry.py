"""What retention has deleted of a store, by the stream time of the operator that keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streamkit.log.catalog.applications import TIMES_METRIC, ApplicationState
from streamkit.log.catalog.catalog import Catalog
from streamkit.plan.program import Program
from streamkit.plan.windows import Windowing
from streamkit.state.moment import milliseconds


@dataclass(frozen=True)
class Expiry:
    """What retention has deleted of a store: the windows whose start plus `retention_ms` is at most `stream_time_ms`."""

    retention_ms: int
    stream_time_ms: int

    def has_taken(self, window_start: Any) -> bool:
        """Whether the window that starts at this moment has expired."""
        return milliseconds(window_start) + self.retention_ms <= self.stream_time_ms


def stream_time_of(catalog: Catalog, program: Program, store: str, state: ApplicationState) -> int | None:
    """The stream time by which a store expires: only the inputs of the operator that keeps it move it. None if there is none yet."""
    keeper = program.keeper(store)
    times = dict(state.metrics.get(TIMES_METRIC) or ())
    if not keeper.expires_by or not times:
        return state.stream_time_ms
    found = [_time_of(catalog, program, window, times) for window in keeper.expires_by]
    known = [time for time in found if time is not None]
    return min(known) if len(known) == len(found) else None


def _time_of(catalog: Catalog, program: Program, window: Windowing, times: Mapping[str, int]) -> int | None:
    if (name := f"store/{window.store}") in times:
        return times[name]
    topics = [program.inputs[number].topic for number in window.streams]
    names = [f"input/{catalog.topics.get(topic).id}" for topic in topics]
    return max((times[name] for name in names if name in times), default=None)
