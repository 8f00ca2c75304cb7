"""An index of keys in bytes: where each of many keys stands in an array, without a Python object a key."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.log.values.keys import murmur2

NOWHERE = -1


@dataclass(frozen=True, eq=False)
class KeyIndex:
    """
    A hash index of `keys`, built when it is first asked.

    Keys lie in slots by the last bits of their hash, about one in each. A look-up goes through its slot, key by key, and
    compares the bytes of those that have its hash, so that equal hashes cost time and never an answer.
    """

    keys: pa.BinaryArray

    def find(self, wanted: pa.BinaryArray) -> Integers:
        """The first position of each wanted key among the keys; -1 if it is not there, or null."""
        slots, hashes = self._slots, _hashes(wanted)
        own = hashes & slots.mask
        places, ends = slots.starts[own], slots.starts[own + 1]
        found = np.full(len(wanted), NOWHERE, np.int64)
        rows = np.flatnonzero(places < ends)
        while len(rows):
            matching = rows[slots.hashes[places[rows]] == hashes[rows]]
            candidates = slots.order[places[matching]]
            equal = pc.equal(wanted.take(pa.array(matching)), self.keys.take(pa.array(candidates)))
            is_equal = equal.fill_null(False).to_numpy(zero_copy_only=False)
            found[matching[is_equal]] = candidates[is_equal]
            places[rows] += 1
            rows = rows[(found[rows] == NOWHERE) & (places[rows] < ends[rows])]
        return found

    @cached_property
    def _slots(self) -> _Slots:
        hashes = _hashes(self.keys)
        mask = np.uint32((1 << max(len(self.keys) - 1, 0).bit_length()) - 1)
        order = np.argsort(hashes & mask, kind="stable")
        counts = np.bincount(hashes & mask, minlength=int(mask) + 1)
        return _Slots(mask, order, hashes[order], np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))


@dataclass(frozen=True, eq=False)
class _Slots:
    """
    Keys by slots: `order` has their positions slot by slot, `hashes` their hashes, `starts` where each slot begins.

    `mask` are the bits of a hash that choose a slot.
    """

    mask: np.uint32
    order: Integers
    hashes: npt.NDArray[np.uint32]
    starts: Integers


def _hashes(keys: pa.BinaryArray) -> npt.NDArray[np.uint32]:
    return murmur2(keys).view(np.uint32)
