"""
Binary values made side by side: a piece of each before the next piece of any, all by numpy and Arrow.

`cursor.py` reads what is made here. No array holds nulls, and each has a piece for every value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Bytes, Integers, Mask


def constant(piece: bytes, count: int) -> pa.Array:
    """The same bytes for each value."""
    return of_width(np.tile(np.frombuffer(piece, np.uint8), count), len(piece), count)


def of_width(data: Bytes, width: int, count: int) -> pa.Array:
    """Pieces of one width, which stand side by side."""
    return _of_buffers(np.arange(count + 1, dtype=np.int64) * width, data)


def ragged(matrix: Bytes, lengths: Integers) -> pa.Array:
    """The first bytes of each row of a matrix."""
    width = matrix.shape[1]
    data = matrix.reshape(-1) if (lengths == width).all() else matrix[np.arange(width) < lengths[:, None]]
    return _of_buffers(_bounds(lengths), data)


def joined(*parts: pa.Array | bytes) -> pa.Array:
    """The pieces of several arrays, of which at least one is an array, one behind the other; bytes stand in each value."""
    found = [part for part in parts if not isinstance(part, bytes) or part]
    if len(found) == 1:
        return found[0]
    return pc.binary_join_element_wise(*(pa.scalar(one, pa.binary()) if isinstance(one, bytes) else one for one in found), b"")


def grouped(pieces: pa.Array, lengths: Integers) -> pa.Array:
    """Consecutive pieces as one: as many as each of the lengths says."""
    _, offsets, data = pieces.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(pieces) + 1, pieces.offset * 4)
    return pa.Array.from_buffers(pa.binary(), len(lengths), [None, pa.py_buffer(bounds[_bounds(lengths)]), data])


def spread(pieces: pa.Array, present: Mask, filler: bytes) -> pa.Array:
    """The pieces where values are present, the filler elsewhere."""
    places = np.where(present, np.cumsum(present) - 1, len(pieces))
    return pa.concat_arrays([pieces, pa.array([filler], pa.binary())]).take(pa.array(places))


def replaced(pieces: pa.Array, where: Integers, others: Sequence[bytes]) -> pa.Array:
    """The pieces, of which those at some places are others."""
    places = np.arange(len(pieces))
    places[where] = len(pieces) + np.arange(len(others))
    return pa.concat_arrays([pieces, pa.array(others, pa.binary())]).take(pa.array(places))


def varints(numbers: Integers) -> pa.Array:
    """Whole numbers in zigzag form and variable length: seven bits a byte, the low ones first."""
    rest = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    width = max(1, -(-int(rest.max(initial=0)).bit_length() // 7))
    matrix = np.empty((len(numbers), width), np.uint8)
    lengths = np.ones(len(numbers), np.int64)
    for place in range(width):
        low = (rest & np.uint64(0x7F)).astype(np.uint8)
        rest = rest >> np.uint64(7)
        more = rest != 0
        matrix[:, place] = low | (more.astype(np.uint8) << 7)
        lengths += more
    return ragged(matrix, lengths)


def with_length(pieces: pa.Array) -> pa.Array:
    """Each piece behind its length."""
    return joined(varints(pc.binary_length(pieces).to_numpy().astype(np.int64)), pieces)


def integers(values: pa.Array) -> tuple[Bytes, Integers]:
    """The whole numbers behind decimals, in sixteen big-endian bytes, and how many of the last ones hold the number and its sign."""
    words = np.frombuffer(values.buffers()[1], "<u8", 2 * len(values), values.offset * 16).reshape(-1, 2)
    is_negative = (words[:, 1] >> np.uint64(63)).astype(np.bool_)
    low = np.where(is_negative, ~words[:, 0] + np.uint64(1), words[:, 0])
    high = np.where(is_negative, ~words[:, 1] + (low == 0), words[:, 1])
    magnitudes = np.ascontiguousarray(np.stack([low, high], axis=1)).view(np.uint8).reshape(-1, 16)
    highest = 15 - np.argmax(magnitudes[:, ::-1] != 0, axis=1)
    highest[~magnitudes.any(axis=1)] = 0
    is_full = magnitudes[np.arange(len(values)), highest] >= 0x80
    little = np.ascontiguousarray(words).view(np.uint8).reshape(-1, 16)
    return np.ascontiguousarray(little[:, ::-1]), highest + 1 + is_full


def _bounds(lengths: Integers) -> Integers:
    found = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=found[1:])
    return found


def _of_buffers(bounds: Integers, data: Bytes) -> pa.Array:
    buffers = [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)
