"""The canonical order and its cut, against the order's definition applied row by row."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.engine.epoch.order import Backlog, Cut, TimesAndOffsets, cut, order_keys
from streamkit.engine.epoch.stream_time import NO_TIME
from streamkit.log.slab.extent import Extent
from tests.kit.sampling import examples

Frames = list[list[int]]  # event times, frame by frame

frames = st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=6), max_size=5)
partitions = st.lists(frames, min_size=1, max_size=4)


def input_of(number: int) -> int:
    """The input of a lane: every two lanes are partitions of one."""
    return number // 2


def floors_of(lanes: int) -> list[int]:
    """The stream times of the inputs of so many lanes, before any record."""
    return [NO_TIME] * (input_of(lanes) + 1)


def moved_floors(floors: list[int], reached: Iterable[int]) -> list[int]:
    """The stream times of the inputs when their lanes have reached these order keys."""
    floors = list(floors)
    for number, key in enumerate(reached):
        floors[input_of(number)] = max(floors[input_of(number)], key)
    return floors


def backlog_of(number: int, partition: Frames, start: int, floors: list[int]) -> Backlog:
    extents, offset = [], 0
    for index, times in enumerate(partition):
        extents.append(Extent(number, 0, offset, offset + len(times), "", index, 0, min(times), max(times), len(times)))
        offset += len(times)
    waiting = tuple(extent for extent in extents if extent.next_offset > start)
    return Backlog(input_of(number), number % 2, start, waiting, floor_ms=floors[input_of(number)])


def cut_of(
    partitions: list[Frames], starts: list[int], floors: list[int], limit: int, bounds: list[int] | None = None
) -> tuple[Cut, set[tuple[int, int]]]:
    read: set[tuple[int, int]] = set()

    def records_of(extent: Extent, start: int) -> TimesAndOffsets:
        read.add((extent.topic_id, extent.position))
        times = np.array(partitions[extent.topic_id][extent.position], np.int64)
        return times[start - extent.base_offset :], np.arange(start, extent.next_offset, dtype=np.int64)

    lanes = enumerate(zip(partitions, starts, strict=True))
    backlogs = [backlog_of(number, partition, start, floors) for number, (partition, start) in lanes]
    if bounds is not None:
        backlogs = [backlog.up_to(bound) for backlog, bound in zip(backlogs, bounds, strict=True)]
    return cut(backlogs, limit, records_of), read


def in_order(partitions: list[Frames], starts: list[int], floors: list[int]) -> list[tuple[int, int, int]]:
    """(order key, lane, offset) of every waiting record, sorted: the definition."""
    rows = []
    for number, (partition, start) in enumerate(zip(partitions, starts, strict=True)):
        reached = floors[input_of(number)]
        for offset, time in enumerate(time for frame in partition for time in frame):
            if offset >= start:
                reached = max(reached, time)
                rows.append((reached, number, offset))
    return sorted(rows)


@given(partitions, st.integers(1, 40))
def test_an_epoch_is_the_first_records_of_the_merged_order(partitions: list[Frames], limit: int) -> None:
    """Whatever the frames, the cut takes exactly the first records of the canonical order."""
    starts, floors = [0] * len(partitions), floors_of(len(partitions))
    found, _ = cut_of(partitions, starts, floors, limit)
    expected = in_order(partitions, starts, floors)[:limit]
    assert found.records == len(expected)
    taken = {(number, offset) for number, end in enumerate(found.ends) for offset in range(end)}
    assert taken == {(number, offset) for _, number, offset in expected}
    last = {number: key for key, number, _ in expected}
    assert found.reached == tuple(last.get(number, NO_TIME) for number in range(len(partitions)))


@examples(100)
@given(partitions, st.integers(1, 7), st.integers(1, 13))
def test_the_size_of_epochs_does_not_change_the_order(partitions: list[Frames], small: int, large: int) -> None:
    """Cutting a backlog into epochs of one size or another processes the records in the same order."""
    assert _by_epochs(partitions, small) == _by_epochs(partitions, large)


def _by_epochs(partitions: list[Frames], limit: int) -> list[tuple[int, int, int]]:
    starts, floors = [0] * len(partitions), floors_of(len(partitions))
    processed: list[tuple[int, int, int]] = []
    while True:
        found, _ = cut_of(partitions, starts, floors, limit)
        if not found.records:
            return processed
        waiting = in_order(partitions, starts, floors)
        processed += [row for row in waiting if row[2] < found.ends[row[1]]]
        starts, floors = list(found.ends), moved_floors(floors, found.reached)


@examples(100)
@given(st.lists(st.tuples(frames, st.integers(0, 30)), min_size=1, max_size=3), st.integers(1, 9))
def test_a_backlog_may_end_within_a_frame(bounded: list[tuple[Frames, int]], limit: int) -> None:
    """What lies behind a bound is not there: the same records are taken as if the frames ended with it, in epochs of any size."""
    partitions, bounds = [partition for partition, _ in bounded], [bound for _, bound in bounded]
    cut_off = [[time for frame in partition for time in frame][:bound] for partition, bound in bounded]
    starts, floors, taken = [0] * len(partitions), floors_of(len(partitions)), 0
    while True:
        found, _ = cut_of(partitions, starts, floors, limit, bounds)
        expected, _ = cut_of([[times] if times else [] for times in cut_off], starts, floors, limit)
        assert (found.reached, found.records) == (expected.reached, expected.records)
        if not found.records:
            break
        assert all(own <= end <= bound for own, end, bound in zip(expected.ends, found.ends, bounds, strict=True))
        starts, floors, taken = list(expected.ends), moved_floors(floors, found.reached), taken + found.records
    assert taken == sum(map(len, cut_off))


holes = st.lists(st.lists(st.tuples(st.integers(0, 50), st.booleans()), min_size=1, max_size=6), max_size=5)


@examples(100)
@given(st.lists(holes, min_size=1, max_size=3), st.integers(1, 9))
def test_holes_are_no_records(partitions: list[list[list[tuple[int, bool]]]], limit: int) -> None:
    """With holes that compaction left, epochs take the same records in the same order as if there were none."""
    dense = [[[time for time, stays in frame if stays] for frame in partition] for partition in partitions]
    dense = [[frame for frame in partition if frame] for partition in dense]
    expected = [(number, rank) for _, number, rank in in_order(dense, [0] * len(dense), floors_of(len(dense)))]
    offsets = [[offset for offset, (_, stays) in enumerate(chain(*partition)) if stays] for partition in partitions]
    assert _by_epochs_with_holes(partitions, limit) == [(number, offsets[number][rank]) for number, rank in expected]


def _by_epochs_with_holes(partitions: list[list[list[tuple[int, bool]]]], limit: int) -> list[tuple[int, int]]:
    starts, floors = [0] * len(partitions), floors_of(len(partitions))
    processed: list[tuple[int, int]] = []
    while True:
        backlogs = [sparse_backlog(number, partition, starts[number], floors) for number, partition in enumerate(partitions)]
        found = cut(backlogs, limit, lambda extent, start: sparse_records(partitions, extent, start))
        assert found.records <= sum(backlog.records for backlog in backlogs)
        if not found.records:
            return processed
        taken = []
        for number, (backlog, end) in enumerate(zip(backlogs, found.ends, strict=True)):
            reached = backlog.floor_ms
            for extent in backlog.extents:
                for time, offset in zip(*sparse_records(partitions, extent, max(backlog.start, extent.base_offset)), strict=True):
                    reached = max(reached, int(time))
                    taken += [(reached, number, int(offset))] if offset < end else []
        assert len(taken) == found.records
        processed += [(number, offset) for _, number, offset in sorted(taken)]
        starts, floors = list(found.ends), moved_floors(floors, found.reached)


def sparse_backlog(number: int, partition: list[list[tuple[int, bool]]], start: int, floors: list[int]) -> Backlog:
    extents, offset = [], 0
    for index, frame in enumerate(partition):
        times = [time for time, stays in frame if stays]
        if times:
            place = (number, 0, offset, offset + len(frame), "", index, 0)
            extents.append(Extent(*place, min(times), max(times), len(times)))
        offset += len(frame)
    waiting = tuple(extent for extent in extents if extent.next_offset > start)
    return Backlog(input_of(number), number % 2, start, waiting, floor_ms=floors[input_of(number)])


def sparse_records(partitions: list[list[list[tuple[int, bool]]]], extent: Extent, start: int) -> TimesAndOffsets:
    frame = partitions[extent.topic_id][extent.position]
    rows = [(time, extent.base_offset + rank) for rank, (time, stays) in enumerate(frame) if stays]
    rows = [(time, offset) for time, offset in rows if offset >= start]
    return np.array([time for time, _ in rows], np.int64), np.array([offset for _, offset in rows], np.int64)


def test_only_the_frames_in_which_the_cut_falls_are_read() -> None:
    """A cut among a hundred frames reads a handful of them."""
    partition = [list(range(start * 10, start * 10 + 10)) for start in range(100)]
    found, read = cut_of([partition], [0], [NO_TIME], 505)
    assert found.ends == (505,)
    assert len(read) <= 8
    assert (0, 50) in read


def test_taking_everything_reads_no_frame() -> None:
    """An epoch that takes all there is needs only the manifest."""
    found, read = cut_of([[[5, 3], [4]], [[9]]], [0, 0], [NO_TIME], 4)
    assert (found.ends, found.reached, found.records) == ((3, 1), (5, 9), 4)
    assert not read


@pytest.mark.parametrize(
    ("times", "floor", "expected"),
    [([3, 1, 7, 5], NO_TIME, [3, 3, 7, 7]), ([3, 1, 7, 5], 4, [4, 4, 7, 7]), ([], 4, [])],
)
def test_order_keys_run_up_from_the_floor(times: list[int], floor: int, expected: list[int]) -> None:
    """An order key is the largest event time so far, never below the floor."""
    assert order_keys(np.array(times, np.int64), floor).tolist() == expected
