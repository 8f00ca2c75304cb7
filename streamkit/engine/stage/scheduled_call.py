"""A call that a processor has scheduled, as one that may be left out."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True)
class ScheduledCall:
    """
    A call by schedule within an epoch: of which key group, at which of the moments when something is due, by which schedule.

    `place`, of one that failed, is a row with its time and its place among the records. An epoch that runs again has the same calls,
    whatever rows are left out.
    """

    group: int
    moment: int
    schedule: int
    place: pa.RecordBatch | None = field(default=None, compare=False, repr=False)
