"""
Which sliding windows there are after each row, and which rows they hold.

The rules are Kafka Streams'. A window is [start, start + difference], and exists if it holds a record:

    one ends at each record                  its left window; records before `difference` share that which begins at 0
    one begins 1 ms behind each record       its right window, once another record follows within the difference

A row is late if even the window that begins with it has closed (`streamkit.plan.closing`). Any other row goes into the windows
that exist, hold it, and are open. Then the windows are made that it begins, ends, or fills for
the first time. A window that is made late begins as a copy of the one that holds the same older records.

Nothing here looks at values: a window's state is a node of a lineage (`streamkit.engine.rows.lineage`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from streamkit.arrays import Integers, Mask
from streamkit.engine.rows.lineage import NONE, RowLineage
from streamkit.expressions.core.accumulation import stable_order
from streamkit.plan.windows import Windowing

EVER = -(2**62)  # before every time


@dataclass(frozen=True, eq=False)
class SlidingRows:
    """Rows in canonical order: the number of each key, its time, stream time at the row."""

    keys: Integers
    times: Integers
    reached: Integers


@dataclass(frozen=True, eq=False)
class WindowNodes:
    """Windows: the number of the key, the start, the largest time of a record in it, and the node with its state."""

    keys: Integers
    starts: Integers
    times: Integers
    nodes: Integers

    def take(self, kept: npt.NDArray[np.generic]) -> WindowNodes:
        """The windows at these positions, or where a mask is true."""
        return WindowNodes(self.keys[kept], self.starts[kept], self.times[kept], self.nodes[kept])


@dataclass(frozen=True, eq=False)
class Slid:
    """
    What rows made of the windows of their keys.

    `given` are the windows after each change, in canonical order, and `causes` the rows that caused them. `newest` are those that
    changed, as they are at the end. `is_late` has the rows that no window took; `skipped` counts the closed windows of others.
    `is_flat` says that each of the newest is a chain of its own, which begins with no other.
    """

    lineage: RowLineage
    given: WindowNodes
    causes: Integers
    newest: WindowNodes
    is_late: Mask
    skipped: int
    is_flat: bool = False


def slid_windows(rows: SlidingRows, stored: WindowNodes, window: Windowing, *, is_each_given: bool = True) -> Slid:
    """
    The windows after each row; the first parts of nodes are the states of the stored windows, by their positions, then come the rows'.

    Unless `is_each_given`, those `given` may be left out; then keys whose rows come in the order of their times go without Python per
    row.
    """
    difference_ms, first_open = window.size_ms - 1, window.first_open(rows.reached)
    if is_each_given:
        return _row_by_row(rows, stored, difference_ms, first_open, np.arange(len(rows.keys)))
    in_order = _keys_in_order(rows, stored, difference_ms, first_open)
    together = windows_of_rows_in_order(rows, stored, difference_ms, np.flatnonzero(in_order[rows.keys]))
    if in_order[rows.keys].all():
        return together
    apart = _row_by_row(rows, stored, difference_ms, first_open, np.flatnonzero(~in_order[rows.keys]))
    return _beside(together, apart)


def _row_by_row(rows: SlidingRows, stored: WindowNodes, difference_ms: int, first_open: Integers, some: Integers) -> Slid:
    """What some of the rows made, taken one by one."""
    making = _GrowingLineage(difference_ms, len(stored.keys))
    for key, own, windows in _by_key(rows, stored, some):
        making.take(key, windows, zip(own.tolist(), rows.times[own].tolist(), first_open[own].tolist(), strict=True))
    return making.made(len(rows.keys))


def _keys_in_order(rows: SlidingRows, stored: WindowNodes, difference_ms: int, first_open: Integers) -> Mask:
    """
    By key, whether its rows follow each other and those stored in the order of their times, and find every window open.

    Rows so early that windows are shared are left to be taken one by one, and keys whose newest stored row has lost its left window.
    """
    count = int(rows.keys.max()) + 1 if len(rows.keys) else 0
    newest, has_left = np.full(count, EVER, np.int64), np.zeros(count, bool)
    known = stored.keys < count
    np.maximum.at(newest, stored.keys[known], stored.times[known])
    newest_of_key = newest[np.minimum(stored.keys, count - 1)] if count else stored.times
    is_left = known & (stored.times == newest_of_key) & (stored.starts == stored.times - difference_ms)
    has_left[stored.keys[is_left]] = True
    order = stable_order(rows.keys)
    keys, times = rows.keys[order], rows.times[order]
    is_first = np.diff(keys, prepend=NONE) != 0
    before = np.where(is_first, newest[keys] + 1, np.roll(times, 1))
    is_apart = ~is_first | has_left[keys] | (times - difference_ms > newest[keys])
    sound = (times >= before) & (times >= difference_ms) & (times - difference_ms >= first_open[order]) & is_apart
    in_order = np.ones(count, bool)
    in_order[keys[~sound]] = False
    return in_order


def windows_of_rows_in_order(rows: SlidingRows, stored: WindowNodes, difference_ms: int, some: Integers) -> Slid:
    """
    What some of the rows made, those of whole keys, which come in the order of their times (see `_keys_in_order`).

    There is a window that ends at each row, and one that begins behind each row that another follows within the difference. A window
    holds the rows of its time; of those before them, what the stored window holds that begins last before it, or with it.
    """
    some = some[stable_order(rows.keys[some])]
    keys, times = rows.keys[some], rows.times[some]
    kept = np.flatnonzero(np.isin(stored.keys, keys))
    kept = kept[np.lexsort((stored.starts[kept], stored.keys[kept]))]
    place = _KeyTimeLine.of(keys, times, difference_ms)
    left = np.stack([keys, times - difference_ms])
    all_keys, all_times = np.concatenate([stored.keys[kept], keys]), np.concatenate([stored.times[kept], times])
    by_time = np.lexsort((all_times, all_keys))
    all_keys, all_times = all_keys[by_time], all_times[by_time]
    gaps = np.diff(all_times)
    follows = (np.diff(all_keys) == 0) & (gaps > 0) & (gaps <= difference_ms)
    first_time = times[np.searchsorted(keys, all_keys[1:])]
    follows &= all_times[1:] >= first_time
    right = np.stack([all_keys[:-1][follows], all_times[:-1][follows] + 1])
    is_met = stored.starts[kept] + difference_ms >= times[np.searchsorted(keys, stored.keys[kept])]
    old = np.stack([stored.keys[kept][is_met], stored.starts[kept][is_met]])
    found = np.unique(np.concatenate([left, right, old], axis=1), axis=1)
    window_keys, starts = found
    line = place.at(keys, times)
    first = np.searchsorted(line, place.at(window_keys, starts), "left")
    last = np.searchsorted(line, place.at(window_keys, starts + difference_ms), "right")
    base = np.searchsorted(place.at(stored.keys[kept], stored.starts[kept]), place.at(window_keys, starts), "right") - 1
    has_base = base >= 0
    if len(kept):
        has_base &= (stored.keys[kept][base] == window_keys) & (stored.times[kept][base] >= starts)
    counts = last - first + has_base
    ends = np.cumsum(counts)
    chains = np.repeat(np.arange(len(starts)), counts)
    at = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts + has_base, counts)
    own = np.where(at >= 0, len(stored.keys) + some[np.minimum(np.repeat(first, counts) + at, len(some) - 1)], NONE)
    own[(ends - counts)[has_base]] = stored.nodes[kept][base[has_base]]
    nothing = np.empty(0, np.int64)
    lineage = RowLineage(own, chains, np.zeros(len(starts), np.int64), nothing, nothing)
    given = WindowNodes(nothing, nothing, nothing, nothing)
    newest = WindowNodes(window_keys, starts, times[last - 1], ends - 1)
    return Slid(lineage, given, nothing, newest, np.zeros(len(rows.keys), bool), 0, is_flat=True)


@dataclass(frozen=True)
class _KeyTimeLine:
    """Keys and times as places on one line, so that one search finds both; times beyond those of the rows lie at its ends."""

    least: int
    length: int

    @classmethod
    def of(cls, keys: Integers, times: Integers, difference_ms: int) -> _KeyTimeLine:
        if not len(times):
            return cls(0, 1)
        least = int(times.min()) - 3 * difference_ms - 2
        return cls(least, int(times.max()) + 2 * difference_ms + 2 - least)

    def at(self, keys: Integers, times: Integers) -> Integers:
        """The place of each."""
        return keys * self.length + np.clip(times - self.least, 0, self.length - 1)


def _beside(one: Slid, other: Slid) -> Slid:
    """What two groups of keys made, neither of which knows the other's."""
    nodes, chains = len(one.lineage.own), len(one.lineage.levels)
    first, second = one.lineage, other.lineage
    lineage = RowLineage(
        np.concatenate([first.own, second.own]),
        np.concatenate([first.chains, second.chains + chains]),
        np.concatenate([first.levels, second.levels]),
        np.concatenate([first.head_chains, second.head_chains + chains]),
        np.concatenate([first.head_nodes, second.head_nodes + nodes]),
    )
    newest, moved = one.newest, replace(other.newest, nodes=other.newest.nodes + nodes)
    both = WindowNodes(
        *(np.concatenate([getattr(newest, part), getattr(moved, part)]) for part in ("keys", "starts", "times", "nodes"))
    )
    order = np.lexsort((both.starts, both.keys))
    return replace(
        one, lineage=lineage, newest=both.take(order), is_late=one.is_late | other.is_late, skipped=other.skipped, is_flat=False
    )


