"""Which keys a large store may have, by 32 bits of their hashes: four bytes a key, where RocksDB needs 4 µs to say that there is none."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from streamkit.arrays import Mask, UnsignedIntegers

BITS = 32
SLOT_ENTRIES = 2  # of a slot of the directory, on average
_SHIFT = np.uint64(BITS)


@dataclass(frozen=True, eq=False)
class KeyHashes:
    """The first 32 bits of the hashes of keys, each once, in order. Keys are only added."""

    prefixes: npt.NDArray[np.uint32]

    @classmethod
    def none(cls) -> KeyHashes:
        """Of no key."""
        return cls(np.zeros(0, np.uint32))

    def with_keys(self, hashes: UnsignedIntegers) -> KeyHashes:
        """These and others."""
        together = np.concatenate([self.prefixes, (hashes >> _SHIFT).astype(np.uint32)])
        together.sort()  # a tenth of the time that `unique` takes
        return KeyHashes(together[np.append(together[:-1] != together[1:], True)] if len(together) else together)

    @property
    def is_in_order(self) -> bool:
        """Whether they ascend, as look-ups take for granted."""
        return bool((self.prefixes[1:] > self.prefixes[:-1]).all())

    def may_have(self, hashes: UnsignedIntegers) -> Mask:
        """Whether a key of each hash may be there; where it says no, there is none."""
        shift, starts = self._directory
        wanted = (hashes >> _SHIFT).astype(np.uint32)
        slots = wanted >> shift
        firsts = starts[slots].astype(np.int64)
        counts = starts[slots + np.uint32(1)] - firsts
        # Each hash looks at all entries of its slot at once: they are few, and a turn for each of them would cost more than its hashes.
        looking = np.repeat(np.arange(len(hashes)), counts)
        places = np.arange(len(looking)) + np.repeat(firsts - np.cumsum(counts) + counts, counts)
        found = np.zeros(len(hashes), bool)
        found[looking[self.prefixes[places] == wanted[looking]]] = True
        return found

    @cached_property
    def _directory(self) -> tuple[np.uint32, npt.NDArray[np.uint32]]:
        """By how much an entry is shifted to be the number of its slot, and the place where each slot begins."""
        bits = min(BITS - 1, max(1, (len(self.prefixes) // SLOT_ENTRIES).bit_length()))
        shift = np.uint32(BITS - bits)
        counts = np.bincount(self.prefixes >> shift, minlength=1 << bits)
        return shift, np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
