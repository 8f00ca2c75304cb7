"""
Keys of a store: where a row of state lies in RocksDB.

    2 bytes   key group, u16 big-endian      a range of tasks is a range of bytes (law 7)
    2 bytes   store number, u16 big-endian
    8 bytes   each time before the key, in ms, i64 big-endian with the sign bit flipped: the start of a window
    …         the key columns, as `streamkit.log.values.keys.encode_keys` has them
    8 bytes   each time behind the key, likewise

So byte order is the order of key groups, then stores, then the times before the key, then keys, then the times behind them.
The layout of a store says which times its keys have (`streamkit.state.layout`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.arrays import AnyArray, Integers
from streamkit.errors import CorruptionError
from streamkit.log.values.keys import decode_key_slices, key_parts
from streamkit.log.values.slices import ByteSlices, join, overlapping

NUMBER_MAX = 0xFFFF  # of key groups and of stores
FIRST_TIME = range(4, 12)  # where the first time before the key lies
_SIGN = 1 << 63
_PREFIX = np.dtype([("key_group", ">u2"), ("store_number", ">u2")])


def join_keys(
    store_number: int,
    key_groups: AnyArray,
    columns: Sequence[pa.Array],
    before: Sequence[AnyArray] = (),
    after: Sequence[AnyArray] = (),
) -> pa.BinaryArray:
    """
    Make the keys under which a store keeps its rows, from key columns and the times (ms) before and behind them.

    Raises ValueError if a key group or store number does not fit 16 bits. A null key has the key group -1, and no state.
    """
    prefix = np.empty(len(key_groups), _prefix(len(before)))
    _check_numbers(key_groups, "key group")
    _check_numbers(np.array([store_number]), "store number")
    prefix["key_group"], prefix["store_number"] = key_groups, store_number
    _put_times(prefix, before)
    parts = [prefix, *(key_parts(columns) if columns else ())]
    if after:
        suffix = np.empty(len(key_groups), _times(len(after)))
        _put_times(suffix, after)
        parts.append(suffix)
    return join(parts)


def split_keys(
    keys: pa.BinaryArray, types: Sequence[str], before: int = 0, after: int = 0
) -> tuple[Integers, tuple[Integers, ...], list[pa.Array]]:
    """
    Return key groups, the times (ms) before and behind the key, and the key columns.

    `before` and `after` say how many times there are. CorruptionError if bytes are not such a key.
    """
    rows, dtype = ByteSlices.of(keys), _prefix(before)
    behind = _times(after)
    width = dtype.itemsize + behind.itemsize
    if not (rows.lengths >= width).all():
        shortest = int(rows.lengths.min())
        raise CorruptionError(f"found a state key of {shortest} bytes; expected at least the {width} of its prefix and its times")
    prefix = overlapping(rows.data, dtype.itemsize)[rows.starts].view(dtype)
    times = _get_times(prefix, before)
    if after:
        times += _get_times(overlapping(rows.data, behind.itemsize)[rows.ends - behind.itemsize].view(behind), after)
    columns = decode_key_slices(ByteSlices(rows.data, rows.starts + dtype.itemsize, rows.lengths - width), types)
    return prefix["key_group"].astype(np.int64), times, columns


def state_keys(
    store_number: int, key_groups: AnyArray, columns: Sequence[pa.Array], window_start: AnyArray | None = None
) -> pa.BinaryArray:
    """As `join_keys`, for a store with windows (`window_start` in ms) or without."""
    return join_keys(store_number, key_groups, columns, () if window_start is None else (window_start,))


def split_state_keys(
    keys: pa.BinaryArray, types: Sequence[str], windowed: bool
) -> tuple[Integers, Integers | None, list[pa.Array]]:
    """As `split_keys`, for a store with windows or without; the starts are None if there are no windows."""
    key_groups, times, columns = split_keys(keys, types, before=int(windowed))
    return key_groups, times[0] if windowed else None, columns


def range_prefix(key_group: int, store_number: int, time: int | None = None) -> bytes:
    """The bytes with which every key of a store begins in one key group, or in those with a time (ms) before the key."""
    if not (0 <= key_group <= NUMBER_MAX and 0 <= store_number <= NUMBER_MAX):
        raise ValueError(f"found key group {key_group} and store number {store_number}; expected 0 to {NUMBER_MAX}")
    prefix = struct.pack(">HH", key_group, store_number)
    return prefix if time is None else prefix + struct.pack(">Q", time + _SIGN)


def range_end(key_group: int, store_number: int) -> bytes:
    """The first bytes behind all keys of a store in one key group."""
    return (int.from_bytes(range_prefix(key_group, store_number), "big") + 1).to_bytes(5, "big")[1:]


@cache
def _prefix(times: int) -> np.dtype[Any]:
    return np.dtype([*_PREFIX.descr, *_times(times).descr])


@cache
def _times(count: int) -> np.dtype[Any]:
    return np.dtype([(f"time{number}", ">u8") for number in range(count)])


def _put_times(target: AnyArray, times: Sequence[AnyArray]) -> None:
    for number, time in enumerate(times):
        target[f"time{number}"] = time.astype(np.int64).view(np.uint64) ^ np.uint64(_SIGN)


def _get_times(source: AnyArray, count: int) -> tuple[Integers, ...]:
    times = (source[f"time{number}"].astype(np.uint64) for number in range(count))
    return tuple((time ^ np.uint64(_SIGN)).view(np.int64) for time in times)


def _check_numbers(numbers: AnyArray, what: str) -> None:
    if len(numbers) and not (0 <= numbers.min() and numbers.max() <= NUMBER_MAX):
        raise ValueError(f"found a {what} between {numbers.min()} and {numbers.max()}; expected 0 to {NUMBER_MAX}")


def with_number(keys: pa.BinaryArray, number: int) -> pa.BinaryArray:
    """The state keys with another number of their store."""
    if not len(keys):
        return keys
    plain = pa.concat_arrays([keys])
    offsets = np.frombuffer(plain.buffers()[1], np.int32)[plain.offset : plain.offset + len(plain) + 1]
    data = np.frombuffer(plain.buffers()[2], np.uint8).copy()
    data[offsets[:-1] + 2], data[offsets[:-1] + 3] = divmod(number, 256)
    return pa.BinaryArray.from_buffers(pa.binary(), len(plain), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
