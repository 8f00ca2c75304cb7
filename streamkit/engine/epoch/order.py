"""
The canonical order, and where an epoch cuts it (law 11).

A record's order key is the time of its source partition, the running maximum of event times there, never below the stream
time that its own input topic had committed before. Where jumps are bounded, records that jump too far do not move that time.
Records are processed by (order key, input, partition, offset): Kafka's smallest-head merge.
An epoch takes the first records of that order, so the cut depends only on what the catalog holds and on how many records are
asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

import numpy as np

from streamkit.arrays import Integers
from streamkit.engine.epoch.stream_time import NO_TIME, UNKNOWN
from streamkit.log.slab.extent import Extent

TimesAndOffsets = tuple[Integers, Integers]  # event times and offsets


@dataclass(frozen=True)
class Backlog:
    """
    What waits in one partition of one input: offsets from `start` on, in the frames `extents`.

    `floor_ms` is the stream time that the input had committed, below which no order key falls. `bound` is where the backlog
    ends; it lies behind the last frame if compaction has removed the last record, and within it if more is not to be read.
    If jumps are bounded by `jump_ms`, `time_ms` is the time that the partition had reached.
    """

    input: int
    partition: int
    start: int
    extents: tuple[Extent, ...]
    bound: int | None = None
    floor_ms: int = NO_TIME
    time_ms: int = NO_TIME
    jump_ms: int | None = None

    @property
    def end(self) -> int:
        last = self.extents[-1].next_offset if self.extents else self.start
        return last if self.bound is None else max(self.start, self.bound)

    def up_to(self, bound: int) -> Backlog:
        """What of it lies before an offset."""
        return replace(self, bound=bound, extents=tuple(extent for extent in self.extents if extent.base_offset < bound))

    @property
    def is_whole(self) -> bool:
        """Whether all frames are read from their first record to their last, and no record may jump ahead of its time."""
        if not self.extents:
            return True
        is_uncut = self.start <= self.extents[0].base_offset and self.extents[-1].next_offset <= self.end
        return is_uncut and self.jump_ms is None

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
    """
    Where an epoch ends: by backlog, the offset after its last record, the order key that is reached and the partition's time.

    That time is only told of partitions whose jumps are bounded. It follows from the records of the partition alone.
    """

    ends: tuple[int, ...]
    reached: tuple[int, ...]
    records: int
    times: tuple[int, ...] = ()


def partition_times(timestamps: Integers, time: int, jump_ms: int | None = None) -> Integers:
    """
    The time of a partition at consecutive records of it, after records that reached `time`.

    A record that is more than `jump_ms` ahead of that time does not move it; the first record of a partition that has a time always does.

    A partition is at NO_TIME before its first record, and at UNKNOWN while no record has had a time (see `stream_time`). Either lies before
    all event times, so it is nothing that a record could be ahead of: up to UNKNOWN, here and below, jumps are not bounded.
    """
    if not len(timestamps):
        return timestamps
    running = np.maximum(np.maximum.accumulate(timestamps), time)
    if jump_ms is None:
        return running
    # Up to the first record that jumps too far the running maximum is right, and behind it wrong; mostly there is none. No record jumps from
    # UNKNOWN: any event time would be too far ahead of it, and the partition would never have a time.
    before = np.concatenate([[time], running[:-1]])
    jumps = np.flatnonzero((before > UNKNOWN) & (running > before + jump_ms))
    return running if not len(jumps) else _without_jumps(timestamps, running, int(jumps[0]), int(before[jumps[0]]), jump_ms)


def _without_jumps(timestamps: Integers, running: Integers, first: int, time: int, jump_ms: int) -> Integers:
    """The times of a partition, which is at `time` before the record number `first`, the first that jumps too far."""
    result = running.copy()
    # Whether a record moves the time depends on all records before it, so they are taken in turn; few frames have any that jump.
    for place, timestamp in enumerate(timestamps[first:].tolist(), first):
        if time < timestamp <= time + jump_ms:
            time = timestamp
        result[place] = time
    return result


def order_keys(timestamps: Integers, floor: int) -> Integers:
    """The order keys of consecutive records of one partition, after records that reached `floor`."""
    return partition_times(timestamps, floor)


def times_before(backlog: Backlog, records_of: Callable[[Extent, int], TimesAndOffsets]) -> list[int]:
    """The time of the partition before each frame of a backlog."""
    return _Lane(backlog, records_of).times_before


def cut(
    backlogs: Sequence[Backlog],
    records_max: int,
    records_of: Callable[[Extent, int], TimesAndOffsets],
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
    # What there is, if it is not too much: known from the frames' rows and largest times alone, without reading any.
    if all(backlog.is_whole for backlog in backlogs) and (records := sum(one.records for one in backlogs)) <= records_max:
        reached = tuple(backlog.key_reached for backlog in backlogs)
        # A backlog whose jumps are bounded is whole only if nothing waits in it. So no record moves its time, which stays; the times of the
        # others are not asked for (see `Cut`).
        times = tuple(backlog.time_ms for backlog in backlogs)
        return Cut(tuple(backlog.end for backlog in backlogs), reached, records, times)
    lanes = [_Lane(backlog, records_of) for backlog in backlogs]
    available = sum(lane.total for lane in lanes)
    if available <= records_max:
        reached = tuple(lane.key_at(lane.total) for lane in lanes)
        return Cut(
            tuple(lane.backlog.end for lane in lanes), reached, available, tuple(lane.time_at(lane.total) for lane in lanes)
        )
    # Else by the order key of the last record that is taken. Keys never fall within a backlog, so how many records of it have at most a
    # key is found by bisection; the key is found by bisecting over keys, in some 50 turns whatever waits. Of records with that very key the
    # inputs and partitions in front are served first.
    last_key = _smallest_key_reaching(lanes, records_max)
    taken = [lane.count_up_to(last_key) for lane in lanes] if is_between_keys else _taken(lanes, last_key, records_max)
    ends = tuple(lane.offset_after(count) for lane, count in zip(lanes, taken, strict=True))
    reached = tuple(lane.key_at(count) for lane, count in zip(lanes, taken, strict=True))
    times = tuple(lane.time_at(count) for lane, count in zip(lanes, taken, strict=True))
    return Cut(ends, reached, sum(taken), times)


def _smallest_key_reaching(lanes: Sequence[_Lane], records: int) -> int:
    """The smallest order key up to which there are so many records, or more."""
    # At each turn: up to `low` - 1 there are too few records, up to `high` enough.
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
    """How many records of each lane are taken: all before the last key, and of it, lane by lane, as many as are left to take."""
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

    def __init__(self, backlog: Backlog, records_of: Callable[[Extent, int], TimesAndOffsets]) -> None:
        self.backlog = backlog
        self._floor = backlog.floor_ms
        self._records_of = records_of
        self._waiting: dict[int, TimesAndOffsets] = {}
        self._times: dict[int, Integers] = {}
        self._starts = [max(extent.base_offset, backlog.start) for extent in backlog.extents]
        self._ends = [min(extent.next_offset, backlog.end) for extent in backlog.extents]
        rows = (self._rows(frame) for frame in range(len(backlog.extents)))
        self._rows_before = np.array(list(accumulate(rows, initial=0)), np.int64)

    @property
    def total(self) -> int:
        return int(self._rows_before[-1])

    @cached_property
    def _frame_times(self) -> list[int]:
        """The time of the partition at the end of each frame; read from its rows if only some of them wait, or may jump too far."""
        times, time = [], self.backlog.time_ms
        for frame, extent in enumerate(self.backlog.extents):
            if self._is_whole(frame) and not _may_jump(extent, time, self.backlog.jump_ms):
                time = max(time, extent.max_timestamp)
            elif len(rows := partition_times(self._records(frame)[0], time, self.backlog.jump_ms)):
                self._times[frame], time = rows, int(rows[-1])
            times.append(time)
        return times

    @property
    def times_before(self) -> list[int]:
        """The time of the partition before each frame."""
        return [self.backlog.time_ms, *self._frame_times[:-1]][: len(self._frame_times)]

    @cached_property
    def _frame_keys(self) -> Integers:
        """The order key each frame ends with."""
        return np.maximum(np.array(self._frame_times, np.int64), self._floor)

    @property
    def first_key_bound(self) -> int:
        # Where jumps are bounded, the frames' least times say too much: a record that jumps has the key of the time before it. But from
        # UNKNOWN none jumps, so the first record that has a time moves the partition there.
        if self.backlog.jump_ms is not None and self.backlog.time_ms > UNKNOWN:
            return max(self._floor, self.backlog.time_ms)
        return max(self._floor, min(extent.min_timestamp for extent in self.backlog.extents))

    @property
    def last_key(self) -> int:
        return int(self._frame_keys[-1])

    def count_up_to(self, key: int) -> int:
        """How many of the records have an order key of at most `key`."""
        # Frames that end with at most the key count whole; the next one may hold some, and those behind it cannot, since keys never fall.
        whole = int(np.searchsorted(self._frame_keys, key, side="right"))
        count = int(self._rows_before[whole])
        if key >= self._floor and whole < len(self._frame_keys) and self._may_begin_up_to(whole, key):
            count += int(np.searchsorted(self._times_of(whole), key, side="right"))
        return count

    def offset_after(self, count: int) -> int:
        """The offset behind the first `count` records; offsets of holes before the next record stay behind."""
        if count == 0:
            return self.backlog.start
        frame = int(np.searchsorted(self._rows_before, count, side="left")) - 1  # the one with the last record that counts
        within = int(count - self._rows_before[frame])
        if self.backlog.extents[frame].is_dense:
            return int(self._starts[frame]) + within
        return int(self._records(frame)[1][within - 1]) + 1

    def key_at(self, count: int) -> int:
        """The order key that the first `count` records reach."""
        return max(self.time_at(count), self._floor)

    def time_at(self, count: int) -> int:
        """The time of the partition that the first `count` records reach."""
        if count == 0:
            return self.backlog.time_ms
        frame = int(np.searchsorted(self._rows_before, count, side="left")) - 1
        within = int(count - self._rows_before[frame])
        is_whole = count == self._rows_before[frame + 1]
        return self._frame_times[frame] if is_whole else int(self._times_of(frame)[within - 1])

    def _may_begin_up_to(self, frame: int, key: int) -> bool:
        """Whether the first record of a frame may have at most this key, by what is known without reading it."""
        before = int(self._frame_keys[frame - 1]) if frame else self._floor
        # As in `first_key_bound`: a frame's least time says nothing if its records may jump, which they may from a known time alone.
        if self.backlog.jump_ms is not None and self.times_before[frame] > UNKNOWN:
            return before <= key
        return max(before, self.backlog.extents[frame].min_timestamp) <= key

    def _is_whole(self, frame: int) -> bool:
        extent = self.backlog.extents[frame]
        return self._starts[frame] == extent.base_offset and self._ends[frame] == extent.next_offset

    def _rows(self, frame: int) -> int:
        extent = self.backlog.extents[frame]
        if self._is_whole(frame):
            return extent.rows
        return self._ends[frame] - self._starts[frame] if extent.is_dense else len(self._records(frame)[1])

    def _records(self, frame: int) -> TimesAndOffsets:
        """Event times and offsets of the records of a frame that wait."""
        if frame not in self._waiting:
            times, offsets = self._records_of(self.backlog.extents[frame], self._starts[frame])
            count = int(np.searchsorted(offsets, self._ends[frame]))
            self._waiting[frame] = times[:count], offsets[:count]
        return self._waiting[frame]

    def _times_of(self, frame: int) -> Integers:
        """The time of the partition at each record of a frame that waits."""
        if frame not in self._times:
            self._times[frame] = partition_times(self._records(frame)[0], self.times_before[frame], self.backlog.jump_ms)
        return self._times[frame]


def _may_jump(extent: Extent, time: int, jump_ms: int | None) -> bool:
    """Whether a record of a frame may be further ahead of the partition's time than jumps go, which is `time` before the frame."""
    # While the partition has no time its first record gives it one, at least the least of the frame: from there the others may jump.
    return jump_ms is not None and extent.max_timestamp > (extent.min_timestamp if time <= UNKNOWN else time) + jump_ms
