"""
Compaction: of each key only the newest record stays, with its offset, event time and headers.

A pass over a partition finds what stays (`survivors.py`), then swaps run after run of extents for rewritten ones, oldest first,
each in a transaction of its own: whenever it stops, every run is old or new, and the next pass goes on. docs/maintenance.md
says when a deletion may go, and why then nobody misses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from streamkit.clock import Clock
from streamkit.errors import ConfigError, EpochFailedError, StorageFailedError
from streamkit.failpoints import reach
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.cleaning import Cleaning
from streamkit.log.maintenance.failures import Failures
from streamkit.log.maintenance.segment import EXTENTS_PER_SWAP, ExtentPiece, SegmentWriter
from streamkit.log.maintenance.survivors import MEMORY_BYTES, Selection, TellRows, select_survivors
from streamkit.log.maintenance.throttle import Throttle
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.frame import FRAME_ROWS_MAX
from streamkit.log.slab.slab import GONE
from streamkit.log.storage.storage import Storage
from streamkit.log.topic.settings import (
    CLEANUP_POLICY,
    DELETE_RETENTION_MS,
    MIN_CLEANABLE_DIRTY_RATIO,
    MIN_COMPACTION_LAG_MS,
    SEGMENT_BYTES,
)
from streamkit.log.topic.topic import Topic
from streamkit.log.values.whole_number import whole_number

RUN_BYTES_MAX = 64 * 1024 * 1024  # of what stays, as it is stored, written and swapped at once
RUN_EXTENTS_MAX = EXTENTS_PER_SWAP
SMALL_BYTES = 1 << 20  # a frame below it is rewritten with its neighbours
ATTEMPTS = 5  # against others that rewrite the same extents


@dataclass(frozen=True)
class PartitionReport:
    """What compaction made of one partition, of the part before `end_offset`; `deletions` are those that went for good."""

    partition: int
    end_offset: int
    rows_before: int
    rows_after: int
    bytes_before: int
    bytes_after: int
    deletions: int


@dataclass(frozen=True)
class CompactionReport:
    """What compaction made of a topic; partitions that had nothing to clean are left out."""

    topic: str
    partitions: tuple[PartitionReport, ...]

    @property
    def rows_before(self) -> int:
        return sum(partition.rows_before for partition in self.partitions)

    @property
    def rows_after(self) -> int:
        return sum(partition.rows_after for partition in self.partitions)

    @property
    def bytes_before(self) -> int:
        return sum(partition.bytes_before for partition in self.partitions)

    @property
    def bytes_after(self) -> int:
        return sum(partition.bytes_after for partition in self.partitions)

    def to_json(self) -> dict[str, Any]:
        """The report as plain dicts, lists and scalars."""
        totals = {name: getattr(self, name) for name in ("rows_before", "rows_after", "bytes_before", "bytes_after")}
        return {"topic": self.topic, **totals, "partitions": [asdict(partition) for partition in self.partitions]}


def compact(
    storage: Storage,
    catalog: Catalog,
    clock: Clock,
    topic: Topic,
    memory_bytes: int = MEMORY_BYTES,
    progress: TellRows | None = None,
) -> CompactionReport:
    """
    Compact every partition of a topic up to its committed end, as far as `min.compaction.lag.ms` lets.

    Keys take at most `memory_bytes` at a time. `progress` gets the number of rows looked at. ConfigError if the topic's
    `cleanup.policy` does not say `compact`, EpochFailedError if others kept changing the same extents; an error with one partition
    is raised once the others are compacted.
    """
    if not topic.is_compacted:
        raise ConfigError(
            f"topic {topic.name} has {CLEANUP_POLICY}={topic.setting(CLEANUP_POLICY)}, so every record counts; expected compact or "
            "compact,delete, which keep the newest record per key"
        )
    room = whole_number("memory_bytes", memory_bytes, 1)
    cleaner = _Cleaner(storage, catalog, clock, topic, room, Throttle(), progress)
    return cleaner.report(is_background=False)


def compact_if_dirty(
    storage: Storage,
    catalog: Catalog,
    clock: Clock,
    topic: Topic,
    memory_bytes: int = MEMORY_BYTES,
    throttle: Throttle | None = None,
) -> CompactionReport:
    """
    Compact the partitions of a topic in which that is worth it, as Kafka's cleaner does; for the background.

    The segment that is still written to is left alone: of the newest extents as many as fit into `segment.bytes`, and of
    those the ones whose rows all were appended within `segment.ms` (or `max.compaction.lag.ms`, if that is shorter). A partition is worth it
    when, of the rest, a larger share than `min.cleanable.dirty.ratio` was never cleaned, or some of it for longer than
    `max.compaction.lag.ms`. A topic that is not compacted is left alone. `throttle` bounds what is written; once it is
    stopped, StoppedError ends the pass, and what was swapped stays.
    """
    cleaner = _Cleaner(storage, catalog, clock, topic, memory_bytes, throttle or Throttle(), None)
    return cleaner.report(is_background=True) if topic.is_compacted else CompactionReport(topic.name, ())


@dataclass(frozen=True)
class _CleanedRange:
    """What a pass cleans: the extents before `end_offset`, as they and their partition stood when it began."""

    cleaning: Cleaning
    extents: tuple[Extent, ...]
    end_offset: int

    @property
    def dirty_ratio(self) -> float:
        """The share of the bytes that were never cleaned."""
        total = sum(extent.length for extent in self.extents)
        return sum(self._dirty_bytes(extent) for extent in self.extents) / total if total else 0.0

    @property
    def is_overdue(self) -> bool:
        """Whether something that was never cleaned has waited for `max.compaction.lag.ms`."""
        return self.cleaning.cleaned_offset < min(self.cleaning.overdue_offset, self.end_offset)

    def _dirty_bytes(self, extent: Extent) -> float:
        """The share of an extent behind `cleaned_offset`, where there are no holes: a merge may have put both kinds of rows into one."""
        dirty_rows = extent.next_offset - max(extent.base_offset, self.cleaning.cleaned_offset)
        return extent.length * max(0, dirty_rows) / extent.rows


class _Cleaner:
    """One compaction of a topic."""

    def __init__(
        self,
        storage: Storage,
        catalog: Catalog,
        clock: Clock,
        topic: Topic,
        memory_bytes: int,
        throttle: Throttle,
        progress: TellRows | None,
    ) -> None:
        self._storage = storage
        self._catalog = catalog
        self._clock = clock
        self._topic = topic
        self._memory_bytes = memory_bytes
        self._throttle = throttle
        self._progress = progress
        self._writer = SegmentWriter(storage, catalog, throttle)

    def report(self, is_background: bool) -> CompactionReport:
        """Clean every partition; an error with one of them is raised once the others are clean, a full disk at once."""
        failures, reports = Failures(), []
        for partition in self._catalog.manifest.end_offsets(self._topic.id):
            if failures.is_disk_full:
                break
            with failures.noted(f"compaction of topic {self._topic.name}, partition {partition}"):
                reports.append(self._clean(partition, is_background))
        failures.raise_any()
        return CompactionReport(self._topic.name, tuple(report for report in reports if report is not None))

    def _clean(self, partition: int, is_background: bool) -> PartitionReport | None:
        """Clean one partition; None if there is nothing to do, or in the background not enough."""
        begun = self._range(partition, is_background)
        if not begun.extents or (
            is_background and not (begun.is_overdue or begun.dirty_ratio > float(self._topic.setting(MIN_CLEANABLE_DIRTY_RATIO)))
        ):
            return None
        deletions = self._pass_until_it_holds(begun, is_background)
        after = self._catalog.manifest.extents(self._topic.id, partition, 0, begun.end_offset)
        return PartitionReport(
            partition, begun.end_offset, _rows(begun.extents), _rows(after), _bytes(begun.extents), _bytes(after), deletions
        )

    def _number(self, setting: str) -> int:
        return int(self._topic.setting(setting))

    def _range(self, partition: int, is_background: bool) -> _CleanedRange:
        cleaning = self._catalog.cleaning.of(self._topic, partition)
        extents = self._catalog.manifest.extents(self._topic.id, partition, 0, cleaning.next_offset)
        # After the extents, so that it knows every column that they have.
        self._topic = self._catalog.topics.get_by_id(self._topic.id, self._topic.name)
        closed = self._closed(extents, cleaning) if is_background else extents
        old = _old_enough(closed, cleaning, self._number(MIN_COMPACTION_LAG_MS), self._clock.now_ms())
        end = cleaning.next_offset if len(old) == len(extents) else extents[len(old)].base_offset
        return _CleanedRange(cleaning, tuple(old), end)

    def _closed(self, extents: Sequence[Extent], cleaning: Cleaning) -> Sequence[Extent]:
        """The extents before the segment that is still written to."""
        by_size = len(extents) - _newest_segment(extents, self._number(SEGMENT_BYTES))
        by_age = sum(extent.next_offset <= cleaning.closed_offset for extent in extents)
        return extents[: max(by_size, by_age)]

    def _pass_until_it_holds(self, begun: _CleanedRange, is_background: bool) -> int:
        """Make passes until nobody else changed the extents meanwhile; returns how many deletions went."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._pass(begun)
            except (EpochFailedError, *GONE) as error:
                following = self._range(begun.cleaning.partition, is_background)
                is_as_before = isinstance(error, StorageFailedError) and following.extents == begun.extents
                if attempt == ATTEMPTS or is_as_before:
                    raise
                begun = following
        raise AssertionError("the last attempt returns or raises")

    def _pass(self, begun: _CleanedRange) -> int:
        cleaning, now_ms, retention_ms = begun.cleaning, self._clock.now_ms(), self._number(DELETE_RETENTION_MS)
        droppable = cleaning.droppable_below(now_ms, retention_ms)
        selections = select_survivors(self._storage, self._topic, begun.extents, droppable, self._memory_bytes, self._read)
        for run in _runs(selections, min(RUN_BYTES_MAX, self._number(SEGMENT_BYTES))):
            self._swap(run)
        reach("compaction.swapped")
        moves = cleaning.is_over(now_ms, retention_ms) and begun.end_offset > cleaning.horizon_offset
        horizon = (begun.end_offset, self._clock.now_ms()) if moves else None
        self._catalog.cleaning.record(cleaning, begun.end_offset, horizon)
        return sum(selection.deletions for selection in selections)

    def _read(self, rows: int) -> None:
        """Tell of rows that were looked at; StoppedError if the work is to end."""
        self._throttle.check()
        if self._progress is not None and rows:
            self._progress(rows)

    def _swap(self, run: Sequence[Selection]) -> None:
        """Write the rows of a run that stay and put them in the place of its extents, in one transaction."""
        pieces = [ExtentPiece(found.extent, found.extent.base_offset, found.extent.next_offset, found) for found in run]
        segment = self._writer.stage(self._topic, pieces)
        reach("compaction.slab_durable")
        purged_below = max(selection.purged_below for selection in run)
        self._writer.swap(segment, cleaned_offset=run[-1].extent.next_offset, purged_below=purged_below)
        reach("compaction.run_swapped")