def _by_key(rows: SlidingRows, stored: WindowNodes, some: Integers) -> Iterator[tuple[int, Integers, WindowNodes]]:
    """Some of the rows, and the stored windows, of each key that they have."""
    order = some[stable_order(rows.keys[some])]
    keys = rows.keys[order]
    by_key = stable_order(stored.keys)
    stored_keys = stored.keys[by_key]
    borders = np.flatnonzero(np.diff(keys, prepend=NONE))
    for own in np.split(order, borders[1:]) if len(keys) else []:
        key = int(rows.keys[own[0]])
        first, last = np.searchsorted(stored_keys, [key, key + 1])
        yield key, own, stored.take(by_key[first:last])


@dataclass(eq=False)
class _GrowingLineage:
    """The lineage in the making."""

    difference_ms: int
    stored: int
    own: list[int] = field(default_factory=list)
    chains: list[int] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)
    tails: list[int] = field(default_factory=list)
    heads: list[tuple[int, int]] = field(default_factory=list)
    given: list[tuple[int, int, int, int, int]] = field(default_factory=list)  # row, key, start, time, node
    newest: list[tuple[int, int, int, int]] = field(default_factory=list)  # key, start, time, node
    late: list[int] = field(default_factory=list)
    skipped: int = 0

    def take(self, key: int, stored: WindowNodes, rows: Iterable[tuple[int, int, int]]) -> None:
        """Take the rows of a key: number, time, and the first window that is open there."""
        windows: OpenWindows[int] = OpenWindows(
            self.difference_ms,
            lambda row, before: self.node(self.stored + row, before),
            lambda row, start, node, time: self.given.append((row, key, start, time, NONE if node is None else node)),
        )
        for start, time, own in zip(stored.starts.tolist(), stored.times.tolist(), stored.nodes.tolist(), strict=True):
            windows.add(start, self.node(own, None), time)
        self.late += [row for row, time, first_open in rows if not windows.take(row, time, first_open)]
        self.newest += [
            (key, start, windows.windows[start].time, windows.windows[start].state) for start in sorted(windows.changed)
        ]
        self.skipped += windows.skipped

    def node(self, own: int, before: int | None) -> int:
        """A new node: the state of the node before it, if any, and the row of state `own`."""
        node = len(self.own)
        self.own.append(own)
        if before is not None and self.tails[self.chains[before]] == before:
            chain = self.chains[before]
        else:
            chain = len(self.levels)
            self.levels.append(0 if before is None else self.levels[self.chains[before]] + 1)
            self.tails.append(node)
            if before is not None:
                self.heads.append((chain, before))
        self.chains.append(chain)
        self.tails[chain] = node
        return node

    def made(self, rows: int) -> Slid:
        heads = np.array(self.heads, np.int64).reshape(-1, 2)
        own, chains, levels = (np.array(one, np.int64) for one in (self.own, self.chains, self.levels))
        given = np.array(self.given, np.int64).reshape(-1, 5)
        given = given[np.argsort(given[:, 0], kind="stable")]
        newest = np.array(self.newest, np.int64).reshape(-1, 4)
        is_late = np.zeros(rows, bool)
        is_late[self.late] = True
        lineage = RowLineage(own, chains, levels, heads[:, 0], heads[:, 1])
        return Slid(lineage, WindowNodes(*given.T[1:]), given[:, 0], WindowNodes(*newest.T), is_late, self.skipped)


