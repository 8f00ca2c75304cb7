"""
Many byte strings in one buffer, copied and joined without Python per row.

A part of a row is either fixed (a one-dimensional numpy array, whose items' memory is the part's bytes) or a `ByteSlices`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import AnyArray, Bytes, Integers, Mask, UnsignedIntegers

BINARY_BYTES_MAX = 2**31 - 1  # offsets of a BinaryArray are int32
WORD_BYTES = 8
_HELD = np.array([(1 << 8 * held) - 1 for held in range(WORD_BYTES + 1)], np.uint64)
_NUMBER_WIDTHS = (1, 2, 4, 8)  # numpy copies these as numbers, which is faster than as raw bytes


@dataclass(frozen=True, eq=False)
class ByteSlices:
    """Byte strings: row i is `data[starts[i] : starts[i] + lengths[i]]`; slices may overlap, repeat and leave gaps."""

    data: Bytes
    starts: Integers
    lengths: Integers

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def ends(self) -> Integers:
        return self.starts + self.lengths

    @property
    def is_whole(self) -> bool:
        """Whether each slice begins where the one before ends, within the data, as in a binary array."""
        if not len(self.starts):
            return True
        is_within = self.starts[0] >= 0 and self.starts[-1] + self.lengths[-1] <= len(self.data)
        return bool(is_within and (self.lengths >= 0).all() and (self.starts[1:] == self.ends[:-1]).all())

    @classmethod
    def of(cls, array: pa.Array) -> ByteSlices:
        """The rows of a string or binary array, also of a sliced one, without copying them; a null row is empty."""
        _, offsets_buffer, data_buffer = array.buffers()
        if len(array) == 0:
            return cls(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))
        offsets = np.frombuffer(offsets_buffer, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
        lengths = np.diff(offsets)
        if array.null_count:
            lengths *= array.is_valid().to_numpy(zero_copy_only=False)
        data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
        return cls(data, offsets[:-1] - offsets[0], lengths)

    @cached_property
    def _distance(self) -> int | None:
        """How far each slice begins behind the one before, if all are as long and as far apart as that; else None."""
        if not len(self.starts) or self.starts[0] < 0:
            return None
        length = int(self.lengths[0])
        is_even = bool((self.lengths == length).all() and (np.diff(self.starts) == length).all())
        return length if is_even and self.ends[-1] <= len(self.data) else None

    def words_at(self, position: int) -> UnsignedIntegers:
        """The eight bytes of each row from a position on, as a number, the first byte lowest; zeros are behind the row's end."""
        if self._distance is not None and position + WORD_BYTES <= self._distance:
            as_they_lie = np.ndarray((len(self),), "<u8", self.data, int(self.starts[0]) + position, (self._distance,))
            return as_they_lie.astype(np.uint64)
        data, left = self.data, self.lengths - position
        if len(data) < WORD_BYTES:
            data = np.concatenate([data, np.zeros(WORD_BYTES, np.uint8)])
        last = len(data) - WORD_BYTES
        places = self.starts + position
        words: UnsignedIntegers = overlapping(data, WORD_BYTES)[np.minimum(places, last)]
        late = np.flatnonzero(places > last)  # these have read the last eight bytes there are, and begin within them
        words[late] >>= (8 * np.clip(places[late] - last, 0, WORD_BYTES - 1)).astype(np.uint64)
        return words & _HELD[np.clip(left, 0, WORD_BYTES)] if len(left) and left.min() < WORD_BYTES else words

    def take(self, rows: AnyArray) -> ByteSlices:
        """The slices at these row numbers; the bytes are shared."""
        return ByteSlices(self.data, self.starts[rows], self.lengths[rows])

    def row(self, number: int) -> bytes:
        """One byte string; IndexError if it is not within the data."""
        start, length = int(self.starts[number]), int(self.lengths[number])
        if start < 0 or length < 0 or start + length > len(self.data):
            raise IndexError(f"found bytes {start} to {start + length}; expected some of {len(self.data)}")
        return self.data[start : start + length].tobytes()

    def copy_to(self, target: Bytes, positions: Integers) -> None:
        """Write row i at `target[positions[i]:]`. Raises IndexError where a slice or its place is outside."""
        for width, rows in _by_width(self.lengths):
            starts, places = self.starts[rows], positions[rows]
            _copy(self.data, starts, target, places, width)
            rest = self.lengths[rows] - width
            if rest.any():  # at most as long as what is copied: once more, aligned with the end
                _copy(self.data, starts + rest, target, places + rest, width)


RowPart: TypeAlias = AnyArray | ByteSlices


def overlapping(data: Bytes, width: int) -> AnyArray:
    """A view whose item i is the `width` bytes that start at byte i; one item fewer for each byte a whole one lacks."""
    kind = f"u{width}" if width in _NUMBER_WIDTHS else f"V{width}"
    return np.ndarray((max(0, len(data) - width + 1),), kind, data, strides=(1,))


def unless(part: RowPart, valid: Mask) -> ByteSlices:
    """The part, but empty in the rows that are not valid."""
    if isinstance(part, ByteSlices):
        return ByteSlices(part.data, part.starts, np.where(valid, part.lengths, 0))
    width = part.dtype.itemsize
    starts = np.arange(0, len(part) * width, width, dtype=np.int64)
    return ByteSlices(part.view(np.uint8), starts, np.where(valid, width, 0))