def _runs(selections: Sequence[Selection], bytes_max: int) -> Iterator[list[Selection]]:
    """Consecutive extents to be rewritten together, oldest first: what to keep of each."""
    for is_left_alone, group in groupby(selections, key=_is_left_alone):
        chosen = list(group)
        if not is_left_alone and not all(selection.is_whole for selection in chosen):
            yield from _cut(chosen, bytes_max)


def _cut(selections: Sequence[Selection], bytes_max: int) -> Iterator[list[Selection]]:
    """Runs of at most so many bytes that stay, but for the last extent of each, and of so many extents as may be swapped at once."""
    run: list[Selection] = []
    size = 0
    for selection in selections:
        run.append(selection)
        size += selection.extent.length * selection.rows // selection.extent.rows
        if size >= bytes_max or len(run) == RUN_EXTENTS_MAX:
            yield run
            run, size = [], 0
    if run:
        yield run


def _is_left_alone(selection: Selection) -> bool:
    """Whether an extent loses nothing and is large enough to stay as it is."""
    extent = selection.extent
    return selection.is_whole and (extent.length >= SMALL_BYTES or extent.rows >= FRAME_ROWS_MAX // 2)


def _newest_segment(extents: Sequence[Extent], segment_bytes: int) -> int:
    """How many of the newest extents make up the segment that is still written to: as many as fit into its size."""
    size = 0
    for count, extent in enumerate(reversed(extents)):
        size += extent.length
        if size > segment_bytes:
            return count
    return len(extents)


def _old_enough(extents: Sequence[Extent], cleaning: Cleaning, lag_ms: int, now_ms: int) -> Sequence[Extent]:
    """The extents before the first one, among those never cleaned, that has a record within `min.compaction.lag.ms`."""
    if lag_ms == 0:
        return extents
    for count, extent in enumerate(extents):
        if extent.next_offset > cleaning.cleaned_offset and extent.max_timestamp > now_ms - lag_ms:
            return extents[:count]
    return extents


def _rows(extents: Sequence[Extent]) -> int:
    return sum(extent.rows for extent in extents)


def _bytes(extents: Sequence[Extent]) -> int:
    return sum(extent.length for extent in extents)
