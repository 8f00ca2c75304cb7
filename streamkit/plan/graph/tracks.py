"""Tracks: the heights at which wires between two layers run to the left or right, so that none lies on another and few cross."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

CLEARANCE = 7  # closer than this, two upright pieces would be taken for one
OVERLAP_COST = 1_000  # of two wires that would lie on each other, in crossings


@dataclass(frozen=True)
class Wire:
    """What leaves one place of the upper layer: it goes down from `top`, along its track, and down to each of `bottoms`."""

    top: int
    bottoms: tuple[int, ...]

    @cached_property
    def left(self) -> int:
        """The left end of its track."""
        return min(self.top, *self.bottoms)

    @cached_property
    def right(self) -> int:
        """The right end of its track."""
        return max(self.top, *self.bottoms)

    @property
    def is_straight(self) -> bool:
        """Whether it needs no track."""
        return self.left == self.right

    def meets(self, other: Wire) -> bool:
        """Whether the two would touch on one track."""
        return self.left - CLEARANCE < other.right and other.left - CLEARANCE < self.right

    def cost_above(self, other: Wire) -> int:
        """How many crossings there are between the two if its track is above the other's."""
        down = sum(other.left < x < other.right for x in self.bottoms)
        up = self.left < other.top < self.right
        overlaps = sum(abs(x - other.top) < CLEARANCE for x in self.bottoms)
        return down + up + OVERLAP_COST * overlaps


def tracks(wires: Sequence[Wire]) -> list[int]:
    """The track of each wire, 0 the topmost; -1 for those that need none."""
    bent = [number for number, wire in enumerate(wires) if not wire.is_straight]
    meeting = {one: [other for other in bent if other != one and wires[one].meets(wires[other])] for one in bent}
    found = [-1] * len(wires)
    for one in _downwards(wires, meeting):
        found[one] = max((found[other] for other in meeting[one]), default=-1) + 1
    return found


def _downwards(wires: Sequence[Wire], meeting: dict[int, list[int]]) -> list[int]:
    """The wires from the topmost on: always the one that gains most by being above those that are left."""
    gains = {
        (one, other): wires[other].cost_above(wires[one]) - wires[one].cost_above(wires[other])
        for one, others in meeting.items()
        for other in others
    }
    totals = {one: sum(gains[one, other] for other in others) for one, others in meeting.items()}
    order = []
    while totals:
        one = max(totals, key=lambda number: (totals[number], -number))
        order.append(one)
        del totals[one]
        for other in meeting[one]:
            if other in totals:
                totals[other] -= gains[other, one]
    return order
