"""
The merge: which small files of a partition become larger ones, and when.

Consecutive extents in one file are a **run**. Its level is the logarithm of its rows to base `FAN_OUT`, rounded down.
From old to new, levels must never rise, and there must be fewer than `FAN_OUT` runs of each level. Runs that break this are
joined, up to `segment.bytes`. So there are at most `files_max` files, and each row is rewritten at most `rewrites_max` times.
Each rewrite lifts it to a higher level, except the first, and the last, when what follows is too large to be joined with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile

from streamkit.log.catalog.catalog import Catalog
from streamkit.log.maintenance.failures import Failures
from streamkit.log.maintenance.segment import EXTENTS_PER_SWAP, SegmentWriter
from streamkit.log.slab.extent import Extent
from streamkit.log.topic.settings import SEGMENT_BYTES
from streamkit.log.topic.topic import Topic

LEVEL_BITS = 3
FAN_OUT = 1 << LEVEL_BITS


@dataclass(frozen=True)
class Merged:
    """What a merge did: extents that others took the place of, swaps, and bytes written for them."""

    extents: int = 0
    swaps: int = 0
    bytes: int = 0

    def __add__(self, other: Merged) -> Merged:
        return Merged(self.extents + other.extents, self.swaps + other.swaps, self.bytes + other.bytes)


@dataclass(frozen=True)
class ExtentRun:
    """Consecutive extents of a partition that lie in one file, or are to be joined in one: how many files, rows and bytes they are."""

    extents: tuple[Extent, ...]
    files: int
    rows: int
    bytes: int

    @property
    def level(self) -> int:
        return (self.rows.bit_length() - 1) // LEVEL_BITS

    @property
    def is_joined(self) -> bool:
        return self.files > 1


@dataclass(frozen=True)
class Room:
    """What may be joined into one run."""

    segment_bytes: int
    extents_max: int = EXTENTS_PER_SWAP

    def takes(self, runs: Sequence[ExtentRun]) -> bool:
        """Whether these may become one: small enough together, and none of them full by itself."""
        return sum(len(run.extents) for run in runs) <= self.extents_max and self.has_bytes_for(runs)

    def has_bytes_for(self, runs: Sequence[ExtentRun]) -> bool:
        is_any_full = any(run.bytes * 2 >= self.segment_bytes for run in runs)
        return len(runs) == 1 or (not is_any_full and sum(run.bytes for run in runs) <= self.segment_bytes)


def merge_topic(catalog: Catalog, topic: Topic, writer: SegmentWriter) -> Merged:
    """
    Join the small files of every partition of a topic; the same rows, offsets, times, headers and deletions.

    Each swap is a transaction of its own, so a merge that is interrupted goes on where it stopped. A partition that changes
    meanwhile (by another merge, compaction or retention) is left for the next time. An error with one partition is raised
    once the others are merged, but for a full disk, which has no room for the others either.
    """
    failures, done = Failures(), Merged()
    for partition in catalog.manifest.end_offsets(topic.id):
        if failures.is_disk_full:
            break
        with failures.noted(f"merge of topic {topic.name}, partition {partition}"):
            done += _merge_partition(catalog, topic, partition, writer)
    failures.raise_any()
    return done


def _merge_partition(catalog: Catalog, topic: Topic, partition: int, writer: SegmentWriter) -> Merged:
    done = Merged()
    room = Room(int(topic.setting(SEGMENT_BYTES)))
    while runs := [run for part in catalog.manifest.parts(topic.id, partition) for run in plan_merge(part, room)]:
        for run in runs:
            added = writer.rewrite(topic, run.extents)
            if added is None:
                return done
            done += Merged(len(run.extents), 1, sum(extent.length for extent in added))
    return done


def plan_merge(extents: Sequence[Extent], room: Room) -> list[ExtentRun]:
    """The runs to be rewritten as one file each, oldest first; empty if the files of the partition are in order."""
    closed: list[ExtentRun] = []
    open_runs: list[ExtentRun] = []
    for run in runs_of(extents):
        closed += _push(open_runs, run, room)
    return [run for run in (*closed, *open_runs) if run.is_joined]


def runs_of(extents: Sequence[Extent]) -> Iterator[ExtentRun]:
    """The extents of a partition by the file they lie in."""
    for _, found in groupby(extents, key=lambda extent: extent.path):
        members = tuple(found)
        yield ExtentRun(members, 1, sum(extent.rows for extent in members), sum(extent.length for extent in members))


def files_max(rows: int, size: int, segment_bytes: int) -> int:
    """How many files a partition of so many rows and bytes has at most after a merge."""
    levels = ExtentRun((), 1, max(rows, 1), size).level + 1
    return (FAN_OUT - 1) * levels + 4 * (size // segment_bytes)


def rewrites_max(rows: int) -> int:
    """How often a row is rewritten at most, in a partition that has grown by merges to so many rows."""
    return ExtentRun((), 1, max(rows, 1), 0).level + 2


def _push(runs: list[ExtentRun], run: ExtentRun, room: Room) -> list[ExtentRun]:
    """Put a run behind others, joining those that must be; returns those that are closed, since what follows is too large for them."""
    while count := _due(runs, run):
        due = [*runs[-count:], run]
        if not room.has_bytes_for(due):
            *closed, last = _packed([*runs, run], room)
            runs[:] = [last]
            return closed
        if not room.takes(due):
            break
        del runs[-count:]
        run = _joined(due)
    runs.append(run)
    return []


def _due(runs: Sequence[ExtentRun], run: ExtentRun) -> int:
    """How many of the runs before it a run must be joined with."""
    lower = sum(1 for _ in takewhile(lambda other: other.level < run.level, reversed(runs)))
    if lower:
        return lower
    equal = sum(1 for _ in takewhile(lambda other: other.level == run.level, reversed(runs)))
    if equal >= FAN_OUT - 1:
        return FAN_OUT - 1
    return 1 if runs and run.is_joined and runs[-1].is_joined else 0  # both are written anyway


def _packed(runs: Sequence[ExtentRun], room: Room) -> list[ExtentRun]:
    """The runs joined from the oldest on, as long as there is room."""
    packed: list[list[ExtentRun]] = [[]]
    for run in runs:
        if packed[-1] and not room.takes([*packed[-1], run]):
            packed.append([])
        packed[-1].append(run)
    return [_joined(members) for members in packed]


def _joined(runs: Sequence[ExtentRun]) -> ExtentRun:
    if len(runs) == 1:
        return runs[0]
    extents = tuple(extent for run in runs for extent in run.extents)
    return ExtentRun(extents, sum(run.files for run in runs), sum(run.rows for run in runs), sum(run.bytes for run in runs))
