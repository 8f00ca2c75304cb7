"""
A run: the changes of a stretch of time, the newest of each key, which never change again.

Its rows stand in the order of a 64-bit hash of their keys. So a key is found by one jump into the hashes, runs are merged by sorting numbers
that are nearly sorted, and equal keys of several runs come to stand side by side. Equal hashes cost time and never an answer: the bytes
of keys are compared. The order of the bytes, which ranges need, is found when a range is first asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask, UnsignedIntegers
from streamkit.log.values.byte_order import byte_order
from streamkit.log.values.slices import WORD_BYTES, ByteSlices
from streamkit.state.store import StoredKey, StoredValue

NOWHERE = -1
HEAD_BYTES = 16  # by them nearly all keys are told from a bound
FEW_KEYS = 4  # so many are looked for one by one
SLOT_ROWS = 2  # rows in a slot of the directory, on average


@dataclass(frozen=True, eq=False)
class SortedRun:
    """
    The newest change of each key of a stretch: `keys` are distinct, in the order of their `hashes`; a null value deletes.

    `position` is that of the store behind the stretch.
    """

    hashes: UnsignedIntegers
    keys: pa.BinaryArray
    values: pa.BinaryArray
    position: bytes

    def __len__(self) -> int:
        return len(self.hashes)

    @classmethod
    def of(cls, keys: pa.BinaryArray, values: pa.BinaryArray, position: bytes) -> SortedRun:
        """The run of changes in any order; of several changes of a key the last counts."""
        hashes = hash_keys(keys)
        order = np.argsort(hashes)  # four times faster than a stable sort, which only repeated keys need
        ordered = hashes[order]
        if (ordered[1:] == ordered[:-1]).any():
            return _folded(hashes, keys, values, position)
        taken = pa.array(order)
        return cls(ordered, keys.take(taken), values.take(taken), position)

    @classmethod
    def merged(cls, runs: Sequence[SortedRun], *, keeps_deletions: bool) -> SortedRun:
        """The run of consecutive stretches, oldest first."""
        hashes = np.concatenate([run.hashes for run in runs])
        keys, values = (pa.concat_arrays(parts) for parts in zip(*((run.keys, run.values) for run in runs), strict=True))
        merged = _folded(hashes, keys, values, runs[-1].position)
        return merged if keeps_deletions or not merged.values.null_count else merged._without_deletions()

    @property
    def size_bytes(self) -> int:
        """The memory that it takes, with the directory of its slots."""
        return self.hashes.nbytes + int(self.keys.nbytes) + int(self.values.nbytes) + len(self) * 4

    def find(self, keys: pa.BinaryArray, hashes: UnsignedIntegers) -> Integers:
        """The row of each key, whose hashes are given; -1 where it is not there."""
        if len(keys) <= FEW_KEYS and "_directory" not in self.__dict__:
            return self._found_one_by_one(keys, hashes)
        shift, starts = self._directory
        slots = (hashes >> shift).astype(np.int64)
        firsts = starts[slots].astype(np.int64)
        counts = starts[slots + 1] - firsts
        # Each key looks at all rows of its slot at once: they are few, and a turn for each of them would cost more than its rows.
        looking = np.repeat(np.arange(len(keys)), counts)
        rows = np.arange(len(looking)) + np.repeat(firsts - np.cumsum(counts) + counts, counts)
        alike = np.flatnonzero(self.hashes[rows] == hashes[looking])
        looking, rows = looking[alike], rows[alike]
        found = np.full(len(keys), NOWHERE, np.int64)
        if len(rows):
            equal = pc.equal(keys.take(pa.array(looking)), self.keys.take(pa.array(rows))).to_numpy(zero_copy_only=False)
            found[looking[equal]] = rows[equal]
        return found

    def _found_one_by_one(self, keys: pa.BinaryArray, hashes: UnsignedIntegers) -> Integers:
        """As `find`, without a directory, which takes longer to make than some keys to be found."""
        found = np.full(len(keys), NOWHERE, np.int64)
        for number, first in enumerate(np.searchsorted(self.hashes, hashes).tolist()):
            row = first
            while row < len(self) and self.hashes[row] == hashes[number]:
                if self.keys[row].as_py() == keys[number].as_py():
                    found[number] = row
                    break
                row += 1
        return found

    def between(
        self, start: StoredKey, end: StoredKey, limit: int | None = None
    ) -> tuple[list[StoredKey], list[StoredValue | None]]:
        """The keys in [start, end) in byte order, and their values, None for a deletion; the first `limit` of them."""
        rows = self.rows_between([(start, end)])[0][:limit]
        if not len(rows):
            return [], []
        taken = pa.array(rows)
        return self.keys.take(taken).to_pylist(), self.values.take(taken).to_pylist()

    def rows_between(self, ranges: Sequence[tuple[StoredKey, StoredKey]]) -> tuple[Integers, Integers]:
        """The rows of the keys in some ranges [start, end), of each in byte order, one range behind the other; how many are in each."""
        places = self._places([bound for both in ranges for bound in both])
        firsts, ends = places[::2], places[1::2]
        counts = np.maximum(ends - firsts, 0)
        found = np.arange(int(counts.sum())) + np.repeat(firsts - np.cumsum(counts) + counts, counts)
        return (self._order[found] if len(found) else found), counts

    def in_byte_order(self) -> tuple[pa.BinaryArray, pa.BinaryArray]:
        """All keys in byte order, and their values."""
        order = byte_order(self.keys)
        return self.keys.take(order), self.values.take(order)

    def fault(self) -> str | None:
        """Why look-ups would not find what ranges find, or otherwise; None if they do. No checksum tells that a writer was wrong."""
        hashes = hash_keys(self.keys)
        if len(wrong := np.flatnonzero(hashes != self.hashes)):
            return f"{len(wrong)} of {len(self)} hashes are not those of their keys, the first of the key {self._shown(wrong[0])}"
        if len(wrong := np.flatnonzero(hashes[1:] < hashes[:-1])):
            return f"its hashes are not in order, first behind the key {self._shown(wrong[0])}"
        alike = np.flatnonzero(hashes[1:] == hashes[:-1])
        rows = np.unique(np.concatenate([alike, alike + 1]))
        counts = Counter(self.keys.take(pa.array(rows)).to_pylist())
        again = sorted(key for key, count in counts.items() if count > 1)
        return f"{len(again)} keys are there twice, the first is {again[0].hex()}" if again else None

    def _shown(self, row: int) -> str:
        return str(self.keys[int(row)].as_py().hex())

    def _without_deletions(self) -> SortedRun:
        kept = self.values.is_valid()
        hashes = self.hashes[kept.to_numpy(zero_copy_only=False)]
        return SortedRun(hashes, self.keys.filter(kept), self.values.filter(kept), self.position)

    @cached_property
    def _directory(self) -> tuple[np.uint64, npt.NDArray[np.uint32]]:
        """By how much a hash is shifted to be the number of its slot, and the row where each slot begins."""
        bits = max(1, (len(self) // SLOT_ROWS).bit_length())
        shift = np.uint64(64 - bits)
        counts = np.bincount((self.hashes >> shift).astype(np.int64), minlength=1 << bits)
        return shift, np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)

    @cached_property
    def _order(self) -> Integers:
        """The rows in byte order."""
        found: Integers = byte_order(self.keys).to_numpy().astype(np.int64)
        return found

    @cached_property
    def _heads(self) -> npt.NDArray[np.bytes_]:
        """The first bytes of the keys in byte order; numpy compares them as if zeros were behind the end of a key."""
        rows = ByteSlices.of(self.keys).take(self._order)
        heads = np.empty((len(self), HEAD_BYTES // WORD_BYTES), np.uint64)
        for number in range(heads.shape[1]):
            heads[:, number] = rows.words_at(WORD_BYTES * number)
        return heads.view(f"S{HEAD_BYTES}").ravel()

    def _places(self, bounds: Sequence[StoredKey]) -> Integers:
        """How many keys are below each bound."""
        heads = np.array([bound[:HEAD_BYTES] for bound in bounds], f"S{HEAD_BYTES}")
        firsts, ends = (np.searchsorted(self._heads, heads, side) for side in ("left", "right"))
        for number in np.flatnonzero(firsts < ends).tolist():  # few keys have the head of a bound
            firsts[number] = self._place_within(bounds[number], int(firsts[number]), int(ends[number]))
        return firsts

    def _place_within(self, bound: StoredKey, first: int, end: int) -> int:
        """How many keys are below a bound, if it is one of these numbers."""
        while first < end:
            middle = (first + end) // 2
            if self.keys[int(self._order[middle])].as_py() < bound:
                first = middle + 1
            else:
                end = middle
        return first


def hash_keys(keys: pa.BinaryArray) -> UnsignedIntegers:
    """A hash of each key; files of runs keep it, so it never changes."""
    rows = ByteSlices.of(keys)
    hashes = rows.lengths.astype(np.uint64) * _FACTOR
    longest = int(rows.lengths.max(initial=0))
    shortest = int(rows.lengths.min(initial=longest))
    for position in range(0, longest, WORD_BYTES):
        mixed = hashes ^ rows.words_at(position)
        mixed *= _FACTOR
        mixed ^= mixed >> _SHIFT
        hashes = mixed if position < shortest else np.where(position < rows.lengths, mixed, hashes)
    hashes *= _LAST_FACTOR
    hashes ^= hashes >> _SHIFT
    return hashes


def _folded(hashes: UnsignedIntegers, keys: pa.BinaryArray, values: pa.BinaryArray, position: bytes) -> SortedRun:
    """The run of these changes; of several changes of a key the last one counts."""
    order = np.argsort(
        hashes, kind="stable"
    )  # keeps changes of a key in the order they came in, and only merges stretches that are sorted
    hashes = hashes[order]
    again = hashes[1:] == hashes[:-1]
    if again.any():
        replaced = _replaced(order, keys, again)
        order, hashes = order[~replaced], hashes[~replaced]
    taken = pa.array(order)
    return SortedRun(hashes, keys.take(taken), values.take(taken), position)


def _replaced(order: Integers, keys: pa.BinaryArray, again: Mask) -> Mask:
    """Which rows, in the order of their hashes, are followed by one of the same key; `again` says which have the hash of the row after them."""
    replaced = np.append(again, False)
    before = np.flatnonzero(again)
    equal = pc.equal(keys.take(pa.array(order[before])), keys.take(pa.array(order[before + 1]))).to_numpy(zero_copy_only=False)
    if equal.all():
        return replaced
    # Different keys share a hash, and their rows may be mixed: look for each key of such a hash by itself.
    last: dict[bytes, int] = {}
    rows = np.unique(np.concatenate([before, before + 1]))
    for row, key in zip(rows.tolist(), keys.take(pa.array(order[rows])).to_pylist(), strict=True):
        last[key] = row
    replaced[rows] = True
    replaced[list(last.values())] = False
    return replaced


_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_LAST_FACTOR = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(32)