AnyState = TypeVar("AnyState")


class PlacedState(NamedTuple, Generic[AnyState]):
    """The state of a window, and the largest time of a record in it."""

    state: AnyState
    time: int


class OpenWindows(Generic[AnyState]):
    """
    The windows of one key, by start, while rows are taken one by one.

    `update` gives the new state of a window for a row and the old state (None: the window begins with the row); None deletes it.
    `given` is told of each change: row, start, state, time. `skipped` counts the closed windows that a row was kept out of.
    """

    def __init__(
        self,
        difference_ms: int,
        update: Callable[[int, AnyState | None], AnyState | None],
        given: Callable[[int, int, AnyState | None, int], None],
    ) -> None:
        self._difference_ms = difference_ms
        self._update_state = update
        self._given = given
        self._starts: list[int] = []
        self.windows: dict[int, PlacedState[AnyState]] = {}
        self.changed: set[int] = set()
        self.skipped = 0

    def add(self, start: int, state: AnyState, time: int) -> None:
        """Take a window as it is."""
        if start not in self.windows:
            insort(self._starts, start)
        self.windows[start] = PlacedState(state, time)

    def take(self, row: int, time: int, first_open: int) -> bool:
        """Take a row; windows that begin before `first_open` have closed. False if the last that may hold it has: it is late for all."""
        if time < first_open:
            return False
        if time < self._difference_ms:
            self._take_early(row, time, first_open)
        else:
            self._take(row, time, first_open)
        return True

    def _take(self, row: int, time: int, first_open: int) -> None:
        difference = self._difference_ms
        older: PlacedState[AnyState] | None = None  # the window that holds the records of the left window
        right: PlacedState[AnyState] | None = None  # the window that holds the records of the right window
        has_left = False
        previous: int | None = None
        starts = set(self._between(time - 2 * difference, time + 1))  # a row may delete a window: that counts as being there
        for start in self._between(time - 2 * difference, time)[::-1]:
            window, end = self.windows[start], start + difference
            if end > time:
                right = right or window
                self._update(row, start, window, time, first_open)
                continue
            previous = window.time
            if end < time:
                older = window
                break
            has_left = True
            self._update(row, start, window, time, first_open)
            if previous == time:
                return
        if previous is not None and previous + 1 not in starts and previous + 1 >= max(time - difference, first_open):
            self._update(row, previous + 1, None, time, first_open)
        if not has_left:
            is_older_inside = previous is not None and time - difference <= previous
            self._update(row, time - difference, older if is_older_inside else None, time, first_open)
        if time + 1 not in starts:
            self._begin_right(row, time, right)

    def _take_early(self, row: int, time: int, first_open: int) -> None:
        """Take a row whose left window would begin before 0: it goes into the window that begins there."""
        combined = self.windows.get(0)
        right: PlacedState[AnyState] | None = None
        starts = set(self._between(0, time + 1))
        for start in self._between(1, time):
            right = self.windows[start]
            self._update(row, start, right, time, first_open)
        if right is None and combined is not None and combined.time > time:
            right = combined
        if time + 1 not in starts:
            self._begin_right(row, time, right)
        if combined is not None and combined.time < time and combined.time + 1 not in starts:
            self._update(row, combined.time + 1, None, time, first_open)
        self._update(row, 0, combined, time, first_open)

    def _between(self, first: int, last: int) -> list[int]:
        """The starts from `first` to `last`, and not before 0."""
        return self._starts[bisect_left(self._starts, max(0, first)) : bisect_right(self._starts, last)]

    def _update(self, row: int, start: int, window: PlacedState[AnyState] | None, time: int, first_open: int) -> None:
        """Put a row into a window that exists, or is made with the state of another, or with none; not if the window is closed."""
        if start < first_open:
            self.skipped += 1
            return
        state = self._update_state(row, None if window is None else window.state)
        self._put(row, start, state, time if window is None else max(time, window.time))

    def _begin_right(self, row: int, time: int, right: PlacedState[AnyState] | None) -> None:
        """Make the window that begins behind a row, if other rows are in it already: a copy of one that holds them."""
        if right is not None and right.time > time:
            self._put(row, time + 1, right.state, right.time)

    def _put(self, row: int, start: int, state: AnyState | None, time: int) -> None:
        if state is not None:
            self.add(start, state, time)
        elif start in self.windows:
            del self.windows[start]
            self._starts.remove(start)
        self.changed.add(start)
        self._given(row, start, state, time)
