"""What a million more events cost, out of what runs took."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

SECONDS_MIN = 0.02  # of a million events: less is noise


@dataclass(frozen=True)
class Run:
    """A query over so many events: its processor seconds, or why it failed."""

    query: str
    events: int
    cpu: float | None = None
    failed: str | None = None


def runs_of(output: str) -> list[Run]:
    """The runs that a program printed, a line of JSON each."""
    return [Run(**json.loads(line)) for line in output.splitlines() if line.startswith("{")]


def costs(runs: Sequence[Run]) -> dict[str, float]:
    """Seconds of a million more events, by query: of three runs the first warms up, and the others differ in their events."""
    done: dict[str, list[tuple[int, float]]] = {}
    for run in runs:
        if run.cpu is not None:
            done.setdefault(run.query, []).append((run.events, run.cpu))
    sides = {query: ran[1:] for query, ran in done.items() if len(ran) == 3}
    return {
        query: max(SECONDS_MIN, (large[1] - small[1]) / (large[0] - small[0]) * 1e6) for query, (small, large) in sides.items()
    }
