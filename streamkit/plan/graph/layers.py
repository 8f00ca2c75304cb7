"""
Layers: each box in one, below all whose rows it takes, and each flow in every layer that it crosses.

Boxes are numbers here, in topological order. A flow that crosses layers has a lane in each of them, which is a number behind those of the
boxes; so a flow only ever leads from one layer to the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass
class Layers:
    """
    The boxes and lanes of each layer, `rows`, from left to right; `above` and `below` are the neighbours of each box and lane.

    `ways` are the flows, each from box to lanes to box. Numbers below `boxes` are boxes.
    """

    boxes: int
    rows: list[list[int]]
    above: list[list[int]] = field(default_factory=list)
    below: list[list[int]] = field(default_factory=list)
    ways: list[list[int]] = field(default_factory=list)

    def is_lane(self, number: int) -> bool:
        """Whether a number is that of a lane."""
        return number >= self.boxes


def layered(boxes: int, flows: Sequence[tuple[int, int]]) -> Layers:
    """The layers of boxes and flows, in no particular order from left to right."""
    levels = _levels(boxes, flows)
    rows: list[list[int]] = [[] for _ in range(max(levels, default=-1) + 1)]
    for box, level in enumerate(levels):
        rows[level].append(box)
    layers = Layers(boxes, rows)
    count = boxes
    for start, end in flows:
        way = [start]
        for level in range(levels[start] + 1, levels[end]):
            rows[level].append(count)
            way.append(count)
            count += 1
        layers.ways.append([*way, end])
    layers.above, layers.below = _neighbours(count, (pair for way in layers.ways for pair in itertools.pairwise(way)))
    return layers


def _neighbours(count: int, pairs: Iterable[tuple[int, int]]) -> tuple[list[list[int]], list[list[int]]]:
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for start, end in pairs:
        above[end].append(start)
        below[start].append(end)
    return above, below


def _levels(boxes: int, flows: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each box: as high as it can be; then what makes flows shorter together is moved down, such as a source to its join."""
    above, below = _neighbours(boxes, flows)
    levels = [0] * boxes
    for box in range(boxes):
        levels[box] = max((levels[one] + 1 for one in above[box]), default=0)
    for box in reversed(range(boxes)):
        room = min((levels[one] for one in below[box]), default=0) - levels[box] - 1
        if room > 0:
            group = _group(box, above, below)
            entering = sum(one not in group for member in group for one in above[member])
            for member in group if entering < len(below[box]) else ():
                levels[member] += room
    return levels


def _group(box: int, above: list[list[int]], below: list[list[int]]) -> set[int]:
    """A box, and what gives rows to nothing else."""
    group = {box}
    waiting = set(above[box])
    while waiting:
        one = max(waiting)  # all that take its rows come before it
        waiting.remove(one)
        if group.issuperset(below[one]):
            group.add(one)
            waiting.update(above[one])
    return group
