"""Waits of keys under a bound: what one key group holds back, update by update."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from itertools import groupby
from typing import Any

import numpy as np

from streamkit.arrays import Integers


@dataclass(frozen=True, eq=False)
class Waits:
    """
    The waits of an epoch, by the numbers of updates.

    Those that ended: the update each began with, the newest one, and the place where it ended. Those that go on: the update each
    began with, and the newest one so far.
    """

    first: Integers
    newest: Integers
    ended: Integers
    waiting: Integers
    waiting_newest: Integers

    @classmethod
    def none(cls) -> Waits:
        return cls(*[np.empty(0, np.int64)] * 5)

    @classmethod
    def joined(cls, parts: Sequence[Waits]) -> Waits:
        """All waits of several."""
        return cls(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(cls)))


@dataclass
class _Wait:
    """A wait that goes on: `order` is (moment it began, key), by which the oldest goes first; `end` is a place, -1 if none."""

    first: int
    newest: int
    end: int
    order: tuple[int, bytes]


@dataclass
class _HeldRows:
    """What a key group holds back, by key; both heaps may name waits that are over."""

    rank_of: Sequence[int]
    waits: dict[int, _Wait] = field(default_factory=dict)
    oldest: list[tuple[tuple[int, bytes], int, int]] = field(default_factory=list)
    earliest: list[tuple[int, tuple[int, bytes], int, int]] = field(default_factory=list)
    ended: list[tuple[int, int, int]] = field(default_factory=list)

    def put(self, key: int, update: int, order: tuple[int, bytes], end: int) -> _Wait:
        """Take an update: it begins a wait, or is the newest of the one that there is."""
        wait = self.waits.get(key)
        if wait is not None:
            wait.newest = update
            return wait
        wait = self.waits[key] = _Wait(update, update, end, order)
        heapq.heappush(self.oldest, (order, key, update))
        if end >= 0:
            heapq.heappush(self.earliest, (self.rank_of[end], order, key, update))
        return wait

    def give(self, key: int, place: int) -> None:
        """End the wait of a key at a place."""
        wait = self.waits.pop(key)
        self.ended.append((wait.first, wait.newest, place))

    def give_due(self, rank: int, updated: set[int]) -> set[int]:
        """End the waits whose place is before this rank, or at it if their keys have no update there; the others of it, by key."""
        later: list[Any] = []
        while self.earliest and self.earliest[0][0] <= rank:
            entry = heapq.heappop(self.earliest)
            _, _, key, update = entry
            wait = self.waits.get(key)
            if wait is None or wait.first != update:
                continue
            if entry[0] == rank and key in updated:
                later.append(entry)
            else:
                self.give(key, wait.end)
        for entry in later:
            heapq.heappush(self.earliest, entry)
        return {key for _, _, key, _ in later}

    def give_oldest(self, place: int, ending: set[int]) -> None:
        """End the wait that began first, of those that do not end here anyhow."""
        passed: list[Any] = []
        while True:
            entry = heapq.heappop(self.oldest)
            _, key, update = entry
            if key not in self.waits or self.waits[key].first != update:
                continue
            if key not in ending:
                break
            passed.append(entry)
        for one in passed:
            heapq.heappush(self.oldest, one)
        self.give(key, place)


def bounded_waits(
    updates: Sequence[int],
    keys: Sequence[int],
    orders: Sequence[tuple[int, bytes]],
    places: Sequence[int],
    ends: Sequence[int],
    rank_of: Sequence[int],
    rows_max: int,
) -> tuple[Waits, int]:
    """
    The waits of a key group's updates, which are in order, and how many of them the bound ended early.

    A row that leaves with the record of an update does not count there, also if an update of its own is still to come.

    `places` is -1 for what was held back before; `ends` says where a wait that begins with an update ends (-1: not in this epoch).
    `rank_of` has the order of places, equal for those of one record; its last entry is that of what was held back before.
    """
    buffer, early = _HeldRows(rank_of), 0
    for rank, found in groupby(range(len(updates)), key=lambda one: rank_of[places[one]]):
        here = list(found)
        ending = buffer.give_due(rank, {keys[one] for one in here}) if rank >= 0 else set()
        for one in here:
            wait = buffer.put(keys[one], updates[one], orders[one], ends[one])
            if rank >= 0 and wait.end >= 0 and rank_of[wait.end] <= rank:
                buffer.give(keys[one], wait.end)
                ending.discard(keys[one])
            while rank >= 0 and len(buffer.waits) - len(ending) > rows_max:
                buffer.give_oldest(places[one], ending)
                early += 1
    buffer.give_due(len(rank_of), set())
    ended = np.array(buffer.ended, np.int64).reshape(-1, 3).T
    waiting = np.array([(wait.first, wait.newest) for wait in buffer.waits.values()], np.int64).reshape(-1, 2).T
    return Waits(*ended, *waiting), early
