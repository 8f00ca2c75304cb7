"""
Which sliding windows there are after each row, and which rows they hold.

The rules are Kafka Streams'. A window is [start, start + difference], and exists if it holds a record:

    one ends at each record                  its left window; records before `difference` share that which begins at 0
    one begins 1 ms behind each record       its right window, once another record follows within the difference

A row is late if even its right window would be closed: t + difference < stream time - grace. Any other row goes into the
windows that exist, hold it, and end at stream time - grace or later. Then the windows are made that it begins, ends, or fills for
the first time. A window that is made late begins as a copy of the one that holds the same older records.

Nothing here looks at values: a window's state is a node of a lineage (`streamkit.engine.lineage`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from streamkit.engine.lineage import NONE, Lineage, Numbers

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in canonical order: the number of each key, its time, stream time at the row."""

    keys: Numbers
    times: Numbers
    reached: Numbers


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows: the number of the key, the start, the largest time of a record in it, and the node with its state."""

    keys: Numbers
    starts: Numbers
    times: Numbers
    nodes: Numbers

    def take(self, kept: npt.NDArray[np.generic]) -> Windows:
        """The windows at these positions, or where a mask is true."""
        return Windows(self.keys[kept], self.starts[kept], self.times[kept], self.nodes[kept])


@dataclass(frozen=True, eq=False)
class Slid:
    """
    What rows made of the windows of their keys.

    `given` are the windows after each change, in canonical order, and `causes` the rows that caused them. `newest` are those that
    changed, as they are at the end. `is_late` has the rows that no window took; `skipped` counts the closed windows of others.
    """

    lineage: Lineage
    given: Windows
    causes: Numbers
    newest: Windows
    is_late: Mask
    skipped: int


def slid_windows(rows: Rows, stored: Windows, difference_ms: int, grace_ms: int) -> Slid:
    """The windows after each row; the first nodes are the states of the stored windows, by their positions, then come the rows'."""
    making = _Making(difference_ms, grace_ms, len(stored.keys))
    for key, own, windows in _by_key(rows, stored):
        one = _OneKey(making, key, windows)
        for row, time, reached in zip(own.tolist(), rows.times[own].tolist(), rows.reached[own].tolist(), strict=True):
            one.take(row, time, reached - grace_ms)
        one.finish()
    return making.made(len(rows.keys))


def _by_key(rows: Rows, stored: Windows) -> Iterator[tuple[int, Numbers, Windows]]:
    """The rows and the stored windows of each key."""
    order = np.argsort(rows.keys, kind="stable")
    keys = rows.keys[order]
    by_key = np.argsort(stored.keys, kind="stable")
    stored_keys = stored.keys[by_key]
    borders = np.flatnonzero(np.diff(keys, prepend=NONE))
    for own in np.split(order, borders[1:]) if len(keys) else []:
        key = int(rows.keys[own[0]])
        first, last = np.searchsorted(stored_keys, [key, key + 1])
        yield key, own, stored.take(by_key[first:last])


@dataclass(eq=False)
class _Making:
    """The lineage in the making."""

    difference_ms: int
    grace_ms: int
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
        lineage = Lineage(own, chains, levels, heads[:, 0], heads[:, 1])
        return Slid(lineage, Windows(*given.T[1:]), given[:, 0], Windows(*newest.T), is_late, self.skipped)


class _OneKey:
    """The windows of one key while its rows are taken one by one: by start, the state's node and the largest time."""

    def __init__(self, making: _Making, key: int, stored: Windows) -> None:
        self._making = making
        self._key = key
        self._windows: dict[int, tuple[int, int]] = {}
        self._changed: set[int] = set()
        for start, time, own in zip(stored.starts.tolist(), stored.times.tolist(), stored.nodes.tolist(), strict=True):
            self._windows[start] = (making.node(own, None), time)
        self._starts = sorted(self._windows)

    def finish(self) -> None:
        """Note the windows that changed."""
        for start in sorted(self._changed):
            node, time = self._windows[start]
            self._making.newest.append((self._key, start, time, node))

    def take(self, row: int, time: int, closed: int) -> None:
        """Take a row; windows that end before `closed` take none."""
        if time + self._making.difference_ms < closed:
            self._making.late.append(row)
        elif time < self._making.difference_ms:
            self._take_early(row, time, closed)
        else:
            self._take(row, time, closed)

    def _take(self, row: int, time: int, closed: int) -> None:
        difference = self._making.difference_ms
        older: tuple[int, int] | None = None  # the window that holds the records of the left window, and its largest time
        right: tuple[int, int] | None = None  # the window that holds the records of the right window
        has_left = False
        previous: int | None = None
        for start in self._between(time - 2 * difference, time)[::-1]:
            window, end = self._windows[start], start + difference
            if end > time:
                right = right or window
                self._update(row, start, window, time, closed)
                continue
            previous = window[1]
            if end < time:
                older = window
                break
            has_left = True
            self._update(row, start, window, time, closed)
            if previous == time:
                return
        if previous is not None and previous + 1 not in self._windows and previous + 1 + difference >= max(time, closed):
            self._update(row, previous + 1, None, time, closed)
        if not has_left:
            is_older_inside = previous is not None and time - difference <= previous
            self._update(row, time - difference, older if is_older_inside else None, time, closed)
        self._begin_right(row, time, right)

    def _take_early(self, row: int, time: int, closed: int) -> None:
        """Take a row whose left window would begin before 0: it goes into the window that begins there."""
        combined = self._windows.get(0)
        right: tuple[int, int] | None = None
        for start in self._between(1, time):
            right = self._windows[start]
            self._update(row, start, right, time, closed)
        if right is None and combined is not None and combined[1] > time:
            right = combined
        self._begin_right(row, time, right)
        if combined is not None and combined[1] < time and combined[1] + 1 not in self._windows:
            self._update(row, combined[1] + 1, None, time, closed)
        self._update(row, 0, combined, time, closed)

    def _between(self, first: int, last: int) -> list[int]:
        """The starts from `first` to `last`, and not before 0."""
        return self._starts[bisect_left(self._starts, max(0, first)) : bisect_right(self._starts, last)]

    def _update(self, row: int, start: int, window: tuple[int, int] | None, time: int, closed: int) -> None:
        """Put a row into a window that exists, or is made with the state of another, or with none; not if the window is closed."""
        making = self._making
        if start + making.difference_ms < closed:
            making.skipped += 1
            return
        before, largest = window if window is not None else (None, time)
        self._put(row, start, making.node(making.stored + row, before), max(time, largest))

    def _begin_right(self, row: int, time: int, right: tuple[int, int] | None) -> None:
        """Make the window that begins behind a row, if other rows are in it already: a copy of one that holds them."""
        if right is not None and right[1] > time and time + 1 not in self._windows:
            self._put(row, time + 1, *right)

    def _put(self, row: int, start: int, node: int, time: int) -> None:
        if start not in self._windows:
            insort(self._starts, start)
        self._windows[start] = (node, time)
        self._changed.add(start)
        self._making.given.append((row, self._key, start, time, node))
