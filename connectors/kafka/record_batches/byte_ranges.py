"""Ranges of bytes, each after its length, and the arrays made of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.connectors.kafka.record_batches.varints import check


def ends_of(begins: Integers, lengths: Integers, stops: Integers) -> Integers:
    """Where each range ends; a null, whose length is -1, where it begins. No range reaches beyond the stop of its record."""
    check((lengths >= -1) & (lengths <= stops - begins), "a length below -1, or beyond the end of its record")
    return begins + np.maximum(lengths, 0)


def gathered(body: pa.Buffer, begins: Integers, ends: Integers, is_null: Mask) -> pa.Array:
    """
    The ranges as a binary array; they ascend, and lie within `body`.

    All begins and ends in turn cut the body into values of an array that shares its memory: each range, and what lies between
    it and the next. Arrow copies every other one.
    """
    count = len(begins)
    if is_null.all():
        return pa.nulls(count, pa.binary())
    cuts = np.empty(2 * count + 1, np.int32)
    cuts[0:-1:2] = begins
    cuts[1::2] = ends
    cuts[-1] = ends[-1]
    ranges = pa.BinaryArray.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(cuts), body])
    wanted = np.arange(0, 2 * count, 2, dtype=np.int32)
    return ranges.take(pa.array(wanted, mask=is_null if is_null.any() else None))


def lengths_of(values: pa.Array) -> Integers:
    """The length of each value, -1 of a null."""
    lengths = pc.binary_length(values)
    return np.asarray(lengths.fill_null(-1) if lengths.null_count else lengths, np.int64)
