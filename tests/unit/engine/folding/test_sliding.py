"""Sliding windows found by columns are those found row by row: the same windows, of the same rows in the same order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from streamkit.arrays import Integers
from streamkit.engine.folding.sliding.slid_windows import Slid, SlidingRows, WindowNodes, slid_windows
from streamkit.plan.window_kinds.sliding import SlidingWindow
from streamkit.plan.windows import Windowing

EPOCHS = 4
Contents = dict[tuple[int, int], tuple[int, tuple[int, ...]]]  # by key and start: the largest time, and the parts of the state


def contents(slid: Slid) -> Contents:
    """The windows that changed: the largest time of each, and of which states, by number, its own is made, in order."""
    lineage, newest = slid.lineage, slid.newest
    heads = dict(zip(lineage.head_chains.tolist(), lineage.head_nodes.tolist(), strict=True))

    def parts(node: int) -> tuple[int, ...]:
        chain = int(lineage.chains[node])
        own = lineage.own[: node + 1][lineage.chains[: node + 1] == chain]
        return (parts(heads[chain]) if chain in heads else ()) + tuple(own.tolist())

    columns = (newest.keys.tolist(), newest.starts.tolist(), newest.times.tolist(), newest.nodes.tolist())
    return {(key, start): (time, parts(node)) for key, start, time, node in zip(*columns, strict=True)}


def windowing_of(difference: int, grace: int) -> Windowing:
    """Sliding windows as an operator applies them."""
    return SlidingWindow(difference, grace, 2 * difference + grace).windowing((0,), "windows", may_lead=False)


@pytest.mark.parametrize("disorder", [0.0, 0.2, 1.0])
def test_windows_by_columns_are_those_row_by_row(disorder: float) -> None:
    """For rows in order and late ones, near 1970 and after it, with windows that are stored, closed and forgotten."""
    random = np.random.default_rng(7)
    for _ in range(60):
        difference, grace, clock = (
            int(random.integers(1, 12)),
            int(random.choice([0, 3, 20])),
            int(random.integers(60)),
        )
        window = windowing_of(difference, grace)
        stored: dict[tuple[int, int], int] = {}
        reached = 0
        for _ in range(EPOCHS):
            count = int(random.integers(1, 9))
            steps = random.integers(0, difference + 3, count)
            back = np.where(random.random(count) < disorder, random.integers(0, 2 * difference + 3, count), 0)
            times = np.maximum(clock + np.cumsum(steps) - back, 0)
            clock += int(steps.sum())
            keys = np.unique(random.integers(0, 3, count), return_inverse=True)[1]
            rows = SlidingRows(keys, times, np.maximum.accumulate(np.maximum(times, reached)))
            reached = int(rows.reached[-1])
            met = [(key, start, time) for (key, start), time in stored.items()]
            random.shuffle(met)
            columns = np.array(met, np.int64).reshape(-1, 3).T
            before = WindowNodes(columns[0], columns[1], columns[2], np.arange(len(met)))
            each, together = (slid_windows(rows, before, window, is_each_given=given) for given in (True, False))
            assert contents(together) == contents(each)
            assert (together.newest.keys.tolist(), together.newest.starts.tolist()) == (
                each.newest.keys.tolist(),
                each.newest.starts.tolist(),
            )
            assert together.is_late.tolist() == each.is_late.tolist()
            assert together.skipped == each.skipped
            stored |= {window: time for window, (time, _) in contents(each).items()}
            forgotten = reached - 2 * difference - grace - int(random.integers(0, 9))
            stored = {window: time for window, time in stored.items() if window[1] > forgotten}


def test_no_cut_changes_windows_or_what_is_late() -> None:
    """Whether rows come at once or one by one, with windows that expire between them: the same changes in order, the same counts."""
    random = np.random.default_rng(7)
    for _ in range(60):
        difference, grace, count = int(random.integers(1, 8)), int(random.integers(0, 6)), 30
        back = np.where(random.random(count) < 0.5, random.integers(0, 3 * difference + grace + 2, count), 0)
        times = np.maximum(np.cumsum(random.integers(0, 4, count)) - back, 0)
        whole, cut = (given_in_epochs(times, ends, difference, grace) for ends in ([count], range(1, count + 1)))
        assert cut == whole


def given_in_epochs(times: Integers, ends: Iterable[int], difference: int, grace: int) -> Any:
    """What rows of one key give in epochs that end there: the changes, how many rows are late, and windows that were kept from one."""
    window = windowing_of(difference, grace)
    reached, stored, given = np.maximum.accumulate(times), dict[int, int](), list[tuple[int, int]]()
    late = skipped = first = 0
    for end in ends:
        part = slice(first, end)
        rows = SlidingRows(np.zeros(end - first, np.int64), times[part], reached[part])
        columns = np.array(list(stored.items()), np.int64).reshape(-1, 2).T
        known = np.arange(len(stored))
        slid = slid_windows(rows, WindowNodes(np.zeros_like(known), columns[0], columns[1], known), window)
        late, skipped = late + int(slid.is_late.sum()), skipped + slid.skipped
        given += zip(slid.given.starts.tolist(), slid.given.times.tolist(), strict=True)
        stored |= zip(slid.newest.starts.tolist(), slid.newest.times.tolist(), strict=True)
        kept_ms = SlidingWindow(difference, grace, difference + grace).kept_ms
        stored = {start: time for start, time in stored.items() if start > reached[end - 1] - kept_ms}
        first = end
    return given, late, skipped
