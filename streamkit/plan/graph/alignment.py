"""
Where boxes and lanes stand from left to right, after Brandes and Köpf, "Fast and Simple Horizontal Coordinate Assignment" (2001).

What can stand straight below its middle neighbour is aligned with it, and the lanes of one flow always are. That is done from above and from
below, and from left and from right; the place is the mean of the two in the middle of the four.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from streamkit.plan.graph.layers import Layers

Distance = Callable[[int, int], float]  # of the middles of two neighbours in a layer, at least


def middles(layers: Layers, distance: Distance) -> list[int]:
    """The middle of each box and lane, in pixels from any point; neighbours are as far apart as `distance` says, or farther."""
    if not layers.rows:
        return []
    forbidden = set(_crossed(layers))
    found = []
    for neighbours, rows in ((layers.above, layers.rows), (layers.below, layers.rows[::-1])):
        for sign in (1, -1):
            turned = [row[::sign] for row in rows]
            roots = _aligned(turned, neighbours, forbidden)
            found.append([sign * x for x in _compacted(turned, roots, distance)])
    return [round(x) for x in _balanced(found)]


def _crossed(layers: Layers) -> Iterator[tuple[int, int]]:
    """The pieces of flows that cross a lane's way on to another lane, from either end; they do not stand straight."""
    for upper, lower in zip(layers.rows, layers.rows[1:]):
        places = {one: place for place, one in enumerate(upper)}
        begin, last = 0, 0
        for place, one in enumerate(lower):
            inner = _lane_above(one, layers)
            if inner is None and place < len(lower) - 1:
                continue
            end = len(upper) if inner is None else places[inner]
            for other in lower[last : place + 1]:
                for near in layers.above[other]:
                    is_inner = layers.is_lane(near) and layers.is_lane(other)
                    if not begin <= places[near] <= end and not is_inner:
                        yield near, other
                        yield other, near
            begin, last = end, place + 1


def _lane_above(one: int, layers: Layers) -> int | None:
    if not layers.is_lane(one):
        return None
    (above,) = layers.above[one]
    return above if layers.is_lane(above) else None


def _aligned(rows: Sequence[Sequence[int]], neighbours: list[list[int]], forbidden: set[tuple[int, int]]) -> list[int]:
    """Of each box and lane the first one of the line in which it stands, as far as that is free on the left."""
    roots = list(range(len(neighbours)))
    for before, row in itertools.pairwise(rows):
        places = {one: place for place, one in enumerate(before)}
        reached = -1
        for one in row:
            near = sorted(neighbours[one], key=places.__getitem__)
            for other in near[(len(near) - 1) // 2 : len(near) // 2 + 1]:
                if roots[one] == one and reached < places[other] and (other, one) not in forbidden:
                    roots[one] = roots[other]
                    reached = places[other]
    return roots


def _compacted(rows: Sequence[Sequence[int]], roots: list[int], distance: Distance) -> list[float]:
    """Each line as far left as those beside it allow, then as far right as it can go without moving those on its right."""
    gaps = _gaps(rows, roots, distance)
    order = _sorted(roots, gaps)
    places = dict.fromkeys(order, 0.0)
    for left in order:
        for right, gap in gaps.get(left, {}).items():
            places[right] = max(places[right], places[left] + gap)
    for left in reversed(order):
        if left in gaps:
            places[left] = min(places[right] - gap for right, gap in gaps[left].items())
    return [places[root] for root in roots]


def _gaps(rows: Sequence[Sequence[int]], roots: list[int], distance: Distance) -> dict[int, dict[int, float]]:
    """How far the lines on the right of each are from it, at least."""
    gaps: dict[int, dict[int, float]] = {}
    for row in rows:
        for left, right in itertools.pairwise(row):
            known = gaps.setdefault(roots[left], {})
            known[roots[right]] = max(known.get(roots[right], 0.0), distance(left, right))
    return gaps


def _sorted(roots: Iterable[int], gaps: dict[int, dict[int, float]]) -> list[int]:
    """The lines, each behind all on its left."""
    missing = dict.fromkeys(roots, 0)
    for others in gaps.values():
        for right in others:
            missing[right] += 1
    order = [root for root, count in missing.items() if not count]
    for left in order:  # grows on the way
        for right in gaps.get(left, ()):
            missing[right] -= 1
            if not missing[right]:
                order.append(right)
    return order


def _balanced(found: list[list[float]]) -> list[float]:
    """The mean of the two in the middle, of layouts that are moved to an edge of the narrowest."""
    narrowest = min(found, key=lambda places: max(places) - min(places))
    moved = []
    for number, places in enumerate(found):
        edge = min if number % 2 == 0 else max
        offset = edge(narrowest) - edge(places)
        moved.append([place + offset for place in places])
    return [sum(sorted(places)[1:3]) / 2 for places in zip(*moved)]
