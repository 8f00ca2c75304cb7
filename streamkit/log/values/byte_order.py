"""
The order of byte strings, found by sorting numbers.

State keys and paths share most of their bits: the store's number, the high bytes of times and numbers. The bits that differ are gathered
into one number of 64 bits, and behind them stands the place of the string. Numpy sorts such numbers in a quarter of the time that it takes to
compare strings, and the places come out in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, UnsignedIntegers
from streamkit.log.values.slices import ByteSlices, overlapping

ROWS_MIN = 1024  # fewer are compared sooner
NUMBERS_MAX = 4
NUMBER_BITS = 64
WORD_BYTES = 8


def byte_order(strings: pa.Array) -> pa.Array:
    """The permutation that sorts binary strings without nulls by their bytes, as row numbers; equal ones stay as they stand."""
    if len(strings) >= ROWS_MIN and (order := _order_of(ByteSlices.of(strings))) is not None:
        return pa.array(order)
    return pc.sort_indices(strings)


def _order_of(rows: ByteSlices) -> Integers | None:
    """The order by the bits that differ; None if too many do."""
    every = _numbers(rows, NUMBER_BITS - len(rows).bit_length())
    numbers = list(islice(every, 1))
    if not numbers:
        return np.arange(len(rows))
    order = _stable_order(numbers[0])
    if _are_distinct(numbers, order):
        return order
    numbers += islice(every, NUMBERS_MAX - 1)
    # At each turn the strings are in order by the numbers that were taken; as sorting is stable, one more in front keeps that.
    order = np.arange(len(rows))
    for number in reversed(numbers):
        order = order[_stable_order(number[order])]
    return order if next(every, None) is None or _are_distinct(numbers, order) else None


def _stable_order(number: UnsignedIntegers) -> Integers:
    """The places of numbers that leave room for a place, in their order; the places of equal ones are in order too."""
    bits = np.uint64(len(number).bit_length())
    placed = number << bits | np.arange(len(number), dtype=np.uint64)
    placed.sort()
    placed &= (np.uint64(1) << bits) - np.uint64(1)
    return placed.view(np.int64)


def _are_distinct(numbers: list[UnsignedIntegers], order: Integers) -> bool:
    """Whether no two neighbours in that order have the same numbers."""
    same = np.ones(len(order) - 1, bool)
    for number in numbers:
        in_order = number[order]
        same &= in_order[1:] == in_order[:-1]
    return not same.any()


def _numbers(rows: ByteSlices, bits: int) -> Iterator[UnsignedIntegers]:
    """The bits in which the strings differ, the first of them first, in numbers of so many bits; the last number may have fewer."""
    number, free = np.zeros(len(rows), np.uint64), bits
    lengths = rows.lengths.astype(np.uint64)  # the last of all: zeros stand for bytes behind an end
    for word in chain(_words(rows), [lengths]):
        for first, end in _differing(word):
            while end > first:
                width = min(end - first, free)
                part = word >> np.uint64(end - width) & np.uint64((1 << width) - 1)
                number, free, end = number << np.uint64(width) | part, free - width, end - width
                if not free:
                    yield number
                    number, free = np.zeros(len(rows), np.uint64), bits
    if free < bits:
        yield number


def _differing(word: UnsignedIntegers) -> Iterator[tuple[int, int]]:
    """The stretches of bits [first, end) in which some numbers differ, the highest first; bytes that are the same in all lie between them."""
    differs = int(np.bitwise_or.reduce(word)) & ~int(np.bitwise_and.reduce(word))
    while differs:
        end = differs.bit_length()
        first = (end - 1) // 8 * 8
        while first and differs >> first - 8 & 0xFF:
            first -= 8
        yield first, end
        differs &= (1 << first) - 1


def _words(rows: ByteSlices) -> Iterator[UnsignedIntegers]:
    """Eight bytes after the other of each string, as numbers in their order; zeros stand for bytes behind its end."""
    found = overlapping(np.concatenate([rows.data, np.zeros(WORD_BYTES, np.uint8)]), WORD_BYTES)
    shortest, longest = int(rows.lengths.min()), int(rows.lengths.max())
    for position in range(0, longest, WORD_BYTES):
        if position + WORD_BYTES <= shortest:
            yield found[rows.starts + position].byteswap()
            continue
        words = found[np.minimum(rows.starts + position, len(rows.data))].byteswap()
        yield words & _HELD[WORD_BYTES - np.clip(rows.lengths - position, 0, WORD_BYTES)]


_HELD = np.array([(1 << 64) - (1 << 8 * lacking) for lacking in range(WORD_BYTES + 1)], np.uint64)
