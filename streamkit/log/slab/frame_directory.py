"""
The directory of a shared frame: which of its rows are those of which partition. docs/log-format.md has the format.

A small commit has a few rows for each of many partitions. Those of one topic lie in one frame, partition by partition, so that what a
frame costs, to be written and to be checked, is paid once for all of them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

SHARED = 0xFFFF_FFFF  # in place of a partition, in the header of a shared frame
ALIGNMENT = 64  # of the Arrow stream behind a directory
_PART = struct.Struct("<IIqqQ")


class FramePart(NamedTuple):
    """The rows of one partition in a shared frame: how many, their times in ms, and their size in bytes, 0 if nobody said."""

    partition: int
    rows: int
    min_timestamp: int
    max_timestamp: int
    size: int


def pack_directory(parts: Sequence[FramePart]) -> bytes:
    """The bytes of a directory, in the order of its parts."""
    data = b"".join(_PART.pack(*part) for part in parts)
    return data.ljust(directory_size(len(parts)), b"\0")


def directory_size(parts: int) -> int:
    """How many bytes a directory of so many parts takes, with the zeros behind it."""
    return -(-parts * _PART.size // ALIGNMENT) * ALIGNMENT


def unpack_directory(data: bytes, parts: int, rows: int) -> tuple[FramePart, ...]:
    """The parts behind the bytes of a directory, which have so many rows together; ValueError says what is wrong with them."""
    if len(data) != directory_size(parts):
        raise ValueError(f"its payload is too short for a directory of {parts} parts")
    found = tuple(FramePart(*fields) for fields in _PART.iter_unpack(data[: parts * _PART.size]))
    partitions = [part.partition for part in found]
    if any(one >= other for one, other in zip(partitions, [*partitions[1:], SHARED], strict=True)):
        raise ValueError(f"its directory has the partitions {partitions}; expected each once, in ascending order")
    counts = [part.rows for part in found]
    if min(counts) < 1 or sum(counts) != rows:
        raise ValueError(f"its directory has parts of {counts} rows; expected at least one row in each, and {rows} rows together")
    if data[parts * _PART.size :].strip(b"\0"):
        raise ValueError("its directory has more behind it than zeros")
    return found


def shares(counts: Sequence[int], length: int) -> list[int]:
    """
    How the bytes of a shared frame are spread over its parts, by their rows: the lengths that extents have.

    They add up to the length of the frame, so whoever sums lengths counts each byte once.
    """
    rows, total, ends = 0, sum(counts), [0]
    for count in counts:
        rows += count
        ends.append(length * rows // total)
    return [end - start for start, end in pairwise(ends)]
