"""
Binary values side by side: a place in each, from which all of them are read at once.

`rows` are the values that a read is about: all of them (`ALL`), or their numbers in ascending order. A read beyond the end of
a value, or of what cannot be, marks it as bad and leaves its place where it is allowed to be; so a length is never trusted.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamkit.arrays import Bytes, Doubles, Integers, Mask, UnsignedIntegers
from streamkit.decimals import decimals_of_numbers

RowSelection: TypeAlias = "slice | Integers"
ALL = slice(None)
MARGIN = 16  # bytes before and behind the data, so that reads near an end stay inside
_HIGH, _LOW = np.uint64(0x8080808080808080), np.uint64(0x7F7F7F7F7F7F7F7F)
_ONES = np.uint64(0x0101010101010101)
_LONGEST = 10  # bytes of a variable-length integer


class Cursor:
    """A place in each of many binary values."""

    def __init__(self, values: pa.Array, skipped: int = 0) -> None:
        """Stand in each value behind its first `skipped` bytes; no value is null."""
        size = len(values)
        _, offsets, data = values.buffers()
        bounds = np.frombuffer(offsets, np.int32, size + 1, values.offset * 4).astype(np.int64)
        first, last = (int(bounds[0]), int(bounds[-1])) if size else (0, 0)
        padded = np.zeros(last - first + 2 * MARGIN, np.uint8)
        if last > first:
            padded[MARGIN : MARGIN + last - first] = np.frombuffer(data, np.uint8, last - first, first)
        self.data = padded
        self.buffer = pa.py_buffer(padded)
        self.words: UnsignedIntegers = np.ndarray((len(padded) - 7,), "<u8", padded, 0, (1,))
        bounds += MARGIN - first
        self.size = size
        self.end: Integers = bounds[1:]
        self.bad = np.zeros(size, np.bool_)
        self.place: Integers = bounds[:-1].copy()
        self.advance(ALL, self.place + skipped)

    def numbers(self, rows: RowSelection) -> Integers:
        """The numbers of the rows."""
        return np.arange(self.size) if isinstance(rows, slice) else rows

    def count(self, rows: RowSelection) -> int:
        """How many rows they are."""
        return self.size if isinstance(rows, slice) else len(rows)

    def mark(self, rows: RowSelection, wrong: Mask) -> None:
        """Mark those of the rows that are wrong."""
        if wrong.any():
            self.bad[self.numbers(rows)[wrong]] = True

    def advance(self, rows: RowSelection, places: Integers) -> None:
        """Go to these places; beyond the end stands what is bad."""
        end = self.end[rows]
        over = places > end
        if over.any():
            self.mark(rows, over)
            places = np.minimum(places, end)
        self.place[rows] = places

    def longs(self, rows: RowSelection) -> Integers:
        """Whole numbers in zigzag form and variable length."""
        raw = self.varints(rows)
        return (raw >> np.uint64(1)).view(np.int64) ^ -((raw & np.uint64(1)).view(np.int64))

    def varints(self, rows: RowSelection) -> UnsignedIntegers:
        """Unsigned whole numbers of variable length: seven bits a byte, the low ones first."""
        places = self.place[rows]
        first = self.data[places]
        if not (first >= 0x80).any():
            self.advance(rows, places + 1)
            return first.astype(np.uint64)
        words = self.words[places]
        stops = ~words & _HIGH
        stop = stops & (~stops + np.uint64(1))  # the high bit of the last byte; 0 if that is not among eight
        bits = words & ((stop << np.uint64(1)) - np.uint64(1)) & _LOW
        bits = _joined(_joined(_joined(bits, 1, 0x007F007F007F007F), 2, 0x00003FFF00003FFF), 4, 0x000000000FFFFFFF)
        lengths = ((((stop >> np.uint64(7)) - np.uint64(1)) & _ONES) * _ONES >> np.uint64(56)).view(np.int64) + 1
        far = np.flatnonzero(stop == 0)
        if len(far):
            ninth, tenth = self.data[places[far] + 8], self.data[places[far] + 9]
            is_tenth = ninth >= 0x80
            bits[far] |= (ninth & 0x7F).astype(np.uint64) << np.uint64(56)
            bits[far] |= np.where(is_tenth, tenth & 1, 0).astype(np.uint64) << np.uint64(63)
            lengths[far] = np.where(is_tenth, _LONGEST, _LONGEST - 1)
            self.mark(self.numbers(rows)[far], is_tenth & (tenth > 1))
        self.advance(rows, places + lengths)
        return bits

    def spans(self, rows: RowSelection) -> tuple[Integers, Integers]:
        """Where bytes of a length that stands before them begin, and their lengths."""
        lengths = self.longs(rows)
        places = self.place[rows].copy()
        wrong = (lengths < 0) | (lengths > self.end[rows] - places)
        if wrong.any():
            self.mark(rows, wrong)
            lengths = np.where(wrong, 0, lengths)
        self.place[rows] = places + lengths
        return places, lengths

    def fixed(self, rows: RowSelection, length: int) -> Integers:
        """Where bytes of this length begin."""
        places = self.place[rows].copy()
        self.advance(rows, places + length)
        return places

    def bytes(self, rows: RowSelection) -> Bytes:
        """A byte each."""
        return self.data[self.fixed(rows, 1)]

    def doubles(self, rows: RowSelection) -> Doubles:
        """Eight bytes each, as a floating-point number."""
        return self.words[self.fixed(rows, 8)].view(np.float64)

    def floats(self, rows: RowSelection) -> npt.NDArray[np.float32]:
        """Four bytes each, as a floating-point number."""
        return (self.words[self.fixed(rows, 4)] & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32)

    def binary(self, starts: Integers, lengths: Integers) -> pa.Array:
        """The bytes of spans, which are in ascending order."""
        if not len(starts):
            return pa.array([], pa.binary())
        bounds = np.empty(2 * len(starts), np.int32)
        bounds[0::2] = starts
        bounds[1::2] = starts + lengths
        spans = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), self.buffer])
        return spans.take(pa.array(np.arange(0, len(bounds) - 1, 2)))  # every other one is what lies between

    def strings(self, rows: RowSelection, starts: Integers, lengths: Integers) -> pa.Array:
        """The texts of spans; those that are not UTF-8 are bad, and empty."""
        found = self.binary(starts, lengths)
        try:
            return found.cast(pa.string())
        except pa.ArrowInvalid:
            wrong = np.array([not _is_text(value) for value in found.to_pylist()])
            self.mark(rows, wrong)
            return pa.array([b"" if bad else value for bad, value in zip(wrong, found.to_pylist(), strict=True)], pa.string())

    def decimals(self, rows: RowSelection, starts: Integers, lengths: Integers, kind: pa.DataType) -> pa.Array:
        """Big-endian whole numbers as decimals; those of more than sixteen bytes or too many digits are bad, and null."""
        wrong = lengths > 16
        lengths = np.minimum(lengths, 16)
        places = np.arange(16)
        numbers = self.data[(starts + lengths - 16)[:, None] + places]
        filler = np.where((lengths > 0) & (self.data[starts] >= 0x80), 0xFF, 0).astype(np.uint8)
        numbers = np.where(places >= (16 - lengths)[:, None], numbers, filler[:, None])
        little = np.ascontiguousarray(numbers[:, ::-1])
        wide = pa.Array.from_buffers(pa.decimal128(38, kind.scale), len(starts), [None, pa.py_buffer(little)])
        try:
            found = _decimals(wide, kind)
        except pa.ArrowInvalid:
            fits = np.array([_fits(wide[row : row + 1], kind) for row in range(len(wide))])
            wrong |= ~fits
            found = _decimals(wide.take(pa.array(np.arange(len(fits)), mask=~fits)), kind)
        self.mark(rows, wrong)
        return found


def _joined(bits: UnsignedIntegers, shift: int, low: int) -> UnsignedIntegers:
    """The lower and the upper half of each group of bits without the gap between them."""
    lower = np.uint64(low)
    width = {1: 8, 2: 16, 4: 32}[shift]
    return (bits & lower) | ((bits >> np.uint64(shift)) & (lower << np.uint64(width - shift)))


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decimals(wide: pa.Array, kind: pa.DataType) -> pa.Array:
    """Whole numbers of sixteen bytes as decimals of the same scale; ArrowInvalid if one does not fit (sixteen bytes have up to 39 digits)."""
    wide.validate(full=True)
    return decimals_of_numbers(wide, kind)


def _fits(value: pa.Array, kind: pa.DataType) -> bool:
    try:
        _decimals(value, kind)
    except pa.ArrowInvalid:
        return False
    return True
