"""
The order of byte strings, found by sorting 16 bits at a time.

State keys and paths share most of their bytes: the store's number, the high bytes of times and numbers. Only bytes that differ
are sorted, two at a time from the last to the first, which numpy does in linear time. Of many rows that takes a quarter of the time
that it takes to compare strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, UnsignedIntegers
from streamkit.log.values.slices import ByteSlices, overlapping

ROWS_MIN = 8192  # fewer are compared sooner
DIGITS_MAX = 8
WORD_BYTES = 8

Digit = npt.NDArray[np.uint16]


def byte_order(strings: pa.Array) -> pa.Array:
    """The permutation that sorts binary strings without nulls by their bytes, as row numbers; equal ones stay as they stand."""
    if len(strings) >= ROWS_MIN:
        digits, are_all = _digits(ByteSlices.of(strings))
        order = _order_of(digits, len(strings))
        if are_all or _are_distinct([digit[order] for digit in digits]):
            return pa.array(order)
    return pc.sort_indices(strings)


def _order_of(digits: list[Digit], rows: int) -> Integers:
    # At each turn the strings are in order by the digits that were taken; as sorting is stable, one more digit in front keeps that.
    order = np.arange(rows)
    for digit in reversed(digits):
        order = order[np.argsort(digit[order], kind="stable")]
    return order


def _are_distinct(digits: list[Digit]) -> bool:
    """Whether no two neighbours have the same digits."""
    same = np.ones(len(digits[0]) - 1, bool)
    for digit in digits:
        same &= digit[1:] == digit[:-1]
    return not same.any()


def _digits(rows: ByteSlices) -> tuple[list[Digit], bool]:
    """The first numbers of 16 bits in which the strings differ, the first of them first, and whether these are all."""
    differing = _differing_bytes(rows)
    digits: list[Digit] = [byte << _BYTE | next(differing, _NO_BYTE) for byte in islice(differing, DIGITS_MAX)]
    return digits, next(differing, None) is None


def _differing_bytes(rows: ByteSlices) -> Iterator[Digit]:
    """The bytes that are not the same in all strings, from the first on; then the length, as zeros stand for bytes that a string lacks."""
    for word in chain(_words(rows), [rows.lengths.astype(np.uint64)]):
        differs = int(np.bitwise_or.reduce(word ^ word[0]))
        for shift in range(8 * (WORD_BYTES - 1), -1, -8):
            if differs >> shift & 0xFF:
                yield (word >> np.uint64(shift) & np.uint64(0xFF)).astype(np.uint16)


def _words(rows: ByteSlices) -> Iterator[UnsignedIntegers]:
    """Eight bytes after the other of each string, as numbers in their order; zeros stand for bytes behind its end."""
    found = overlapping(np.concatenate([rows.data, np.zeros(WORD_BYTES, np.uint8)]), WORD_BYTES)
    for position in range(0, int(rows.lengths.max()), WORD_BYTES):
        words = found[np.minimum(rows.starts + position, len(rows.data))].byteswap()
        lacking = WORD_BYTES - np.clip(rows.lengths - position, 0, WORD_BYTES)
        yield words & _HELD[lacking] if lacking.any() else words


_BYTE = np.uint16(8)
_NO_BYTE = np.zeros(1, np.uint16)
_HELD = np.array([(1 << 64) - (1 << 8 * lacking) for lacking in range(WORD_BYTES + 1)], np.uint64)
