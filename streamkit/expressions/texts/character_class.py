"""Sets of characters, as Java's character classes combine them: united, intersected, everything else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_LAST = 0x10FFFF


@dataclass(frozen=True)
class CharacterSet:
    """Ranges of code points, each with its last one, in order and apart from each other."""

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> CharacterSet:
        """The characters of ranges that may lie in any order and over each other."""
        found: list[tuple[int, int]] = []
        for first, last in sorted(ranges):
            if found and first <= found[-1][1] + 1:
                found[-1] = (found[-1][0], max(last, found[-1][1]))
            else:
                found.append((first, last))
        return cls(tuple(found))

    def __or__(self, other: CharacterSet) -> CharacterSet:
        return self.of((*self.ranges, *other.ranges))

    def __and__(self, other: CharacterSet) -> CharacterSet:
        return ~(~self | ~other)

    def __invert__(self) -> CharacterSet:
        starts = [0, *(last + 1 for _, last in self.ranges)]
        ends = [*(first - 1 for first, _ in self.ranges), _LAST]
        return CharacterSet(tuple((start, end) for start, end in zip(starts, ends, strict=True) if start <= end))

    def either_case(self) -> CharacterSet:
        """With the other case of its ASCII letters, and of no others, as Java has it without a flag."""
        more = []
        for low, high, distance in ((ord("A"), ord("Z"), 32), (ord("a"), ord("z"), -32)):
            within = self & CharacterSet(((low, high),))
            more += [(first + distance, last + distance) for first, last in within.ranges]
        return self | self.of(more)

    @property
    def text(self) -> str:
        """As a class of RE2 without any other meaning of its characters; a class of nothing matches nowhere."""
        if not self.ranges:
            return rf"[^\x{{0}}-\x{{{_LAST:x}}}]"
        return "[" + "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in self.ranges) + "]"
