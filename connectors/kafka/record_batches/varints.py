"""Zigzag varints, many at once: seven bits a byte, the lowest first, and the highest bit says that another byte follows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamkit.arrays import Bytes, Integers, Mask, UnsignedIntegers
from streamkit.errors import RecordBatchError

INT_BYTES_MAX, LONG_BYTES_MAX = 5, 10
_LOW = np.uint8(127)
_ONE = np.uint64(1)
_SIGN = 1 << 63


def read_varints(data: Bytes, at: Integers, stops: Integers, bytes_max: int = INT_BYTES_MAX) -> tuple[Integers, Integers]:
    """
    The numbers that begin at these positions of `data`, and the positions behind them.

    No byte is read at or behind the stop of its number, so stops within `data` keep all reads within. A number that does not
    end before, or has more than `bytes_max` bytes, is a RecordBatchError.
    """
    check(at < stops, "a number that begins behind the end of its record")
    byte = data[at]
    found = (byte & _LOW).astype(np.uint64)
    ends = at + 1
    more = byte > _LOW
    shift = 7
    # Numbers whose last byte was read leave; a slice takes all that are left if all have another byte, which costs no index.
    going: Integers | slice = slice(None) if len(at) and more.all() else np.flatnonzero(more)
    while isinstance(going, slice) or len(going):
        if shift == 7 * bytes_max:
            raise RecordBatchError(f"found a number of more than {bytes_max} bytes")
        place = ends[going]
        check(place < stops[going], "a number that goes on behind the end of its record")
        byte = data[place]
        found[going] |= (byte & _LOW).astype(np.uint64) << np.uint64(shift)
        ends[going] += 1
        shift += 7
        more = byte > _LOW
        if isinstance(going, slice):
            going = going if more.all() else np.flatnonzero(more)
        else:
            going = going[more]
    return (found >> _ONE).view(np.int64) ^ -(found & _ONE).view(np.int64), ends


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins at `at`, and the position behind it; an IndexError where the data ends before."""
    found = shift = 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return (found >> 1) ^ -(found & 1), at
        shift += 7
        if shift == 7 * INT_BYTES_MAX:
            raise RecordBatchError(f"found a number of more than {INT_BYTES_MAX} bytes")


def varint(number: int) -> bytes:
    """The bytes of one number; as with those of numpy, one beyond 64 bits is what is left of it in 64."""
    wrapped = (number + _SIGN) % (2 * _SIGN) - _SIGN
    left = (wrapped << 1) ^ (wrapped >> 63)
    found = bytearray()
    while left > 127:
        found.append(left & 127 | 128)
        left >>= 7
    found.append(left)
    return bytes(found)


def check(are_sound: Mask, what: str) -> None:
    """Refuse a batch that has something unsound in any record."""
    if not are_sound.all():
        raise RecordBatchError(f"found {what}, in {len(are_sound) - int(are_sound.sum())} of {len(are_sound)} records")


def zigzag(numbers: Integers) -> UnsignedIntegers:
    """Numbers near 0, whatever their sign, as small ones without a sign."""
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def sizes_of(zigzags: UnsignedIntegers) -> Integers:
    """How many bytes each number takes."""
    sizes = np.ones(len(zigzags), np.int64)
    greatest = int(zigzags.max(initial=0))
    for shift in range(7, 64, 7):
        if not greatest >> shift:
            break
        sizes += zigzags >= np.uint64(1 << shift)
    return sizes


def varint_array(*columns: Integers | int) -> pa.Array:
    """
    The varints of each row, one column after the other, as a binary array.

    A column that is a number is a byte of all rows, as it is. The bytes of all rows lie side by side in a table as wide as the
    widest row; where a row has fewer, its mask is false, and the table without those places is the array's memory.
    """
    count = next(len(column) for column in columns if not isinstance(column, int))
    bytes_at: list[Bytes | int] = []
    masks: list[Mask | None] = []
    for column in columns:
        if isinstance(column, int):
            bytes_at.append(column)
            masks.append(None)
            continue
        zigzags = zigzag(column)
        least, greatest = int(zigzags.min(initial=(1 << 64) - 1)), int(zigzags.max(initial=0))
        for shift in range(0, max(greatest.bit_length(), 1), 7):
            byte = ((zigzags >> np.uint64(shift)) & np.uint64(127)).astype(np.uint8)
            if greatest >> (shift + 7):
                byte |= (zigzags >= np.uint64(1 << (shift + 7))).astype(np.uint8) << np.uint8(7)
            bytes_at.append(byte)
            masks.append(None if shift == 0 or least >> shift else zigzags >= np.uint64(1 << shift))
    table = np.empty((count, len(bytes_at)), np.uint8)
    for place, found in enumerate(bytes_at):
        table[:, place] = found
    if all(mask is None for mask in masks):
        edges = np.arange(0, table.size + 1, len(bytes_at), dtype=np.int32)
        return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(edges), pa.py_buffer(table)])
    is_there = np.ones(table.shape, np.bool_)
    for place, mask in enumerate(masks):
        if mask is not None:
            is_there[:, place] = mask
    edges = np.zeros(count + 1, np.int32)
    np.cumsum(is_there.sum(axis=1), out=edges[1:])
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(edges), pa.py_buffer(table[is_there])])
