"""The way down: how far apart layers are, and the points of each flow."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from streamkit.plan.graph.drawing import Point
from streamkit.plan.graph.layers import Layers
from streamkit.plan.graph.tracks import Wire, tracks

ROW_GAP, TRACK_GAP = 36, 10
ABOVE_TRACKS, BELOW_TRACKS = 12, 20  # room for a corner, and for a corner and the head of an arrow


@dataclass(frozen=True)
class Routes:
    """Where each layer begins, where the last one ends, and the points of each flow."""

    tops: list[int]
    bottom: int
    points: list[tuple[Point, ...]]


def routes(layers: Layers, places: Sequence[Sequence[int]], heights: Sequence[int]) -> Routes:
    """The routes of flows that are at these places from left to right, past boxes of these heights."""
    level_of = {one: level for level, row in enumerate(layers.rows) for one in row}
    wires = _wires(layers, places, level_of)
    tops, turns, top = [], [], 0
    for level, row in enumerate(layers.rows):
        tops.append(top)
        bottom = top + max((heights[one] for one in row if not layers.is_lane(one)), default=0)
        found = tracks([wire for wire, _ in wires[level]])
        turns.append(
            {flow: bottom + ABOVE_TRACKS + track * TRACK_GAP for (_, flows), track in zip(wires[level], found) for flow in flows}
        )
        count = max(found, default=-1) + 1
        top = bottom + (max(ROW_GAP, ABOVE_TRACKS + (count - 1) * TRACK_GAP + BELOW_TRACKS))
    points = [
        _points(number, way, places[number], tops, heights, turns, level_of[way[0]]) for number, way in enumerate(layers.ways)
    ]
    return Routes(tops, bottom if tops else 0, points)


def _wires(layers: Layers, places: Sequence[Sequence[int]], level_of: dict[int, int]) -> list[list[tuple[Wire, list[int]]]]:
    """Below each layer its wires, each with the flows in it: those that leave a box by one port, else one."""
    found: list[dict[tuple[int, int], list[tuple[int, int]]]] = [{} for _ in layers.rows]
    for number, way in enumerate(layers.ways):
        for step, start in enumerate(way[:-1]):
            port = (start, places[number][step])
            found[level_of[start]].setdefault(port, []).append((number, places[number][step + 1]))
    return [
        [(Wire(x, tuple(end for _, end in ends)), [number for number, _ in ends]) for (_, x), ends in below.items()]
        for below in found
    ]


def _points(
    number: int,
    way: Sequence[int],
    places: Sequence[int],
    tops: Sequence[int],
    heights: Sequence[int],
    turns: Sequence[dict[int, int]],
    level: int,
) -> tuple[Point, ...]:
    points = [(places[0], tops[level] + heights[way[0]])]
    for below, (x, following) in enumerate(itertools.pairwise(places), level):
        if x != following:
            y = turns[below][number]
            points += [(x, y), (following, y)]
    return (*points, (places[-1], tops[level + len(way) - 1]))
