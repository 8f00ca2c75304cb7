"""A row of the benchmark's table."""

from __future__ import annotations

import os
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


def absent(work: str, reason: str) -> Row:
    """A row that says why there is no figure."""
    return Row(f"{work}: not measured, since {reason}", 0.0, "", "", None, None, "-", os.getloadavg()[0])
