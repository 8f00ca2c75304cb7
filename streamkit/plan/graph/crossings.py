"""The order of boxes and lanes in their layers, so that few flows cross."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence

from streamkit.plan.graph.layers import Layers

SWEEPS_MAX = 24
WITHOUT_GAIN_MAX = 6
SWITCHES_MAX = 6


def untangle(layers: Layers) -> None:
    """Order every layer by barycentres, from above and from below in turns, as long as that leaves fewer crossings."""
    layers.rows = _first_order(layers)
    best, rows = crossings(layers), layers.rows
    without_gain = 0
    for sweep in range(SWEEPS_MAX):
        if not best or without_gain == WITHOUT_GAIN_MAX:
            break
        layers.rows = _swept(layers, is_down=sweep % 2 == 0, turns_ties=sweep % 4 >= 2)
        _switch(layers)
        found = crossings(layers)
        without_gain = 0 if found < best else without_gain + 1
        if found < best:
            best, rows = found, layers.rows
    layers.rows = rows


def crossings(layers: Layers) -> int:
    """How many pairs of flows cross."""
    return sum(_crossings_between(upper, lower, layers.below) for upper, lower in zip(layers.rows, layers.rows[1:]))


def _crossings_between(upper: Sequence[int], lower: Sequence[int], below: list[list[int]]) -> int:
    places = {one: place for place, one in enumerate(lower)}
    seen: list[int] = []
    total = 0
    for one in upper:
        ends = [places[end] for end in below[one]]
        total += sum(len(seen) - bisect_right(seen, end) for end in ends)
        for end in ends:
            insort(seen, end)
    return total


def _first_order(layers: Layers) -> list[list[int]]:
    """Boxes and lanes as a walk from the first source on comes across them, so that branches stay together."""
    level_of = {one: level for level, row in enumerate(layers.rows) for one in row}
    rows: list[list[int]] = [[] for _ in layers.rows]
    seen: set[int] = set()
    for start in range(layers.boxes):
        waiting = [start]
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                rows[level_of[one]].append(one)
                waiting += [*reversed(layers.above[one]), *reversed(layers.below[one])]
    return rows


def _swept(layers: Layers, *, is_down: bool, turns_ties: bool) -> list[list[int]]:
    """Each layer ordered by where its neighbours in the one before stand; what has none there keeps its place, ties as they are or turned."""
    rows = [list(row) for row in layers.rows]
    neighbours = layers.above if is_down else layers.below
    levels = range(1, len(rows)) if is_down else range(len(rows) - 2, -1, -1)
    for level in levels:
        places = {one: place for place, one in enumerate(rows[level - 1 if is_down else level + 1])}
        centres = {
            one: sum(places[near] for near in neighbours[one]) / len(neighbours[one]) for one in rows[level] if neighbours[one]
        }
        row = reversed(rows[level]) if turns_ties else rows[level]
        moved = iter(sorted((one for one in row if one in centres), key=centres.__getitem__))
        rows[level] = [next(moved) if one in centres else one for one in rows[level]]
    return rows


def _switch(layers: Layers) -> None:
    """Switch neighbours in a layer where that leaves fewer crossings."""
    places = [0] * len(layers.above)
    for row in layers.rows:
        for place, one in enumerate(row):
            places[one] = place
    for _ in range(SWITCHES_MAX):
        if not sum(_switched(row, layers, places) for row in layers.rows):
            break


def _switched(row: list[int], layers: Layers, places: list[int]) -> int:
    """How many pairs of this layer were switched."""
    count = 0
    for place in range(len(row) - 1):
        left, right = row[place], row[place + 1]
        gain = sum(
            _inversions(near[left], near[right], places) - _inversions(near[right], near[left], places)
            for near in (layers.above, layers.below)
        )
        if gain > 0:
            row[place], row[place + 1] = right, left
            places[left], places[right] = place + 1, place
            count += 1
    return count


def _inversions(left: Sequence[int], right: Sequence[int], places: list[int]) -> int:
    """How many flows of two neighbours in a layer cross, towards one side."""
    return sum(places[one] > places[other] for one in left for other in right)
