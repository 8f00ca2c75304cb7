"""A row of the benchmark's table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One figure: what was measured, against what, and their ratio (value over against, except where less is better)."""

    work: str
    value: float
    unit: str
    against: str
    against_value: float | None
    ratio: float | None
    wanted: str
    load_average: float
