"""The reports of readers and kernels, on their way to the commit."""

from __future__ import annotations

from dataclasses import dataclass

from streamkit.engine.epoch.epoch import Application, EpochEnd
from streamkit.log.slab.reference import SlabReference
from streamkit.state.changelog import ChangelogOffsets

Counts = tuple[tuple[str, str, int], ...]  # metric, operator id, rows
Sent = tuple[tuple[int, int, int], ...]  # edge, task, rows
ReachedBy = tuple[tuple[str, str], ...]  # by the id of the operator, as `streamkit.engine.stage.advance` encodes it


@dataclass(frozen=True)
class SplitReport:
    """
    What a reader took and sent: records consumed, how many rows it sent, and a digest of them, which is empty
    within one process.

    `advances` are the records that moved stream time past the close of windows.
    """

    number: int
    records: int
    content: str
    counts: Counts
    advances: ReachedBy = ()
    sent: Sent = ()


@dataclass(frozen=True)
class KernelReport:
    """
    What one attempt of a kernel made: its slab (None if there was nothing to write), and a digest of all it made.

    `sent` are the rows that it sent on, `received` those that it took, by edge. `executor` is where it ran, empty where there is one place only.
    `began_empty` are the stores without a log of which it found no copy.
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


@dataclass(frozen=True)
class EpochClaim:
    """What was run: the generation, where the epoch starts and ends, how many splits, and how far its inputs were purged."""

    application: Application
    before: EpochEnd
    end: EpochEnd
    splits: int
    purged_below: ChangelogOffsets


@dataclass(frozen=True)
class TaskReport:
    """What a task of the last kernel tells the commit: its own report and everything it heard from upstream."""

    task: int
    claim: EpochClaim
    kernels: tuple[KernelReport, ...]
    splits: tuple[SplitReport, ...]
