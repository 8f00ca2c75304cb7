"""
The first few of the values that several rows combine, for many rows at once: rows of ranks, in order, filled up with NOTHING.

Running: the rows up to each. Covering: the intervals that cover each point. Both join ever longer stretches, in log2(rows) steps.
"""

from __future__ import annotations

import numpy as np

from streamkit.arrays import Integers

NOTHING = np.iinfo(np.int64).max


def first_of_each(owners: Integers, ranks: Integers, limits: Integers) -> Integers:
    """The places of the smallest ranks of each owner, in order of owners and ranks; each owner has a limit of its own."""
    return first_of_ordered(owners, np.lexsort((ranks, owners)), limits)


def first_of_ordered(owners: Integers, order: Integers, limits: Integers) -> Integers:
    """The first places of each owner in an order that has the places of an owner together, by owners; each has a limit of its own."""
    sorted_owners = owners[order]
    place_within = np.arange(len(order)) - np.searchsorted(sorted_owners, sorted_owners)
    kept: Integers = order[place_within < limits[sorted_owners]]
    return kept


def in_rows(owners: Integers, ranks: Integers, rows: int, width: int) -> Integers:
    """The smallest ranks of each owner, a row each."""
    kept = first_of_each(owners, ranks, np.full(rows, width))
    table = np.full((rows, width), NOTHING)
    of_kept = owners[kept]
    table[of_kept, np.arange(len(kept)) - np.searchsorted(of_kept, of_kept)] = ranks[kept]
    return table


def running_first(table: Integers, starts: Integers) -> Integers:
    """The first ranks of all rows from the start of its run up to each row; `starts` are those of the rows."""
    before, step = np.arange(len(table)) - starts, 1
    while len(table) and step <= before.max():
        reached = np.flatnonzero(before >= step)
        joined = np.concatenate([table[reached], table[reached - step]], axis=1)
        table = table.copy()
        table[reached] = np.sort(joined, axis=1)[:, : table.shape[1]]
        step *= 2
    return table


def first_covering(starts: Integers, ends: Integers, points: int, width: int) -> Integers:
    """The numbers of the first `width` intervals [start, end) that cover each of the points; no interval is empty."""
    lengths = ends - starts
    levels = np.frexp(lengths.astype(np.float64))[1] - 1  # the longest power of two that fits, twice, covers the interval
    numbers = np.arange(len(starts))
    table = np.full((points, width), NOTHING)
    for level in range(int(levels.max(initial=0)), -1, -1):
        step = 1 << level
        own = numbers[levels == level]
        placed = in_rows(np.concatenate([starts[own], ends[own] - step]), np.concatenate([own, own]), points, 2 * width)
        table = _joined(table, placed, width)
        if level:
            half = step // 2
            moved = np.full_like(table, NOTHING)
            moved[half:] = table[: points - half]
            table = _joined(table, moved, width)
    return table


def _joined(table: Integers, other: Integers, width: int) -> Integers:
    """The first ranks of both, each once."""
    both = np.sort(np.concatenate([table, other], axis=1), axis=1)
    both[:, 1:][both[:, 1:] == both[:, :-1]] = NOTHING
    return np.sort(both, axis=1)[:, :width]