def join(parts: Sequence[RowPart]) -> pa.BinaryArray:
    """
    Lay the parts of each row side by side: one binary value a row, none null.

    Raises OverflowError when the result exceeds what one BinaryArray can hold (2 GiB).
    """
    if len(parts[0]) == 1:  # a dozen calls of numpy cost more
        alone = b"".join(part.row(0) if isinstance(part, ByteSlices) else part.tobytes() for part in parts)
        _check_size(len(alone))
        return pa.array([alone], pa.binary())
    parts = list(_side_by_side(parts))
    if len(parts) == 1 and not isinstance(parts[0], ByteSlices):
        return _wrap(parts[0].view(np.uint8), _offsets(parts))
    offsets = _offsets(parts)
    if all(not isinstance(part, ByteSlices) or part.is_whole for part in parts):  # Arrow takes a half to a quarter of the time
        return pc.binary_join_element_wise(*map(_as_binary, parts), b"")
    data = np.empty(offsets[-1], np.uint8)
    positions = offsets[:-1]
    for part in parts:
        if isinstance(part, ByteSlices):
            part.copy_to(data, positions)
            positions = positions + part.lengths
        else:
            overlapping(data, part.dtype.itemsize)[positions] = _raw(part)
            positions = positions + part.dtype.itemsize
    return _wrap(data, offsets)


def gather(slices: ByteSlices, valid: Mask | None = None) -> pa.BinaryArray:
    """The rows as a binary array, null where not valid; the bytes are shared if they lie one behind the other."""
    if slices.is_whole:
        return _as_binary(slices, valid)
    offsets = _offsets([slices])
    data = np.empty(offsets[-1], np.uint8)
    slices.copy_to(data, offsets[:-1])
    return _wrap(data, offsets, valid)


def bitmap(valid: Mask | None) -> pa.Buffer | None:
    """Arrow's validity buffer of a mask; None when every row is valid."""
    if valid is None or valid.all():
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def _by_width(lengths: Integers) -> Iterator[tuple[int, Integers | slice]]:
    """Groups of rows, with a width that is at most the length and at least half of it; empty rows are left out."""
    if len(lengths) == 0:
        return
    if lengths.min() == lengths.max():
        if lengths[0]:
            yield int(lengths[0]), slice(None)
        return
    exponents = np.frexp(lengths)[1]  # how many bits a length has: with equal ones, no length is twice another
    for exponent in np.flatnonzero(np.bincount(exponents)):
        rows = np.flatnonzero(exponents == exponent)
        shortest = int(lengths[rows].min())
        if exponent:
            yield shortest if shortest == lengths[rows].max() else 1 << (int(exponent) - 1), rows


def _copy(source: Bytes, starts: Integers, target: Bytes, places: Integers, width: int) -> None:
    overlapping(target, width)[places] = overlapping(source, width)[starts]


def _raw(part: AnyArray) -> AnyArray:
    width = part.dtype.itemsize
    return part.view(f"u{width}" if width in _NUMBER_WIDTHS else f"V{width}")


def _side_by_side(parts: Sequence[RowPart]) -> Iterator[RowPart]:
    """The parts, neighbours of fixed width laid into one, so that each row needs fewer copies."""
    run: list[AnyArray] = []
    for part in parts:
        if not isinstance(part, ByteSlices):
            run.append(part)
            continue
        if run:
            yield _merge(run)
            run = []
        yield part
    if run:
        yield _merge(run)


def _merge(run: list[AnyArray]) -> AnyArray:
    """One array of items as wide as those of the run together; numpy lays the fields of a record side by side."""
    if len(run) == 1:
        return np.ascontiguousarray(run[0])
    raw = [_raw(np.ascontiguousarray(part)) for part in run]
    merged = np.empty(len(raw[0]), np.dtype([(str(index), part.dtype) for index, part in enumerate(raw)]))
    for index, part in enumerate(raw):
        merged[str(index)] = part
    return merged


def _offsets(parts: Sequence[RowPart]) -> Integers:
    offsets = np.zeros(len(parts[0]) + 1, np.int64)
    for part in parts:
        offsets[1:] += part.lengths if isinstance(part, ByteSlices) else part.dtype.itemsize
    np.cumsum(offsets, out=offsets)
    _check_size(offsets[-1])
    return offsets


def _check_size(size: int) -> None:
    if size > BINARY_BYTES_MAX:
        raise OverflowError(f"the rows take {size} bytes together; expected at most {BINARY_BYTES_MAX}: use smaller batches")


def _as_binary(part: RowPart, valid: Mask | None = None) -> pa.BinaryArray:
    """A part whose rows lie one behind the other, without a copy; null where not valid."""
    if not isinstance(part, ByteSlices):
        return _wrap(np.ascontiguousarray(part).view(np.uint8), np.arange(len(part) + 1) * part.dtype.itemsize)
    if not len(part):
        return _wrap(part.data[:0], np.zeros(1, np.int64))
    first, end = part.starts[0], part.starts[-1] + part.lengths[-1]
    _check_size(end - first)
    return _wrap(part.data[first:end], np.append(part.starts - first, end - first), valid)


def _wrap(data: Bytes, offsets: Integers, valid: Mask | None = None) -> pa.BinaryArray:
    buffers = [bitmap(valid), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)
