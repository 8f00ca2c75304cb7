"""
Compaction: of each key only the newest record stays, with its offset, event time and headers.

A pass over a partition finds what stays (`survivors.py`), then swaps run after run of extents for rewritten ones, oldest first,
each in a transaction of its own: whenever it stops, every run is old or new, and the next pass goes on. ARCHITECTURE.md
says when a deletion may go, and why then nobody misses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from streamkit.clock import Clock
from streamkit.errors import ConfigError, EpochFailedError, FencedError, TopicNotFoundError
from streamkit.failpoints import reach
from streamkit.log.catalog import Catalog
from streamkit.log.cleaning import Cleaning
from streamkit.log.extent import Extent
from streamkit.log.frame import FRAME_ROWS_MAX
from streamkit.log.packing import Rows, pack
from streamkit.log.producers import ProducerCommit, ProducerState
from streamkit.log.replacements import Replacement
from streamkit.log.settings import (
    CLEANUP_POLICY,
    DELETE_RETENTION_MS,
    MIN_CLEANABLE_DIRTY_RATIO,
    MIN_COMPACTION_LAG_MS,
    SEGMENT_BYTES,
)
from streamkit.log.slab import SlabMissingError, read_rows, write_slab
from streamkit.log.storage import Storage
from streamkit.log.survivors import MEMORY_BYTES, Progress, Selection, select_survivors
from streamkit.log.topic import Topic
from streamkit.names import SlabName, fresh_token, producer_writer

SLAB_BYTES_MAX = 64 * 1024 * 1024  # of rows in memory on their way into one slab
RUN_EXTENTS_MAX = 4_096  # swapped in one transaction
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
class Report:
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
    progress: Progress | None = None,
) -> Report:
    """
    Compact every partition of a topic up to its committed end, as far as `min.compaction.lag.ms` lets.

    Keys take at most `memory_bytes` at a time. `progress` is told how many rows were looked at. ConfigError if the topic's
    `cleanup.policy` does not say `compact`, EpochFailedError if others kept changing the same extents.
    """
    _check_policy(topic)
    cleaner = _Cleaner(storage, catalog, clock, topic, memory_bytes, progress)
    reports = [cleaner.clean(cleaning.partition, is_background=False) for cleaning in catalog.cleanings(topic.id)]
    return Report(topic.name, tuple(report for report in reports if report is not None))


def compact_if_dirty(storage: Storage, catalog: Catalog, clock: Clock, topic: Topic, memory_bytes: int = MEMORY_BYTES) -> Report:
    """
    Compact the partitions of a topic in which that is worth it, as Kafka's cleaner does; for the background.

    The newest segment is left alone: the newest extents, as many as fit into `segment.bytes`. A partition is worth it when, of
    the rest, a larger share than `min.cleanable.dirty.ratio` was never cleaned. A topic that is not compacted is left alone.
    """
    cleaner = _Cleaner(storage, catalog, clock, topic, memory_bytes, None)
    found = catalog.cleanings(topic.id) if topic.is_compacted else []
    reports = [cleaner.clean(cleaning.partition, is_background=True) for cleaning in found]
    return Report(topic.name, tuple(report for report in reports if report is not None))


def _check_policy(topic: Topic) -> None:
    if not topic.is_compacted:
        raise ConfigError(
            f"topic {topic.name} has {CLEANUP_POLICY}={topic.setting(CLEANUP_POLICY)}, so every record counts; expected compact or "
            "compact,delete, which keep the newest record per key"
        )


@dataclass(frozen=True)
class _Range:
    """What a pass cleans: the extents before `end_offset`, as they and their partition stood when it began."""

    cleaning: Cleaning
    extents: tuple[Extent, ...]
    end_offset: int

    @property
    def dirty_ratio(self) -> float:
        """The share of the bytes that were never cleaned."""
        total = sum(extent.length for extent in self.extents)
        dirty = sum(extent.length for extent in self.extents if extent.base_offset >= self.cleaning.cleaned_offset)
        return dirty / total if total else 0.0


class _Cleaner:
    """One compaction of a topic; its producer is opened when there is something to write."""

    def __init__(
        self, storage: Storage, catalog: Catalog, clock: Clock, topic: Topic, memory_bytes: int, progress: Progress | None
    ) -> None:
        self._storage = storage
        self._catalog = catalog
        self._clock = clock
        self._topic = topic
        self._memory_bytes = memory_bytes
        self._progress = progress
        self._producer: ProducerState | None = None

    def clean(self, partition: int, is_background: bool) -> PartitionReport | None:
        """Clean one partition; None if there is nothing to do, or in the background not enough."""
        begun = self._range(partition, is_background)
        if not begun.extents or (is_background and begun.dirty_ratio <= self._dirty_ratio):
            return None
        deletions = self._pass_until_it_holds(begun, is_background)
        after = self._catalog.extents(self._topic.id, partition, 0, begun.end_offset)
        return PartitionReport(
            partition, begun.end_offset, _rows(begun.extents), _rows(after), _bytes(begun.extents), _bytes(after), deletions
        )

    @property
    def _dirty_ratio(self) -> float:
        return float(self._topic.setting(MIN_CLEANABLE_DIRTY_RATIO))

    def _number(self, setting: str) -> int:
        return int(self._topic.setting(setting))

    def _range(self, partition: int, is_background: bool) -> _Range:
        cleaning = next(found for found in self._catalog.cleanings(self._topic.id) if found.partition == partition)
        extents = self._catalog.extents(self._topic.id, partition, 0, cleaning.next_offset)
        kept_back = _newest_segment(extents, self._number(SEGMENT_BYTES)) if is_background else 0
        closed = extents[: len(extents) - kept_back]
        old = _old_enough(closed, cleaning, self._number(MIN_COMPACTION_LAG_MS), self._clock.now_ms())
        end = cleaning.next_offset if len(old) == len(extents) else extents[len(old)].base_offset
        return _Range(cleaning, tuple(old), end)

    def _pass_until_it_holds(self, begun: _Range, is_background: bool) -> int:
        """Make passes until nobody else changed the extents meanwhile; returns how many deletions went."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._pass(begun)
            except (EpochFailedError, SlabMissingError):
                self._producer = None
                if attempt == ATTEMPTS:
                    raise
                begun = self._range(begun.cleaning.partition, is_background)
        raise AssertionError("the last attempt returns or raises")

    def _pass(self, begun: _Range) -> int:
        cleaning, now_ms, retention_ms = begun.cleaning, self._clock.now_ms(), self._number(DELETE_RETENTION_MS)
        droppable = cleaning.droppable_below(now_ms, retention_ms)
        selections = select_survivors(self._storage, self._topic, begun.extents, droppable, self._memory_bytes, self._progress)
        for run in self._runs(selections):
            self._swap(run, cleaning.partition)
        reach("compaction.swapped")
        moves = cleaning.is_over(now_ms, retention_ms) and begun.end_offset > cleaning.horizon_offset
        horizon = (begun.end_offset, self._clock.now_ms()) if moves else None
        self._catalog.record_cleaning(cleaning, begun.end_offset, horizon)
        return sum(selection.deletions for selection in selections)

    def _runs(self, selections: Sequence[Selection]) -> Iterator[_Run]:
        """Consecutive extents to be rewritten together, oldest first, each run with the rows that stay."""
        limit = min(SLAB_BYTES_MAX, self._number(SEGMENT_BYTES))
        for is_left_alone, group in groupby(selections, key=_is_left_alone):
            chosen = list(group)
            if is_left_alone or all(selection.is_whole for selection in chosen):
                continue
            run = _Run()
            for selection in chosen:
                run = run.with_rows(selection, self._kept_rows(selection))
                if run.bytes >= limit or len(run.selections) == RUN_EXTENTS_MAX:
                    yield run
                    run = _Run()
            if run.selections:
                yield run

    def _kept_rows(self, selection: Selection) -> Rows:
        extent = selection.extent
        batch, offsets = read_rows(self._storage, extent, extent.base_offset, extent.next_offset)
        mask = selection.mask
        return batch.filter(mask), offsets[mask.to_numpy(zero_copy_only=False)]

    def _swap(self, run: _Run, partition: int) -> None:
        """Write the rows of a run and put them in the place of its extents, in one transaction."""
        state = self._opened()
        frames = list(pack(run.rows))
        name = SlabName(producer_writer(state.id), state.epoch, state.step + 1, fresh_token())
        written = [(self._topic.id, partition, frame.rows) for frame in frames]
        slabs = (write_slab(self._storage, name, written, {self._topic.id: self._topic.compression}),) if frames else ()
        reach("compaction.slab_durable")
        commit = ProducerCommit(state.id, state.epoch, state.step + 1, fresh_token(), slabs)
        removed = tuple(selection.extent for selection in run.selections)
        replacement = Replacement(
            self._topic.id, partition, removed, commit, tuple((frame.base_offset, frame.next_offset) for frame in frames),
            cleaned_offset=removed[-1].next_offset, purged_below=max(selection.purged_below for selection in run.selections),
        )  # fmt: skip
        try:
            self._catalog.replace_extents(replacement)
        except (EpochFailedError, FencedError, TopicNotFoundError):
            for slab in slabs:
                self._storage.delete(slab.path)  # it was not adopted, and never will be
            raise
        reach("compaction.run_swapped")
        self._producer = replace(state, step=state.step + 1)

    def _opened(self) -> ProducerState:
        if self._producer is None:
            self._producer = self._catalog.open_producer(None)
        return self._producer


@dataclass(frozen=True)
class _Run:
    """Consecutive extents, and their rows that stay."""

    selections: tuple[Selection, ...] = ()
    rows: tuple[Rows, ...] = ()
    bytes: int = 0

    def with_rows(self, selection: Selection, rows: Rows) -> _Run:
        return _Run((*self.selections, selection), (*self.rows, rows), self.bytes + rows[0].nbytes)


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
