"""
Keys of a store: where a row of state lies in RocksDB.

    2 bytes   key group, u16 big-endian      a range of tasks is a range of bytes (law 7)
    2 bytes   store number, u16 big-endian
    8 bytes   only if windowed: start of the window in ms, i64 big-endian with the sign bit flipped
    the rest  the key columns, as `streamkit.log.values.keys.encode_keys` has them

So byte order is the order of key groups, then stores, then windows, then keys.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamkit.errors import CorruptionError
from streamkit.log.values.keys import decode_key_slices, key_parts
from streamkit.log.values.slices import Slices, join, overlapping

Numbers: TypeAlias = npt.NDArray[np.int64]

NUMBER_MAX = 0xFFFF  # of key groups and of stores
_SIGN = 1 << 63
_PREFIX = np.dtype([("key_group", ">u2"), ("store_number", ">u2")])
_WINDOWED_PREFIX = np.dtype([*_PREFIX.descr, ("window_start", ">u8")])


def state_keys(
    store_number: int, key_groups: npt.NDArray[Any], columns: Sequence[pa.Array], window_start: npt.NDArray[Any] | None = None
) -> pa.BinaryArray:
    """
    Make the keys under which a store keeps its rows; `window_start` in ms if the store is windowed.

    Raises ValueError for a key group or store number that does not fit 16 bits; a null key has none (-1) and no state.
    """
    prefix = np.empty(len(key_groups), _PREFIX if window_start is None else _WINDOWED_PREFIX)
    _check_numbers(key_groups, "key group")
    _check_numbers(np.array([store_number]), "store number")
    prefix["key_group"], prefix["store_number"] = key_groups, store_number
    if window_start is not None:
        prefix["window_start"] = window_start.astype(np.int64).view(np.uint64) ^ np.uint64(_SIGN)
    return join([prefix, *(key_parts(columns) if columns else ())])


def split_state_keys(
    keys: pa.BinaryArray, types: Sequence[str], windowed: bool
) -> tuple[Numbers, Numbers | None, list[pa.Array]]:
    """Return key groups, window starts in ms (None if not windowed) and key columns; CorruptionError for what is no such key."""
    rows, dtype = Slices.of(keys), _WINDOWED_PREFIX if windowed else _PREFIX
    if not (rows.lengths >= dtype.itemsize).all():
        shortest = int(rows.lengths.min())
        raise CorruptionError(f"found a state key of {shortest} bytes; expected at least the {dtype.itemsize} of its prefix")
    prefix = overlapping(rows.data, dtype.itemsize)[rows.starts].view(dtype)
    window_start = (prefix["window_start"].astype(np.uint64) ^ np.uint64(_SIGN)).view(np.int64) if windowed else None
    columns = decode_key_slices(Slices(rows.data, rows.starts + dtype.itemsize, rows.lengths - dtype.itemsize), types)
    return prefix["key_group"].astype(np.int64), window_start, columns


def range_prefix(key_group: int, store_number: int, window_start: int | None = None) -> bytes:
    """The bytes with which every key of a store begins in one key group, or in one of its windows (ms)."""
    if not (0 <= key_group <= NUMBER_MAX and 0 <= store_number <= NUMBER_MAX):
        raise ValueError(f"found key group {key_group} and store number {store_number}; expected 0 to {NUMBER_MAX}")
    prefix = struct.pack(">HH", key_group, store_number)
    return prefix if window_start is None else prefix + struct.pack(">Q", window_start + _SIGN)


def _check_numbers(numbers: npt.NDArray[Any], what: str) -> None:
    if len(numbers) and not (0 <= numbers.min() and numbers.max() <= NUMBER_MAX):
        raise ValueError(f"found a {what} between {numbers.min()} and {numbers.max()}; expected 0 to {NUMBER_MAX}")
