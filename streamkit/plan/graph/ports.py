"""Ports: where flows leave the lower border of a box and reach the upper one, chosen so that they are straight where they can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamkit.plan.graph.layers import Layers

BORDER = 12  # from a corner of a box to its first port, at least
PORT_GAP = 14
TWIN_GAP = 20  # between flows that connect the same two boxes
ASIDE_MAX = 20  # from the middle, of a port that several flows share, so that one of them is straight


@dataclass(frozen=True)
class PortRange:
    """From where to where ports of a box may be, and its middle."""

    left: int
    middle: int
    right: int

    def nearest(self, x: int) -> int:
        """The place in the range that is nearest."""
        return min(max(x, self.left), self.right)

    def has(self, x: int) -> bool:
        """Whether a place is in the range."""
        return self.left <= x <= self.right


def places_of_ways(layers: Layers, middles: Sequence[int], widths: Sequence[int]) -> list[list[int]]:
    """For each flow where it leaves its first box, where its lanes are, and where it reaches its last box."""
    ranges = [
        PortRange(middles[box] - width // 2 + BORDER, middles[box], middles[box] + width // 2 - BORDER)
        for box, width in enumerate(widths[: layers.boxes])
    ]
    leaving, reaching = _by_box(layers, 0), _by_box(layers, -1)
    found = [[middles[one] for one in way] for way in layers.ways]
    for box, ways in leaving.items():
        _leave(box, ways, layers, ranges, found)
    for box, ways in reaching.items():
        _reach(ranges[box], ways, layers, found)
    return found


def _by_box(layers: Layers, end: int) -> dict[int, list[int]]:
    """The flows that each box has at this end, from left to right as they stand in the next layer."""
    places = {one: place for row in layers.rows for place, one in enumerate(row)}
    found: dict[int, list[int]] = {}
    for number, way in enumerate(layers.ways):
        found.setdefault(way[end], []).append(number)
    inner = 1 if end == 0 else -2
    return {box: sorted(ways, key=lambda number: places[layers.ways[number][inner]]) for box, ways in found.items()}


def _leave(box: int, ways: list[int], layers: Layers, ranges: list[PortRange], found: list[list[int]]) -> None:
    """Flows to several boxes leave by one port, and those to the same box by ports of their own."""
    twins: dict[int, list[int]] = {}
    turns = {}
    for number in ways:
        known = twins.setdefault(layers.ways[number][-1], [])
        turns[number] = len(known)
        known.append(number)
    most = max(len(known) for known in twins.values())
    within = ranges[box]
    gap = min(TWIN_GAP, (within.right - within.left) // max(most - 1, 1))
    x = _shared(box, ways, layers, ranges, found) if most == 1 else within.middle
    for number in ways:
        found[number][0] = x + round((turns[number] - (most - 1) / 2) * gap)


def _shared(box: int, ways: list[int], layers: Layers, ranges: list[PortRange], found: list[list[int]]) -> int:
    """A port from which one of the flows is straight, as near to the middle as there is one."""
    within = ranges[box]
    reach = within.right - within.middle if len(ways) == 1 else ASIDE_MAX
    straight = []
    for number in ways:
        following = layers.ways[number][1]
        x = found[number][1] if layers.is_lane(following) else ranges[following].nearest(within.middle)
        straight += [x] if abs(x - within.middle) <= reach and within.has(x) else []
    return min(straight, key=lambda x: (abs(x - within.middle), x), default=within.middle)


def _reach(within: PortRange, ways: list[int], layers: Layers, found: list[list[int]]) -> None:
    """Flows reach a box by a port each: straight from above where they can, else halfway between the middle and the corner."""
    ways.sort(key=lambda number: found[number][-2])
    quarter = (within.right - within.left) // 4
    wanted = []
    for number in ways:
        x = found[number][-2]
        aside = 0 if len(ways) == 1 else quarter if x > within.right else -quarter
        wanted.append(x if within.has(x) else within.middle + aside)
    gap = min(PORT_GAP, (within.right - within.left) // max(len(ways) - 1, 1))
    weights = [50.0 if within.has(found[number][-2]) else 1.0 for number in ways]
    for number, x in zip(ways, _apart(wanted, weights, gap, within)):
        found[number][-1] = x


def _apart(wanted: Sequence[int], weights: Sequence[float], gap: int, within: PortRange) -> list[int]:
    """Places in this order and so far apart, as near to the wanted ones as can be: a regression that only rises."""
    blocks: list[tuple[float, float, int]] = []  # a mean, a weight, and a count
    for number, (x, weight) in enumerate(zip(wanted, weights)):
        mean, count = float(x - number * gap), 1
        while blocks and blocks[-1][0] > mean:
            other, other_weight, other_count = blocks.pop()
            mean = (mean * weight + other * other_weight) / (weight + other_weight)
            weight, count = weight + other_weight, count + other_count
        blocks.append((mean, weight, count))
    means = [mean for mean, _, count in blocks for _ in range(count)]
    last = within.right - (len(wanted) - 1) * gap
    return [round(min(max(mean, within.left), last)) + number * gap for number, mean in enumerate(means)]
