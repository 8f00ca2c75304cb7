"""Confluent's wire format: a zero byte, the id of the schema in four bytes, for Protobuf the place of the message, then the value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.formats.pieces import joined

MAGIC = 0
HEADER_BYTES = 5
FIRST_MESSAGE = b"\0"  # instead of the list [0]
_DEPTH_MAX = 32  # levels at which messages stand in messages
NO_ID = -1


def schema_ids(values: pa.Array) -> Integers:
    """The schema id of each value, none of which is null; NO_ID for one that does not begin as the wire format does."""
    _, offsets, data = values.buffers()
    if not len(values):
        return np.zeros(0, np.int64)
    bounds = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    found = np.full(len(values), NO_ID, np.int64)
    long = np.flatnonzero(bounds[1:] - bounds[:-1] >= HEADER_BYTES)
    if len(long):
        content = np.frombuffer(data, np.uint8)
        starts = bounds[long]
        ids = np.zeros(len(long), np.int64)
        for place in range(1, HEADER_BYTES):
            ids = ids << 8 | content[starts + place]
        found[long] = np.where(content[starts] == MAGIC, ids, NO_ID)
    return found


def header(schema_id: int) -> bytes:
    """What stands before each value of a schema."""
    return bytes([MAGIC]) + schema_id.to_bytes(4, "big")


def with_header(values: pa.Array, prefix: bytes) -> pa.Array:
    """The values, none of which is null, behind the same bytes."""
    return joined(prefix, values)


def write_message_index(path: Sequence[int]) -> bytes:
    """The place of a message in its file, by its numbers from the outermost on."""
    if list(path) == [0]:
        return FIRST_MESSAGE
    return b"".join(map(_varint, [len(path), *path]))


def read_message_index(data: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """The place of a message that stands at `start`, and where the value begins; ValueError if there is none."""
    if data[start : start + 1] == FIRST_MESSAGE:
        return (0,), start + 1
    count, at = _read_varint(data, start)
    if not 0 < count <= _DEPTH_MAX:
        raise ValueError(f"found the place of a message with {count} levels; expected 1 to {_DEPTH_MAX}")
    path = []
    for _ in range(count):
        number, at = _read_varint(data, at)
        path.append(number)
    return tuple(path), at


def _varint(number: int) -> bytes:
    raw = number << 1 if number >= 0 else (-number << 1) - 1
    written = bytearray()
    while raw >= 0x80:
        written.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*written, raw])


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    raw = 0
    for place, byte in enumerate(data[at : at + 5]):
        raw |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at + place + 1
    raise ValueError("found no place of a message behind the schema id")
