"""Ways to damage a file, each by its number, so that the same number damages it the same way again."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

BLOCKS = (64, 512, 4_096)
KINDS = ("flip", "flip", "flips", "zero", "copy", "splice", "stale", "garbage", "swap", "grow", "insert", "remove")


@dataclass(frozen=True)
class Mutation:
    """
    One damage: `at` and `source` are positions, `length` is in bytes.

    `cut` ends the file at `at`. `copy` takes bytes of the file itself, `splice` those of another slab, `stale` those of an
    older copy of the file, `swap` a whole frame of another slab; all put them at `at`.
    """

    kind: str
    at: int
    length: int = 0
    source: int = 0
    seed: int = 0

    def apply(self, data: bytes, other: bytes, stale: bytes) -> bytes:
        """The damaged bytes."""
        damaged = bytearray(data)
        end = min(self.at + self.length, len(data))
        if self.kind == "cut":
            del damaged[self.at :]
        elif self.kind in ("flip", "flips"):
            for bit in range(self.at * 8, self.at * 8 + 8 * self.length, 8):
                damaged[(bit // 8) % len(data)] ^= 1 << ((self.seed + bit // 8) % 8)
        elif self.kind == "zero":
            damaged[self.at : end] = bytes(end - self.at)
        elif self.kind in ("copy", "splice", "stale", "swap"):
            source = {"copy": data, "stale": stale}.get(self.kind, other)
            damaged[self.at : end] = source[self.source : self.source + end - self.at]
        elif self.kind == "garbage":
            damaged[self.at : end] = Random(self.seed).randbytes(end - self.at)
        elif self.kind == "grow":
            damaged += Random(self.seed).randbytes(self.length)
        elif self.kind == "insert":
            damaged[self.at : self.at] = Random(self.seed).randbytes(self.length)
        else:
            del damaged[self.at : end]
        return bytes(damaged)


def mutation_of(number: int, size: int, frames: list[int]) -> Mutation:
    """The mutation of a number: first every cut, then one bit of every byte, then anything."""
    if number < size:
        return Mutation("cut", number)
    if number < 2 * size:
        return Mutation("flip", number - size, 1, seed=number)
    random = Random(f"damage {number}")
    kind, seed = random.choice(KINDS), random.randrange(1 << 30)
    if kind == "flip":
        return Mutation(kind, random.randrange(size), 1, seed=seed)
    if kind == "swap":
        at, source = random.choice(frames), random.choice(frames)
        following = [position for position in (*frames, size) if position > source]
        return Mutation(kind, at, following[0] - source, source)
    length = random.choice(BLOCKS) if kind in ("zero", "copy", "splice", "stale") else random.choice((1, 2, 3, 8, 64, 512))
    aligned = kind in ("zero", "copy", "splice", "stale") and random.random() < 0.7
    at = random.randrange(size)
    at = at // length * length if aligned else at
    source = at if kind in ("splice", "stale") and random.random() < 0.7 else random.randrange(size)
    return Mutation(kind, at, length, source, seed)
