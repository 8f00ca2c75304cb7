"""The canonical order and its cut, against the order's definition applied row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.engine.order import NO_TIME, Backlog, Cut, Records, cut, order_keys
from streamkit.log.extent import Extent

Frames = list[list[int]]  # event times, frame by frame

frames = st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=6), max_size=5)
partitions = st.lists(frames, min_size=1, max_size=4)


def backlog_of(number: int, partition: Frames, start: int = 0) -> Backlog:
    extents, offset = [], 0
    for index, times in enumerate(partition):
        extents.append(Extent(number, 0, offset, offset + len(times), "", index, 0, min(times), max(times), len(times)))
        offset += len(times)
    return Backlog(number, 0, start, tuple(extent for extent in extents if extent.next_offset > start))


def cut_of(partitions: list[Frames], starts: list[int], stream_time: int, limit: int) -> tuple[Cut, set[tuple[int, int]]]:
    read: set[tuple[int, int]] = set()

    def records_of(extent: Extent, start: int) -> Records:
        read.add((extent.topic_id, extent.position))
        times = np.array(partitions[extent.topic_id][extent.position], np.int64)
        return times[start - extent.base_offset :], np.arange(start, extent.next_offset, dtype=np.int64)

    backlogs = [
        backlog_of(number, partition, start) for number, (partition, start) in enumerate(zip(partitions, starts, strict=True))
    ]
    return cut(backlogs, stream_time, limit, records_of), read


def in_order(partitions: list[Frames], starts: list[int], stream_time: int) -> list[tuple[int, int, int]]:
    """(order key, input, offset) of every waiting record, sorted: the definition."""
    rows = []
    for number, (partition, start) in enumerate(zip(partitions, starts, strict=True)):
        reached = stream_time
        for offset, time in enumerate(time for frame in partition for time in frame):
            if offset >= start:
                reached = max(reached, time)
                rows.append((reached, number, offset))
    return sorted(rows)


@given(partitions, st.integers(1, 40))
def test_an_epoch_is_the_first_records_of_the_merged_order(partitions: list[Frames], limit: int) -> None:
    """Whatever the frames, the cut takes exactly the first records of the canonical order."""
    starts = [0] * len(partitions)
    found, _ = cut_of(partitions, starts, NO_TIME, limit)
    expected = in_order(partitions, starts, NO_TIME)[:limit]
    assert found.records == len(expected)
    taken = {(number, offset) for number, end in enumerate(found.ends) for offset in range(end)}
    assert taken == {(number, offset) for _, number, offset in expected}
    assert found.stream_time_ms == (expected[-1][0] if expected else NO_TIME)


@given(partitions, st.integers(1, 7), st.integers(1, 13))
def test_the_size_of_epochs_does_not_change_the_order(partitions: list[Frames], small: int, large: int) -> None:
    """Cutting a backlog into epochs of one size or another processes the records in the same order."""
    assert _by_epochs(partitions, small) == _by_epochs(partitions, large)


def _by_epochs(partitions: list[Frames], limit: int) -> list[tuple[int, int, int]]:
    starts, stream_time = [0] * len(partitions), NO_TIME
    processed: list[tuple[int, int, int]] = []
    while True:
        found, _ = cut_of(partitions, starts, stream_time, limit)
        if not found.records:
            return processed
        waiting = in_order(partitions, starts, stream_time)
        processed += [row for row in waiting if row[2] < found.ends[row[1]]]
        starts, stream_time = list(found.ends), found.stream_time_ms


def test_only_the_frames_in_which_the_cut_falls_are_read() -> None:
    """A cut among a hundred frames reads a handful of them."""
    partition = [list(range(start * 10, start * 10 + 10)) for start in range(100)]
    found, read = cut_of([partition], [0], NO_TIME, 505)
    assert found.ends == (505,)
    assert len(read) <= 8
    assert (0, 50) in read


def test_taking_everything_reads_no_frame() -> None:
    """An epoch that takes all there is needs only the manifest."""
    found, read = cut_of([[[5, 3], [4]], [[9]]], [0, 0], NO_TIME, 4)
    assert (found.ends, found.stream_time_ms, found.records) == ((3, 1), 9, 4)
    assert not read


@pytest.mark.parametrize(
    ("times", "floor", "expected"),
    [([3, 1, 7, 5], NO_TIME, [3, 3, 7, 7]), ([3, 1, 7, 5], 4, [4, 4, 7, 7]), ([], 4, [])],
)
def test_order_keys_run_up_from_the_floor(times: list[int], floor: int, expected: list[int]) -> None:
    """An order key is the largest event time so far, never below the floor."""
    assert order_keys(np.array(times, np.int64), floor).tolist() == expected
