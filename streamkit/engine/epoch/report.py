"""The reports of readers and kernels, on their way to the commit."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamkit.engine.epoch.epoch import Application, EpochEnd
from streamkit.log.slab.reference import SlabReference
from streamkit.state.changelog import ChangelogOffsets

Counts = tuple[tuple[str, str, int], ...]  # metric, operator id, rows
Sent = tuple[tuple[int, int, int], ...]  # edge, task, rows
WorkDone = tuple[tuple[str, int, int, int], ...]  # operator id or one of its results, rows taken, rows given, microseconds busy
ReachedBy = tuple[tuple[str, str], ...]  # by the id of the operator, as `streamkit.engine.stage.advance` encodes it


@dataclass(frozen=True)
class TimesRead:
    """The event times of some records that have one: how many these are, the oldest, and the mean."""

    records: int
    oldest_ms: int
    mean_ms: float

    def with_others(self, others: TimesRead | None) -> TimesRead:
        """Those of both."""
        if others is None:
            return self
        records = self.records + others.records
        mean_ms = self.mean_ms + (others.mean_ms - self.mean_ms) * (others.records / records)
        return TimesRead(records, min(self.oldest_ms, others.oldest_ms), mean_ms)


@dataclass(frozen=True)
class SplitReport:
    """
    What a reader took and sent: records consumed, how many rows it sent, and a digest of them, which is empty
    within one process.

    `advances` are the records that moved stream time past the close of windows. `event_times` are those of the records. `work` is told to
    one task only; what was measured takes no part in comparisons, since another attempt takes another time.
    """

    number: int
    records: int
    content: str
    counts: Counts
    advances: ReachedBy = ()
    sent: Sent = ()
    event_times: TimesRead | None = field(default=None, compare=False)
    work: WorkDone = field(default=(), compare=False)


@dataclass(frozen=True)
class KernelReport:
    """
    What one attempt of a kernel made: its slab (None if there was nothing to write), and a digest of all it made.

    `sent` are the rows that it sent on, `received` those that it took, by edge. `executor` is where it ran, empty where there is one place only.
    `began_empty` are the stores without a log of which it found no copy. `took_us` is how long the attempt ran; its `work` is told to one task
    only.
    """

    stage: int
    task: int
    content: str
    slab: SlabReference | None
    counts: Counts
    restored: int
    sent: Sent = ()
    received: tuple[tuple[int, int], ...] = ()
    executor: str = ""
    began_empty: tuple[str, ...] = ()
    took_us: int = field(default=0, compare=False)
    work: WorkDone = field(default=(), compare=False)


@dataclass(frozen=True)
class EpochClaim:
    """
    What was run: the generation, where the epoch starts and ends, how many splits, and how far its inputs were purged.

    `planned_us` says when planning began and ended, by the clock of the driver's host that never goes back.
    """

    application: Application
    before: EpochEnd
    end: EpochEnd
    splits: int
    purged_below: ChangelogOffsets
    planned_us: tuple[int, int] = field(default=(0, 0), compare=False)


@dataclass(frozen=True)
class TaskReport:
    """What a task of the last kernel tells the commit: its own report and everything it heard from upstream."""

    task: int
    claim: EpochClaim
    kernels: tuple[KernelReport, ...]
    splits: tuple[SplitReport, ...]
