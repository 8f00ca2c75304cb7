"""
The canonical order, and where an epoch cuts it (law 11).

A record's order key is the running maximum of event time in its source partition, never below the stream time that its own
input topic had committed before. Records are processed by (order key, input, partition, offset): Kafka's smallest-head merge.
An epoch takes the first records of that order, so the cut depends only on what the catalog holds and on how many records are
asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from streamkit.engine.stream_time import NO_TIME
from streamkit.log.slab.extent import Extent

Timestamps = npt.NDArray[np.int64]
Records = tuple[Timestamps, npt.NDArray[np.int64]]  # event times and offsets


@dataclass(frozen=True)
class Backlog:
    """
    What waits in one partition of one input: offsets from `start` on, in the frames `extents`.

    `floor_ms` is the stream time that the input had committed, below which no order key falls. `bound` is where the partition
    ends; it lies behind the last frame if compaction has removed the last record.
    """

    input: int
    partition: int
    start: int
    extents: tuple[Extent, ...]
    bound: int = 0
    floor_ms: int = NO_TIME

    @property
    def end(self) -> int:
        return max(self.extents[-1].next_offset if self.extents else self.start, self.bound)

    @property
    def is_whole(self) -> bool:
        """Whether none of the frames was begun."""
        return not self.extents or self.start <= self.extents[0].base_offset

    @property
    def key_reached(self) -> int:
        """The order key that all records reach, if none of their frames was begun."""
        return max(self.floor_ms, max((extent.max_timestamp for extent in self.extents), default=NO_TIME))

    @property
    def records(self) -> int:
        """How many records wait; all records of a frame count if it has holes, even if an earlier epoch took some."""
        begun = sum(
            self.start - extent.base_offset for extent in self.extents[:1] if extent.is_dense and extent.base_offset < self.start
        )
        return sum(extent.rows for extent in self.extents) - begun


@dataclass(frozen=True)
class Cut:
    """Where an epoch ends: by backlog, the offset after its last record and the order key that is reached."""

    ends: tuple[int, ...]
    reached: tuple[int, ...]
    records: int


def order_keys(timestamps: Timestamps, floor: int) -> Timestamps:
    """The order keys of consecutive records of one partition, after records that reached `floor`."""
    return np.maximum(np.maximum.accumulate(timestamps), floor) if len(timestamps) else timestamps


def cut(
    backlogs: Sequence[Backlog],
    records_max: int,
    records_of: Callable[[Extent, int], Records],
    *,
    is_between_keys: bool = False,
) -> Cut:
    """
    Cut the first `records_max` records off the merged backlogs; all of them if there are no more.

    With `is_between_keys`, all records of the last order key are taken, however many. So if a topic is read as a stream and as a
    table, the two backlogs of a partition end at the same offset.

    Backlogs come in the order of (input, partition). `records_of` reads event times and offsets of one frame from an offset
    on; it is asked for the frames in which the cut falls, for frames with holes that were begun, and for no others.
    """
    if all(backlog.is_whole for backlog in backlogs) and (records := sum(one.records for one in backlogs)) <= records_max:
        return Cut(tuple(backlog.end for backlog in backlogs), tuple(backlog.key_reached for backlog in backlogs), records)
    lanes = [_Lane(backlog, records_of) for backlog in backlogs]
    available = sum(lane.total for lane in lanes)
    if available <= records_max:
        reached = tuple(lane.key_at(lane.total) for lane in lanes)
        return Cut(tuple(lane.backlog.end for lane in lanes), reached, available)
    last_key = _smallest_key_reaching(lanes, records_max)
    taken = [lane.count_up_to(last_key) for lane in lanes] if is_between_keys else _taken(lanes, last_key, records_max)
    ends = tuple(lane.offset_after(count) for lane, count in zip(lanes, taken, strict=True))
    reached = tuple(lane.key_at(count) for lane, count in zip(lanes, taken, strict=True))
    return Cut(ends, reached, sum(taken))


def _smallest_key_reaching(lanes: Sequence[_Lane], records: int) -> int:
    low = min(lane.first_key_bound for lane in lanes if lane.total)
    high = max(lane.last_key for lane in lanes if lane.total)
    while low < high:
        middle = (low + high) // 2
        if sum(lane.count_up_to(middle) for lane in lanes) >= records:
            high = middle
        else:
            low = middle + 1
    return low


def _taken(lanes: Sequence[_Lane], last_key: int, records: int) -> list[int]:
    taken = [lane.count_up_to(last_key - 1) for lane in lanes]
    left = records - sum(taken)
    for index, lane in enumerate(lanes):
        more = min(left, lane.count_up_to(last_key) - taken[index])
        taken[index] += more
        left -= more
    assert left == 0, "the cut took fewer records than it found"
    return taken


class _Lane:
    """One backlog with the running maximum at the end of each frame; a frame is read only if a count falls inside it."""

    def __init__(self, backlog: Backlog, records_of: Callable[[Extent, int], Records]) -> None:
        self.backlog = backlog
        self._floor = backlog.floor_ms
        self._records_of = records_of
        self._records: dict[int, Records] = {}
        self._starts = [max(extent.base_offset, backlog.start) for extent in backlog.extents]
        rows = (self._rows(frame) for frame in range(len(backlog.extents)))
        self._rows_before = np.array(list(accumulate(rows, initial=0)), np.int64)

    @property
    def total(self) -> int:
        return int(self._rows_before[-1])

    @cached_property
    def _frame_keys(self) -> Timestamps:
        """The order key each frame ends with; of the first frame, possibly begun before `start`, read from its rows."""
        if not self.backlog.extents:
            return np.empty(0, np.int64)
        largest = [extent.max_timestamp for extent in self.backlog.extents]
        if self.backlog.start > self.backlog.extents[0].base_offset:
            keys = self._read(0)[0]
            largest[0] = int(keys[-1]) if len(keys) else self._floor
        return order_keys(np.array(largest, np.int64), self._floor)

    @property
    def first_key_bound(self) -> int:
        return max(self._floor, min(extent.min_timestamp for extent in self.backlog.extents))

    @property
    def last_key(self) -> int:
        return int(self._frame_keys[-1])

    def count_up_to(self, key: int) -> int:
        """How many of the records have an order key of at most `key`."""
        whole = int(np.searchsorted(self._frame_keys, key, side="right"))
        count = int(self._rows_before[whole])
        if whole < len(self._frame_keys) and self._may_begin_up_to(whole, key):
            count += int(np.searchsorted(self._read(whole)[0], key, side="right"))
        return count

    def offset_after(self, count: int) -> int:
        """The offset behind the first `count` records; offsets of holes before the next record stay behind."""
        if count == 0:
            return self.backlog.start
        frame = int(np.searchsorted(self._rows_before, count, side="left")) - 1
        within = int(count - self._rows_before[frame])
        if self.backlog.extents[frame].is_dense:
            return int(self._starts[frame]) + within
        return int(self._read(frame)[1][within - 1]) + 1

    def key_at(self, count: int) -> int:
        """The order key that the first `count` records reach."""
        if count == 0:
            return self._floor
        frame = int(np.searchsorted(self._rows_before, count, side="left")) - 1
        within = int(count - self._rows_before[frame])
        is_whole = count == self._rows_before[frame + 1]
        return int(self._frame_keys[frame] if is_whole else self._read(frame)[0][within - 1])

    def _may_begin_up_to(self, frame: int, key: int) -> bool:
        before = int(self._frame_keys[frame - 1]) if frame else self._floor
        return max(before, self.backlog.extents[frame].min_timestamp) <= key

    def _rows(self, frame: int) -> int:
        extent, start = self.backlog.extents[frame], self._starts[frame]
        if start == extent.base_offset or extent.is_dense:
            return extent.rows - (start - extent.base_offset)
        return len(self._read(frame)[1])

    def _read(self, frame: int) -> Records:
        """Order keys and offsets of the records of a frame that wait."""
        if frame not in self._records:
            timestamps, offsets = self._records_of(self.backlog.extents[frame], self._starts[frame])
            before = int(self._frame_keys[frame - 1]) if frame else self._floor
            self._records[frame] = order_keys(timestamps, before), offsets
        return self._records[frame]
